// test_operators.cc: the kernels that memory bandwidth bounds against double references.
#include "tests/cuda/kernel_test.h"
#include "tests/cuda_shim/kernels.h"

template <class A>
static void check(const char *name, const struct kernel_launch &l, const A &a, const std::vector<output> &outputs) {
  auto run = [&](enum shim_order order) { return shim_launch_named(l, a, order); };
  expect_same_in_all_orders(name, run, outputs);
  if (kernel_test_extent > KERNEL_TEST_SHORT)
    expect_synchronisation_is_needed(name, run, outputs);
}

// bf16 keeps 8 bits: a correctly rounded result is off by at most 2^-8 = 0.0039 of itself.
constexpr double BF16 = 4e-3, FP32 = 1e-5;

static std::vector<double> ones(size_t n, double value = 1) { return std::vector<double>(n, value); }

static void test_norm(bool layer, int tokens, int hidden) {
  char name[80];
  auto named = [&](const char *what) {
    snprintf(name, sizeof name, "%s %d x %d, %s", layer ? "layernorm" : "rmsnorm", tokens, hidden, what);
    return name;
  };
  size_t n = (size_t)tokens * hidden, partial = (size_t)norm_partial_rows(tokens) * hidden;
  tensor<uint16_t> x(n), weight(hidden), bias(hidden), y(n), dy(n), dx(n);
  tensor<float> mean(tokens), rstd(tokens), dweight_partial(partial), dbias_partial(partial), dweight(hidden),
      dbias(hidden);
  struct norm_args a = {x.data(),
                        weight.data(),
                        layer ? bias.data() : nullptr,
                        y.data(),
                        layer ? mean.data() : nullptr,
                        rstd.data(),
                        dy.data(),
                        dx.data(),
                        dweight_partial.data(),
                        layer ? dbias_partial.data() : nullptr,
                        tokens,
                        hidden,
                        1e-5f};
  std::vector<double> vx = random_bf16(x, 2, layer ? 5 : 0), vw = random_bf16(weight, 1, 1), vb = random_bf16(bias, 1),
                      vdy = random_bf16(dy, 1), ry(n), rdx(n), rdw = ones(hidden, 0), rdb = ones(hidden, 0),
                      rmean(tokens), rrstd(tokens);
  for (int t = 0; t < tokens; t++) {
    const double *xt = &vx[(size_t)t * hidden], *dyt = &vdy[(size_t)t * hidden];
    double m = 0, square = 0, mean_dh = 0, mean_dhh = 0;
    for (int c = 0; layer && c < hidden; c++)
      m += xt[c] / hidden;
    for (int c = 0; c < hidden; c++)
      square += (xt[c] - m) * (xt[c] - m) / hidden;
    double r = 1 / sqrt(square + 1e-5);
    for (int c = 0; c < hidden; c++) {
      double h = (xt[c] - m) * r;
      ry[(size_t)t * hidden + c] = h * vw[c] + (layer ? vb[c] : 0);
      mean_dh += layer ? vw[c] * dyt[c] / hidden : 0;
      mean_dhh += vw[c] * dyt[c] * h / hidden;
      rdw[c] += dyt[c] * h;
      rdb[c] += dyt[c];
    }
    for (int c = 0; c < hidden; c++)
      rdx[(size_t)t * hidden + c] = r * (vw[c] * dyt[c] - mean_dh - (xt[c] - m) * r * mean_dhh);
    rmean[t] = m;
    rrstd[t] = r;
  }
  if (layer) {
    check(named("forward"), layernorm_forward_launch(&a), a, {output_of(y), output_of(mean), output_of(rstd)});
    check(named("backward"), layernorm_backward_launch(&a), a,
          {output_of(dx), output_of(dweight_partial), output_of(dbias_partial)});
    struct column_sum_args sum = {dbias_partial.data(), dbias.data(), norm_partial_rows(tokens), hidden};
    check(named("dbias"), column_sum_launch(&sum), sum, {output_of(dbias)});
    expect_close(named("mean"), values_of(mean), rmean, FP32);
    expect_close(named("dbias"), values_of(dbias), rdb, FP32, 64);
  } else {
    check(named("forward"), rmsnorm_forward_launch(&a), a, {output_of(y), output_of(rstd)});
    check(named("backward"), rmsnorm_backward_launch(&a), a, {output_of(dx), output_of(dweight_partial)});
  }
  struct column_sum_args sum = {dweight_partial.data(), dweight.data(), norm_partial_rows(tokens), hidden};
  check(named("dweight"), column_sum_launch(&sum), sum, {output_of(dweight)});
  expect_close(named("y"), values_of(y), ry, BF16, 8);
  expect_close(named("rstd"), values_of(rstd), rrstd, FP32);
  expect_close(named("dx"), values_of(dx), rdx, BF16, 8);
  expect_close(named("dweight"), values_of(dweight), rdw, FP32, 8);
}

