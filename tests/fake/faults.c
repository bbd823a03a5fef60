/* Loaded with LD_PRELOAD, makes one call fail in a program: the FAULT_AT-th, counted from 1, of the kind FAULT:
 * - memory: malloc, calloc, realloc: NULL, ENOMEM
 * - device: aligned_alloc, which gives the CPU device its memory: NULL, ENOMEM
 * - space: what writes (open to create, write, close, fsync, ftruncate, rename, mkdir, fchmod): ENOSPC, and as a full
 *   disk does to a write: half of it, the next nothing
 * - read: what reads (open, read, stat, seek, a folder's list): EIO
 * - short: read, write: one byte of what was asked for, as the system is free to do
 * - interrupt: open, read, write, close, fsync, ftruncate: EINTR
 * - pipe: write to standard output: SIGPIPE, EPIPE
 * Allocations are counted in the C library's place, all else at the system call: those of the C library's own streams,
 * too. FAULT_AT=0 fails none. FAULT_LOG=FILE: how many there were, and how many blocks of memory were not freed.
 * FAULT_STACKS=FILE: of each allocation a hash of who called, 8 bytes. The monotonic clock stands still (but for
 * device), so that times that a program writes are the same in every run. */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum kind { NONE, MEMORY, DEVICE, SPACE, READ, SHORT, INTERRUPT, PIPE };
static atomic_long calls, live;
static long fault_at;
static enum kind kind; /* NONE until the libraries have been loaded */
static bool disk_full;

static bool fails(enum kind of) { return kind == of && atomic_fetch_add(&calls, 1) + 1 == fault_at; }

/* ---- Memory ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

static FILE *stacks;

static void log_stack(void) {
  static _Thread_local bool inside;
  void *callers[64];
  uint64_t hash = 0;
  if (!stacks || kind != MEMORY || inside)
    return;
  inside = true;
  int n = backtrace(callers, 64);
  for (int i = 0; i < n; i++)
    hash = (hash ^ (uintptr_t)callers[i]) * 1099511628211u;
  fwrite(&hash, sizeof hash, 1, stacks);
  inside = false;
}

static bool no_memory(enum kind of) {
  log_stack();
  if (!fails(of))
    return false;
  errno = ENOMEM;
  return true;
}

static void *counted(void *p) {
  if (p)
    atomic_fetch_add(&live, 1);
  return p;
}

void *malloc(size_t bytes) { return no_memory(MEMORY) ? NULL : counted(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return no_memory(MEMORY) ? NULL : counted(__libc_calloc(count, bytes)); }
void *realloc(void *p, size_t bytes) {
  if (no_memory(MEMORY))
    return NULL;
  return p ? __libc_realloc(p, bytes) : counted(__libc_realloc(p, bytes));
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  return no_memory(DEVICE) ? NULL : counted(__libc_memalign(alignment, bytes));
}
void free(void *p) {
  if (p)
    atomic_fetch_sub(&live, 1);
  __libc_free(p);
}

/* ---- The clock ---- */

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (clock != CLOCK_MONOTONIC || kind == DEVICE)
    return (int)syscall(SYS_clock_gettime, clock, t);
  *t = (struct timespec){.tv_sec = 1};
  return 0;
}

/* ---- System calls: a filter turns them into a signal, whose handler makes them in their place ---- */

/* The sixth argument of calls that the handler makes; none of them has that many. */
#define OURS 0x5afe5afeL

#if defined __x86_64__
#define ARGUMENT(c, i) ((c)->gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8}[i]])
#define RESULT(c) ((c)->gregs[REG_RAX])
#elif defined __aarch64__
#define ARGUMENT(c, i) ((c)->regs[i])
#define RESULT(c) ((c)->regs[0])
#endif

enum { OPENS = 1, READS = 2, STATS = 4, WRITES = 8, CLOSES = 16, SYNCS = 32, NAMES = 64 };
static const struct {
  int number, what;
} traps[] = {
    {SYS_openat, OPENS},   {SYS_read, READS},      {SYS_pread64, READS},   {SYS_newfstatat, STATS}, {SYS_fstat, STATS},
    {SYS_lseek, STATS},    {SYS_write, WRITES},    {SYS_pwrite64, WRITES}, {SYS_getdents64, STATS}, {SYS_close, CLOSES},
    {SYS_fsync, SYNCS},    {SYS_ftruncate, SYNCS}, {SYS_renameat2, NAMES}, {SYS_mkdirat, NAMES},    {SYS_fchmod, NAMES},
#ifdef SYS_open
    {SYS_open, OPENS},
#endif
#ifdef SYS_stat
    {SYS_stat, STATS},
#endif
#ifdef SYS_rename
    {SYS_rename, NAMES},
#endif
#ifdef SYS_renameat
    {SYS_renameat, NAMES},
#endif
#ifdef SYS_mkdir
    {SYS_mkdir, NAMES},
#endif
};
enum { TRAPS = sizeof traps / sizeof *traps };

/* What `number` does, as the kinds count it; `flags` are those of an open. */
static bool counts(int what, long fd, long flags) {
  bool creates = what == OPENS && flags & O_CREAT;
  if (fd == STDERR_FILENO && what == WRITES)
    return false; /* where the message goes */
  switch (kind) {
  case SPACE:
    return creates || what & (WRITES | CLOSES | SYNCS | NAMES);
  case READ:
    return (what == OPENS && !creates) || what & (READS | STATS);
  case SHORT:
    return what & (READS | WRITES);
  case INTERRUPT:
    return what & (OPENS | READS | WRITES | CLOSES | SYNCS);
  case PIPE:
    return what == WRITES && fd == STDOUT_FILENO;
  default:
    return false;
  }
}

