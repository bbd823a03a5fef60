/* Loaded with LD_PRELOAD, makes one call fail in a program: the FAULT_AT-th, counted from 1, of the kind FAULT:
 *   memory  malloc, calloc, realloc: NULL, ENOMEM
 *   device  aligned_alloc, which gives the CPU device its memory: NULL, ENOMEM
 *   file    open, fopen, fdopen, close, fclose, fflush, fsync, rename, write, ftruncate, mkdir: ENOSPC; and what a
 *           full disk does to a write: half of it, the next nothing
 * FAULT_AT=0 fails none. FAULT_LOG=FILE: appends how many there were. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { NONE, MEMORY, DEVICE, FILES };
static atomic_long calls;
static long fault_at;
static enum kind kind; /* NONE until the libraries have been loaded */
static bool disk_full;

static bool fails(enum kind of) { return kind == of && atomic_fetch_add(&calls, 1) + 1 == fault_at; }

/* ---- Memory ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static bool no_memory(enum kind of) {
  if (!fails(of))
    return false;
  errno = ENOMEM;
  return true;
}

void *malloc(size_t bytes) { return no_memory(MEMORY) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return no_memory(MEMORY) ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *p, size_t bytes) { return no_memory(MEMORY) ? NULL : __libc_realloc(p, bytes); }

void *aligned_alloc(size_t alignment, size_t bytes) {
  return no_memory(DEVICE) ? NULL : __libc_memalign(alignment, bytes);
}

/* ---- Files ---- */

static bool no_space(void) {
  if (!fails(FILES))
    return false;
  errno = ENOSPC;
  return true;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...) {
  va_list ap;
  va_start(ap, flags);
  mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
  va_end(ap);
  return no_space() ? -1 : REAL(open)(path, flags, mode);
}
FILE *fopen(const char *path, const char *mode) { return no_space() ? NULL : REAL(fopen)(path, mode); }
FILE *fdopen(int fd, const char *mode) { return no_space() ? NULL : REAL(fdopen)(fd, mode); }
/* Streams into memory cannot run out of disk. */
static bool no_space_for(FILE *file) { return file && fileno(file) >= 0 && no_space(); }

int fflush(FILE *file) { return no_space_for(file) ? EOF : REAL(fflush)(file); }
int fsync(int fd) { return no_space() ? -1 : REAL(fsync)(fd); }
int ftruncate(int fd, off_t size) { return no_space() ? -1 : REAL(ftruncate)(fd, size); }
int rename(const char *from, const char *to) { return no_space() ? -1 : REAL(rename)(from, to); }
int mkdir(const char *path, mode_t mode) { return no_space() ? -1 : REAL(mkdir)(path, mode); }

int close(int fd) {
  int rc = REAL(close)(fd);
  return no_space() ? -1 : rc; /* closed it is */
}

int fclose(FILE *file) {
  bool full = no_space_for(file);
  int rc = REAL(fclose)(file);
  if (!full)
    return rc;
  errno = ENOSPC;
  return EOF;
}

ssize_t write(int fd, const void *bytes, size_t n) {
  if (disk_full) {
    disk_full = false;
    errno = ENOSPC;
    return -1;
  }
  disk_full = fails(FILES);
  return REAL(write)(fd, bytes, disk_full ? n / 2 : n);
}

/* ---- Begin and end ---- */

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("FAULT"), *at = getenv("FAULT_AT");
  fault_at = at ? strtol(at, NULL, 10) : 0;
  kind = !name ? NONE : strcmp(name, "memory") == 0 ? MEMORY : strcmp(name, "device") == 0 ? DEVICE : FILES;
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("FAULT_LOG");
  kind = NONE;
  FILE *log = path ? REAL(fopen)(path, "a") : NULL;
  if (log) {
    fprintf(log, "%ld\n", (long)calls);
    REAL(fclose)(log);
  }
}
