#include "calib/training_case.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"

#define GPUS_PER_NODE 8
#define SELECTIVE_CAP_FRAC 0.90

/* Columns that must be there; others are optional. */
static const char *const needed[] = {"id",        "source",      "model",      "layers",  "hidden",  "heads",
                                     "kv_heads",  "mlp_type",    "ffn_hidden", "vocab",   "gpu",     "n_gpus",
                                     "framework", "precision",   "tp",         "pp",      "cp",      "mbs",
                                     "seqlen",    "dp_sharding", "recompute",  "offload", "compile", NULL};

struct reader {
  const struct table *table;
  size_t row;
};

static const char *field(const struct reader *r, const char *column) {
  return table_field(r->table, r->row, table_column(r->table, column));
}

static bool has(const struct reader *r, const char *column, const char *part) {
  return strcasestr(field(r, column), part) != NULL;
}

/* A number > 0, or `missing` where the field is empty. */
static int number(const struct reader *r, const char *column, double missing, double *out, struct err *err) {
  const char *s = field(r, column);
  char *end;
  *out = missing;
  if (!*s)
    return 0;
  *out = strtod(s, &end);
  if (*end || !isfinite(*out) || *out <= 0 || *out > 1e18)
    return table_error(r->table, r->row, err, "'%s' must be a number > 0, got '%s'", column, s);
  return 0;
}

static int count(const struct reader *r, const char *column, int64_t missing, int64_t max, int64_t *out,
                 struct err *err) {
  double v;
  if (number(r, column, (double)missing, &v, err))
    return -1;
  if (v != floor(v) || v > (double)max || v < 1)
    return table_error(r->table, r->row, err, "'%s' must be an integer from 1 to %lld, got '%s'", column,
                       (long long)max, field(r, column));
  *out = (int64_t)v;
  return 0;
}

/* ---- model ---- */

/* What the columns do not hold. */
static void add_by_name(struct transformer *m, const char *name, int64_t seqlen) {
  m->head_dim = m->hidden / m->heads;
  if (strncmp(name, "MPT", 3) == 0) {
    m->tied_embeddings = m->norm_bias = m->linear_bias = true; /* only so does n_params come out, and exactly */
    m->learned_positions = seqlen;                             /* "learned positions: params grow with seqlen" */
  } else if (strncmp(name, "GPT-2", 5) == 0) {
    m->tied_embeddings = m->norm_bias = m->linear_bias = true;
    m->learned_positions = 1024;
    m->vocab = (m->vocab + 127) / 128 * 128; /* 50257 runs padded to 50304 */
  } else if (strncmp(name, "Llama-3.2-1B", 12) == 0) {
    m->tied_embeddings = true;
  } else if (strncmp(name, "Qwen3-4B", 8) == 0) {
    m->tied_embeddings = m->qk_norm = true;
    m->head_dim = 128;
  }
}

static int read_model(struct training_case *c, const struct reader *r, struct err *err) {
  struct transformer *m = &c->model;
  int64_t layers = 1;
  double stated;
  if (count(r, "layers", 0, 10000, &layers, err) || count(r, "hidden", 0, 1 << 20, &m->hidden, err) ||
      count(r, "heads", 0, 1 << 16, &m->heads, err) || count(r, "kv_heads", 0, 1 << 16, &m->kv_heads, err) ||
      count(r, "ffn_hidden", 0, 1 << 24, &m->ffn, err) || count(r, "vocab", 0, 1 << 24, &m->vocab, err) ||
      number(r, "n_params", 0, &stated, err))
    return -1;
  if (m->hidden % m->heads || m->heads % m->kv_heads)
    return table_error(r->table, r->row, err, "'heads' must divide 'hidden', 'kv_heads' must divide 'heads'");
  snprintf(m->name, sizeof m->name, "%s", field(r, "model"));
  m->layers = (int)layers;
  m->causal = true;
  m->mlp_matrices = has(r, "mlp_type", "swiglu") || has(r, "mlp_type", "geglu") ? 3 : 2;
  add_by_name(m, m->name, c->seqlen);
  if (stated > 0 && fabs((double)transformer_params(m) / stated - 1) > 0.01)
    return table_error(r->table, r->row, err, "the shape has %lld parameters, 'n_params' says %.0f",
                       (long long)transformer_params(m), stated);
  return 0;
}

/* ---- cluster ---- */

/* Memory-bound: 3.35 against 2.4 TB/s. Power-bound: dynamic power goes with the cube of the clock; 500 of 700 W, 100 W
 * of them for memory and leakage either way. */
