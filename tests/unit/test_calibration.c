/* calibrate run: the order of its plan, statistics of repetitions, files that are continued, and rows of an operator or
 * collective that computes wrong, which are not written. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calib/calibration.h"
#include "calib/measure_collective.h"
#include "calib/placement.h"
#include "calib/run_file.h"
#include "calib/smooth_fit.h"
#include "sim/base/units.h"

static struct err error;

/* ---- Plan ---- */

Test(calibration, axis_levels) {
  static const int levels[9] = {0, 3, 2, 3, 1, 3, 2, 3, 0};
  for (int i = 0; i < 9; i++)
    cr_expect(axis_level(i, 9) == levels[i], "%d: %d", i, axis_level(i, 9));
  cr_expect(axis_level(0, 1) == 0 && axis_level(1, 2) == 0 && axis_level(1, 3) == 1);
}

static struct plan_options all_ops(int ranks) {
  struct plan_options o = {.nodes = 1, .ranks_per_node = ranks, .element_bytes = 4};
  cr_assert(run_plan_ops(o.ops, NULL, ranks, &error) == 0);
  return o;
}

Test(calibration, plan_covers_early) {
  const struct plan_options o = all_ops(1);
  struct run_plan plan;
  bool seen[ROW_OPS] = {false};
  size_t ops = 0;
  run_plan_make(&plan, &o);
  cr_assert(plan.n > 200);
  for (int i = 0; i < ROW_OPS; i++)
    ops += o.ops[i];
  for (size_t i = 0; i < ops; i++) { /* one of each comes first */
    cr_expect(!seen[plan.v[i].op], "%zu: %s again", i, row_op_name(plan.v[i].op));
    seen[plan.v[i].op] = true;
  }
  for (size_t i = 0; i < plan.n; i++) {
    cr_expect(row_op_class(plan.v[i].op) != ROW_COLLECTIVE);
    for (size_t j = 0; j < i; j++)
      cr_assert(plan.v[i].op != plan.v[j].op || memcmp(plan.v[i].shape, plan.v[j].shape, sizeof plan.v[i].shape) != 0,
                "%s twice: %zu and %zu", row_op_name(plan.v[i].op), j, i);
  }
  /* Half of it has both ends of tokens, and of each GEMM axis. */
  int64_t least = INT64_MAX, most = 0;
  for (size_t i = 0; i < plan.n / 2; i++)
    if (plan.v[i].op == ROW_OP_GEMM) {
      least = int64_min(least, plan.v[i].shape[SHAPE_M]);
      most = int64_max(most, plan.v[i].shape[SHAPE_M]);
    }
  cr_expect(least == 16 && most == 2048, "%lld %lld", (long long)least, (long long)most);
  run_plan_release(&plan);
}

Test(calibration, plan_of_a_model) {
  struct transformer m = {0};
  struct plan_options o = all_ops(1);
  struct run_plan plan;
  bool head = false, grouped = false;
  cr_assert(transformer_load(&m, "llama3.1-8b", &error) == 0, "%s", error.msg);
  o.model = &m;
  o.is_gpu = true;
  o.element_bytes = 2;
  o.max_tokens = 4096;
  run_plan_make(&plan, &o);
  for (size_t i = 0; i < plan.n; i++) {
    const int64_t *s = plan.v[i].shape;
    if (plan.v[i].op == ROW_OP_GEMM) {
      cr_expect(s[SHAPE_M] <= 4096);
      head |= s[SHAPE_N] == m.vocab && s[SHAPE_K] == m.hidden;
    }
    if (row_op_class(plan.v[i].op) == ROW_ATTENTION) {
      cr_expect(s[SHAPE_HEAD_DIM] == 128 && s[SHAPE_BATCH] * s[SHAPE_SEQLEN] <= 4096);
      grouped |= s[SHAPE_HEADS] == 32 && s[SHAPE_KV_HEADS] == 8;
    }
  }
  cr_expect(head && grouped);
  run_plan_release(&plan);
}