static void test_rope(int tokens, int heads, int head_dim) {
  const int half = head_dim / 2, positions = 50;
  size_t n = (size_t)tokens * heads * head_dim;
  tensor<uint16_t> x(n), y(n), back(n);
  tensor<int32_t> position(tokens);
  tensor<float> c(positions * half), s(positions * half);
  for (int p = 0; p < positions; p++)
    for (int i = 0; i < half; i++) {
      double angle = p * pow(10000, -(double)i / half);
      c[p * half + i] = (float)cos(angle);
      s[p * half + i] = (float)sin(angle);
    }
  for (int t = 0; t < tokens; t++)
    position[t] = random_int(positions);
  std::vector<double> vx = random_bf16(x, 1), ry(n);
  for (int t = 0; t < tokens; t++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < half; i++) {
        size_t low = ((size_t)t * heads + h) * head_dim + i, high = low + half;
        double angle = position[t] * pow(10000, -(double)i / half);
        ry[low] = vx[low] * cos(angle) - vx[high] * sin(angle);
        ry[high] = vx[high] * cos(angle) + vx[low] * sin(angle);
      }
  char name[80];
  snprintf(name, sizeof name, "rope %d x %d x %d", tokens, heads, head_dim);
  struct rope_args a = {x.data(), y.data(), position.data(), c.data(), s.data(), tokens, heads, head_dim, 0};
  check(name, rope_launch(&a), a, {output_of(y)});
  expect_close(name, values_of(y), ry, BF16, 8);
  struct rope_args b = a;
  b.x = y.data();
  b.y = back.data();
  b.backward = 1; // a rotation's gradient is the rotation back
  check(name, rope_launch(&b), b, {output_of(back)});
  expect_close(name, values_of(back), vx, 2 * BF16, head_dim);
}

static void test_swiglu(int tokens, int width, int stride) {
  size_t n = (size_t)tokens * width, wide = (size_t)tokens * stride;
  tensor<uint16_t> in(wide), up(wide), out(n), dout(n), din(wide), dup(wide);
  bool fused = stride > width;
  std::vector<double> vg = random_bf16(in, 4), vu = random_bf16(up, 2), vd = random_bf16(dout, 1), ro(n), rg(wide),
                      ru(n);
  struct swiglu_args a = {in.data(), up.data(), out.data(), dout.data(), din.data(), dup.data(), tokens, stride, width};
  if (fused) {
    a.up = in.data() + width;
    a.dup = din.data() + width;
  }
  for (int t = 0; t < tokens; t++)
    for (int i = 0; i < width; i++) {
      size_t at = (size_t)t * stride + i, to = (size_t)t * width + i;
      double g = vg[at], u = fused ? vg[at + width] : vu[at], s = 1 / (1 + exp(-g));
      ro[to] = g * s * u;
      rg[at] = vd[to] * u * (s + g * s * (1 - s));
      (fused ? rg[at + width] : ru[to]) = vd[to] * g * s;
    }
  char name[80];
  snprintf(name, sizeof name, "swiglu %d x %d of %d", tokens, width, stride);
  check(name, swiglu_forward_launch(&a), a, {output_of(out)});
  expect_close(name, values_of(out), ro, BF16, 8);
  std::vector<output> outputs = {output_of(din)};
  if (!fused)
    outputs.push_back(output_of(dup));
  check(name, swiglu_backward_launch(&a), a, outputs);
  expect_close(name, values_of(din), rg, BF16, 8);
  if (!fused)
    expect_close(name, values_of(dup), ru, BF16, 8);
}