static void slow_down_hbm2e(struct training_case *c) {
  c->memory_factor = 3.35 / 2.4;
  c->matrix_factor = cbrt((700.0 - 100) / (500 - 100));
  c->cluster.memory_bytes = (int64_t)95830 << 20; /* as the driver reports it */
  c->for_fit = false;
}

static int read_cluster(struct training_case *c, const struct reader *r, struct err *err) {
  struct cluster *cluster = &c->cluster;
  const char *gbps = strstr(field(r, "interconnect"), " Gbps per node");
  int64_t gpus;
  char name[32];
  if (count(r, "n_gpus", 0, 8 * 2048, &gpus, err))
    return -1;
  int64_t per_node = gpus < GPUS_PER_NODE ? gpus : GPUS_PER_NODE;
  bool h200 = has(r, "gpu", "H200");
  if (gpus % per_node) {
    c->why_no_time = c->why_no_memory = "its GPUs do not fill nodes of 8";
    return 0;
  }
  if (!h200 && !has(r, "gpu", "H100")) {
    c->why_no_time = c->why_no_memory = "only H100 and H200 have parameter files";
    return 0;
  }
  snprintf(name, sizeof name, "%s_%lldx%lld", h200 ? "h200" : "h100", (long long)per_node,
           (long long)(gpus / per_node));
  if (cluster_load(cluster, name, err))
    return -1;
  c->for_fit = !h200;
  if (gbps) {
    const char *start = gbps;
    while (start > field(r, "interconnect") && start[-1] >= '0' && start[-1] <= '9')
      start--;
    cluster->nic_bytes_per_s = atof(start) * 1e9 / 8 / (double)per_node;
  }
  if (has(r, "gpu", "HBM2e"))
    slow_down_hbm2e(c);
  return 0;
}

/* ---- framework ---- */

static int use_framework(struct training_case *c, const char *class) {
  const struct framework *f = framework_find(class, NULL);
  ASSERT(f);
  c->framework = *f;
  return 0;
}

static enum attention_kernel kernel_of(const struct reader *r, enum attention_kernel missing) {
  if (has(r, "attn_kernel", "cudnn") || has(r, "attn_kernel", "TE") || has(r, "attn_kernel", "flash-attn-3"))
    return ATTENTION_NEWEST;
  if (has(r, "attn_kernel", "FA2") || has(r, "attn_kernel", "flash-attn2") || has(r, "attn_kernel", "FLASH_ATTENTION"))
    return ATTENTION_FLASH_2;
  return missing;
}

static void read_framework(struct training_case *c, const struct reader *r) {
  bool compiled = strcmp(field(r, "compile"), "yes") == 0;
  c->parallel.grad_bytes = 2;
  if (has(r, "framework", "llm-foundry")) {
    use_framework(c, "eager");
    c->framework.attention_kernel = ATTENTION_FLASH_1;
    c->framework.gather_bytes_per_param = 4;
    c->framework.weight_copy_bytes = 6;
    c->framework.fp32_residual = true;
    c->framework.gradient_copy_bytes = 6 + 8 + 4; /* and 2 written for the reduction */
  } else if (has(r, "framework", "torchtitan")) {
    use_framework(c, compiled ? "fused" : "eager");
    c->framework.attention_kernel = kernel_of(r, ATTENTION_FLASH_2);
    c->framework.loss_bytes_per_logit = framework_find("eager", NULL)->loss_bytes_per_logit; /* blocks are compiled */
    c->framework.logits_bytes = framework_find("eager", NULL)->logits_bytes;
    c->parallel.grad_bytes = 4;
  } else if (has(r, "framework", "fms-fsdp")) {
    use_framework(c, compiled ? "fused" : "eager");
    c->framework.attention_kernel = kernel_of(r, ATTENTION_FLASH_2);
    c->framework.weight_copy_bytes = 0;
  } else if (has(r, "framework", "NeMo") || has(r, "framework", "Megatron")) {
    use_framework(c, "fused");
    c->framework.attention_kernel = kernel_of(r, ATTENTION_NEWEST);
    c->parallel.grad_bytes = 4;
  } else if (has(r, "framework", "HF") || has(r, "framework", "TRL")) {
    use_framework(c, "eager");
    c->framework.attention_kernel = kernel_of(r, ATTENTION_FLASH_2);
  } else if (has(r, "framework", "llm.c")) {
    use_framework(c, "fused");
    c->framework.attention_kernel = kernel_of(r, ATTENTION_NEWEST);
  } else {
    use_framework(c, "eager");
    c->why_no_time = c->why_no_memory = "its framework is not in the table of set-ups";
  }
  c->sgd = has(r, "notes", "SGD step");
}

/* ---- parallel configuration ---- */