Test(calibration, plan_of_collectives) {
  struct plan_options o = all_ops(4);
  struct run_plan plan;
  o.nodes = 2;
  run_plan_make(&plan, &o);
  cr_assert(plan.n > 0);
  bool ranks[9] = {false}, at_once = false;
  for (size_t i = 0; i < plan.n; i++) {
    const int64_t *s = plan.v[i].shape;
    cr_expect(row_op_class(plan.v[i].op) == ROW_COLLECTIVE && s[SHAPE_BYTES] % (s[SHAPE_RANKS] * 4) == 0);
    cr_expect((s[SHAPE_BYTES] == 0) == (plan.v[i].op == ROW_OP_BARRIER) && s[SHAPE_GROUPS] >= 1);
    ranks[s[SHAPE_RANKS]] = true;
    at_once = at_once || s[SHAPE_GROUPS] > 1;
  }
  cr_expect(ranks[2] && ranks[4] && ranks[8] && !ranks[3] && at_once);
  run_plan_release(&plan);
}

/* "ranks/nodes", and "xN" behind it for N groups at once. */
static void expect_placements(int nodes, int ranks_per_node, const char *expected) {
  struct placements all;
  char text[400] = "";
  placements_make(&all, nodes, ranks_per_node);
  for (size_t i = 0; i < all.n; i++) {
    const struct placement *p = &all.v[i];
    if (p->groups == 1)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d/%d", i ? " " : "", p->ranks, p->nodes);
    else
      snprintf(text + strlen(text), sizeof text - strlen(text), "x%d", p->groups);
  }
  cr_expect_str_eq(text, expected, "%d nodes of %d: %s", nodes, ranks_per_node, text);
  placements_release(&all);
}

Test(calibration, placements) {
  expect_placements(1, 1, "");
  expect_placements(1, 2, "2/1");
  expect_placements(1, 3, "2/1 3/1"); /* two groups of 2 do not fit */
  expect_placements(2, 1, "2/2");
  expect_placements(2, 2, "2/1x2 2/2x2 4/2");
  expect_placements(3, 2, "2/1x3 2/2x2 4/2 3/3x2 6/3"); /* of 3 nodes the last is in no pair */
  expect_placements(2, 6, "2/1x6 4/1 6/1x2 2/2x6 4/2x3 12/2");
  expect_placements(4, 8, "2/1x16 4/1x8 8/1x4 2/2x16 4/2x8 8/2x4 16/2x2 4/4x8 8/4x4 16/4x2 32/4");
}

/* Groups of a placement are disjoint, and each has equally many ranks of each of its nodes. */
static void check_placement(const struct placement *p, int nodes, int ranks_per_node) {
  const int ranks = nodes * ranks_per_node;
  int *member = xcalloc((size_t)ranks, sizeof *member), groups = 0;
  for (int rank = 0; rank < (p->groups == 1 ? 1 : p->ranks * p->groups); rank++) {
    const struct rank_set set = placement_set(p, ranks_per_node, rank);
    int *on_node = xcalloc((size_t)nodes, sizeof *on_node), used = 0;
    groups += set.first == rank;
    cr_assert(set.ranks == p->ranks && (rank - set.first) % set.stride == 0);
    for (int i = 0; i < set.ranks; i++) {
      const int other = set.first + i * set.stride;
      cr_assert(other < ranks && placement_set(p, ranks_per_node, other).first == set.first);
      member[other] += set.first == rank;
      on_node[other / ranks_per_node]++;
    }
    for (int n = 0; n < nodes; n++) {
      used += on_node[n] > 0;
      cr_expect(on_node[n] == 0 || on_node[n] == p->ranks / p->nodes);
    }
    cr_expect_eq(used, p->nodes);
    free(on_node);
  }
  cr_expect_eq(groups, p->groups);
  for (int rank = 0; rank < ranks; rank++)
    cr_expect(member[rank] <= 1);
  free(member);
}

