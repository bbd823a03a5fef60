// shim.cc: blocks, fibers and rendezvous behind shim.h.
#include "tests/cuda_shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <vector>
#ifndef __x86_64__
#include <ucontext.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { WARP = 32, WARPGROUP = 128, THREADS_MAX = 1024, STACK_BYTES = 128 << 10 };

struct copy {
  void *to;
  const void *from;
  unsigned bytes;
  int group;
};

struct thread {
  shim_index index;
  void *stack_pointer; // saved while the fiber does not run
#ifndef __x86_64__
  ucontext_t context;
#endif
  bool ready, done;
  int group; // of cp.async copies: the one that is open
  std::vector<copy> copies;
};

struct meeting {
  int count;
  void (*all)(void *const *);
  const char *file;
  int line;
  void *lanes[WARPGROUP];
};

shim_index blockIdx, blockDim, gridDim;
struct shim_barrier shim_barriers[SHIM_BARRIERS_MAX];
int shim_barriers_count, shim_barrier_dropped = -1;
int shim_wait_slack;
long shim_bank_conflicts, shim_waits;

static struct thread threads[THREADS_MAX];
static struct thread *self;
static struct meeting block_meeting, warp_meetings[THREADS_MAX / WARP], warpgroup_meetings[THREADS_MAX / WARPGROUP];
static char *stacks, *shared;
static void *scheduler_stack_pointer;
static void (*body)(const void *);
static const void *body_data;
static char error[200];
static uint32_t random_state;
static enum shim_order run_order;

const shim_index *shim_thread() { return &self->index; }
char *shared_memory() { return shared; }

static uint32_t random_below(uint32_t n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)random_state * n >> 32);
}

// ---- Fibers: switch_to(save, load) keeps the callee-saved registers on the stack that it leaves
// -----------------------

