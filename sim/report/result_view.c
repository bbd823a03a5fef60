#include "sim/report/result_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/number_text.h"
#include "sim/report/gnuplot.h"

const struct share_style share_styles[SHARES] = {
    [SHARE_COMPUTE] = {"compute", "compute", COLOUR_BLUE},
    [SHARE_PADDING] = {"padding", "padding", COLOUR_SKY},
    [SHARE_RECOMPUTE] = {"recompute", "recompute", COLOUR_GREEN},
    [SHARE_SP_EXCHANGE] = {"sp_exchange", "SP exchange", COLOUR_ORANGE},
    [SHARE_GRAD_SYNC] = {"grad_sync", "gradient sync", COLOUR_VERMILLION},
    [SHARE_OPTIMIZER] = {"optimizer", "optimizer", COLOUR_PURPLE},
    [SHARE_HOST] = {"host", "host", COLOUR_YELLOW},
    [SHARE_IDLE] = {"idle", "idle", COLOUR_GREY},
};

static int read_subtitle(const struct json_doc *doc, struct result_view *v, struct err *err) {
  json_t *trace;
  const char *name, *model, *cluster;
  int64_t samples;
  if (json_get_object(doc, doc->root, "trace", true, &trace, err) < 0 ||
      json_get_string(doc, trace, "name", true, &name, err) < 0 ||
      json_get_int(doc, trace, "samples", true, 0, INT64_MAX, &samples, err) < 0 ||
      json_get_string(doc, doc->root, "model", true, &model, err) < 0 ||
      json_get_string(doc, doc->root, "cluster", true, &cluster, err) < 0 ||
      json_get_int(doc, doc->root, "gpus", true, 1, INT64_MAX, &v->gpus, err) < 0)
    return -1;
  snprintf(v->subtitle, sizeof v->subtitle, "%.80s (%s samples) on %.48s, %.48s (%" PRId64 " GPUs)", name,
           grouped_text(samples).text, model, cluster, v->gpus);
  return 0;
}

static int read_share(const struct json_doc *doc, const json_t *policy, struct result_policy *p, struct err *err) {
  json_t *share;
  if (json_get_object(doc, policy, "share", true, &share, err) < 0)
    return -1;
  for (int i = 0; i < SHARES; i++)
    if (json_get_double(doc, share, share_styles[i].key, true, 0, 1, &p->share[i], err) < 0)
      return -1;
  return 0;
}

/* [low, high]; null or absent when only one order of samples was run. */
static void read_interval(const json_t *policy, struct result_policy *p) {
  const json_t *interval = json_object_get(policy, "speedup_interval");
  const json_t *low = json_array_get(interval, 0), *high = json_array_get(interval, 1);
  p->speedup_low = json_is_number(low) ? json_number_value(low) : p->speedup;
  p->speedup_high = json_is_number(high) ? json_number_value(high) : p->speedup;
}

static int read_histogram(const struct json_doc *doc, const json_t *policy, struct result_policy *p, struct err *err) {
  json_t *histogram = NULL;
  const char *key;
  json_t *value;
  if (json_get_object(doc, policy, "sp_histogram", false, &histogram, err) < 0)
    return -1;
  json_object_foreach(histogram, key, value) {
    char *end;
    long sp = strtol(key, &end, 10);
    if (*end || sp < 1 || sp >= 1L << RESULT_MAX_SPS || (sp & (sp - 1)) != 0)
      return json_error(doc, value, err, "'sp_histogram': an SP degree is a power of two, got '%.40s'", key);
    if (json_get_double(doc, histogram, key, true, 0, 1, &p->sp_frac[ilogb((double)sp)], err) < 0)
      return -1;
  }
  return 0;
}

static int read_policy(const struct json_doc *doc, const json_t *policy, struct result_policy *p, struct err *err) {
  const char *name;
  if (!json_is_object(policy))
    return json_error(doc, policy, err, "a policy must be an object");
  if (json_get_string(doc, policy, "name", true, &name, err) < 0 ||
      json_get_double(doc, policy, "tokens_per_s", true, 0, 1e300, &p->tokens_per_s, err) < 0 ||
      json_get_double(doc, policy, "speedup", true, 0, 1e300, &p->speedup, err) < 0 ||
      json_get_double(doc, policy, "padding_frac", true, 0, 1, &p->padding_frac, err) < 0 ||
      json_get_double(doc, policy, "imbalance_frac", true, 0, 1, &p->imbalance_frac, err) < 0 ||
      read_share(doc, policy, p, err) < 0 || read_histogram(doc, policy, p, err) < 0)
    return -1;
  snprintf(p->name, sizeof p->name, "%s", name);
  read_interval(policy, p);
  return 0;
}

static int read_policies(const struct json_doc *doc, struct result_view *v, struct err *err) {
  json_t *policies, *policy;
  size_t i;
  if (json_get_array(doc, doc->root, "policies", true, &policies, err) < 0)
    return -1;
  size_t n = json_array_size(policies);
  if (n == 0 || n > RESULT_MAX_POLICIES)
    return json_error(doc, policies, err, "'policies' must hold 1 to %d policies, has %zu", RESULT_MAX_POLICIES, n);
  json_array_foreach(policies, i, policy) {
    if (read_policy(doc, policy, &v->policies[v->n], err) < 0)
      return -1;
    size_t length = strlen(v->policies[v->n++].name);
    v->longest_name = length > v->longest_name ? length : v->longest_name;
  }
  return 0;
}

int result_view_read(struct result_view *v, const char *path, struct err *err) {
  struct json_doc doc;
  *v = (struct result_view){0};
  if (json_doc_read(&doc, "result", path, "dcpsim.result/1", err) < 0)
    return -1;
  int status = read_subtitle(&doc, v, err);
  if (status == 0)
    status = read_policies(&doc, v, err);
  json_doc_release(&doc);
  return status;
}
