/* Attention: CPU version against the double reference, reference against a hand example and differences. */
#include <criterion/criterion.h>

#include "tests/unit/test_kernels_attention.h"

static struct attention_call call_of(const struct arrays *a, const struct batch *b, struct heads h, bool causal,
                                     bool reference) {
  void *p[MAX_ARRAYS];
  arrays_pointers(a, reference, p);
  return attention_call_of(p, b, h, causal);
}

static void compare(const struct batch *b, struct heads h, bool causal) {
  static const char *const names[ATTENTION_ARRAYS] = {"q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv", "delta"};
  struct arrays a;
  attention_arrays(&a, b, h, 1);
  const struct attention_call reference = call_of(&a, b, h, causal, true), cpu = call_of(&a, b, h, causal, false);
  attention_forward_reference(&reference);
  attention_backward_reference(&reference);
  attention_forward_cpu(&cpu);
  attention_backward_cpu(&cpu);
  for (int i = Q; i < DELTA; i++) {
    const double error = array_error(a.d[i], a.f[i], a.size[i]);
    cr_expect(error < 2e-6, "%s: %g (%d heads on %d of %d, %s, %d queries)", names[i], error, h.heads, h.kv_heads,
              h.head_dim, causal ? "causal" : "full", b->q[b->n]);
  }
  arrays_release(&a);
}

static const int32_t ragged[] = {1, 15, 0, 16, 17, 127, 128, 0, 129};
static const struct heads all_heads[] = {{2, 2, 64}, {2, 1, 72}, {4, 2, 80}, {3, 1, 128}, {2, 2, 16}};

Test(kernels_attention, ragged_sequences) {
  const struct batch b = batch_of(9, ragged, NULL);
  for (int i = 0; i < 5; i++)
    for (int causal = 0; causal < 2; causal++)
      compare(&b, all_heads[i], causal);
}

Test(kernels_attention, long_sequence) {
  const struct batch b = batch_of(2, (int32_t[]){1000, 3}, NULL);
  compare(&b, (struct heads){2, 1, 64}, false);
  compare(&b, (struct heads){2, 1, 64}, true);
}

Test(kernels_attention, cross_attention) {
  /* Empty sides included: queries without keys get 0, keys without queries gradients of 0. Causal: the last query sees
   * every key, and where there are fewer keys than queries the first queries see none. */
  const struct batch b = batch_of(6, (int32_t[]){300, 0, 7, 65, 1, 128}, (int32_t[]){16, 5, 0, 300, 1, 127});
  for (int i = 0; i < 5; i++)
    for (int causal = 0; causal < 2; causal++)
      compare(&b, all_heads[i], causal);
  struct arrays a;
  attention_arrays(&a, &b, all_heads[0], 1);
  const struct attention_call c = call_of(&a, &b, all_heads[0], false, false);
  attention_forward_cpu(&c);
  attention_backward_cpu(&c);
  for (int i = 300 * 128; i < 307 * 128; i++)
    cr_assert(a.f[OUT][i] == 0 && a.f[DQ][i] == 0);
  cr_expect_eq(a.f[LSE][300], -INFINITY);
  for (int i = 16 * 128; i < 21 * 128; i++)
    cr_assert(a.f[DK][i] == 0 && a.f[DV][i] == 0);
  arrays_release(&a);
}

Test(kernels_attention, nothing) {
  const struct batch none = batch_of(0, NULL, NULL), empty = batch_of(2, (int32_t[]){0, 0}, NULL);
  compare(&none, all_heads[0], true);
  compare(&empty, all_heads[0], true);
}

Test(kernels_attention, large_scores_do_not_overflow) {
  const struct batch b = batch_of(1, (int32_t[]){300}, NULL);
  struct arrays a;
  attention_arrays(&a, &b, all_heads[0], 4);
  for (size_t i = 0; i < a.size[Q]; i++)
    a.d[Q][i] = a.f[Q][i] *= 1000;
  const struct attention_call reference = call_of(&a, &b, all_heads[0], true, true);
  const struct attention_call cpu = call_of(&a, &b, all_heads[0], true, false);
  attention_forward_reference(&reference);
  attention_forward_cpu(&cpu);
  cr_expect(array_error(a.d[OUT], a.f[OUT], a.size[OUT]) < 1e-3);
  cr_expect(array_error(a.d[LSE], a.f[LSE], a.size[LSE]) < 1e-6);
  arrays_release(&a);
}

Test(kernels_attention, by_hand) {
  /* One query on two keys with scores 0 and log 3: weights 1/4 and 3/4. */
  const struct batch b = batch_of(1, (int32_t[]){1}, (int32_t[]){2});
  double q[1] = {1}, k[2] = {0, log(3)}, v[2] = {8, 4}, out[1], lse[1];
  attention_forward_reference(&(struct attention_call){.batch = 1,
                                                       .heads = 1,
                                                       .kv_heads = 1,
                                                       .head_dim = 1,
                                                       .q_rows = 1,
                                                       .kv_rows = 2,
                                                       .scale = 1,
                                                       .cu_seqlens_q = b.q,
                                                       .cu_seqlens_k = b.k,
                                                       .q = q,
                                                       .k = k,
                                                       .v = v,
                                                       .out = out,
                                                       .lse = lse});
  cr_expect_float_eq(out[0], 0.25 * 8 + 0.75 * 4, 1e-14);
  cr_expect_float_eq(lse[0], log(4), 1e-14);
}