static long call(int number, const long a[5]) {
  long rc = syscall(number, a[0], a[1], a[2], a[3], a[4], OURS);
  return rc < 0 ? -errno : rc;
}

/* The call that is to fail: -errno, or what little it did. */
static long fail(int number, int what, long a[5]) {
  static const int why[] = {[SPACE] = ENOSPC, [READ] = EIO, [INTERRUPT] = EINTR, [PIPE] = EPIPE};
  if (what == CLOSES)
    call(number, a); /* closed it is */
  if (kind == PIPE)
    kill(getpid(), SIGPIPE);
  if (kind == SPACE && what == WRITES) {
    disk_full = true;
    a[2] /= 2;
    return a[2] ? call(number, a) : -ENOSPC;
  }
  if (kind == SHORT) {
    a[2] = a[2] > 1;
    return call(number, a);
  }
  return -why[kind];
}

static void on_call(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number;
  mcontext_t *c = &((ucontext_t *)context)->uc_mcontext;
  long a[5];
  int e = errno, number = info->si_syscall, what = 0;
  for (int i = 0; i < 5; i++)
    a[i] = (long)ARGUMENT(c, i);
  for (int i = 0; i < TRAPS; i++)
    if (traps[i].number == number)
      what = traps[i].what;
  bool counted_here = counts(what, number == SYS_openat ? -1 : a[0], number == SYS_openat ? a[2] : a[1]);
  long rc;
  if (counted_here && disk_full && what == WRITES) {
    disk_full = false;
    rc = -ENOSPC;
  } else {
    rc = counted_here && fails(kind) ? fail(number, what, a) : call(number, a);
  }
  RESULT(c) = rc;
  errno = e;
}

/* Where the C library's code is. */
static int find_code(struct dl_phdr_info *info, size_t size, void *out) {
  uintptr_t *range = out, inside = (uintptr_t)__libc_malloc;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && inside >= begin && inside < end) {
      range[0] = begin;
      range[1] = end;
      return 1;
    }
  }
  return 0;
}

/* Only calls from the C library's code: programs that this one starts inherit the filter, but have it elsewhere. */
static bool trap_calls(void) {
  struct sock_filter f[TRAPS + 16];
  unsigned short n = 0;
  uintptr_t range[2] = {0};
  if (!dl_iterate_phdr(find_code, range) || range[0] >> 32 != range[1] >> 32)
    return false;
#define LOAD(offset) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset)))
#define JUMP(test, value, yes, no)                                                                                     \
  ((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, (uint32_t)(value), (uint8_t)(yes), (uint8_t)(no)))
  size_t ip = offsetof(struct seccomp_data, instruction_pointer);
  f[n++] = LOAD(offsetof(struct seccomp_data, args[5]));
  f[n++] = JUMP(BPF_JEQ, OURS, TRAPS + 6, 0);
  f[n++] = LOAD(ip + 4);
  f[n++] = JUMP(BPF_JEQ, range[0] >> 32, 0, TRAPS + 4);
  f[n++] = LOAD(ip);
  f[n++] = JUMP(BPF_JGE, range[0], 0, TRAPS + 2);
  f[n++] = JUMP(BPF_JGE, range[1], TRAPS + 1, 0);
  f[n++] = LOAD(offsetof(struct seccomp_data, nr));
  for (int i = 0; i < TRAPS; i++)
    f[n++] = JUMP(BPF_JEQ, traps[i].number, TRAPS - i, 0);
  f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
  struct sock_fprog program = {n, f};
  struct sigaction act = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
  return sigaction(SIGSYS, &act, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- Begin and end ---- */

__attribute__((constructor)) static void begin(void) {
  static const char *const names[] = {"", "memory", "device", "space", "read", "short", "interrupt", "pipe"};
  const char *name = getenv("FAULT"), *at = getenv("FAULT_AT");
  enum kind found = NONE;
  for (int i = MEMORY; i <= PIPE; i++)
    if (name && strcmp(name, names[i]) == 0)
      found = (enum kind)i;
  unsetenv("LD_PRELOAD"); /* not for what the program starts */
  if (found > DEVICE && !trap_calls()) {
    fprintf(stderr, "faults.so: no filter of system calls here\n");
    _exit(99);
  }
  fault_at = at ? strtol(at, NULL, 10) : 0;
  if (getenv("FAULT_STACKS")) {
    static char buffer[1 << 16];
    stacks = fopen(getenv("FAULT_STACKS"), "w");
    setvbuf(stacks, buffer, _IOFBF, sizeof buffer);
    backtrace((void *[1]){NULL}, 1); /* what it loads, it loads now */
  }
  atomic_store(&live, 0);
  kind = found;
}

__attribute__((destructor)) static void end(void) {
  const char *path = getenv("FAULT_LOG");
  long left = live;
  kind = NONE;
  if (stacks)
    fclose(stacks);
  int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
  if (fd >= 0) {
    dprintf(fd, "%ld %ld\n", (long)calls, left);
    close(fd);
  }
}