static void test_gelu_and_add(int64_t count) {
  tensor<uint16_t> x(count), out(count), dout(count), dx(count), sum(count);
  std::vector<double> vx = random_bf16(x, 6), vd = random_bf16(dout, 1), ro(count), rd(count), rs(count);
  const double k = sqrt(2 / M_PI);
  for (int64_t i = 0; i < count; i++) {
    double v = vx[i], t = tanh(k * (v + 0.044715 * v * v * v));
    ro[i] = v / 2 * (1 + t);
    rd[i] = vd[i] * ((1 + t) / 2 + v / 2 * (1 - t * t) * k * (1 + 3 * 0.044715 * v * v));
    rs[i] = v + vd[i];
  }
  char name[80];
  snprintf(name, sizeof name, "gelu and residual_add of %d", (int)count);
  struct activation_args a = {x.data(), out.data(), dout.data(), dx.data(), count};
  check(name, gelu_forward_launch(&a), a, {output_of(out)});
  check(name, gelu_backward_launch(&a), a, {output_of(dx)});
  struct residual_add_args b = {x.data(), dout.data(), sum.data(), count};
  check(name, residual_add_launch(&b), b, {output_of(sum)});
  expect_close(name, values_of(out), ro, BF16, 8);
  expect_close(name, values_of(dx), rd, BF16, 8);
  expect_close(name, values_of(sum), rs, BF16, 8);
}

static void test_cross_entropy(int tokens, int vocabulary) {
  size_t n = (size_t)tokens * vocabulary;
  tensor<uint16_t> logits(n), dlogits(n);
  tensor<int32_t> targets(tokens);
  tensor<float> loss(tokens), lse(tokens);
  std::vector<double> v = random_bf16(logits, 20), rl(tokens), re(tokens), rd(n);
  struct cross_entropy_args a = {logits.data(),  targets.data(), loss.data(), lse.data(),
                                 dlogits.data(), tokens,         vocabulary,  0.25f};
  for (int t = 0; t < tokens; t++) {
    double *row = &v[(size_t)t * vocabulary], largest = -INFINITY, sum = 0;
    targets[t] = t % 3 == 2 ? -100 : random_int(vocabulary);
    for (int c = 0; c < vocabulary; c++)
      largest = fmax(largest, row[c]);
    for (int c = 0; c < vocabulary; c++)
      sum += exp(row[c] - largest);
    re[t] = largest + log(sum);
    rl[t] = targets[t] < 0 ? 0 : re[t] - row[targets[t]];
    for (int c = 0; c < vocabulary; c++)
      rd[(size_t)t * vocabulary + c] = targets[t] < 0 ? 0 : 0.25 * (exp(row[c] - re[t]) - (c == targets[t]));
  }
  char name[80];
  snprintf(name, sizeof name, "cross_entropy %d x %d", tokens, vocabulary);
  check(name, cross_entropy_forward_launch(&a), a, {output_of(loss), output_of(lse)});
  check(name, cross_entropy_backward_launch(&a), a, {output_of(dlogits)});
  expect_close(name, values_of(lse), re, FP32, 1);
  expect_close(name, values_of(loss), rl, FP32, 1);
  expect_close(name, values_of(dlogits), rd, BF16, 8);
}