Test(calibration, groups_lie_as_their_placement_says) {
  for (int nodes = 1; nodes <= 5; nodes++)
    for (int ranks_per_node = 1; ranks_per_node <= 8; ranks_per_node++) {
      struct placements all;
      placements_make(&all, nodes, ranks_per_node);
      for (size_t i = 0; i < all.n; i++)
        check_placement(&all.v[i], nodes, ranks_per_node);
      placements_release(&all);
    }
}

Test(calibration, names_of_operations) {
  bool ops[ROW_OPS];
  cr_expect(run_plan_ops(ops, "gemm,rmsnorm", 1, &error) == 0);
  cr_expect(ops[ROW_OP_GEMM] && ops[ROW_OP_GEMM_WGRAD] && ops[ROW_OP_RMSNORM] && !ops[ROW_OP_GELU]);
  cr_expect(run_plan_ops(ops, "gem", 1, &error) == -1 && error.usage &&
            strstr(error.msg, "no operation 'gem'; valid:"));
  cr_expect(run_plan_ops(ops, "gemm,", 1, &error) == -1);
  cr_expect(run_plan_ops(ops, "attention_forward_backward", 1, &error) == -1);
  cr_expect(run_plan_ops(ops, "all_reduce", 1, &error) == -1 && strstr(error.msg, "mpirun"));
  cr_expect(run_plan_ops(ops, "gemm", 2, &error) == -1 && strstr(error.msg, "without mpirun"));
}

/* ---- Statistics ---- */

Test(calibration, statistics) {
  struct repeats r = {.n = 0};
  for (int i = 0; i < 9; i++)
    repeats_add(&r, 1 + 0.01 * ((i * 5) % 9), 0.1, false); /* 1.00 .. 1.08 in some order */
  const struct repeats_summary s = repeats_summarize(&r);
  cr_expect_float_eq(s.median_s, 1.04, 1e-12);
  cr_expect_float_eq(s.spread_frac, 0.04 / 1.04, 1e-9);
  cr_expect_float_eq(s.confidence_frac, 0.5 * 0.06 / 1.04, 1e-9); /* ranks 1 and 7: 4.5 - 0.98 * 3, down */
  cr_expect(repeats_enough(&r, 0.03, 100) && !repeats_enough(&r, 0.028, 100) && repeats_enough(&r, 0.028, 0.85));

  struct repeats few = {.n = 0};
  repeats_add(&few, 1, 10, false);
  repeats_add(&few, 1, 10, false);
  cr_expect(!repeats_enough(&few, 1, 1), "three at least, however long");
  repeats_add(&few, 1, 10, false);
  cr_expect(repeats_enough(&few, 1, 1));
  cr_expect_float_eq(repeats_summarize(&few).confidence_frac, 0, 1e-15);

  for (int i = 0; i < 3; i++) /* interrupted ones do not count where there are others, but do where there are none */
    repeats_add(&few, 5, 10, true);
  cr_expect(repeats_summarize(&few).used == 3 && repeats_summarize(&few).median_s == 1);
  struct repeats busy = {.n = 0};
  for (int i = 0; i < 6; i++)
    repeats_add(&busy, i < 4 ? 5 : 1, 10, i < 4);
  cr_expect(repeats_summarize(&busy).used == 6 && repeats_summarize(&busy).median_s == 5);

  struct repeats full = {.n = 0};
  while (full.n < REPEATS_MAX)
    repeats_add(&full, full.n % 2 ? 1 : 9, 0, false);
  cr_expect(repeats_enough(&full, 1e-9, 1e9));
}

/* ---- Checks ---- */

static struct measure_options quick(void) {
  return (struct measure_options){.confidence_frac = 1, .shape_limit_s = 1e-3, .cache_bytes = 1 << 12};
}

