/* Every operator but attention: the CPU version against the double reference, and each reference's backward against
 * differences of its forward along random directions. */
#include <criterion/criterion.h>

#include "kernels/operator.h"
#include "kernels/vector_exp.h"
#include "tests/unit/test_kernels_arrays.h"

/* Samples of unequal numbers of rows (the second is empty), tokens, positions, targets. */
enum { MAX_ROWS = 1000, BATCH = 3, VOCAB = 50, POSITIONS = 700 };
static int32_t cu_rows[BATCH + 1], tokens[MAX_ROWS], positions[MAX_ROWS], targets[MAX_ROWS];

static void fill_integers(int64_t rows, int64_t width) {
  const int32_t bounds[BATCH + 1] = {0, (int32_t)rows / 3, (int32_t)rows / 3, (int32_t)rows};
  memcpy(cu_rows, bounds, sizeof bounds);
  for (int i = 0; i < rows; i++) {
    tokens[i] = i * i % VOCAB;
    positions[i] = i * 7 % POSITIONS;
    targets[i] = i % 5 == 3 ? -1 : (int32_t)(i * 31 % width);
  }
}

/* Arrays of `rows` and `width`: sizes, then the call on them. x, y: of the forward; dy, dx of the backward. */
struct operator_case {
  const char *name;
  int arrays;
  void (*make)(struct operator_call *c, bool backward, int64_t rows, int64_t width, size_t size[], void *p[]);
  int y, dy;                 /* y of forward; 0, 0: no backward */
  int input[4], gradient[4]; /* pairs, as many as inputs; ended by equal entries */
  int positive;              /* an array whose numbers must not be negative, or 0 */
};

/* Sizes and pointers of array i at once: its size noted, its pointer taken. */
#define AT(i, n) (size[i] = (size_t)(n), p[i])

#define CASE(function)                                                                                                 \
  static void function(struct operator_call *c, bool backward, int64_t rows, int64_t width, size_t size[], void *p[])

CASE(make_rmsnorm) {
  c->kind = backward ? OPERATOR_RMSNORM_BACKWARD : OPERATOR_RMSNORM_FORWARD;
  c->rmsnorm = (struct rmsnorm_call){rows,
                                     width,
                                     1e-5f,
                                     AT(0, rows * width),
                                     AT(1, width),
                                     AT(2, rows * width),
                                     AT(3, rows),
                                     AT(4, rows * width),
                                     AT(5, rows * width),
                                     AT(6, width)};
}

CASE(make_rmsnorm_plain) {
  make_rmsnorm(c, backward, rows, width, size, p);
  c->rmsnorm.weight = c->rmsnorm.dweight = NULL;
}

CASE(make_layernorm) {
  c->kind = backward ? OPERATOR_LAYERNORM_BACKWARD : OPERATOR_LAYERNORM_FORWARD;
  c->layernorm = (struct layernorm_call){rows,
                                         width,
                                         1e-5f,
                                         AT(0, rows * width),
                                         AT(1, width),
                                         AT(2, width),
                                         AT(3, rows * width),
                                         AT(4, rows),
                                         AT(5, rows),
                                         AT(6, rows * width),
                                         AT(7, rows * width),
                                         AT(8, width),
                                         AT(9, width)};
}

CASE(make_layernorm_plain) {
  make_layernorm(c, backward, rows, width, size, p);
  c->layernorm.weight = c->layernorm.bias = c->layernorm.dweight = c->layernorm.dbias = NULL;
}

CASE(make_rope) {
  c->kind = OPERATOR_ROPE;
  c->rope = (struct rope_call){rows, 3, width, 10000, backward, POSITIONS, positions, AT(0, rows * 3 * width)};
}

CASE(make_swiglu) {
  c->kind = backward ? OPERATOR_SWIGLU_BACKWARD : OPERATOR_SWIGLU_FORWARD;
  c->swiglu = (struct swiglu_call){
      rows, width, AT(0, 2 * rows * width), AT(1, rows * width), AT(2, rows * width), AT(3, 2 * rows * width)};
}

CASE(make_gelu) {
  c->kind = backward ? OPERATOR_GELU_BACKWARD : OPERATOR_GELU_FORWARD;
  c->gelu = (struct gelu_call){rows * width, AT(0, rows * width), AT(1, rows * width), AT(2, rows * width),
                               AT(3, rows * width)};
}

