#include "sim/experiment/fit.h"

#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"
#include "sim/experiment/program_cache.h"
#include "sim/plan/lower.h"
#include "sim/policy/recompute.h"

#define PACK_STEP 128
#define PACK_MAX_TOKENS (INT64_C(1) << 36)

void fit_blocks(const struct fit *f, int blocks[2]) {
  int all = f->recompute == RECOMPUTE_NONE ? 0 : f->system->model->layers;
  blocks[0] = all;
  blocks[1] = f->system->model->is_2d ? all : 0;
}

int64_t fit_peak_bytes(const struct fit *f, int sp, const struct microbatch *mb) {
  return memory_peak_bytes(f->system, sp, mb, f->unequal_counts);
}

bool fit_padded(const struct fit *f, int sp, int64_t batch, struct sample shape) {
  int blocks[2];
  fit_blocks(f, blocks);
  struct microbatch mb = microbatch_padded(f->system, batch, shape, blocks);
  return fit_peak_bytes(f, sp, &mb) <= f->cap_bytes;
}

int64_t fit_largest_batch(const struct fit *f, int sp, struct sample shape, int64_t limit) {
  int64_t low = 0, high = limit; /* low fits; beyond high nothing is asked */
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (fit_padded(f, sp, middle, shape))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* 2D: bytes of a pack of samples of one shape, of `tokens` in all, between whole numbers of samples in proportion. A
 * pack of several shapes lies between those of its shapes. */
static double one_shape_bytes(const struct fit *f, int sp, struct sample shape, int64_t tokens, const int blocks[2]) {
  int64_t one = sample_tokens(shape), whole = tokens / one;
  struct microbatch mb = microbatch_padded(f->system, whole, shape, blocks);
  double low = (double)fit_peak_bytes(f, sp, &mb);
  mb.batch++;
  return low + ((double)fit_peak_bytes(f, sp, &mb) - low) * (double)(tokens % one) / (double)one;
}

static bool pack_fits(const struct fit *f, int sp, int64_t tokens, const struct sample *shapes, int n_shapes) {
  const double margin = 1 << 20; /* against the rounding up of each sample's bytes */
  int blocks[2];
  fit_blocks(f, blocks);
  if (!f->system->model->is_2d) {
    struct microbatch mb = {.batch = 1, .seqlen = tokens};
    memcpy(mb.recompute_blocks, blocks, sizeof mb.recompute_blocks);
    return fit_peak_bytes(f, sp, &mb) <= f->cap_bytes;
  }
  for (int i = 0; i < n_shapes; i++)
    if (sample_tokens(shapes[i]) <= tokens &&
        one_shape_bytes(f, sp, shapes[i], tokens, blocks) + margin > (double)f->cap_bytes)
      return false;
  return true;
}

int64_t fit_pack_tokens(const struct fit *f, int sp, const struct sample *shapes, int n_shapes) {
  int64_t low = 0, high = PACK_MAX_TOKENS / PACK_STEP;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (pack_fits(f, sp, middle * PACK_STEP, shapes, n_shapes))
      low = middle;
    else
      high = middle - 1;
  }
  return low * PACK_STEP;
}

void fit_adapt(const struct fit *f, int sp, const struct microbatch *mb, int blocks[2]) {
  const struct transformer *model = f->system->model;
  struct recompute_module modules[2];
  struct microbatch full = *mb;
  int keep[2] = {0, 0}, n = transformer_modules(model);
  fit_blocks(f, blocks);
  if (f->recompute != RECOMPUTE_ADAPTIVE)
    return;
  memcpy(full.recompute_blocks, blocks, sizeof full.recompute_blocks);
  for (int m = 0; m < n; m++)
    modules[m] =
        (struct recompute_module){.forward_s = lower_block_forward_s(f->system, sp, &full, m),
                                  .activation_bytes = (double)memory_block_activation_bytes(f->system, sp, &full, m)};
  double spare_bytes = (double)(f->cap_bytes - fit_peak_bytes(f, sp, &full));
  recompute_choose(modules, n, model->layers, spare_bytes, f->round_gib, keep);
  for (int m = 0; m < n; m++)
    blocks[m] -= keep[m];
}

int fit_error(const struct fit *f, int sp, struct sample shape, struct err *err) {
  int blocks[2];
  char what[64];
  fit_blocks(f, blocks);
  struct microbatch mb = microbatch_padded(f->system, 1, shape, blocks);
  snprintf(what, sizeof what, "a sample of %lld tokens alone", (long long)sample_tokens(shape));
  return fit_error_of(f, sp, &mb, what, err);
}

int fit_error_of(const struct fit *f, int sp, const struct microbatch *mb, const char *what, struct err *err) {
  struct memory_parts p = memory_parts(f->system, sp, mb, f->unequal_counts);
  const struct parallel *parallel = &f->system->parallel;
  const char *advice = parallel->zero < 3 ? "try --zero 3 or more GPUs" : "try more GPUs or a smaller model";
  if (p.weights_bytes + p.gradients_bytes + p.optimizer_bytes + p.reserve_bytes < f->cap_bytes)
    advice = f->recompute == RECOMPUTE_NONE                          ? "try --recompute full, --max-length or more GPUs"
             : parallel->head_chunk == 0 && !f->system->model->is_2d ? "try --head-chunk, --max-length or more GPUs"
                                                                     : "try --max-length or more GPUs";
  return err_set(err,
                 "%s needs %.1f GiB on each of %d GPUs (weights %.1f, gradients %.1f, optimizer "
                 "%.1f, activations %.1f, logits %.1f, reserve %.1f), the cap is %.1f GiB: %s",
                 what, (double)p.total_bytes / GIB_BYTES, sp, (double)p.weights_bytes / GIB_BYTES,
                 (double)p.gradients_bytes / GIB_BYTES, (double)p.optimizer_bytes / GIB_BYTES,
                 (double)(p.activations_bytes + p.working_bytes) / GIB_BYTES, (double)p.logits_bytes / GIB_BYTES,
                 (double)p.reserve_bytes / GIB_BYTES, (double)f->cap_bytes / GIB_BYTES, advice);
}
