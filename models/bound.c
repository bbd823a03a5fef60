#include "models/bound.h"

#include <math.h>

/* Each GEMM forward, data gradient and weight gradient (no data gradient on the model's inputs) and attention forward
 * and backward (2.5x the forward FLOPs), at the best rate any shape reaches. Memory-bound passes are left out, which
 * only lowers the bound. Attention takes the better of the causal and the full rate, because a ring runs causal
 * attention as full blocks; short temporal attention may run as batched GEMMs, so it takes the best of all. */
double bound_gpu_seconds(const struct system *s, int64_t a, int64_t b) {
  const struct sample_flops f = transformer_forward_flops(s->model, a, b);
  const struct params *p = s->params;
  const int64_t d = s->model->head_dim;
  const double gemm = best_gemm_flops_per_s(p);
  const double forward =
      fmax(best_attention_forward_flops_per_s(p, false, d), best_attention_forward_flops_per_s(p, true, d));
  const double backward =
      fmax(best_attention_backward_flops_per_s(p, false, d), best_attention_backward_flops_per_s(p, true, d));
  double seconds = (3 * f.gemm + 2 * f.edge_gemm) / gemm;
  seconds += f.attention * (1 / forward + 2.5 / backward);
  seconds += f.temporal * (1 / fmax(gemm, forward) + 2 / fmax(gemm, backward));
  return seconds;
}
