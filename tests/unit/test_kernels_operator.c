/* Every operator but attention: the CPU version against the double reference, and each reference's backward against
 * differences of its forward along random directions. */
#include <criterion/criterion.h>

#include "kernels/vector_exp.h"
#include "tests/unit/test_kernels_cases.h"

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
