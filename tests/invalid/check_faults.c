/* check_faults.c: runs a command again and again with a call of one kind failing (tests/fake/faults.c), or on a disk
 * that is full after so many bytes of a file (`byte`), in a folder of its own each time, and keeps one example of each
 * different outcome: exit status, messages (but for numbers in them), what was printed, files. tests/invalid/faults.sh
 * judges those.
 *
 * usage: check_faults FAULTS.so KIND PLACES JOBS FOLDER COMMAND...
 * - PLACES: which of the n calls fail, each in a run: at most so many, spread evenly; `stacks`: of the allocations that
 *   the same functions ask for on behalf of the same functions, the first and the last; 0: none, the outcome to compare
 *   with
 * - JOBS: so many runs at a time
 * - FOLDER: is made; FOLDER/I for the I-th outcome: status, out, err, where, leaked (blocks of memory), run/ (its
 * files) Prints how many runs there were, of how many. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_OUTCOMES 1000
#define MAX_TEXT (1 << 20)
#define LIMIT_S 60 /* for one run */

static const char *faults, *kind, *folder;
static char **command;
static char work[1000];                        /* this job's folder: run/, log */
static char out[MAX_TEXT], messages[MAX_TEXT]; /* of the last run */
static int status;                             /* exit status, 128 + signal */
static long calls, leaked;                     /* calls of the kind, blocks left; -1: the program did not get so far */
static long largest;                           /* bytes of the largest file in run/ */

/* Outcomes of all jobs. */
static struct shared {
  int n, lock;
  struct {
    uint64_t key;
    long runs;
  } outcomes[MAX_OUTCOMES];
} * shared;

static void check(bool good, const char *what) {
  if (!good) {
    fprintf(stderr, "check_faults: %s: %s\n", what, strerror(errno));
    exit(2);
  }
}

__attribute__((format(printf, 1, 2))) static const char *name(const char *format, ...) {
  static char names[4][2000];
  static int next;
  va_list ap;
  va_start(ap, format);
  next = (next + 1) % 4;
  vsnprintf(names[next], sizeof names[next], format, ap);
  va_end(ap);
  return names[next];
}

/* ---- Files ---- */

static uint64_t hash_bytes(uint64_t h, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)bytes[i]) * 1099511628211u; /* FNV-1a */
  return h;
}

/* Without numbers: they tell how much memory was asked for, or a temporary file's process. */
static uint64_t hash_words(uint64_t h, const char *text) {
  for (; *text; text++)
    if (*text < '0' || *text > '9')
      h = hash_bytes(h, text, 1);
  return h;
}

static uint64_t files_hash; /* does not depend on their order */

static int visit_hash(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)at;
  if (type != FTW_F)
    return 0;
  int fd = open(path, O_RDONLY);
  char *bytes = st->st_size ? mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  check(fd >= 0 && bytes != MAP_FAILED, path);
  files_hash += hash_bytes(hash_words(1, path), bytes, (size_t)st->st_size);
  largest = st->st_size > largest ? st->st_size : largest;
  if (bytes)
    munmap(bytes, (size_t)st->st_size);
  close(fd);
  return 0;
}

static int visit_remove(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)st;
  (void)type;
  (void)at;
  return remove(path);
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  check(file && fputs(text, file) >= 0 && fclose(file) == 0, path);
}

/* ---- One run ---- */

static void read_pipe(int fd, char *text) {
  size_t n = 0;
  ssize_t got;
  while ((got = read(fd, text + n, MAX_TEXT - 1 - n)) > 0)
    n += (size_t)got;
  text[n] = '\0';
  close(fd);
}

static void run_child(long at, const int pipes[2]) {
  bool bytes = strcmp(kind, "byte") == 0;
  int null = open("/dev/null", O_RDONLY);
  setenv("LD_PRELOAD", faults, 1);
  setenv("FAULT", bytes ? "" : kind, 1);
  setenv("FAULT_AT", name("%ld", bytes ? 0 : at), 1);
  setenv("FAULT_LOG", name("%s/log", work), 1);
  if (at == 0)
    setenv("FAULT_STACKS", name("%s/stacks", work), 1);
  if (bytes && at > 0)
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)at - 1, (rlim_t)at - 1});
  if (chdir("run") < 0 || dup2(null, 0) < 0 || dup2(pipes[0], 1) < 0 || dup2(pipes[1], 2) < 0)
    _exit(126);
  close(null);
  alarm(LIMIT_S);
  execv(command[0], command);
  _exit(127);
}

/* Into out, messages, status, calls, leaked, files_hash, largest. */
static void run(long at) {
  int a[2], b[2];
  unlink("log");
  check(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0, "pipe");
  pid_t pid = fork();
  check(pid >= 0, "fork");
  if (pid == 0)
    run_child(at, (int[]){a[1], b[1]});
  close(a[1]);
  close(b[1]);
  read_pipe(a[0], out);
  read_pipe(b[0], messages);
  check(waitpid(pid, &status, 0) == pid, "waitpid");
  status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  calls = leaked = -1;
  FILE *log = fopen("log", "r");
  if (log && fscanf(log, "%ld %ld", &calls, &leaked) != 2)
    calls = leaked = -1;
  if (log)
    fclose(log);
  files_hash = 0;
  largest = 0;
  check(nftw("run", visit_hash, 16, FTW_PHYS) == 0, "run");
}

