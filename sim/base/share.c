#include "sim/base/share.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef DCPSIM_SOURCE_DIR
#define DCPSIM_SOURCE_DIR ""
#endif

static int try_folder(char *buf, size_t size, const char *folder, const char *relative) {
  if (!folder || !*folder)
    return -1;
  int n = snprintf(buf, size, "%s/%s", folder, relative);
  return n > 0 && (size_t)n < size && access(buf, F_OK) == 0 ? 0 : -1;
}

/* <folder of the program>/../share/dcpsim; -1 when /proc does not tell. */
static int installed_folder(char *buf, size_t size) {
  char exe[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0)
    return -1;
  exe[n] = '\0';
  char *slash = strrchr(exe, '/');
  if (!slash)
    return -1;
  *slash = '\0';
  int need = snprintf(buf, size, "%s/../share/dcpsim", exe);
  return need > 0 && (size_t)need < size ? 0 : -1;
}

int share_path(char *buf, size_t size, const char *relative) {
  if (try_folder(buf, size, getenv("DCPSIM_SHARE"), relative) == 0)
    return 0;
  if (try_folder(buf, size, DCPSIM_SOURCE_DIR, relative) == 0)
    return 0;
  char folder[PATH_MAX + 32];
  if (installed_folder(folder, sizeof folder) == 0 && try_folder(buf, size, folder, relative) == 0)
    return 0;
  if (size)
    buf[0] = '\0';
  return -1;
}
