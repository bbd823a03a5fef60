/* Engine time of one optimizer step: 32-layer llama2-7b, SP 8, 4 all-to-alls per layer and pass, full recomputation,
 * ZeRO-1 with overlapped gradient buckets; equal groups (2048 x 4 tokens each) and uneven ones (lengths 1x to 2x). One
 * line per cluster size: milliseconds of the best of several runs, events, and bytes of resident memory per group. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/engine/step.h"
#include "sim/plan/lower.h"

static _Noreturn void fail(const struct err *err) {
  fprintf(stderr, "bench_engine: %s\n", err->msg);
  exit(1);
}

static struct program make(const struct system *s, int64_t seqlen) {
  struct program p;
  struct microbatch mb = {.batch = 4, .seqlen = seqlen, .recompute_blocks = {s->model->layers, 0}};
  lower_micro_batch(&p, s, 8, &mb);
  return p;
}

static double best_ms(struct engine *e, struct step_input *in, int runs, int64_t *events) {
  double best = 1e30;
  for (int i = 0; i < runs; i++) {
    int64_t t = wall_clock_ns();
    const struct step_result *r = engine_step(e, in, NULL);
    t = wall_clock_ns() - t;
    *events = r->events;
    best = (double)t * 1e-6 < best ? (double)t * 1e-6 : best;
  }
  return best;
}

static void bench(const struct transformer *model, int nodes, bool uneven) {
  struct err err = {0};
  char name[32];
  snprintf(name, sizeof name, "h200_8x%d", nodes);
  struct cluster cluster;
  struct params *params;
  if (cluster_load(&cluster, name, &err) || params_load(&params, "h200_sxm", &err))
    fail(&err);
  struct system s = {
      model, &cluster, params, framework_find("fused", &err), {.zero = 1, .sp_kind = SP_ULYSSES, .grad_bytes = 2}};
  enum { SHAPES = 32 };
  struct program programs[SHAPES];
  for (int i = 0; i < SHAPES; i++)
    programs[i] = make(&s, uneven ? 2048 + 64 * i : 2048);
  struct step_group *groups = xcalloc((size_t)nodes, sizeof *groups);
  const struct program **lists = xcalloc((size_t)nodes, sizeof *lists);
  for (int i = 0; i < nodes; i++) {
    lists[i] = &programs[(i * 7) % SHAPES];
    groups[i] = (struct step_group){.first_rank = 8 * i, .sp = 8, .programs = &lists[i], .n_micro_batches = 1};
  }
  struct engine *e = engine_new(&s, true);
  struct step_input in = {.groups = groups, .n_groups = nodes};
  int64_t fast_events, plain_events;
  double fast = best_ms(e, &in, nodes > 256 ? 3 : 20, &fast_events);
  in.plain = true;
  double plain = best_ms(e, &in, nodes > 256 ? 1 : 5, &plain_events);
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  printf("%6d %7d %-7s %10.3f %10lld %10.3f %10lld %10.1f\n", 8 * nodes, nodes, uneven ? "uneven" : "equal", fast,
         (long long)fast_events, plain, (long long)plain_events, (double)use.ru_maxrss / 1024);
  engine_free(e);
  free(groups);
  free(lists);
  for (int i = 0; i < SHAPES; i++)
    program_release(&programs[i]);
  params_free(params);
}

int main(void) {
  struct err err = {0};
  struct transformer model;
  if (transformer_load(&model, "llama2-7b", &err))
    fail(&err);
  printf("  GPUs  groups lengths    fast ms     events   plain ms     events    max MiB\n");
  static const int nodes[] = {4, 16, 128, 512, 2048};
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
    for (int uneven = 0; uneven < 2; uneven++)
      bench(&model, nodes[i], uneven);
  return 0;
}