static void test_optimizer(int64_t count, bool adam, bool fp32) {
  tensor<float> p(count), m(count), v(count), g32(count);
  tensor<uint16_t> g16(count), weight(count);
  std::vector<double> vp = random_fp32(p, 1), vm = random_fp32(m, 0.1), vv = random_fp32(v, 0.01, 0.0101),
                      vg = fp32 ? random_fp32(g32, 1) : random_bf16(g16, 1);
  std::vector<float> p0 = p.copy(), m0 = m.copy(), v0 = v.copy();
  struct optimizer_args a = {p.data(),
                             m.data(),
                             v.data(),
                             weight.data(),
                             fp32 ? (const void *)g32.data() : (const void *)g16.data(),
                             count,
                             fp32,
                             0.01f,
                             0.9f,
                             0.95f,
                             1e-8f,
                             0.1f,
                             1 - powf(0.9f, 3),
                             1 - powf(0.95f, 3),
                             0.5f};
  for (int64_t i = 0; i < count; i++) {
    double g = 0.5 * vg[i];
    if (adam) {
      vm[i] = (double)a.beta1 * vm[i] + (1 - (double)a.beta1) * g;
      vv[i] = (double)a.beta2 * vv[i] + (1 - (double)a.beta2) * g * g;
      vp[i] = vp[i] * (1 - (double)a.rate * a.decay) -
              (double)a.rate * vm[i] / a.correction1 / (sqrt(vv[i] / a.correction2) + a.epsilon);
    } else {
      vm[i] = (double)a.beta1 * vm[i] + g + (double)a.decay * vp[i];
      vp[i] -= (double)a.rate * vm[i];
    }
  }
  char name[80];
  snprintf(name, sizeof name, "%s of %s, %d", adam ? "adamw" : "sgd", fp32 ? "fp32" : "bf16", (int)count);
  std::vector<output> outputs = {output_of(weight), update_of(p, p0), update_of(m, m0)};
  if (adam)
    outputs.push_back(update_of(v, v0));
  check(name, adam ? adamw_launch(&a) : sgd_launch(&a), a, outputs);
  expect_close(name, values_of(p), vp, 1e-6, 4);
  expect_close(name, values_of(m), vm, 1e-6, 4);
  expect_close(name, values_of(weight), vp, BF16, 4);
  if (adam)
    expect_close(name, values_of(v), vv, 1e-6, 4);
}

static void test_embedding(int vocabulary, int tokens, int hidden) {
  size_t n = (size_t)tokens * hidden;
  tensor<uint16_t> table((size_t)vocabulary * hidden), out(n), dout(n);
  tensor<int32_t> ids(tokens);
  tensor<float> dtable(table.size());
  std::vector<double> vt = random_bf16(table, 1), ro(n), rt(table.size());
  for (int t = 0; t < tokens; t++)
    ids[t] = t % 5 == 4 ? -1 : random_int(vocabulary);
  for (size_t i = 0; i < n; i++) // sixteenths: their sums are exact in any order
    dout[i] = (uint16_t)shim_bf16((float)(random_int(33) - 16) / 16);
  std::vector<double> vd = values_of(dout);
  for (int t = 0; t < tokens; t++)
    for (int c = 0; ids[t] >= 0 && c < hidden; c++) {
      ro[(size_t)t * hidden + c] = vt[(size_t)ids[t] * hidden + c];
      rt[(size_t)ids[t] * hidden + c] += vd[(size_t)t * hidden + c];
    }
  char name[80];
  snprintf(name, sizeof name, "embedding %d of %d x %d", tokens, vocabulary, hidden);
  struct embedding_args a = {table.data(), ids.data(), out.data(), dout.data(), dtable.data(), tokens, hidden};
  check(name, embedding_gather_launch(&a), a, {output_of(out)});
  check(name, embedding_scatter_launch(&a), a, {sum_of(dtable)});
  expect_close(name, values_of(out), ro, 0);
  expect_close(name, values_of(dtable), rt, 0);
}

