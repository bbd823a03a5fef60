#include "sim/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/output_folder.h"
#include "sim/base/units.h"

/* Temporary files that exist now, for the signal handler only. Names are owned by their struct output. */
#define MAX_TEMPORARIES 64
static _Atomic(char *) temporaries[MAX_TEMPORARIES];

static void remember(char *path) {
  for (int i = 0; i < MAX_TEMPORARIES; i++) {
    char *none = NULL;
    if (atomic_compare_exchange_strong(&temporaries[i], &none, path))
      return;
  }
}

static void forget(char *path) {
  for (int i = 0; i < MAX_TEMPORARIES; i++) {
    char *expected = path;
    if (atomic_compare_exchange_strong(&temporaries[i], &expected, NULL))
      return;
  }
}

void output_remove_temporaries(void) {
  for (int i = 0; i < MAX_TEMPORARIES; i++) {
    char *path = atomic_load(&temporaries[i]);
    if (path)
      unlink(path);
  }
  output_folder_remove_all();
}

static void on_signal(int number) {
  output_remove_temporaries();
  raise(number); /* the handler was reset on entry: this ends the program as the signal does */
}

void output_remove_on_signal(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGABRT};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct sigaction old, act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&act.sa_mask);
    if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
      sigaction(numbers[i], &act, NULL);
  }
}

static bool starts_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

/* Files without a name to rename to: devices, pipes, and whatever /dev and /proc alias. */
static bool written_directly(const char *path, bool exists, const struct stat *st) {
  if (exists && !S_ISREG(st->st_mode))
    return true;
  return (starts_with(path, "/dev/") && !starts_with(path, "/dev/shm/")) || starts_with(path, "/proc/");
}

/* "<folder of path>/.dcpsim-<pid>-<n>.tmp": a short name, so that long result names work too. */
static char *temporary_name(const char *path, int n) {
  const char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path) + 1 : 0;
  size_t size = (size_t)folder + 64;
  char *name = xmalloc(size);
  snprintf(name, size, "%.*s.dcpsim-%ld-%d.tmp", folder, path, (long)getpid(), n);
  return name;
}

/* On failure sets errno and leaves no file. */
static int open_temporary(struct output *out, mode_t mode) {
  int fd = -1;
  for (int n = 0; fd < 0 && n < 10000; n++) {
    free(out->temp_path);
    out->temp_path = temporary_name(out->path, n);
    fd = open(out->temp_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST)
      break;
  }
  if (fd < 0)
    return -1;
  if (mode)
    (void)!fchmod(fd, mode & 07777); /* the new file has the old one's rights; not worth failing for */
  out->file = fdopen(fd, "w");
  if (!out->file) {
    int e = errno;
    close(fd);
    unlink(out->temp_path);
    errno = e;
    return -1;
  }
  remember(out->temp_path);
  return 0;
}

int output_open(struct output *out, const char *path, struct err *err) {
  *out = (struct output){0};
  if (strcmp(path, "-") == 0) {
    out->file = stdout;
    return 0;
  }
  if (!*path)
    return err_set(err, "cannot write '': the file name is empty");
  struct stat st = {0};
  bool exists = stat(path, &st) == 0;
  if (exists && S_ISDIR(st.st_mode))
    return err_set(err, "cannot write '%s': %s", path, strerror(EISDIR));
  if (exists && access(path, W_OK) != 0)
    return err_set(err, "cannot write '%s': %s", path, strerror(errno));
  if (written_directly(path, exists, &st)) {
    out->file = fopen(path, "we");
    if (!out->file)
      return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    out->path = xstrdup(path);
    return 0;
  }
  out->path = exists ? realpath(path, NULL) : xstrdup(path); /* through a symbolic link, keep the link */
  if (!out->path)
    return err_set(err, "cannot write '%s': %s", path, strerror(errno));
  if (open_temporary(out, st.st_mode) == 0)
    return 0;
  err_set(err, "cannot write '%s': %s", path, strerror(errno));
  free(out->path);
  free(out->temp_path);
  *out = (struct output){0};
  return -1;
}

/* Flushes and syncs; returns 0 or an errno. */
static int flush(FILE *file, bool sync) {
  errno = 0;
  if (fflush(file) != 0)
    return errno ? errno : EIO;
  if (ferror(file))
    return errno ? errno : EIO;
  if (sync && fsync(fileno(file)) != 0 && errno != EINVAL && errno != ENOTSUP)
    return errno;
  return 0;
}

int output_commit(struct output *out, struct err *err) {
  ASSERT(out->file);
  int e = flush(out->file, out->temp_path != NULL);
  if (!out->path) {
    out->file = NULL;
    return e ? err_set(err, "cannot write to standard output: %s", strerror(e)) : 0;
  }
  if (fclose(out->file) != 0 && !e)
    e = errno;
  out->file = NULL;
  if (!e && out->temp_path && rename(out->temp_path, out->path) != 0)
    e = errno;
  if (e) {
    err_set(err, "cannot write '%s': %s", out->path, strerror(e));
  } else if (out->temp_path) {
    forget(out->temp_path);
    free(out->temp_path);
    out->temp_path = NULL;
  }
  output_discard(out);
  return e ? -1 : 0;
}

void output_discard(struct output *out) {
  if (out->file && out->file != stdout)
    fclose(out->file);
  if (out->temp_path) {
    unlink(out->temp_path);
    forget(out->temp_path);
  }
  free(out->temp_path);
  free(out->path);
  *out = (struct output){0};
}