/* <dout, out> with one input moved. */
static double moved(struct arrays *a, const struct attention_call *c, int input, double factor) {
  array_move(a->d[input], NULL, a->size[input], factor, 9);
  attention_forward_reference(c);
  array_move(a->d[input], NULL, a->size[input], -factor, 9);
  return array_dot(a->d[DOUT], a->d[OUT], a->size[OUT]);
}

Test(kernels_attention, backward_is_the_derivative) {
  const struct batch b = batch_of(4, (int32_t[]){9, 3, 0, 5}, (int32_t[]){9, 7, 2, 3});
  const struct heads h = {4, 2, 8};
  const double step = 1e-5;
  for (int causal = 0; causal < 2; causal++) {
    struct arrays a;
    attention_arrays(&a, &b, h, 6);
    const struct attention_call c = call_of(&a, &b, h, causal, true);
    attention_forward_reference(&c);
    attention_backward_reference(&c);
    for (int i = 0; i < 3; i++) {
      const double numeric = (moved(&a, &c, Q + i, step) - moved(&a, &c, Q + i, -step)) / (2 * step);
      const double along = array_move(a.d[Q + i], a.d[DQ + i], a.size[Q + i], 0, 9);
      cr_expect(fabs(numeric - along) < 1e-7 * fmax(1, fabs(along)), "input %d: %.12g by differences, %.12g", i,
                numeric, along);
    }
    arrays_release(&a);
  }
}

Test(kernels_attention, merge_of_blocks_is_the_whole) {
  /* Keys 0..11 and 12..29 apart, then merged; and a block of no keys changes nothing. */
  const struct heads h = {2, 2, 8};
  const struct batch whole = batch_of(1, (int32_t[]){5}, (int32_t[]){30});
  const struct batch first = batch_of(1, (int32_t[]){5}, (int32_t[]){12});
  const struct batch second = batch_of(1, (int32_t[]){5}, (int32_t[]){18});
  const struct batch none = batch_of(1, (int32_t[]){5}, (int32_t[]){0});
  for (int reference = 0; reference < 2; reference++) {
    struct arrays a, b, empty;
    attention_arrays(&a, &whole, h, 8);
    attention_arrays(&b, &whole, h, 8);
    attention_arrays(&empty, &none, h, 8);
    struct operator_call all = {.kind = OPERATOR_ATTENTION_FORWARD}, part = all, rest = all, nothing = all;
    all.attention = call_of(&a, &whole, h, false, true);
    part.attention = call_of(&a, &first, h, false, reference);
    rest.attention = call_of(&b, &second, h, false, reference);
    nothing.attention = call_of(&empty, &none, h, false, reference);
    const size_t skip = (size_t)(12 * h.heads * h.head_dim) * (reference ? sizeof(double) : sizeof(float));
    rest.attention.k = (const char *)rest.attention.k + skip;
    rest.attention.v = (const char *)rest.attention.v + skip;
    operator_run_reference(&all);
    double out[80], lse[10];
    memcpy(out, a.d[OUT], sizeof out);
    memcpy(lse, a.d[LSE], sizeof lse);
    void (*play)(const struct operator_call *) = reference ? operator_run_reference : operator_run_cpu;
    play(&part);
    play(&rest);
    play(&nothing);
    struct operator_call merge = {.kind = OPERATOR_ATTENTION_MERGE,
                                  .attention_merge = {5, 2, 8, nothing.attention.out, nothing.attention.lse,
                                                      part.attention.out, part.attention.lse}};
    play(&merge);
    merge.attention_merge.out_b = rest.attention.out;
    merge.attention_merge.lse_b = rest.attention.lse;
    play(&merge);
    for (int i = 0; i < 80; i++)
      cr_expect_float_eq(reference ? empty.d[OUT][i] : empty.f[OUT][i], out[i], reference ? 1e-14 : 1e-6);
    for (int i = 0; i < 10; i++)
      cr_expect_float_eq(reference ? empty.d[LSE][i] : empty.f[LSE][i], lse[i], reference ? 1e-14 : 1e-6);
    arrays_release(&a);
    arrays_release(&b);
    arrays_release(&empty);
  }
}

/* Zero queries weigh all keys that they see alike, so outputs are means of values that show which those are. */
static void means(int n_q, int n_k, int heads, int kv_heads, bool causal, const double *v, double *out) {
  const struct batch b = batch_of(1, (int32_t[]){n_q}, (int32_t[]){n_k});
  double q[16] = {0}, k[16] = {0}, lse[16];
  attention_forward_reference(&(struct attention_call){.batch = 1,
                                                       .heads = heads,
                                                       .kv_heads = kv_heads,
                                                       .head_dim = 1,
                                                       .q_rows = n_q,
                                                       .kv_rows = n_k,
                                                       .causal = causal,
                                                       .scale = 1,
                                                       .cu_seqlens_q = b.q,
                                                       .cu_seqlens_k = b.k,
                                                       .q = q,
                                                       .k = k,
                                                       .v = v,
                                                       .out = out,
                                                       .lse = lse});
}

Test(kernels_attention, causal_and_grouped_heads_by_hand) {
  double out[8];
  means(2, 3, 1, 1, true, (double[]){6, 10, 14}, out); /* the last query sees every key */
  cr_expect(out[0] == 8 && out[1] == 10);
  means(3, 2, 1, 1, true, (double[]){6, 10}, out);
  cr_expect(out[0] == 0 && out[1] == 6 && out[2] == 8);
  means(1, 1, 4, 2, false, (double[]){6, 10}, out); /* heads 0 and 1 on key head 0 */
  cr_expect(out[0] == 6 && out[1] == 6 && out[2] == 10 && out[3] == 10);
}