CASE(make_silu) {
  c->kind = backward ? OPERATOR_SILU_BACKWARD : OPERATOR_SILU_FORWARD;
  c->silu = (struct silu_call){rows * width, AT(0, rows * width), AT(1, rows * width), AT(2, rows * width),
                               AT(3, rows * width)};
}

CASE(make_residual) {
  (void)backward;
  c->kind = OPERATOR_RESIDUAL;
  c->residual = (struct residual_call){rows * width, AT(0, rows * width), AT(1, rows * width), AT(2, rows * width)};
}

CASE(make_bias) {
  c->kind = backward ? OPERATOR_BIAS_BACKWARD : OPERATOR_BIAS_FORWARD;
  c->bias = (struct bias_call){
      rows, width, AT(0, rows * width), AT(1, width), AT(2, rows * width), AT(3, rows * width), AT(4, width)};
}

CASE(make_modulate) {
  c->kind = backward ? OPERATOR_MODULATE_BACKWARD : OPERATOR_MODULATE_FORWARD;
  const int64_t n = rows * width, table = BATCH * 6 * width;
  c->modulate =
      (struct modulate_call){BATCH,        rows,     width,    6 * width, cu_rows,      AT(0, n),    AT(1, table),
                             AT(2, table), AT(3, n), AT(4, n), AT(5, n),  AT(6, table), AT(7, table)};
}

CASE(make_gate) {
  c->kind = backward ? OPERATOR_GATE_BACKWARD : OPERATOR_GATE_FORWARD;
  const int64_t n = rows * width, table = BATCH * 6 * width;
  c->gate = (struct gate_call){BATCH,        rows,     width,    6 * width, cu_rows,  AT(0, n),
                               AT(1, table), AT(2, n), AT(3, n), AT(4, n),  AT(5, n), AT(6, table)};
}

CASE(make_cross_entropy) {
  c->kind = backward ? OPERATOR_CROSS_ENTROPY_BACKWARD : OPERATOR_CROSS_ENTROPY_FORWARD;
  c->cross_entropy = (struct cross_entropy_call){rows,        width, AT(0, rows * width), targets, AT(1, rows),
                                                 AT(2, rows), 0.25f, AT(3, rows * width)};
}

CASE(make_squared_error) {
  (void)backward;
  c->kind = OPERATOR_SQUARED_ERROR;
  c->squared_error = (struct squared_error_call){rows,  width,       AT(0, rows * width), AT(1, rows * width),
                                                 0.25f, AT(2, rows), AT(3, rows * width)};
}

CASE(make_embedding) {
  c->kind = backward ? OPERATOR_EMBEDDING_BACKWARD : OPERATOR_EMBEDDING_FORWARD;
  c->embedding = (struct embedding_call){rows,
                                         width,
                                         tokens,
                                         positions,
                                         AT(0, VOCAB * width),
                                         AT(1, POSITIONS * width),
                                         AT(2, rows * width),
                                         AT(3, rows * width),
                                         AT(4, VOCAB * width),
                                         AT(5, POSITIONS * width)};
}

CASE(make_embedding_plain) {
  make_embedding(c, backward, rows, width, size, p);
  c->embedding.positions = NULL;
  c->embedding.position_table = c->embedding.dposition_table = NULL;
}

CASE(make_adamw) {
  (void)backward;
  const int64_t n = rows * width;
  c->kind = OPERATOR_ADAMW;
  c->adamw = (struct adamw_call){n, 1e-2f,    0.9f,     0.95f,    1e-8f,    0.1f,    0.5f,
                                 3, AT(0, n), AT(1, n), AT(2, n), AT(3, n), AT(4, n)};
}

CASE(make_sgd) {
  (void)backward;
  const int64_t n = rows * width;
  c->kind = OPERATOR_SGD;
  c->sgd = (struct sgd_call){n, 1e-2f, 0.9f, 0.1f, 0.5f, AT(0, n), AT(1, n), AT(2, n), AT(3, n)};
}

CASE(make_copy) { /* transposes the two outer extents */
  c->kind = OPERATOR_COPY;
  c->copy = (struct copy_call){
      {rows, 3, 1},           width, {3 * width, width, 0}, {width, rows * width, 0}, backward, AT(0, 3 * rows * width),
      AT(1, 3 * rows * width)};
}

CASE(make_cast) {
  c->kind = OPERATOR_CAST;
  c->cast = (struct cast_call){rows * width, backward, 0.3f, AT(0, rows * width), AT(1, rows * width)};
}

