#include "sim/base/share.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
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

/* In share/dcpsim of the prefix that holds `object`: one folder up from bin and lib, two from lib/x86_64-linux-gnu. */
static int try_prefix_of(char *buf, size_t size, const char *object, const char *relative) {
  const char *slash = strrchr(object, '/');
  char folder[PATH_MAX + 32];
  for (int up = 1; slash && up <= 2; up++) {
    snprintf(folder, sizeof folder, "%.*s%s/share/dcpsim", (int)(slash - object), object, up == 1 ? "/.." : "/../..");
    if (try_folder(buf, size, folder, relative) == 0)
      return 0;
  }
  return -1;
}

/* The code at work may be a library inside somebody's program: its own place counts before the program's. */
static int try_installed(char *buf, size_t size, const char *relative) {
  Dl_info self;
  char path[PATH_MAX];
  if (dladdr((const void *)(uintptr_t)try_folder, &self) && self.dli_fname && realpath(self.dli_fname, path) &&
      try_prefix_of(buf, size, path, relative) == 0)
    return 0;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  return try_prefix_of(buf, size, path, relative);
}

int share_path(char *buf, size_t size, const char *relative) {
  if (try_folder(buf, size, getenv("DCPSIM_SHARE"), relative) == 0 || try_installed(buf, size, relative) == 0 ||
      try_folder(buf, size, DCPSIM_SOURCE_DIR, relative) == 0)
    return 0;
  if (size)
    buf[0] = '\0';
  return -1;
}