static void read_sharding(struct training_case *c, const struct reader *r) {
  struct parallel *p = &c->parallel;
  if (has(r, "dp_sharding", "HSDP")) {
    p->zero = 3;
    p->shard_node = true;
  } else if (has(r, "dp_sharding", "FULL_SHARD") || has(r, "dp_sharding", "ZeRO-3") || has(r, "dp_sharding", "FSDP2")) {
    p->zero = 3;
  } else if (has(r, "dp_sharding", "SHARD_GRAD_OP") || has(r, "dp_sharding", "ZeRO-2")) {
    p->zero = 2;
  } else if (has(r, "dp_sharding", "ZeRO-1") || has(r, "dp_sharding", "distributed optimizer")) {
    p->zero = 1;
  } else if (*field(r, "dp_sharding") && !has(r, "dp_sharding", "none")) {
    c->why_no_time = c->why_no_memory = "its sharding is not in the table of set-ups";
  }
  p->sp_kind = has(r, "cp_kind", "ulysses") ? SP_ULYSSES : SP_RING;
  if (c->sp == 1)
    p->sp_kind = SP_ULYSSES;
  p->offload_optimizer = has(r, "offload", "CPU");
  /* DeepSpeed's long-sequence recipe computes head and loss in tiles; its slope per token is below that of whole logits
   */
  if (has(r, "framework", "DeepSpeed 0.19") || has(r, "notes", "tiled"))
    p->head_chunk = 2048;
}

static void read_recompute(struct training_case *c, const struct reader *r) {
  const char *s = field(r, "recompute");
  if (strncmp(s, "full", 4) == 0)
    c->recompute = CASE_RECOMPUTE_ALL;
  else if (strcasestr(s, "op-level"))
    c->recompute = CASE_RECOMPUTE_SOME_OPS;
  else if (strncmp(s, "selective", 9) == 0)
    c->recompute = CASE_RECOMPUTE_TO_FIT;
}

static int read_batch(struct training_case *c, const struct reader *r, struct err *err) {
  int64_t sp, gpus = cluster_gpus(&c->cluster), accumulation, global;
  if (count(r, "cp", 1, 1 << 14, &sp, err) || count(r, "mbs", 0, 1 << 20, &c->batch, err) ||
      count(r, "gbs_seqs", 1, 1 << 30, &global, err) || count(r, "grad_accum", 1, 1 << 20, &accumulation, err))
    return -1;
  c->sp = (int)sp;
  c->micro_batches = (int)accumulation;
  if (c->why_no_time)
    return 0;
  if (gpus % sp)
    c->why_no_time = c->why_no_memory = "its sequence parallel groups do not fill the GPUs";
  else if (*field(r, "gbs_seqs") && global != gpus / sp * c->batch * accumulation)
    c->why_no_time = "its batch is not GPUs x micro-batch x accumulation";
  return 0;
}

static const char *obstacle(const struct reader *r) {
  if (strcmp(field(r, "tp"), "1") != 0 || strcmp(field(r, "pp"), "1") != 0)
    return "tensor or pipeline parallelism";
  if (has(r, "precision", "float8") || has(r, "precision", "fp8"))
    return "float8 matrix products";
  if (!has(r, "precision", "bf16"))
    return "not bf16";
  if (has(r, "notes", "LoRA") || has(r, "phase1_fit", "LoRA"))
    return "LoRA: most weight gradients are not computed";
  if (has(r, "phase1_fit", "packed") || has(r, "notes", "packed"))
    return "packs of samples of unstated lengths";
  return NULL;
}

double training_flops_per_token(const struct training_case *c, const char *convention) {
  const struct transformer *m = &c->model;
  double dense = 6 * (double)transformer_params(m);
  double attention = (double)m->layers * (double)(m->heads * m->head_dim) * (double)c->seqlen;
  if (strstr(convention, "6N + 12*L*d*s"))
    return dense + 12 * attention;
  if (strstr(convention, "6*N*tok + causal attention"))
    return dense + 6 * attention;
  const char *stated = strstr(convention, "model flops ");
  if (stated && strstr(convention, "per sequence"))
    return strtod(stated + strlen("model flops "), NULL) / (double)c->seqlen;
  return 0;
}

double training_case_tokens(const struct training_case *c) {
  return (double)(cluster_gpus(&c->cluster) / c->sp) * (double)c->batch * c->micro_batches * (double)c->seqlen;
}