static void check_all(int (*run)(struct device *, const struct operator_call *, struct err *), bool passes) {
  struct device *device;
  struct measure m;
  struct measure_options options = quick();
  const struct plan_options plan_options = all_ops(1);
  struct run_plan plan;
  bool seen[ROW_OPS] = {false};
  options.run = run;
  cr_assert(device_open(&device, "cpu", 0, &error) == 0 && measure_init(&m, device, &options, &error) == 0);
  run_plan_make(&plan, &plan_options);
  for (size_t i = 0; i < plan.n; i++) {
    double miss;
    if (seen[plan.v[i].op])
      continue;
    seen[plan.v[i].op] = true;
    cr_assert(measure_check(&m, measured_op_find(plan.v[i].op), plan.v[i].shape, &miss, &error) == 0);
    cr_expect((miss <= measure_tolerance(device)) == passes, "%s: %g", row_op_name(plan.v[i].op), miss);
  }
  run_plan_release(&plan);
  measure_release(&m);
  device_close(device);
}

static int run_nothing(struct device *device, const struct operator_call *call, struct err *err) {
  (void)device, (void)call, (void)err;
  return 0;
}

Test(calibration, operators_pass_their_check) { check_all(device_run, true); }
Test(calibration, outputs_never_written_fail) { check_all(run_nothing, false); }

static int move_nothing(struct communicator *c, const struct communicator_call *call, struct err *err) {
  (void)c, (void)call, (void)err;
  return 0;
}

/* Of one process; several: tests/cli/calibrate_run.sh. */
Test(calibration, collectives_are_checked) {
  struct device *device;
  struct communicator *world;
  struct collective_buffers buffers = {.send = NULL};
  cr_assert(device_open(&device, "cpu", 0, &error) == 0 && communicator_open(&world, "self", device, &error) == 0);
  const struct collective_ranks ranks = {world, world};
  for (int op = ROW_OP_ALL_REDUCE; op <= ROW_OP_ALL_TO_ALL_UNEVEN; op++) {
    int wrong = 0;
    cr_expect(collective_check(&ranks, &buffers, (enum row_op)op, communicator_run, &wrong, &error) == 0 && wrong < 0);
    cr_expect(collective_check(&ranks, &buffers, (enum row_op)op, move_nothing, &wrong, &error) == 0 && wrong == 0);
  }
  collective_buffers_release(&buffers, device);
  communicator_close(world);
  device_close(device);
}

/* ---- Files ---- */

static const struct machine machine = {"a, \"b\" device", "1.0", "lib", "7 MHz"};

static void append(struct run_file *f, int64_t m) {
  const int64_t shape[ROW_SHAPE_MAX] = {m, 64, 32};
  const struct run_row row = {ROW_OP_GEMM, "fp32", shape, {7, 1e-3 * (double)m, 0.01, 0.005}, &machine, 0, "1e-07"};
  cr_assert(run_file_append(f, &row, &error) == 0, "%s", error.msg);
}

static bool has(const struct run_file *f, int64_t m, const char *device) {
  const int64_t shape[ROW_SHAPE_MAX] = {m, 64, 32};
  return run_file_has(f, ROW_OP_GEMM, "fp32", shape, device);
}

static void make_folder(char *dir) {
  strcpy(dir, "/tmp/calibration_XXXXXX");
  cr_assert(mkdtemp(dir));
}

static void remove_folder(const char *dir) {
  static const char *const names[] = {"attention", "gemm", "memory", "collective"};
  for (int i = 0; i < 4; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s.csv", dir, names[i]);
    unlink(path);
  }
  rmdir(dir);
}

static long file_size(const char *path) {
  FILE *f = fopen(path, "r");
  cr_assert(f && fseek(f, 0, SEEK_END) == 0);
  const long n = ftell(f);
  fclose(f);
  return n;
}