static void test_copy(int64_t bytes) {
  tensor<unsigned char> from(bytes), to(bytes);
  for (int64_t i = 0; i < bytes; i++)
    from[i] = (unsigned char)random_int(256);
  char name[80];
  snprintf(name, sizeof name, "copy of %d bytes", (int)bytes);
  struct copy_args a = {from.data(), to.data(), bytes};
  check(name, copy_launch(&a), a, {output_of(to)});
  expect_close(name, std::vector<double>(to.data(), to.data() + bytes),
               std::vector<double>(from.data(), from.data() + bytes), 0);
}

static void test_silu(int64_t count) {
  tensor<uint16_t> x(count), out(count), dout(count), dx(count);
  std::vector<double> vx = random_bf16(x, 6), vd = random_bf16(dout, 1), ro(count), rd(count);
  for (int64_t i = 0; i < count; i++) {
    const double s = 1 / (1 + exp(-vx[i]));
    ro[i] = vx[i] * s;
    rd[i] = vd[i] * s * (1 + vx[i] * (1 - s));
  }
  char name[80];
  snprintf(name, sizeof name, "silu of %d", (int)count);
  struct activation_args a = {x.data(), out.data(), dout.data(), dx.data(), count};
  check(name, silu_forward_launch(&a), a, {output_of(out)});
  check(name, silu_backward_launch(&a), a, {output_of(dx)});
  expect_close(name, values_of(out), ro, BF16, 8);
  expect_close(name, values_of(dx), rd, BF16, 8);
}

static void test_cast_and_sum_squares(int64_t count) {
  tensor<uint16_t> narrow(count), narrowed(count);
  tensor<float> wide(count), widened(count), partial(sum_squares_blocks(count)), sum(1);
  std::vector<double> vn = random_bf16(narrow, 3), vw = random_fp32(wide, 3), want = {7};
  for (int64_t i = 0; i < count; i++) {
    want[0] += vw[i] * vw[i];
    vn[i] *= 0.3f;
    vw[i] *= 0.3f;
  }
  char name[80];
  snprintf(name, sizeof name, "cast and sum_squares of %d", (int)count);
  struct cast_args a = {narrow.data(), widened.data(), count, 0.3f}, b = {wide.data(), narrowed.data(), count, 0.3f};
  check(name, cast_launch(&a, true), a, {output_of(widened)});
  check(name, cast_launch(&b, false), b, {output_of(narrowed)});
  expect_close(name, values_of(widened), vn, FP32, 4);
  expect_close(name, values_of(narrowed), vw, BF16, 4);
  struct sum_squares_args c = {wide.data(), partial.data(), sum.data(), count};
  sum[0] = 7; // added to
  check(name, sum_squares_launch(&c), c, {output_of(partial)});
  check(name, sum_squares_total_launch(&c), c, {update_of(sum, sum.copy())});
  expect_close(name, values_of(sum), want, FP32);
}

static void test_squared_error(int rows, int width) {
  size_t n = (size_t)rows * width;
  tensor<uint16_t> x(n), target(n), dx(n);
  tensor<float> loss(rows);
  std::vector<double> vx = random_bf16(x, 2), vt = random_bf16(target, 2), rd(n), rl(rows);
  for (size_t i = 0; i < n; i++) {
    rl[i / width] += (vx[i] - vt[i]) * (vx[i] - vt[i]);
    rd[i] = 2 * 0.25 * (vx[i] - vt[i]);
  }
  char name[80];
  snprintf(name, sizeof name, "squared_error %d x %d", rows, width);
  struct squared_error_args a = {x.data(), target.data(), loss.data(), dx.data(), rows, width, 0.25f};
  check(name, squared_error_launch(&a), a, {output_of(loss), output_of(dx)});
  expect_close(name, values_of(loss), rl, FP32, 1);
  expect_close(name, values_of(dx), rd, BF16, 8);
}

