/* result_view.h: what plots need of a dcpsim.result/1 file. */
#ifndef SIM_REPORT_RESULT_VIEW_H
#define SIM_REPORT_RESULT_VIEW_H
#include <stddef.h>
#include <stdint.h>

#include "sim/base/err.h"

enum {
  SHARE_COMPUTE,
  SHARE_PADDING,
  SHARE_RECOMPUTE,
  SHARE_SP_EXCHANGE,
  SHARE_GRAD_SYNC,
  SHARE_OPTIMIZER,
  SHARE_HOST,
  SHARE_IDLE,
  SHARES
};
struct share_style {
  const char *key, *label; /* key: in the result; label: in legends */
  unsigned colour;
};
extern const struct share_style share_styles[SHARES];

#define RESULT_MAX_POLICIES 32
#define RESULT_MAX_SPS 24 /* SP degrees 2^0 to 2^23 */

struct result_policy {
  char name[64];
  double tokens_per_s, speedup;
  double speedup_low, speedup_high; /* equal to speedup when there is no interval */
  double padding_frac, imbalance_frac;
  double share[SHARES];
  double sp_frac[RESULT_MAX_SPS]; /* of the real tokens, by log2 of the SP degree; all 0 when there is no histogram */
};

struct result_view {
  char subtitle[256]; /* "wikipedia (1,000,000 samples) on llama2-7b, h200_8x4 (32 GPUs)" */
  int64_t gpus;
  struct result_policy policies[RESULT_MAX_POLICIES];
  int n;
  size_t longest_name; /* bytes */
};

int result_view_read(struct result_view *v, const char *path, struct err *err);

#endif
