// test_attention.cc: the attention kernels against a double reference.
#include "tests/cuda/kernel_test.h"
#include "tests/cuda_shim/kernels.h"

struct reference {
  std::vector<double> out, lse, dq, dk, dv;
};

struct inputs {
  std::vector<double> q, k, v, dout;
};

// One query of one head: row numbers within the tensors.
static void reference_query(const struct attention_args &a, const inputs &in, struct reference *r, int head, int query,
                            int first_k, int keys) {
  const int d = a.head_dim, kv_head = head / (a.heads_q / a.heads_kv);
  const size_t row = ((size_t)query * a.heads_q + head) * d;
  auto key_row = [&](int j) { return ((size_t)(first_k + j) * a.heads_kv + kv_head) * d; };
  std::vector<double> p(keys), dp(keys);
  double largest = -INFINITY, sum = 0, delta = 0;
  for (int j = 0; j < keys; j++) {
    double s = 0;
    for (int c = 0; c < d; c++)
      s += in.q[row + c] * in.k[key_row(j) + c];
    p[j] = s * a.scale;
    largest = fmax(largest, p[j]);
  }
  for (int j = 0; j < keys; j++)
    sum += p[j] = exp(p[j] - largest);
  r->lse[(size_t)head * a.tokens_q + query] = keys ? largest + log(sum) : -INFINITY;
  for (int j = 0; j < keys; j++) {
    p[j] /= sum;
    for (int c = 0; c < d; c++) {
      r->out[row + c] += p[j] * in.v[key_row(j) + c];
      dp[j] += in.dout[row + c] * in.v[key_row(j) + c];
      r->dv[key_row(j) + c] += p[j] * in.dout[row + c];
    }
    delta += p[j] * dp[j];
  }
  for (int j = 0; j < keys; j++) {
    double ds = p[j] * (dp[j] - delta) * a.scale;
    for (int c = 0; c < d; c++) {
      r->dq[row + c] += ds * in.k[key_row(j) + c];
      r->dk[key_row(j) + c] += ds * in.q[row + c];
    }
  }
}

static struct reference reference(const struct attention_args &a, const inputs &in) {
  struct reference r;
  r.out.resize(in.q.size());
  r.dq.resize(in.q.size());
  r.dk.resize(in.k.size());
  r.dv.resize(in.k.size());
  r.lse.resize((size_t)a.heads_q * a.tokens_q);
  for (int i = 0; i < a.sequences; i++) {
    int first_q = a.cu_seqlens_q[i], len_q = a.cu_seqlens_q[i + 1] - first_q;
    int first_k = a.cu_seqlens_k[i], len_k = a.cu_seqlens_k[i + 1] - first_k;
    for (int head = 0; head < a.heads_q; head++)
      for (int query = 0; query < len_q; query++) {
        int keys = a.causal ? query + len_k - len_q + 1 : len_k;
        reference_query(a, in, &r, head, first_q + query, first_k, keys > 0 ? keys : 0);
      }
  }
  return r;
}

struct test_case {
  const char *name;
  std::vector<int> lens_q, lens_k;
  int heads_q, heads_kv, head_dim;
  bool causal;
};

static int prefix_sums(const std::vector<int> &lens, const tensor<int32_t> &cu, int *longest) {
  cu[0] = *longest = 0;
  for (size_t i = 0; i < lens.size(); i++) {
    cu[i + 1] = cu[i] + lens[i];
    *longest = max(*longest, lens[i]);
  }
  return cu[lens.size()];
}

enum check { ORDERS_AND_REFERENCE, BARRIERS };

