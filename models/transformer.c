#include "models/transformer.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/share.h"
#include "sim/base/units.h"

#define PRESET_FOLDER "models/presets"
#define MAX_PRESETS 256
#define MAX_DIMENSION (INT64_C(1) << 24)
#define MAX_PARAMS INT64_C(1000000000000000) /* a thousand trillion: bytes of their states fit int64 */

static const char *const model_keys[] = {
    "schema",      "name",         "source",      "is_2d",         "causal",        "layers",
    "hidden",      "heads",        "kv_heads",    "head_dim",      "ffn",           "mlp_matrices",
    "vocab",       "qk_norm",      "norm_bias",   "linear_bias",   "qkv_bias",      "tied_embeddings",
    "in_channels", "out_channels", "text_tokens", "text_channels", "frequency_dim", "learned_positions",
    NULL};

/* The keys every model has. */
static int read_common(struct transformer *m, const struct json_doc *doc, struct err *err) {
  const char *name = "", *source = "";
  int64_t layers = 0, matrices = 2;
  if (json_get_string(doc, doc->root, "name", true, &name, err) ||
      json_get_string(doc, doc->root, "source", true, &source, err) ||
      json_get_bool(doc, doc->root, "is_2d", false, &m->is_2d, err) ||
      json_get_int(doc, doc->root, "layers", true, 1, 1024, &layers, err) ||
      json_get_int(doc, doc->root, "hidden", true, 1, MAX_DIMENSION, &m->hidden, err) ||
      json_get_int(doc, doc->root, "heads", true, 1, MAX_DIMENSION, &m->heads, err))
    return -1;
  m->kv_heads = m->heads;
  m->head_dim = m->hidden / m->heads;
  m->ffn = 4 * m->hidden;
  if (json_get_int(doc, doc->root, "kv_heads", false, 1, MAX_DIMENSION, &m->kv_heads, err) ||
      json_get_int(doc, doc->root, "head_dim", false, 1, MAX_DIMENSION, &m->head_dim, err) ||
      json_get_int(doc, doc->root, "ffn", false, 1, MAX_DIMENSION, &m->ffn, err) ||
      json_get_int(doc, doc->root, "mlp_matrices", false, 2, 3, &matrices, err) ||
      json_get_bool(doc, doc->root, "qk_norm", false, &m->qk_norm, err))
    return -1;
  if (strlen(name) >= sizeof m->name || strlen(source) >= sizeof m->source)
    return json_error(doc, json_object_get(doc->root, "name"), err,
                      "'name' or 'source' is too long (at most %zu and %zu)", sizeof m->name - 1, sizeof m->source - 1);
  strcpy(m->name, name);
  strcpy(m->source, source);
  m->layers = (int)layers;
  m->mlp_matrices = (int)matrices;
  if (m->heads % m->kv_heads != 0)
    return json_error(doc, json_object_get(doc->root, "kv_heads"), err, "'kv_heads' %lld does not divide 'heads' %lld",
                      (long long)m->kv_heads, (long long)m->heads);
  if (m->heads * m->head_dim > MAX_DIMENSION)
    return json_error(doc, json_object_get(doc->root, "heads"), err,
                      "'heads' x 'head_dim' must be at most %lld, got %lld", (long long)MAX_DIMENSION,
                      (long long)(m->heads * m->head_dim));
  if (m->head_dim == 0)
    return json_error(doc, json_object_get(doc->root, "heads"), err,
                      "'heads' must be at most 'hidden', got %lld and %lld", (long long)m->heads, (long long)m->hidden);
  return 0;
}

static int refuse_keys(const struct json_doc *doc, const char *const *keys, const char *why, struct err *err) {
  for (; *keys; keys++) {
    const json_t *value = json_object_get(doc->root, *keys);
    if (value)
      return json_error(doc, value, err, "'%s' is for %s models only", *keys, why);
  }
  return 0;
}

static int read_1d(struct transformer *m, const struct json_doc *doc, struct err *err) {
  static const char *const others[] = {"text_tokens",  "text_channels", "in_channels",
                                       "out_channels", "frequency_dim", NULL};
  m->causal = true;
  if (refuse_keys(doc, others, "2D", err) || json_get_bool(doc, doc->root, "causal", false, &m->causal, err) ||
      json_get_int(doc, doc->root, "vocab", true, 1, MAX_DIMENSION, &m->vocab, err) ||
      json_get_bool(doc, doc->root, "tied_embeddings", false, &m->tied_embeddings, err) ||
      json_get_bool(doc, doc->root, "norm_bias", false, &m->norm_bias, err) ||
      json_get_bool(doc, doc->root, "linear_bias", false, &m->linear_bias, err) ||
      json_get_bool(doc, doc->root, "qkv_bias", false, &m->qkv_bias, err) ||
      json_get_int(doc, doc->root, "learned_positions", false, 0, MAX_DIMENSION, &m->learned_positions, err))
    return -1;
  return 0;
}