// Of each three rows one has seen no keys on the first side, one on the second, and every 9th on neither.
static void test_attention_merge(int tokens, int heads, int head_dim) {
  size_t n = (size_t)tokens * heads * head_dim, rows = (size_t)tokens * heads;
  tensor<uint16_t> out_a(n), out_b(n);
  tensor<float> lse_a(rows), lse_b(rows);
  random_bf16(out_a, 1), random_bf16(out_b, 1), random_fp32(lse_a, 5), random_fp32(lse_b, 5);
  for (size_t at = 0; at < rows; at++) {
    const size_t first = (at % tokens * heads + at / tokens) * head_dim;
    if (at % 3 == 0 || at % 9 == 1) {
      lse_a[at] = -INFINITY;
      memset(&out_a[first], 0, head_dim * sizeof(uint16_t));
    }
    if (at % 3 == 1) {
      lse_b[at] = -INFINITY;
      memset(&out_b[first], 0, head_dim * sizeof(uint16_t));
    }
  }
  std::vector<double> va = values_of(out_a), vb = values_of(out_b), la = values_of(lse_a), lb = values_of(lse_b);
  for (int h = 0; h < heads; h++)
    for (int t = 0; t < tokens; t++) {
      const size_t at = (size_t)h * tokens + t, first = ((size_t)t * heads + h) * head_dim;
      const double largest = fmax(la[at], lb[at]);
      const double lse = largest == -INFINITY ? largest : largest + log(exp(la[at] - largest) + exp(lb[at] - largest));
      for (size_t c = first; c < first + head_dim && lse > -INFINITY; c++)
        va[c] = exp(la[at] - lse) * va[c] + exp(lb[at] - lse) * vb[c];
      la[at] = lse;
    }
  char name[80];
  snprintf(name, sizeof name, "attention_merge %d x %d x %d", tokens, heads, head_dim);
  struct attention_merge_args a = {out_a.data(), lse_a.data(), out_b.data(), lse_b.data(), tokens, heads, head_dim};
  check(name, attention_merge_launch(&a), a, {update_of(out_a, out_a.copy()), update_of(lse_a, lse_a.copy())});
  expect_close(name, values_of(out_a), va, BF16, head_dim);
  expect_close(name, values_of(lse_a), la, FP32, 1);
}