Test(calibration, files_go_on) {
  char dir[64], path[96];
  struct run_file f, second;
  bool repaired;
  make_folder(dir);
  snprintf(path, sizeof path, "%s/gemm.csv", dir);
  cr_assert(run_file_open(&f, dir, ROW_GEMM, &repaired, &error) == 0 && !repaired, "%s", error.msg);
  append(&f, 1);
  append(&f, 2);
  cr_expect(run_file_open(&second, dir, ROW_GEMM, NULL, &error) == -1 && strstr(error.msg, "another run"));
  run_file_close(&f);
  const long whole = file_size(path);
  cr_assert(run_file_open(&f, dir, ROW_GEMM, &repaired, &error) == 0 && !repaired);
  cr_expect(has(&f, 1, machine.device) && has(&f, 2, machine.device) && !has(&f, 3, machine.device));
  cr_expect(!has(&f, 1, "other") && run_file_made(&f.had));
  struct machine same = machine, others = machine;
  snprintf(same.driver, sizeof same.driver, "another");
  cr_expect(run_file_agrees(&f, &machine, &error) == 0 && run_file_agrees(&f, &same, &error) == 0);
  snprintf(others.library, sizeof others.library, "another");
  cr_expect(run_file_agrees(&f, &others, &error) == -1 && strstr(error.msg, "line 2: measured with "), "%s", error.msg);
  snprintf(others.device, sizeof others.device, "another"); /* may be beside them */
  cr_expect(run_file_agrees(&f, &others, &error) == 0);
  cr_expect_float_eq(run_file_weight(&f.had, 0), 1 / 1.0025, 1e-9); /* confidence_frac 0.005 */
  append(&f, 3);
  run_file_close(&f);
  /* Cut anywhere within the third row, down to its first byte: that row is lost, no other. */
  for (long cut = file_size(path) - 1; cut > whole; cut -= 13) {
    cr_assert(truncate(path, cut) == 0);
    cr_assert(run_file_open(&f, dir, ROW_GEMM, &repaired, &error) == 0, "%s", error.msg);
    cr_expect(repaired && has(&f, 2, machine.device) && !has(&f, 3, machine.device));
    cr_expect(file_size(path) == whole);
    append(&f, 3);
    run_file_close(&f);
  }
  cr_assert(truncate(path, 5) == 0); /* within the header */
  cr_assert(run_file_open(&f, dir, ROW_GEMM, &repaired, &error) == 0 && repaired);
  append(&f, 4);
  run_file_close(&f);
  cr_assert(run_file_open(&f, dir, ROW_GEMM, &repaired, &error) == 0 && has(&f, 4, machine.device));
  run_file_close(&f);
  FILE *other = fopen(path, "w");
  cr_assert(other);
  fputs("op,dtype,m,n,k,time_s\ngemm,bf16,1,1,1,1\n", other);
  fclose(other);
  cr_expect(run_file_open(&f, dir, ROW_GEMM, NULL, &error) == -1 && strstr(error.msg, "line 1: not the columns"));
  cr_expect(run_file_open(&f, "/none/such", ROW_GEMM, NULL, &error) == -1 && strstr(error.msg, "No such file"));
  remove_folder(dir);
}

/* ---- Whole runs ---- */

static char warned[4000];
static void keep_warning(void *to, const char *message) {
  (void)to;
  strncat(warned, message, sizeof warned - strlen(warned) - 1);
}
static const struct warning_sink keep = {keep_warning, NULL};

/* One number of a GEMM is off. */
static int run_wrong_gemm(struct device *device, const struct operator_call *call, struct err *err) {
  int rc = device_run(device, call, err);
  if (call->kind == OPERATOR_GEMM)
    ((float *)call->gemm.c)[call->gemm.m * call->gemm.n - 1] += 1;
  return rc;
}

static int run_without_copy(struct device *device, const struct operator_call *call, struct err *err) {
  if (call->kind == OPERATOR_COPY)
    return err_set(err, "there is no CUDA kernel yet for a strided or adding copy");
  return device_run(device, call, err);
}

static struct calibration run_once(const struct calibration_options *options) {
  struct device *device;
  struct communicator *world;
  struct calibration result;
  cr_assert(device_open(&device, "cpu", 0, &error) == 0 && communicator_open(&world, "self", device, &error) == 0);
  cr_assert(calibration_run(&result, device, world, options, &error) == 0, "%s", error.msg);
  communicator_close(world);
  device_close(device);
  return result;
}