static void run_case(const struct test_case &c, enum check check) {
  char name[160];
  auto named = [&](const char *what) {
    snprintf(name, sizeof name, "attention %s %s, head dim %d, heads %d/%d, %s", c.name, c.causal ? "causal" : "full",
             c.head_dim, c.heads_q, c.heads_kv, what);
    return name;
  };
  struct attention_args a = {};
  tensor<int32_t> cu_q(c.lens_q.size() + 1), cu_k(c.lens_k.size() + 1);
  a.sequences = (int)c.lens_q.size();
  a.tokens_q = prefix_sums(c.lens_q, cu_q, &a.max_len_q);
  a.tokens_k = prefix_sums(c.lens_k, cu_k, &a.max_len_k);
  a.heads_q = c.heads_q;
  a.heads_kv = c.heads_kv;
  a.head_dim = c.head_dim;
  a.causal = c.causal;
  a.scale = 1 / sqrtf((float)c.head_dim);
  size_t n_q = (size_t)a.tokens_q * a.heads_q * a.head_dim, n_k = (size_t)a.tokens_k * a.heads_kv * a.head_dim;
  tensor<uint16_t> q(n_q), k(n_k), v(n_k), out(n_q), dout(n_q), dq(n_q), dk(n_k), dv(n_k);
  tensor<float> lse((size_t)a.heads_q * a.tokens_q), delta((size_t)a.heads_q * a.tokens_q);
  a.q = q.data(), a.k = k.data(), a.v = v.data(), a.out = out.data(), a.lse = lse.data(), a.dout = dout.data();
  a.delta = delta.data(), a.dq = dq.data(), a.dk = dk.data(), a.dv = dv.data();
  a.cu_seqlens_q = cu_q.data(), a.cu_seqlens_k = cu_k.data();
  inputs in = {random_bf16(q, 3), random_bf16(k, 3), random_bf16(v, 1), random_bf16(dout, 1)};
  auto pass = [&](const char *what, struct kernel_launch l, const std::vector<output> &outputs) {
    auto run = [&](enum shim_order order) { return shim_launch_named(l, a, order); };
    (check == BARRIERS ? expect_synchronisation_is_needed : expect_same_in_all_orders)(named(what), run, outputs);
  };
  struct reference r = reference(a, in);
  size_t row = (size_t)a.head_dim; // compared head by head
  if (attention_forward_wgmma_launch(&a).kernel) {
    pass("forward with wgmma", attention_forward_wgmma_launch(&a), {output_of(out), output_of(lse)});
    if (check == ORDERS_AND_REFERENCE) {
      expect_close(named("out with wgmma"), values_of(out), r.out, 8e-3, row);
      expect_close(named("lse with wgmma"), values_of(lse), r.lse, 1e-5, 1);
    }
  }
  pass("forward", attention_forward_launch(&a), {output_of(out), output_of(lse)});
  pass("delta", attention_delta_launch(&a), {output_of(delta)});
  pass("key_value_gradient", attention_key_value_gradient_launch(&a), {output_of(dk), output_of(dv)});
  pass("query_gradient", attention_query_gradient_launch(&a), {output_of(dq)});
  if (check == BARRIERS)
    return;
  expect_close(named("out"), values_of(out), r.out, 8e-3, row);
  expect_close(named("lse"), values_of(lse), r.lse, 1e-5, 1);
  expect_close(named("dq"), values_of(dq), r.dq, 3e-2, row);
  expect_close(named("dk"), values_of(dk), r.dk, 3e-2, row);
  expect_close(named("dv"), values_of(dv), r.dv, 3e-2, row);
  expect_close(named("dq, all"), values_of(dq), r.dq, 6e-3);
  expect_close(named("dk, all"), values_of(dk), r.dk, 6e-3);
  expect_close(named("dv, all"), values_of(dv), r.dv, 6e-3);
}

int main(int argc, char **argv) {
  kernel_test_begin(argc, argv);
  const enum kernel_test_extent extent = kernel_test_extent;
  const std::vector<int> ragged = {1, 15, 0, 16, 17, 127, 128, 129};
  const std::vector<int> cross_q = {0, 5, 130, 64, 33, 17}, cross_k = {7, 0, 40, 200, 129, 17};
  for (int head_dim : {16, 32, 64, 72, 80, 96, 128}) {
    // What videos and text models have; the others share tiles, or the order within tiles, with these or run "cross".
    const bool common = head_dim == 72 || head_dim == 128;
    if (extent > KERNEL_TEST_SHORT || head_dim == 16 || head_dim == 72)
      run_case({"cross", cross_q, cross_k, 3, 1, head_dim, true}, ORDERS_AND_REFERENCE);
    if (extent == KERNEL_TEST_SHORT && head_dim == 128)
      run_case({"edges", {0, 1, 129}, {0, 1, 129}, 1, 1, head_dim, false}, ORDERS_AND_REFERENCE);
    if (extent == KERNEL_TEST_ALL)
      run_case({"ragged", ragged, ragged, 2, 1, head_dim, false}, ORDERS_AND_REFERENCE);
    if (extent == KERNEL_TEST_ALL || (extent > KERNEL_TEST_SHORT && common))
      run_case({"ragged", ragged, ragged, 2, 1, head_dim, true}, ORDERS_AND_REFERENCE);
    if (extent == KERNEL_TEST_ALL || (extent > KERNEL_TEST_SHORT && head_dim == 72))
      run_case({"barriers", {150}, {300}, 2, 1, head_dim, true}, BARRIERS);
  }
  if (extent > KERNEL_TEST_SHORT) {
    run_case({"groups", {70, 3}, {70, 3}, 8, 2, 64, false}, ORDERS_AND_REFERENCE);
    run_case({"nothing", {0, 0}, {0, 0}, 1, 1, 64, true}, ORDERS_AND_REFERENCE);
  }
  if (extent == KERNEL_TEST_ALL) {
    run_case({"cross", cross_q, cross_k, 3, 1, 128, false}, ORDERS_AND_REFERENCE);
    run_case({"long", {1000}, {1000}, 1, 1, 128, true}, ORDERS_AND_REFERENCE);
  }
  struct attention_args wrong = {};
  wrong.head_dim = 88;
  if (attention_forward_launch(&wrong).kernel) {
    printf("FAIL: a kernel for head dim 88\n");
    kernel_test_failures++;
  }
  return kernel_test_end();
}