CASE(make_sum_squares) {
  (void)backward;
  c->kind = OPERATOR_SUM_SQUARES;
  c->sum_squares = (struct sum_squares_call){rows * width, AT(0, rows * width), AT(1, 1)};
}

CASE(make_clear) {
  (void)backward;
  c->kind = OPERATOR_CLEAR;
  c->clear = (struct clear_call){rows * width, AT(0, rows * width)};
}

CASE(make_gemm) { /* forward of a linear layer, or its data gradient */
  c->kind = OPERATOR_GEMM;
  c->gemm = backward ? (struct gemm_call){rows,
                                          width,
                                          33,
                                          false,
                                          false,
                                          false,
                                          false,
                                          AT(3, rows * 33),
                                          AT(1, 33 * width),
                                          NULL,
                                          AT(4, rows * width)}
                     : (struct gemm_call){rows,
                                          33,
                                          width,
                                          false,
                                          true,
                                          false,
                                          false,
                                          AT(0, rows * width),
                                          AT(1, 33 * width),
                                          AT(2, 33),
                                          AT(5, rows * 33)};
  size[0] = size[4] = (size_t)(rows * width);
  size[2] = 33;
  size[3] = size[5] = (size_t)(rows * 33);
}

CASE(make_gemm_wgrad) { /* the same forward, and its weight gradient, added up */
  make_gemm(c, backward, rows, width, size, p);
  size[4] = size[1];
  if (backward)
    c->gemm = (struct gemm_call){33, width, rows, true, false, true, true, p[3], p[0], NULL, p[4]};
}

CASE(make_gemm_both_transposed) {
  (void)backward;
  c->kind = OPERATOR_GEMM;
  c->gemm = (struct gemm_call){
      rows, 33, width, true, true, true, false, AT(0, rows * width), AT(1, 33 * width), AT(2, 33), AT(3, rows * 33)};
}

