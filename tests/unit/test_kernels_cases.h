/* Every operator but attention forward and backward, each as a row: its arrays for given rows and width, and the call
 * on them. */
#ifndef TESTS_UNIT_TEST_KERNELS_CASES_H
#define TESTS_UNIT_TEST_KERNELS_CASES_H
#include "kernels/operator.h"
#include "tests/unit/test_kernels_arrays.h"

/* Samples of unequal numbers of rows (the second is empty), tokens, positions, targets. Calls take the pointers, which
 * a test may turn to a device's copies. */
enum { MAX_ROWS = 1000, BATCH = 3, VOCAB = 50, POSITIONS = 700 };
static int32_t host_cu_rows[BATCH + 1], host_tokens[MAX_ROWS], host_positions[MAX_ROWS], host_targets[MAX_ROWS];
static const int32_t *cu_rows = host_cu_rows, *tokens = host_tokens, *positions = host_positions,
                     *targets = host_targets;

static void fill_integers(int64_t rows, int64_t width) {
  const int32_t bounds[BATCH + 1] = {0, (int32_t)rows / 3, (int32_t)rows / 3, (int32_t)rows};
  memcpy(host_cu_rows, bounds, sizeof bounds);
  for (int i = 0; i < rows; i++) {
    host_tokens[i] = i * i % VOCAB;
    host_positions[i] = i * 7 % POSITIONS;
    host_targets[i] = i % 5 == 3 ? -1 : (int32_t)(i * 31 % width);
  }
}

/* Arrays of `rows` and `width`: sizes, then the call on them. x, y: of the forward; dy, dx of the backward. */
struct operator_case {
  const char *name;
  const char *formats; /* one letter an array: e elements, f fp32 */
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

CASE(make_copy_odd) { /* rows that leave out their last element */
  make_copy(c, backward, rows, width, size, p);
  c->copy.width = width - 1;
}

CASE(make_copy_whole) { /* one run of elements */
  make_copy(c, backward, rows, width, size, p);
  c->copy.dst_stride[0] = 3 * width;
  c->copy.dst_stride[1] = width;
}

CASE(make_cast) {
  (void)backward;
  c->kind = OPERATOR_CAST;
  c->cast = (struct cast_call){rows * width, false, 0.3f, AT(0, rows * width), AT(1, rows * width)};
}

CASE(make_cast_to_fp32) {
  make_cast(c, backward, rows, width, size, p);
  c->cast.to_fp32 = true;
}

CASE(make_attention_merge) {
  (void)backward;
  c->kind = OPERATOR_ATTENTION_MERGE;
  c->attention_merge = (struct attention_merge_call){
      rows, 3, width, AT(0, rows * 3 * width), AT(1, 3 * rows), AT(2, rows * 3 * width), AT(3, 3 * rows)};
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
    {"rmsnorm", "eeefeef", make_rmsnorm, 2, 4, {0, 1}, {5, 6}, 0},
    {"rmsnorm without weight", "eeefeef", make_rmsnorm_plain, 2, 4, {0}, {5}, 0},
    {"layernorm", "eeeeffeeff", make_layernorm, 3, 6, {0, 1, 2}, {7, 8, 9}, 0},
    {"layernorm without weight", "eeeeffeeff", make_layernorm_plain, 3, 6, {0}, {7}, 0},
    {"rope", "e", make_rope, 0, 0, {0}, {0}, 0},
    {"swiglu", "eeee", make_swiglu, 1, 2, {0}, {3}, 0},
    {"gelu", "eeee", make_gelu, 1, 2, {0}, {3}, 0},
    {"silu", "eeee", make_silu, 1, 2, {0}, {3}, 0},
    {"residual", "eee", make_residual, 0, 0, {0}, {0}, 0},
    {"bias", "eeeef", make_bias, 2, 3, {1}, {4}, 0},
    {"modulate", "eeeeeeff", make_modulate, 3, 4, {0, 1, 2}, {5, 6, 7}, 0},
    {"gate", "eeeeeef", make_gate, 3, 4, {0, 1}, {5, 6}, 0},
    {"cross_entropy", "effe", make_cross_entropy, 0, 0, {0}, {0}, 0},
    {"squared_error", "eefe", make_squared_error, 0, 0, {0}, {0}, 0},
    {"embedding", "eeeeff", make_embedding, 2, 3, {0, 1}, {4, 5}, 0},
    {"embedding without positions", "eeeeff", make_embedding_plain, 2, 3, {0}, {4}, 0},
    {"adamw", "ffffe", make_adamw, 0, 0, {0}, {0}, 3},
    {"sgd", "fffe", make_sgd, 0, 0, {0}, {0}, 0},
    {"copy", "ee", make_copy, 0, 0, {0}, {0}, 0},
    {"copy, odd width", "ee", make_copy_odd, 0, 0, {0}, {0}, 0},
    {"copy, whole", "ee", make_copy_whole, 0, 0, {0}, {0}, 0},
    {"cast", "fe", make_cast, 0, 0, {0}, {0}, 0},
    {"cast to fp32", "ef", make_cast_to_fp32, 0, 0, {0}, {0}, 0},
    {"attention_merge", "efef", make_attention_merge, 0, 0, {0}, {0}, 0},
    {"sum_squares", "ff", make_sum_squares, 0, 0, {0}, {0}, 0},
    {"clear", "f", make_clear, 0, 0, {0}, {0}, 0},
    {"gemm, data gradient", "eeeeee", make_gemm, 5, 3, {0}, {4}, 0},
    {"gemm, weight gradient", "eeeefe", make_gemm_wgrad, 5, 3, {1}, {4}, 0},
    {"gemm, both transposed", "eeee", make_gemm_both_transposed, 0, 0, {0}, {0}, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static void arrays_of(struct arrays *a, const struct operator_case *k, int64_t rows, int64_t width, uint64_t seed) {
  struct operator_call c;
  void *none[MAX_ARRAYS] = {0};
  size_t size[MAX_ARRAYS] = {0};
  fill_integers(rows, width);
  k->make(&c, false, rows, width, size, none);
  k->make(&c, true, rows, width, size, none);
  arrays_init(a, (int)strlen(k->formats), size, seed);
  for (size_t i = 0; k->positive && i < a->size[k->positive]; i++) {
    a->d[k->positive][i] = fabs(a->d[k->positive][i]);
    a->f[k->positive][i] = fabsf(a->f[k->positive][i]);
  }
}

#endif