// Rows of samples of unequal length, one of them empty; vectors are slices of an array of rows three times as long.
static void test_sample(const std::vector<int> &lens, int width) {
  const int samples = (int)lens.size(), stride = 3 * width;
  tensor<int32_t> cu_rows(samples + 1);
  cu_rows[0] = 0;
  for (int b = 0; b < samples; b++)
    cu_rows[b + 1] = cu_rows[b] + lens[b];
  const int rows = cu_rows[samples], parts = sample_parts(rows, samples, width);
  size_t n = (size_t)rows * width, vectors = (size_t)samples * stride, sums = (size_t)parts * samples * width;
  tensor<uint16_t> x(n), residual(n), y(n), dy(n), dx(n), scale(vectors), shift(vectors);
  tensor<float> dscale_partial(sums), dshift_partial(sums), dscale(vectors), dshift(vectors);
  std::vector<double> vx = random_bf16(x, 1), vr = random_bf16(residual, 1), vd = random_bf16(dy, 1),
                      vs = random_bf16(scale, 1), vh = random_bf16(shift, 1), modulate_y(n), modulate_dx(n), gate_y(n),
                      gate_dx(n), bias_y(n), rs = random_fp32(dscale, 1), rh = random_fp32(dshift, 1);
  const std::vector<float> dscale0 = dscale.copy(), dshift0 = dshift.copy();
  std::vector<double> rb = rh; // of bias: all rows add to one vector
  for (int b = 0; b < samples; b++)
    for (size_t i = (size_t)cu_rows[b] * width; i < (size_t)cu_rows[b + 1] * width; i++) {
      const size_t c = (size_t)b * stride + i % width;
      modulate_y[i] = vx[i] * (1 + vs[c]) + vh[c];
      modulate_dx[i] = vd[i] * (1 + vs[c]);
      gate_y[i] = vr[i] + vs[c] * vx[i];
      gate_dx[i] = vs[c] * vd[i];
      bias_y[i] = vx[i] + vh[i % width];
      rs[c] += vd[i] * vx[i];
      rh[c] += vd[i];
      rb[i % width] += vd[i];
    }
  char name[80];
  snprintf(name, sizeof name, "vectors of %d samples, %d x %d in %d parts", samples, rows, width, parts);
  struct sample_args a = {};
  a.x = x.data(), a.scale = scale.data(), a.shift = shift.data(), a.residual = residual.data(), a.y = y.data();
  a.dy = dy.data(), a.dx = dx.data(), a.dscale_partial = dscale_partial.data();
  a.dshift_partial = dshift_partial.data(), a.cu_rows = cu_rows.data();
  a.rows = rows, a.stride = stride, a.samples = samples, a.width = width;
  auto sum = [&](const tensor<float> &partial, const tensor<float> &total, const std::vector<float> &start,
                 const std::vector<double> &want, int p, int n_samples) {
    struct sample_sum_args s = {partial.data(), total.data(), stride, p, n_samples, width};
    check(name, sample_sum_launch(&s), s, {update_of(total, start)});
    if (rows > 0)
      expect_close(name, values_of(total), want, FP32, 8);
  };
  check(name, modulate_forward_launch(&a), a, {output_of(y)});
  expect_close(name, values_of(y), modulate_y, BF16, 8);
  check(name, modulate_backward_launch(&a), a, {output_of(dx), output_of(dscale_partial), output_of(dshift_partial)});
  expect_close(name, values_of(dx), modulate_dx, BF16, 8);
  sum(dscale_partial, dscale, dscale0, rs, parts, samples);
  sum(dshift_partial, dshift, dshift0, rh, parts, samples);
  check(name, gate_forward_launch(&a), a, {output_of(y)});
  expect_close(name, values_of(y), gate_y, BF16, 8);
  check(name, gate_backward_launch(&a), a, {output_of(dx), output_of(dscale_partial)});
  expect_close(name, values_of(dx), gate_dx, BF16, 8);
  sum(dscale_partial, dscale, dscale0, rs, parts, samples);

  a.cu_rows = nullptr;
  a.samples = 1;
  const int all_parts = sample_parts(rows, 1, width);
  tensor<float> all_partial((size_t)all_parts * width);
  a.dshift_partial = all_partial.data();
  check(name, bias_forward_launch(&a), a, {output_of(y)});
  expect_close(name, values_of(y), bias_y, BF16, 8);
  check(name, bias_backward_launch(&a), a, {output_of(all_partial)});
  sum(all_partial, dshift, dshift0, rb, all_parts, 1);
}

// Between (2, 3, 5, width) and its transpose (5, 2, 3, width), rows a little farther apart than they are long.
static void test_copy_strided(int width, int gap, bool accumulate) {
  const int64_t row = width + gap, e0 = 2, e1 = 3, e2 = 5;
  tensor<uint16_t> from(e0 * e1 * e2 * row), to(e0 * e1 * e2 * row);
  const int vector = width % 8 == 0 && gap % 8 == 0 ? 8 : 1;
  struct copy_strided_args a = {
      from.data(), to.data(), {e1 * e2 * row, e2 * row, row}, {e1 * row, row, e0 * e1 * row}, {e0, e1, e2}, width,
      vector,      accumulate};
  std::vector<double> vf = random_bf16(from, 1), want = random_bf16(to, 1);
  for (int64_t i = 0; i < e0; i++)
    for (int64_t j = 0; j < e1; j++)
      for (int64_t k = 0; k < e2; k++)
        for (int64_t c = 0; c < width; c++) {
          double &w = want[((k * e0 + i) * e1 + j) * row + c];
          w = (accumulate ? w : 0) + vf[((i * e1 + j) * e2 + k) * row + c];
        }
  char name[80];
  snprintf(name, sizeof name, "strided copy of rows of %d and %d%s", width, gap, accumulate ? ", added" : "");
  check(name, copy_strided_launch(&a), a, {update_of(to, to.copy())});
  expect_close(name, values_of(to), want, accumulate ? BF16 : 0, 8);
}