static int read_2d(struct transformer *m, const struct json_doc *doc, struct err *err) {
  static const char *const others[] = {"vocab",    "causal",      "tied_embeddings",   "norm_bias",
                                       "qkv_bias", "linear_bias", "learned_positions", NULL};
  if (refuse_keys(doc, others, "1D", err) ||
      json_get_int(doc, doc->root, "text_tokens", true, 1, MAX_DIMENSION, &m->text_tokens, err) ||
      json_get_int(doc, doc->root, "text_channels", true, 1, MAX_DIMENSION, &m->text_channels, err) ||
      json_get_int(doc, doc->root, "in_channels", true, 1, MAX_DIMENSION, &m->in_channels, err) ||
      json_get_int(doc, doc->root, "out_channels", true, 1, MAX_DIMENSION, &m->out_channels, err) ||
      json_get_int(doc, doc->root, "frequency_dim", true, 1, MAX_DIMENSION, &m->frequency_dim, err))
    return -1;
  if (m->kv_heads != m->heads)
    return json_error(doc, json_object_get(doc->root, "kv_heads"), err, "'kv_heads' must equal 'heads' in a 2D model");
  m->linear_bias = true;
  return 0;
}

static int load_file(struct transformer *out, const char *path, struct err *err) {
  struct json_doc doc = {0};
  struct transformer m = {0};
  if (json_doc_read(&doc, "model", path, "dcpsim.model/1", err))
    return -1;
  int rc = json_check_keys(&doc, doc.root, model_keys, err);
  if (rc == 0)
    rc = read_common(&m, &doc, err);
  if (rc == 0)
    rc = m.is_2d ? read_2d(&m, &doc, err) : read_1d(&m, &doc, err);
  if (rc == 0 && transformer_params(&m) > MAX_PARAMS)
    rc = json_error(&doc, json_object_get(doc.root, "hidden"), err, "a model of %.4g parameters: more than %.4g",
                    (double)transformer_params(&m), (double)MAX_PARAMS);
  json_doc_release(&doc);
  if (rc == 0)
    *out = m;
  return rc;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Preset names in alphabetical order, NULL-terminated; the caller frees them with free_presets. */
static int list_presets(char *names[MAX_PRESETS + 1]) {
  char folder[4096];
  int n = 0;
  names[0] = NULL;
  DIR *dir = share_path(folder, sizeof folder, PRESET_FOLDER) ? NULL : opendir(folder);
  if (!dir)
    return 0;
  for (struct dirent *e = readdir(dir); e && n < MAX_PRESETS; e = readdir(dir)) {
    size_t length = strlen(e->d_name);
    if (length <= 5 || e->d_name[0] == '.' || strcmp(e->d_name + length - 5, ".json") != 0)
      continue;
    names[n] = xstrdup(e->d_name);
    names[n++][length - 5] = '\0';
  }
  closedir(dir);
  qsort(names, (size_t)n, sizeof names[0], compare_names);
  names[n] = NULL;
  return n;
}

static void free_presets(char *names[]) {
  for (; *names; names++)
    free(*names);
}

static int unknown_model(const char *name, struct err *err) {
  char *names[MAX_PRESETS + 1], all[768] = "";
  int n = list_presets(names);
  for (int i = 0; i < n; i++) {
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
  }
  const char *near = nearest_word(name, (const char *const *)names);
  if (near)
    err_usage(err, "unknown model '%s': did you mean '%s'? valid: %s, or a JSON file", name, near, all);
  else
    err_usage(err, "unknown model '%s'; valid: %s, or a JSON file", name, n ? all : "(no presets found)");
  free_presets(names);
  return -1;
}

static bool looks_like_path(const char *s) {
  size_t length = strlen(s);
  return strchr(s, '/') || (length > 5 && strcmp(s + length - 5, ".json") == 0);
}

int transformer_load(struct transformer *out, const char *name_or_path, struct err *err) {
  char relative[256], path[4096];
  if (looks_like_path(name_or_path))
    return load_file(out, name_or_path, err);
  int length = snprintf(relative, sizeof relative, PRESET_FOLDER "/%s.json", name_or_path);
  if (!*name_or_path || length >= (int)sizeof relative || share_path(path, sizeof path, relative))
    return unknown_model(name_or_path, err);
  return load_file(out, path, err);
}

void transformer_list(FILE *out) {
  char *names[MAX_PRESETS + 1];
  int n = list_presets(names);
  for (int i = 0; i < n; i++) {
    struct transformer m;
    struct err err = {0};
    if (transformer_load(&m, names[i], &err))
      fprintf(out, "%-18s  %s\n", names[i], err.msg);
    else
      fprintf(out, "%-18s  %s  %8.1fM  %3d %-6s  %s\n", names[i], m.is_2d ? "2D" : "1D",
              (double)transformer_params(&m) * 1e-6, m.layers, m.is_2d ? "pairs" : "layers", m.source);
  }
  free_presets(names);
}

const char *transformer_module_name(const struct transformer *m, int module) {
  ASSERT(module >= 0 && module < transformer_modules(m));
  if (!m->is_2d)
    return "layer";
  return module == 0 ? "spatial" : "temporal";
}

/* weights of in x out plus its bias */
static int64_t linear_params(int64_t in, int64_t out, bool bias) { return in * out + (bias ? out : 0); }

static int64_t mlp_params(const struct transformer *m) {
  return (m->mlp_matrices - 1) * linear_params(m->hidden, m->ffn, m->linear_bias) +
         linear_params(m->ffn, m->hidden, m->linear_bias);
}

int64_t transformer_block_params(const struct transformer *m, int module) {
  ASSERT(module >= 0 && module < transformer_modules(m));
  const int64_t h = m->hidden, q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
  const bool bias = m->linear_bias;
  int64_t self = linear_params(h, q + 2 * kv, bias || m->qkv_bias) + linear_params(q, h, bias);
  int64_t qk_norm = m->qk_norm ? 2 * m->head_dim : 0;
  if (!m->is_2d)
    return self + qk_norm + mlp_params(m) + 2 * h * (m->norm_bias ? 2 : 1);
  int64_t cross = linear_params(h, q, bias) + linear_params(h, 2 * q, bias) + linear_params(q, h, bias);
  return self + qk_norm + cross + mlp_params(m) + 6 * h;
}

int64_t transformer_other_params(const struct transformer *m) {
  const int64_t h = m->hidden;
  if (!m->is_2d)
    return m->vocab * h * (m->tied_embeddings ? 1 : 2) + m->learned_positions * h + h * (m->norm_bias ? 2 : 1);
  int64_t patch = linear_params(m->in_channels, h, true);
  int64_t times = 2 * (linear_params(m->frequency_dim, h, true) + linear_params(h, h, true));
  int64_t modulation = linear_params(h, 6 * h, true);
  int64_t caption = linear_params(m->text_channels, h, true) + linear_params(h, h, true);
  int64_t final = linear_params(h, m->out_channels, true) + 2 * h;
  return patch + times + modulation + caption + final;
}

int64_t transformer_params(const struct transformer *m) {
  int64_t total = transformer_other_params(m);
  for (int module = 0; module < transformer_modules(m); module++)
    total += m->layers * transformer_block_params(m, module);
  return total;
}

static struct sample_flops forward_flops_1d(const struct transformer *m, double tokens) {
  const double h = (double)m->hidden, q = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
  double block = h * (q + 2 * kv) + q * h + (double)m->mlp_matrices * h * (double)m->ffn;
  struct sample_flops f = {0};
  f.gemm = 2 * tokens * (m->layers * block + h * (double)m->vocab);
  f.attention = m->layers * (m->causal ? 2.0 : 4.0) * tokens * tokens * q;
  return f;
}

static struct sample_flops forward_flops_2d(const struct transformer *m, double frames, double positions) {
  const double h = (double)m->hidden, q = (double)(m->heads * m->head_dim), text = (double)m->text_tokens;
  const double tokens = frames * positions, blocks = 2.0 * m->layers;
  double per_token = h * 3 * q + q * h + 2 * h * q + (double)m->mlp_matrices * h * (double)m->ffn;
  struct sample_flops f = {0};
  f.gemm = 2 * blocks * (tokens * per_token + text * h * 2 * q); /* cross K, V of the caption */
  f.gemm += 2 * (tokens * h * (double)m->out_channels + text * h * h + 2 * h * h + 6 * h * h);
  f.edge_gemm = 2 * (tokens * (double)m->in_channels * h + text * (double)m->text_channels * h +
                     2 * (double)m->frequency_dim * h);
  f.attention = m->layers * 4.0 * frames * positions * positions * q + blocks * 4.0 * tokens * text * q;
  if (frames > 1)
    f.temporal = m->layers * 4.0 * positions * frames * frames * q;
  return f;
}

struct sample_flops transformer_forward_flops(const struct transformer *m, int64_t a, int64_t b) {
  return m->is_2d ? forward_flops_2d(m, (double)a, (double)b) : forward_flops_1d(m, (double)a);
}

double transformer_sample_flops(const struct transformer *m, int64_t a, int64_t b) {
  struct sample_flops f = transformer_forward_flops(m, a, b);
  return 3 * (f.gemm + f.edge_gemm + f.attention + f.temporal);
}