#ifdef __x86_64__
extern "C" void shim_switch(void **save, void *load);
asm(".text\n.globl shim_switch\n.type shim_switch,@function\nshim_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
static void to_scheduler() { shim_switch(&self->stack_pointer, scheduler_stack_pointer); }
static void to_thread() { shim_switch(&scheduler_stack_pointer, self->stack_pointer); }
static void to_other(struct thread *me, struct thread *other) { shim_switch(&me->stack_pointer, other->stack_pointer); }
#else
static ucontext_t scheduler;
static void to_scheduler() { swapcontext(&self->context, &scheduler); }
static void to_thread() { swapcontext(&scheduler, &self->context); }
static void to_other(struct thread *me, struct thread *other) { swapcontext(&me->context, &other->context); }
#endif

static void thread_main() {
  body(body_data);
  self->done = true;
  self->ready = false;
  to_scheduler();
  abort(); // a finished thread is never resumed
}

static void thread_start(struct thread *t, unsigned i) {
  t->index = {i, 0, 0};
  t->ready = true;
  t->done = false;
  t->group = 0;
  t->copies.clear();
  char *top = stacks + (size_t)(i + 1) * STACK_BYTES;
#ifdef __x86_64__
  void **sp = (void **)top - 8; // six registers, the entry point, and a word that aligns the stack as after a call
  memset(sp, 0, 8 * sizeof *sp);
  sp[6] = (void *)thread_main;
  t->stack_pointer = sp;
#else
  getcontext(&t->context);
  t->context.uc_stack.ss_sp = top - STACK_BYTES;
  t->context.uc_stack.ss_size = STACK_BYTES;
  makecontext(&t->context, thread_main, 0);
#endif
}

// ---- Rendezvous --------------------------------------------------------------------------------------------------

static void fail(const char *what, const struct meeting *m, const char *file, int line) {
  snprintf(error, sizeof error, "%s: thread %u of block %u,%u,%u at %s:%d, others at %s:%d", what, self->index.x,
           blockIdx.x, blockIdx.y, blockIdx.z, file, line, m->file, m->line);
  to_scheduler(); // which gives the launch up
}

static bool same_line(const struct meeting *m, const char *file, int line) {
  return m->line == line && (m->file == file || strcmp(m->file, file) == 0);
}

static int barrier_number(const char *file, int line) {
  for (int i = 0; i < shim_barriers_count; i++)
    if (shim_barriers[i].line == line && strcmp(shim_barriers[i].file, file) == 0)
      return i;
  if (shim_barriers_count == SHIM_BARRIERS_MAX)
    abort();
  shim_barriers[shim_barriers_count] = {file, line};
  return shim_barriers_count++;
}

// The next lane of the warp that can run, in the order of this launch.
static struct thread *next_lane() {
  unsigned first = self->index.x / WARP * WARP, lane = self->index.x % WARP;
  for (unsigned i = 1; i < WARP; i++) {
    struct thread *t = &threads[first + (run_order == SHIM_DESCENDING ? lane - i : lane + i) % WARP];
    if (t->ready)
      return t;
  }
  return nullptr;
}

// Goes on with the warp as long as it can; in random order other warps may come in between.
static void wait_here() {
  struct thread *me = self, *next = next_lane();
  me->ready = false;
  if (!next || (run_order == SHIM_RANDOM && random_below(4 * WARP) == 0))
    return to_scheduler();
  self = next;
  to_other(me, next);
}

void shim_meet_block(const char *file, int line) {
  if (barrier_number(file, line) == shim_barrier_dropped)
    return;
  struct meeting *m = &block_meeting;
  if (m->count == 0) {
    m->file = file;
    m->line = line;
  } else if (!same_line(m, file, line)) {
    fail("different barriers", m, file, line);
  }
  if (++m->count < (int)blockDim.x)
    return wait_here();
  m->count = 0;
  for (unsigned i = 0; i < blockDim.x; i++)
    threads[i].ready = true;
}

// Of `size` consecutive threads.
static void meet(struct meeting *m, unsigned size, void (*all)(void *const *), void *operands, const char *file,
                 int line) {
  unsigned first = self->index.x / size * size;
  if (m->count == 0) {
    m->all = all;
    m->file = file;
    m->line = line;
  } else if (m->all != all || !same_line(m, file, line)) {
    fail("lanes in different operations", m, file, line);
  }
  m->lanes[self->index.x - first] = operands;
  if (++m->count < (int)size)
    return wait_here();
  m->count = 0;
  all(m->lanes);
  for (unsigned i = 0; i < size; i++)
    threads[first + i].ready = true;
}

void shim_meet_warp(void (*all)(void *const *), void *operands, const char *file, int line) {
  meet(&warp_meetings[self->index.x / WARP], WARP, all, operands, file, line);
}

void shim_meet_warpgroup(void (*all)(void *const *), void *operands, const char *file, int line) {
  meet(&warpgroup_meetings[self->index.x / WARPGROUP], WARPGROUP, all, operands, file, line);
}

void shim_nothing(void *const *) {}

void __syncwarp(const char *file, int line) {
  if (barrier_number(file, line) != shim_barrier_dropped)
    shim_meet_warp(shim_nothing, nullptr, file, line);
}

// ---- cp.async: the bytes arrive with the wait, as late as the hardware may bring them
// ---------------------------------

void shim_copy_async(void *to, const void *from, unsigned bytes, bool valid) {
  if ((uintptr_t)to % bytes != 0 || (valid && (uintptr_t)from % bytes != 0))
    return fail("misaligned cp.async", &block_meeting, "", 0);
  memset(to, 0xff, bytes);
  self->copies.push_back({to, valid ? from : nullptr, bytes, self->group});
}

void shim_copy_commit() { self->group++; }

void shim_copy_wait(int pending) {
  shim_waits++;
  size_t kept = 0;
  for (const copy &c : self->copies) {
    if (c.group >= self->group - pending - shim_wait_slack)
      self->copies[kept++] = c;
    else if (c.from)
      memcpy(c.to, c.from, c.bytes);
    else
      memset(c.to, 0, c.bytes);
  }
  self->copies.resize(kept);
}

// ---- Warp operations ---------------------------------------------------------------------------------------------

static float low(uint32_t both) { return float_of_bits(both << 16); }
static float high(uint32_t both) { return float_of_bits(both & 0xffff0000u); }

void shim_shuffle(void *const *lanes) {
  for (int i = 0; i < WARP; i++) {
    const shim_shuffle_lane *lane = (const shim_shuffle_lane *)lanes[i];
    *lane->out = ((const shim_shuffle_lane *)lanes[(i ^ lane->mask) % WARP])->x;
  }
}

typedef float row8 __attribute__((vector_size(32), aligned(4)));

void shim_mma(void *const *lanes) {
  float a[16][16], b[16][8], c[16][8];
  for (int i = 0; i < WARP; i++) {
    const shim_mma_lane *lane = (const shim_mma_lane *)lanes[i];
    int g = i / 4, t = i % 4;
    for (int j = 0; j < 4; j++) {
      a[g + 8 * (j % 2)][2 * t + 8 * (j / 2)] = low(lane->a[j]);
      a[g + 8 * (j % 2)][2 * t + 8 * (j / 2) + 1] = high(lane->a[j]);
      c[g + 8 * (j / 2)][2 * t + j % 2] = lane->c[j];
    }
    for (int j = 0; j < 2; j++) {
      b[2 * t + 8 * j][g] = low(lane->b[j]);
      b[2 * t + 8 * j + 1][g] = high(lane->b[j]);
    }
  }
  row8 rows[16];
  memcpy(rows, b, sizeof rows);
  for (int m = 0; m < 16; m++) {
    row8 sum;
    memcpy(&sum, c[m], sizeof sum);
    for (int k = 0; k < 16; k++)
      sum += a[m][k] * rows[k];
    memcpy(c[m], &sum, sizeof sum);
  }
  for (int i = 0; i < WARP; i++)
    for (int j = 0; j < 4; j++)
      ((const shim_mma_lane *)lanes[i])->c[j] = c[i / 4 + 8 * (j / 2)][2 * (i % 4) + j % 2];
}

// Element k of row or column i of a factor that is not transposed; element i of row k of one that is.
static float factor_element(const struct wgmma_factor &f, int i, int k) {
  uintptr_t at = (uintptr_t)f.start;
  if (f.transposed)
    at += i / 64 * f.leading_bytes + i % 64 * 2 + k / 8 * f.stride_bytes + k % 8 * 128;
  else
    at += i / 8 * f.stride_bytes + i % 8 * 128 + k * 2;
  uint16_t bits;
  memcpy(&bits, (const void *)(at ^ (at >> 7 & 7) << 4), sizeof bits);
  return low(bits);
}

void shim_wgmma(void *const *lanes) {
  const shim_wgmma_lane *first = (const shim_wgmma_lane *)lanes[0];
  static float a[64][16], b[16][256], c[64][256];
  for (int i = 0; i < WARPGROUP; i++) {
    const shim_wgmma_lane *lane = (const shim_wgmma_lane *)lanes[i];
    int row = i / WARP * 16 + i % WARP / 4, t = i % 4;
    if (lane->b.start != first->b.start || lane->a.start != first->a.start)
      fail("lanes with different factors", &block_meeting, "", 0);
    for (int j = 0; lane->a_registers && j < 4; j++) {
      a[row + 8 * (j % 2)][2 * t + 8 * (j / 2)] = low(lane->a_registers[j]);
      a[row + 8 * (j % 2)][2 * t + 8 * (j / 2) + 1] = high(lane->a_registers[j]);
    }
    for (int j = 0; j < lane->columns / 2; j++)
      c[row + 8 * (j / 2 % 2)][j / 4 * 8 + 2 * t + j % 2] = lane->c[j];
  }
  for (int i = 0; !first->a_registers && i < 64; i++)
    for (int k = 0; k < 16; k++)
      a[i][k] = factor_element(first->a, i, k);
  for (int n = 0; n < first->columns; n++)
    for (int k = 0; k < 16; k++)
      b[k][n] = factor_element(first->b, n, k);
  for (int m = 0; m < 64; m++)
    for (int k = 0; k < 16; k++)
      for (int n = 0; n < first->columns; n++)
        c[m][n] += a[m][k] * b[k][n];
  for (int i = 0; i < WARPGROUP; i++) {
    const shim_wgmma_lane *lane = (const shim_wgmma_lane *)lanes[i];
    int row = i / WARP * 16 + i % WARP / 4, t = i % 4;
    for (int j = 0; j < lane->columns / 2; j++)
      lane->c[j] = c[row + 8 * (j / 2 % 2)][j / 4 * 8 + 2 * t + j % 2];
  }
}

void shim_ldmatrix(void *const *lanes) {
  uint16_t rows[WARP][8];
  for (int i = 0; i < WARP; i++) {
    const char *row = ((const shim_ldmatrix_lane *)lanes[i])->row;
    if ((uintptr_t)row % 16 != 0)
      fail("misaligned ldmatrix", &block_meeting, "", 0);
    memcpy(rows[i], row, 16);
    for (int j = i / 8 * 8; j < i; j++)
      shim_bank_conflicts += ((uintptr_t)row ^ (uintptr_t)((const shim_ldmatrix_lane *)lanes[j])->row) / 16 % 8 == 0;
  }
  for (int i = 0; i < WARP; i++) {
    const shim_ldmatrix_lane *lane = (const shim_ldmatrix_lane *)lanes[i];
    int g = i / 4, t = i % 4;
    for (int j = 0; j < 4; j++) {
      const uint16_t(*m)[8] = rows + 8 * j;
      lane->r[j] = lane->transposed ? (uint32_t)m[2 * t + 1][g] << 16 | m[2 * t][g]
                                    : (uint32_t)m[g][2 * t + 1] << 16 | m[g][2 * t];
    }
  }
}

// ---- Blocks ------------------------------------------------------------------------------------------------------

// Lets a warp run from its first lane that can, until it must wait for others. False if no lane can.
static bool run_warp(unsigned warp) {
  unsigned turn = run_order == SHIM_RANDOM ? random_below(WARP) : 0;
  for (unsigned i = 0; i < WARP; i++) {
    self = &threads[warp * WARP + (run_order == SHIM_DESCENDING ? WARP - 1 - i : (i + turn) % WARP)];
    if (self->ready) {
      to_thread();
      return true;
    }
  }
  return false;
}

// Runs the first warp, in the order of this launch, that can go on: so the first ones get as far ahead of the others as
// they can. In random order any warp.
static bool run_some_warp(unsigned warps) {
  unsigned turn = run_order == SHIM_RANDOM ? random_below(warps) : 0;
  for (unsigned i = 0; i < warps; i++)
    if (run_warp(run_order == SHIM_DESCENDING ? warps - 1 - i : (i + turn) % warps))
      return true;
  return false;
}

static void run_block() {
  unsigned warps = blockDim.x / WARP;
  block_meeting.count = 0;
  for (unsigned i = 0; i < warps; i++)
    warp_meetings[i].count = warpgroup_meetings[i / 4].count = 0;
  for (unsigned i = 0; i < blockDim.x; i++)
    thread_start(&threads[i], i);
  while (!error[0] && run_some_warp(warps))
    ;
  for (unsigned i = 0; i < blockDim.x && !error[0]; i++)
    if (!threads[i].done)
      snprintf(error, sizeof error, "thread %u of block %u,%u,%u waits for others, which are gone or wait elsewhere", i,
               blockIdx.x, blockIdx.y, blockIdx.z);
}

const char *shim_run(const struct kernel_launch *launch, void (*run)(const void *), const void *data,
                     enum shim_order order) {
  if (!stacks)
    stacks = (char *)mmap(nullptr, (size_t)THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (launch->block % WARP != 0 || launch->block > THREADS_MAX || launch->shared_bytes > 227 << 10)
    return "no such block on this machine";
  body = run;
  body_data = data;
  error[0] = 0;
  run_order = order;
  random_state = 1;
  gridDim = {launch->grid[0], launch->grid[1], launch->grid[2]};
  blockDim = {launch->block, 1, 1};
  uint64_t blocks = (uint64_t)gridDim.x * gridDim.y * gridDim.z;
  for (uint64_t i = 0; i < blocks && !error[0]; i++) {
    uint64_t b = order == SHIM_DESCENDING ? blocks - 1 - i : order == SHIM_RANDOM ? (i + blocks / 2) % blocks : i;
    blockIdx = {(unsigned)(b % gridDim.x), (unsigned)(b / gridDim.x % gridDim.y),
                (unsigned)(b / gridDim.x / gridDim.y)};
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(stacks, (size_t)launch->block * STACK_BYTES);
#endif
    if (posix_memalign((void **)&shared, 1024, launch->shared_bytes + !launch->shared_bytes) != 0)
      abort();
    memset(shared, 0xff, launch->shared_bytes);
    run_block();
    free(shared);
  }
  return error[0] ? error : nullptr;
}