static void expect_refused(const char *name, const char *kernel) {
  if (kernel) {
    printf("FAIL: %s is taken\n", name);
    kernel_test_failures++;
  }
}

static void test_refusals() {
  struct norm_args norm = {};
  norm.hidden = 12;
  expect_refused("a norm of 12", rmsnorm_forward_launch(&norm).kernel);
  norm.hidden = NORM_HIDDEN_MAX + 8;
  expect_refused("a norm of 16392", layernorm_backward_launch(&norm).kernel);
  struct rope_args rope = {};
  rope.head_dim = 36;
  expect_refused("rope of 36", rope_launch(&rope).kernel);
  struct swiglu_args swiglu = {};
  swiglu.width = 8, swiglu.stride = 12;
  expect_refused("swiglu with rows 12 apart", swiglu_forward_launch(&swiglu).kernel);
  struct sample_args sample = {};
  sample.width = 12;
  expect_refused("modulate of 12", modulate_forward_launch(&sample).kernel);
  sample.width = 8, sample.samples = SAMPLE_MAX + 1;
  expect_refused("gate of 65536 samples", gate_backward_launch(&sample).kernel);
  struct squared_error_args error = {};
  error.width = 12;
  expect_refused("squared_error of 12", squared_error_launch(&error).kernel);
  struct attention_merge_args merge = {};
  merge.head_dim = 12;
  expect_refused("attention_merge of 12", attention_merge_launch(&merge).kernel);
  struct copy_strided_args copy = {};
  copy.extent[0] = copy.extent[1] = 1 << 16, copy.extent[2] = 1, copy.width = copy.vector = 1;
  expect_refused("a strided copy of 2^32 elements", copy_strided_launch(&copy).kernel);
  struct cross_entropy_args loss = {};
  loss.vocabulary = 50257;
  expect_refused("a vocabulary of 50257", cross_entropy_forward_launch(&loss).kernel);
}

int main(int argc, char **argv) {
  kernel_test_begin(argc, argv);
  for (bool layer : {false, true}) {
    test_norm(layer, 7, 8);
    test_norm(layer, 3, 2056);
    if (kernel_test_extent > KERNEL_TEST_SHORT) {
      test_norm(layer, 300, 1024);
      test_norm(layer, 1, NORM_HIDDEN_MAX);
    }
    test_norm(layer, 0, 64);
  }
  for (int head_dim : {64, 72, 80, 128})
    test_rope(13, 3, head_dim);
  for (int tokens : {0, 1, 37}) {
    test_swiglu(tokens, 264, 264);
    test_swiglu(tokens, 264, 528);
    test_cross_entropy(tokens, 8);
    test_cross_entropy(tokens < 10 ? tokens : 5, 32008);
    test_embedding(20, tokens, 72);
  }
  for (int64_t count : {0, 1, 7, 8, 9, 4099, 70003}) {
    test_gelu_and_add(count);
    test_copy(count);
    for (bool adam : {false, true})
      for (bool fp32 : {false, true})
        test_optimizer(count < 10000 ? count : 10001, adam, fp32);
  }
  for (int64_t count : {0, 1, 7, 8, 9, 4099, 70003}) {
    test_silu(count);
    test_cast_and_sum_squares(count);
  }
  test_squared_error(0, 32);
  test_squared_error(19, 32);
  test_squared_error(9, 520);
  test_attention_merge(0, 2, 64);
  test_attention_merge(1, 1, 16);
  test_attention_merge(19, 3, 72);
  test_attention_merge(9, 2, 256);
  test_sample({0}, 64);
  test_sample({3, 0, 1}, 8);
  test_sample({70, 0, 130}, 264);
  for (bool accumulate : {false, true}) {
    test_copy_strided(16, 8, accumulate);
    test_copy_strided(7, 1, accumulate);
  }
  test_refusals();
  return kernel_test_end();
}