static const struct operator_case cases[] = {
    {"rmsnorm", 7, make_rmsnorm, 2, 4, {0, 1}, {5, 6}, 0},
    {"rmsnorm without weight", 7, make_rmsnorm_plain, 2, 4, {0}, {5}, 0},
    {"layernorm", 10, make_layernorm, 3, 6, {0, 1, 2}, {7, 8, 9}, 0},
    {"layernorm without weight", 10, make_layernorm_plain, 3, 6, {0}, {7}, 0},
    {"rope", 1, make_rope, 0, 0, {0}, {0}, 0},
    {"swiglu", 4, make_swiglu, 1, 2, {0}, {3}, 0},
    {"gelu", 4, make_gelu, 1, 2, {0}, {3}, 0},
    {"silu", 4, make_silu, 1, 2, {0}, {3}, 0},
    {"residual", 3, make_residual, 0, 0, {0}, {0}, 0},
    {"bias", 5, make_bias, 2, 3, {1}, {4}, 0},
    {"modulate", 8, make_modulate, 3, 4, {0, 1, 2}, {5, 6, 7}, 0},
    {"gate", 7, make_gate, 3, 4, {0, 1}, {5, 6}, 0},
    {"cross_entropy", 4, make_cross_entropy, 0, 0, {0}, {0}, 0},
    {"squared_error", 4, make_squared_error, 0, 0, {0}, {0}, 0},
    {"embedding", 6, make_embedding, 2, 3, {0, 1}, {4, 5}, 0},
    {"embedding without positions", 6, make_embedding_plain, 2, 3, {0}, {4}, 0},
    {"adamw", 5, make_adamw, 0, 0, {0}, {0}, 3},
    {"sgd", 4, make_sgd, 0, 0, {0}, {0}, 0},
    {"copy", 2, make_copy, 0, 0, {0}, {0}, 0},
    {"cast", 2, make_cast, 0, 0, {0}, {0}, 0},
    {"sum_squares", 2, make_sum_squares, 0, 0, {0}, {0}, 0},
    {"clear", 1, make_clear, 0, 0, {0}, {0}, 0},
    {"gemm, data gradient", 6, make_gemm, 5, 3, {0}, {4}, 0},
    {"gemm, weight gradient", 6, make_gemm_wgrad, 5, 3, {1}, {4}, 0},
    {"gemm, both transposed", 4, make_gemm_both_transposed, 0, 0, {0}, {0}, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static void arrays_of(struct arrays *a, const struct operator_case *k, int64_t rows, int64_t width, uint64_t seed) {
  struct operator_call c;
  void *none[MAX_ARRAYS] = {0};
  size_t size[MAX_ARRAYS] = {0};
  fill_integers(rows, width);
  k->make(&c, false, rows, width, size, none);
  k->make(&c, true, rows, width, size, none);
  arrays_init(a, k->arrays, size, seed);
  for (size_t i = 0; k->positive && i < a->size[k->positive]; i++) {
    a->d[k->positive][i] = fabs(a->d[k->positive][i]);
    a->f[k->positive][i] = fabsf(a->f[k->positive][i]);
  }
}

static void run(const struct operator_case *k, const struct arrays *a, bool backward, bool reference, int64_t rows,
                int64_t width) {
  struct operator_call c;
  void *p[MAX_ARRAYS];
  size_t size[MAX_ARRAYS];
  arrays_pointers(a, reference, p);
  k->make(&c, backward, rows, width, size, p);
  if (reference)
    operator_run_reference(&c);
  else
    operator_run_cpu(&c);
}

/* All arrays are compared: what an operator should not have touched must be the same, too. */
static void compare(const struct operator_case *k, int64_t rows, int64_t width) {
  struct arrays a;
  arrays_of(&a, k, rows, width, 1);
  for (int backward = 0; backward < 2; backward++) {
    run(k, &a, backward, true, rows, width);
    run(k, &a, backward, false, rows, width);
    for (int i = 0; i < a.n; i++) {
      const double error = array_error(a.d[i], a.f[i], a.size[i]);
      cr_expect(error < 1e-5, "%s %s, rows %d, width %d, array %d: %g", k->name, backward ? "backward" : "forward",
                (int)rows, (int)width, i, error);
    }
  }
  arrays_release(&a);
}

Test(kernels_operator, cpu_is_the_reference) {
  static const int64_t rows[] = {0, 1, 15, 16, 17, 127, 128, 129, 1000}, widths[] = {8, 64, 72, 80, 128};
  for (int k = 0; k < CASES; k++)
    for (int i = 0; i < 9; i++)
      for (int j = 0; j < 5; j++)
        compare(&cases[k], rows[i], widths[j]);
}

/* <dy, y> of the forward, moved along the direction `seed` of input i. */
static double moved(const struct operator_case *k, struct arrays *a, int i, double factor, int64_t rows,
                    int64_t width) {
  const size_t n = a->size[i];
  double *kept = xmalloc((n + 1) * sizeof *kept);
  memcpy(kept, a->d[i], n * sizeof *kept);
  array_move(a->d[i], NULL, n, factor, 5);
  run(k, a, false, true, rows, width);
  memcpy(a->d[i], kept, n * sizeof *kept);
  free(kept);
  return array_dot(a->d[k->dy], a->d[k->y], a->size[k->y]);
}

Test(kernels_operator, backward_is_the_derivative) {
  const int64_t rows = 17, width = 24;
  const double step = 1e-5;
  for (int c = 0; c < CASES; c++) {
    const struct operator_case *k = &cases[c];
    struct arrays a;
    if (k->y == 0)
      continue;
    arrays_of(&a, k, rows, width, 2);
    for (int i = 0; i < 4 && k->input[i] != k->gradient[i]; i++)
      memset(a.d[k->gradient[i]], 0, a.size[k->gradient[i]] * sizeof(double));
    run(k, &a, false, true, rows, width);
    run(k, &a, true, true, rows, width);
    for (int i = 0; i < 4 && k->input[i] != k->gradient[i]; i++) {
      const int x = k->input[i];
      const double numeric = (moved(k, &a, x, step, rows, width) - moved(k, &a, x, -step, rows, width)) / (2 * step);
      const double along = array_move(a.d[x], a.d[k->gradient[i]], a.size[x], 0, 5);
      cr_expect(fabs(numeric - along) < 1e-6 * fmax(1, fabs(along)), "%s, input %d: %.12g by differences, %.12g",
                k->name, x, numeric, along);
    }
    arrays_release(&a);
  }
}

/* Losses that are their own outputs: sum of losses against the gradient. */
static double loss_sum(const struct operator_case *k, const struct arrays *a, int loss, int64_t rows, int64_t width) {
  double sum = 0;
  run(k, a, false, true, rows, width);
  for (size_t i = 0; i < a->size[loss]; i++)
    sum += a->d[loss][i];
  return sum;
}

static void check_loss(int64_t rows, int64_t width, const char *name, int loss) {
  const struct operator_case *k = cases;
  const double step = 1e-5, scale = 0.25;
  struct arrays a;
  while (strcmp(k->name, name) != 0)
    k++;
  arrays_of(&a, k, rows, width, 3);
  run(k, &a, false, true, rows, width);
  run(k, &a, true, true, rows, width);
  double *dx = xmalloc(a.size[3] * sizeof *dx);
  memcpy(dx, a.d[3], a.size[3] * sizeof *dx);
  const double along = array_move(a.d[0], dx, a.size[0], step, 7), up = loss_sum(k, &a, loss, rows, width);
  array_move(a.d[0], NULL, a.size[0], -2 * step, 7);
  const double numeric = scale * (up - loss_sum(k, &a, loss, rows, width)) / (2 * step);
  cr_expect(fabs(numeric - along) < 1e-6 * fmax(1, fabs(along)), "%s: %.12g by differences, %.12g", name, numeric,
            along);
  free(dx);
  arrays_release(&a);
}

Test(kernels_operator, losses) {
  check_loss(17, 24, "cross_entropy", 1);
  check_loss(17, 24, "squared_error", 2);
}

Test(kernels_operator, rope_by_hand) {
  /* One head of width 4 at position 2: planes (0, 2) by 2 rad and (1, 3) by 2 / 100 rad. The inverse undoes it. */
  double x[4] = {1, 2, 3, 4};
  const int32_t position = 2;
  rope_reference(&(struct rope_call){1, 1, 4, 10000, false, 2, &position, x});
  cr_expect_float_eq(x[0], cos(2) - 3 * sin(2), 1e-15);
  cr_expect_float_eq(x[2], sin(2) + 3 * cos(2), 1e-15);
  cr_expect_float_eq(x[1], 2 * cos(0.02) - 4 * sin(0.02), 1e-15);
  cr_expect_float_eq(x[3], 2 * sin(0.02) + 4 * cos(0.02), 1e-15);
  rope_reference(&(struct rope_call){1, 1, 4, 10000, true, 2, &position, x});
  for (int i = 0; i < 4; i++)
    cr_expect_float_eq(x[i], i + 1, 1e-15);
}

Test(kernels_operator, adamw_by_hand) {
  /* First step from zero moments: m / (1 - beta1) = g, sqrt(v / (1 - beta2)) = |g|, so the step is lr. */
  double grad = -3, master = 1, m = 0, v = 0, weight = 0;
  adamw_reference(&(struct adamw_call){1, 0.5f, 0.75f, 0.5f, 0, 0.25f, 2, 1, &grad, &master, &m, &v, &weight});
  cr_expect_float_eq(m, -1.5, 1e-15);
  cr_expect_float_eq(v, 18, 1e-15);
  cr_expect_float_eq(master, 1 - 0.5 * (-1 + 0.25 * 1), 1e-15);
  cr_expect_eq(weight, master);
}

Test(kernels_operator, names_and_shapes) {
  char buf[256];
  struct operator_call c = {.kind = OPERATOR_GEMM, .gemm = {.m = 2048, .n = 4096, .k = 128}};
  cr_expect_str_eq(operator_describe(&c, buf, sizeof buf), "gemm m 2048, n 4096, k 128");
  c = (struct operator_call){.kind = OPERATOR_CROSS_ENTROPY_BACKWARD, .cross_entropy = {.rows = 3, .vocab = 5}};
  cr_expect_str_eq(operator_describe(&c, buf, sizeof buf), "cross_entropy_backward rows 3, vocab 5");
  for (int i = 0; i < OPERATOR_KINDS; i++) {
    struct operator_call any = {.kind = (enum operator_kind)i};
    cr_expect(strlen(operator_describe(&any, buf, sizeof buf)) > strlen(operator_name(any.kind)));
  }
}

Test(kernels_operator, vector_exp_is_exp) {
  double worst = 0;
  for (float x = -80; x <= 80; x += 0.0007f)
    worst = fmax(worst, fabs(vector_exp(x) / exp((double)x) - 1));
  cr_expect(worst < 2e-7, "%g", worst);
  cr_expect_eq(vector_exp(0), 1);
  cr_expect(vector_exp(-INFINITY) < 2e-35f && vector_exp(200) > 5e34f);
}