static int read_measured(struct training_case *c, const struct reader *r, struct err *err) {
  double tokens_per_s, tflops;
  if (number(r, "step_time_s", 0, &c->measured_step_s, err) || number(r, "tok_s_gpu", 0, &tokens_per_s, err) ||
      number(r, "tflops_gpu", 0, &tflops, err) || number(r, "peak_mem_gib", 0, &c->measured_memory_gib, err))
    return -1;
  double per_token = training_flops_per_token(c, field(r, "flops_convention"));
  if (!(tokens_per_s > 0) && tflops > 0 && per_token > 0)
    tokens_per_s = tflops * 1e12 / per_token;
  if (!(c->measured_step_s > 0) && tokens_per_s > 0 && !c->why_no_time)
    c->measured_step_s = training_case_tokens(c) / (tokens_per_s * cluster_gpus(&c->cluster));
  if (!(c->measured_memory_gib > 0))
    c->why_no_memory = "memory is not stated";
  if (!(c->measured_step_s > 0) && !c->why_no_time)
    c->why_no_time = "throughput is not stated";
  return 0;
}

int training_case_read(struct training_case *out, const struct table *t, size_t i, struct err *err) {
  const struct reader r = {t, i};
  struct training_case *c = out;
  *c = (struct training_case){.matrix_factor = 1, .memory_factor = 1};
  for (int k = 0; needed[k]; k++)
    if (table_column(t, needed[k]) < 0)
      return table_error(t, i, err, "column '%s' is missing", needed[k]);
  c->id = field(&r, "id");
  c->source = field(&r, "source");
  c->why_no_time = c->why_no_memory = obstacle(&r);
  if (count(&r, "seqlen", 0, 1 << 30, &c->seqlen, err) || read_model(c, &r, err))
    return -1;
  read_framework(c, &r);
  if (read_cluster(c, &r, err) || read_batch(c, &r, err))
    return -1;
  read_sharding(c, &r);
  read_recompute(c, &r);
  if (!c->why_no_time && *field(&r, "offload") && !has(&r, "offload", "none"))
    c->why_no_time = "the optimizer runs on the CPU; only its memory is predicted";
  if (read_measured(c, &r, err))
    return -1;
  c->for_fit = c->for_fit && !c->why_no_time;
  return 0;
}

/* ---- the case as the models see it ---- */

struct system training_case_system(const struct training_case *c, const struct params *params) {
  return (struct system){&c->model, &c->cluster, params, &c->framework, c->parallel};
}

/* PyTorch's op-level policy keeps every second matrix product in the order of execution (q, v, w1, w2 of q, k, v, o,
 * w1, w3, w2) and attention, and repeats k, o, w3: as whole blocks of equal matrix work. */
static int blocks_of_ops(const struct transformer *m) {
  double h = (double)m->hidden, q = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
  double mlp = h * (double)m->ffn, all = 2 * h * q + 2 * h * kv + m->mlp_matrices * mlp;
  double repeated = h * kv + h * q + (m->mlp_matrices - 2) * mlp;
  return (int)lround(repeated / all * m->layers);
}

/* The same as whole blocks of equal saved bytes: a block keeps its input, q, v, attention's output, w1's and w2's. */
static int saved_blocks_of_ops(const struct training_case *c) {
  const struct transformer *m = &c->model;
  double h = (double)m->hidden, q = (double)(m->heads * m->head_dim) / h, kv = (double)(m->kv_heads * m->head_dim) / h;
  double kept = 1 + 2 * q + kv + (double)m->ffn / h + 1;
  double all = framework_block(&c->framework, m, BLOCK_LAYER).saved_u;
  return m->layers - (int)lround(m->layers * fmin(1, (kept - 1) / (all - 1)));
}

/* Every k-th block: the largest k up to 4 that fits. */
static int blocks_to_fit(const struct training_case *c, const struct params *params) {
  const struct system s = training_case_system(c, params);
  struct microbatch mb = {.batch = c->batch, .seqlen = c->seqlen};
  int k = 4;
  do {
    mb.recompute_blocks[0] = (c->model.layers + k - 1) / k;
  } while (memory_peak_bytes(&s, c->sp, &mb, false) > memory_cap_bytes(&s, SELECTIVE_CAP_FRAC) && --k > 0);
  return mb.recompute_blocks[0];
}

struct microbatch training_case_micro_batch(const struct training_case *c, const struct params *params,
                                            bool for_memory) {
  struct microbatch mb = {.batch = c->batch, .seqlen = c->seqlen};
  switch (c->recompute) {
  case CASE_RECOMPUTE_NONE:
    break;
  case CASE_RECOMPUTE_ALL:
    mb.recompute_blocks[0] = c->model.layers;
    break;
  case CASE_RECOMPUTE_SOME_OPS:
    mb.recompute_blocks[0] = for_memory ? saved_blocks_of_ops(c) : blocks_of_ops(&c->model);
    break;
  case CASE_RECOMPUTE_TO_FIT:
    mb.recompute_blocks[0] = blocks_to_fit(c, params);
    break;
  }
  return mb;
}