/* ---- Outcomes ---- */

static uint64_t outcome_key(void) {
  uint64_t h = hash_words(hash_words(14695981039346656037u, out), "|");
  h = hash_words(hash_words(h, messages), name("|%c%c|", 'A' + status / 26, 'A' + status % 26));
  h = hash_bytes(h, (const char *)&files_hash, sizeof files_hash);
  return status == 0 ? hash_bytes(h, out, strlen(out)) : hash_bytes(h, (const char *)&leaked, sizeof leaked);
}

static void keep(int i, long at) {
  char to[1100];
  snprintf(to, sizeof to, "%s/%d", folder, i + 1);
  check(mkdir(to, 0777) == 0 && rename("run", name("%s/run", to)) == 0, to);
  write_text(name("%s/out", to), out);
  write_text(name("%s/err", to), messages);
  write_text(name("%s/status", to), name("%d\n", status));
  write_text(name("%s/leaked", to), name("%ld\n", leaked));
  write_text(name("%s/where", to), name("%s %ld\n", kind, at));
}

static void count_outcome(long at) {
  uint64_t key = outcome_key();
  int i = 0;
  while (__atomic_exchange_n(&shared->lock, 1, __ATOMIC_ACQUIRE))
    usleep(100);
  while (i < shared->n && shared->outcomes[i].key != key)
    i++;
  bool new = i == shared->n;
  check(i < MAX_OUTCOMES, "too many different outcomes");
  shared->outcomes[i].key = key;
  shared->outcomes[i].runs++;
  shared->n += new;
  __atomic_store_n(&shared->lock, 0, __ATOMIC_RELEASE);
  if (new)
    keep(i, at);
}

/* ---- Which calls ---- */

static long *places, n_places; /* counted from 1 */

static void spread_places(long want, long n) {
  n_places = want < n ? want : n;
  places = calloc((size_t)n_places + 1, sizeof *places);
  for (long i = 0; i < n_places; i++)
    places[i] = n_places > 1 ? 1 + (long)((double)i * (double)(n - 1) / (double)(n_places - 1)) : 1;
}

struct caller {
  uint64_t stack;
  long at;
};

static int by_stack(const void *a, const void *b) {
  const struct caller *x = a, *y = b;
  return x->stack != y->stack ? (x->stack > y->stack) - (x->stack < y->stack) : (x->at > y->at) - (x->at < y->at);
}

static void places_of_stacks(long n) {
  struct caller *c = calloc((size_t)n + 1, sizeof *c);
  FILE *file = fopen("stacks", "r");
  places = calloc((size_t)n + 1, sizeof *places);
  check(file, "stacks");
  for (long i = 0; i < n; i++) {
    c[i].at = i + 1;
    check(fread(&c[i].stack, sizeof c[i].stack, 1, file) == 1, "stacks");
  }
  fclose(file);
  qsort(c, (size_t)n, sizeof *c, by_stack);
  for (long i = 0; i < n; i++)
    if (i == 0 || i == n - 1 || c[i - 1].stack != c[i].stack || c[i + 1].stack != c[i].stack)
      places[n_places++] = c[i].at;
  free(c);
}

/* ---- Jobs ---- */

static void begin_job(int job) {
  snprintf(work, sizeof work, "%s/job%d", folder, job);
  check(mkdir(work, 0777) == 0 && chdir(work) == 0, work);
}

static void fresh_folder(void) {
  nftw("run", visit_remove, 16, FTW_DEPTH | FTW_PHYS);
  check(mkdir("run", 0777) == 0, "run");
}

static void run_job(int job, int jobs) {
  begin_job(job);
  for (long i = job - 1; i < n_places; i += jobs) {
    fresh_folder();
    run(places[i]);
    count_outcome(places[i]);
  }
}

int main(int argc, char **argv) {
  if (argc < 7) {
    fprintf(stderr, "usage: check_faults FAULTS.so KIND PLACES JOBS FOLDER COMMAND...\n");
    return 2;
  }
  faults = argv[1], kind = argv[2], folder = argv[5], command = argv + 6;
  long want = strtol(argv[3], NULL, 10);
  int jobs = (int)strtol(argv[4], NULL, 10), bad = 0;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  check(shared != MAP_FAILED && mkdir(folder, 0777) == 0, folder);
  begin_job(0);
  fresh_folder();
  run(0);
  check(calls >= 0, "the command does not run with faults.so");
  long n = strcmp(kind, "byte") == 0 ? largest : calls;
  if (strcmp(argv[3], "stacks") == 0)
    places_of_stacks(n);
  else if (want > 0)
    spread_places(want, n);
  else
    count_outcome(0);
  for (int job = 1; job <= jobs; job++)
    if (fork() == 0) {
      run_job(job, jobs);
      exit(0);
    }
  for (int left; wait(&left) > 0;)
    bad |= left;
  for (int i = 0; i < shared->n; i++)
    write_text(name("%s/%d/runs", folder, i + 1), name("%ld\n", shared->outcomes[i].runs));
  printf("%ld of %ld\n", n_places, n);
  return bad ? 2 : 0;
}