Test(calibration, wrong_operators_are_not_written) {
  char dir[64], path[96];
  struct rows rows;
  make_folder(dir);
  snprintf(path, sizeof path, "%s/gemm.csv", dir);
  struct calibration_options options = {
      .out = dir, .ops = "gemm,rmsnorm", .max_tokens = 64, .measure = quick(), .warm = true, .warnings = &keep};
  options.measure.run = run_wrong_gemm;
  struct calibration result = run_once(&options);
  cr_expect(result.ops[ROW_OP_GEMM].refused == result.ops[ROW_OP_GEMM].planned && result.ops[ROW_OP_GEMM].planned > 0);
  cr_expect(result.ops[ROW_OP_RMSNORM].measured == result.ops[ROW_OP_RMSNORM].planned);
  cr_expect(result.wrong == result.refused && result.wrong > result.ops[ROW_OP_GEMM].refused);
  cr_expect(strstr(warned, "gemm: differs from its reference") && strstr(warned, "gemm_wgrad: differs"), "%s", warned);
  cr_expect(rows_read(&rows, path, &error) == -1 && strstr(error.msg, "a header and no rows"), "%s", error.msg);

  options.measure.run = NULL; /* repaired: only what is missing is measured */
  result = run_once(&options);
  cr_expect(result.refused == 0 && result.had == result.ops[ROW_OP_RMSNORM].planned &&
            result.measured + result.had == result.planned);
  cr_assert(rows_read(&rows, path, &error) == 0, "%s", error.msg);
  cr_expect(run_file_made(&rows));
  cr_expect(rows.table.n_rows == result.ops[ROW_OP_GEMM].measured + result.ops[ROW_OP_GEMM_WGRAD].measured);
  rows_release(&rows);

  warned[0] = '\0'; /* a device without the kernel goes on with the others */
  options.ops = "permute,bias_backward";
  options.measure.run = run_without_copy;
  result = run_once(&options);
  cr_expect(result.ops[ROW_OP_PERMUTE].refused == result.ops[ROW_OP_PERMUTE].planned &&
            result.ops[ROW_OP_BIAS_BACKWARD].measured == result.ops[ROW_OP_BIAS_BACKWARD].planned);
  cr_expect(result.refused > 0 && result.wrong == 0);
  cr_expect_str_eq(warned, "permute: not measured: there is no CUDA kernel yet for a strided or adding copy");
  options.measure.run = NULL;

  static atomic_bool stop;
  atomic_store(&stop, true);
  options.measure.stop = &stop;
  result = run_once(&options);
  cr_expect(result.stopped && result.measured == 0);
  remove_folder(dir);
}

/* ---- Fit ---- */

Test(calibration, smooth_fit_finds_terms) {
  struct smooth_point v[60];
  struct smooth_fit fit;
  for (int i = 0; i < 60; i++) {
    const double a = exp2(i % 10), b = exp2(i / 10);
    v[i] = (struct smooth_point){
        .term = {1, a * b, a}, .place = {log(a), log(b)}, .time_s = 2e-6 + 1e-8 * a * b, .weight = 1};
    v[i].time_s *= i % 15 == 7 ? 4 : 1; /* a burst of other work */
  }
  smooth_fit_make(&fit, v, 60, 3, 2);
  cr_expect(fabs(fit.coefficient[0] / 2e-6 - 1) < 0.05 && fabs(fit.coefficient[1] / 1e-8 - 1) < 0.05, "%g %g",
            fit.coefficient[0], fit.coefficient[1]);
  const struct smooth_point far = {.term = {1, 1e6, 1000}, .place = {log(1000), log(1000)}};
  cr_expect(fabs(exp(smooth_fit_log_s(&fit, &far)) / 1.0002e-2 - 1) < 0.2);
  smooth_fit_release(&fit);
}
