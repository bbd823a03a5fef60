/* Memory: measured references, linear in kept blocks, sharding; framework tables. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"

struct fixture {
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
};

static void set_up(struct fixture *f, const char *model, const char *cluster, const char *framework) {
  struct err err = {0};
  cr_assert_eq(transformer_load(&f->model, model, &err), 0, "%s", err.msg);
  cr_assert_eq(cluster_load(&f->cluster, cluster, &err), 0, "%s", err.msg);
  cr_assert_eq(params_load(&f->params, f->cluster.gpu, &err), 0, "%s", err.msg);
  f->system =
      (struct system){.model = &f->model,
                      .cluster = &f->cluster,
                      .params = f->params,
                      .framework = framework_find(framework, &err),
                      .parallel = {.zero = 1, .grad_bytes = 2, .sp_kind = f->model.is_2d ? SP_DSP : SP_ULYSSES}};
  cr_assert(f->system.framework, "%s", err.msg);
}

static double gib(int64_t bytes) { return (double)bytes / GIB_BYTES; }

Test(models_memory, measured_saved_tensors) {
  struct fixture f;
  set_up(&f, "llama3.1-8b", "h200_8x1", "eager");
  cr_expect_float_eq(framework_block(f.system.framework, &f.model, BLOCK_LAYER).saved_u, 28.0, 0.5);
  struct transformer qwen3_4b = {.layers = 36,
                                 .hidden = 2560,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .head_dim = 128,
                                 .ffn = 9728,
                                 .mlp_matrices = 3,
                                 .vocab = 151936,
                                 .tied_embeddings = true,
                                 .qk_norm = true};
  cr_expect_float_eq(framework_block(f.system.framework, &qwen3_4b, BLOCK_LAYER).saved_u, 38.0, 0.5);
  /* GELU block, fused: 16 + 4f/h bytes of each hidden element (Korthikanti et al. without dropout) */
  struct err err = {0};
  struct transformer mpt;
  cr_assert_eq(transformer_load(&mpt, "mpt-7b", &err), 0);
  cr_expect_eq(framework_block(framework_find("fused", NULL), &mpt, BLOCK_LAYER).saved_u, 16.0);
  params_free(f.params);
}

/* 8 x H200, Llama-3.1-8B, ZeRO-3, recomputation, CPU optimizer: 12.6 GiB + 0.00043 GiB per token. */
Test(models_memory, measured_zero3) {
  struct fixture f;
  set_up(&f, "llama3.1-8b", "h200_8x1", "eager");
  f.system.parallel.zero = 3;
  f.system.parallel.offload_optimizer = true;
  f.system.parallel.head_chunk = 2048;
  static const struct {
    int64_t tokens;
    double gib;
  } measured[] = {{8192, 16.3}, {32768, 25.8}, {196608, 95.7}};
  for (int i = 0; i < 3; i++) {
    struct microbatch mb = {.batch = 1, .seqlen = measured[i].tokens, .recompute_blocks = {32}};
    double ours = gib(memory_peak_bytes(&f.system, 1, &mb, false));
    cr_expect(fabs(ours / measured[i].gib - 1) < 0.10, "%ld tokens: %.1f GiB, measured %.1f", (long)measured[i].tokens,
              ours, measured[i].gib);
  }
  params_free(f.params);
}

/* What is whole at a time, beside one rank's working set, in bytes of bf16 numbers. */
static int64_t gathered(struct fixture *f) {
  struct microbatch mb = {.batch = 1, .seqlen = 4096, .frames = 4, .positions = 64};
  int64_t bytes[2];
  for (int i = 0; i < 2; i++) {
    f->system.parallel.zero = 2 + i;
    bytes[i] = memory_parts(&f->system, 1, &mb, false).working_bytes;
  }
  return bytes[1] - bytes[0];
}

Test(models_memory, gathered_under_zero3) {
  struct fixture f;
  set_up(&f, "llama3.1-8b", "h200_8x1", "fused");
  int64_t table = 128256LL * 4096, layer = transformer_block_params(&f.model, 0);
  cr_expect_eq(gathered(&f), 2 * (2 * table + layer)); /* the head, its gradient, the last layer */
  f.model.tied_embeddings = true;
  cr_expect_eq(gathered(&f), 2 * (2 * table + 3 * layer)); /* the gradient of the table grows beside the layers' */
  params_free(f.params);
  set_up(&f, "tiny-2d", "h200_8x1", "fused");
  int64_t pair = transformer_block_params(&f.model, 0) + transformer_block_params(&f.model, 1);
  cr_expect_eq(gathered(&f), 2 * (2 * transformer_other_params(&f.model) + 3 * pair));
  params_free(f.params);
}

/* The same machine, ZeRO-2 without recomputation at 8192 tokens: 99 GiB. */
Test(models_memory, measured_zero2) {
  struct fixture f;
  set_up(&f, "llama3.1-8b", "h200_8x1", "eager");
  f.system.parallel.zero = 2;
  struct microbatch mb = {.batch = 1, .seqlen = 8192};
  double ours = gib(memory_peak_bytes(&f.system, 1, &mb, false));
  cr_expect(fabs(ours / 99 - 1) < 0.10, "%.1f GiB", ours);
  params_free(f.params);
}

static void expect_linear(struct fixture *f, int sp, struct microbatch *mb) {
  const int layers = f->model.layers;
  for (int module = 0; module < transformer_modules(&f->model); module++) {
    int64_t slope = memory_block_activation_bytes(&f->system, sp, mb, module), last = 0;
    cr_expect_gt(slope, 0);
    for (int i = 0; i < 2; i++)
      mb->recompute_blocks[i] = layers;
    for (int kept = 0; kept <= layers; kept++) {
      mb->recompute_blocks[module] = layers - kept;
      int64_t now = memory_peak_bytes(&f->system, sp, mb, true);
      if (kept > 0 && kept < layers)
        cr_expect_eq(now - last, slope);
      if (kept == layers)
        cr_expect(now - last <= slope && now >= last);
      last = now;
    }
  }
}

Test(models_memory, linear_in_kept_blocks) {
  static const char *const frameworks[] = {"fused", "eager", "eager_apex"};
  for (int i = 0; i < 3; i++) {
    struct fixture f;
    set_up(&f, "llama2-7b", "h200_8x4", frameworks[i]);
    struct microbatch text = {.batch = 2, .seqlen = 3001};
    expect_linear(&f, 4, &text);
    params_free(f.params);
    set_up(&f, "stdit3-xl-2", "h100_8x4", frameworks[i]);
    static const int64_t frames[] = {1, 15, 30};
    for (int k = 0; k < 3; k++) {
      struct microbatch video = {.batch = 3, .frames = frames[k], .positions = 405};
      expect_linear(&f, 2, &video);
    }
    struct sample pack[] = {{1, 405}, {15, 1590}, {30, 405}};
    struct microbatch packed = {.batch = 3, .packed = pack};
    expect_linear(&f, 2, &packed);
    params_free(f.params);
  }
}

Test(models_memory, packed_video_equals_padded_when_equal) {
  struct fixture f;
  set_up(&f, "stdit3-xl-2", "h100_8x4", "eager_apex");
  struct sample pack[] = {{15, 405}, {15, 405}};
  struct microbatch packed = {.batch = 2, .packed = pack}, padded = {.batch = 2, .frames = 15, .positions = 405};
  cr_expect_eq(memory_peak_bytes(&f.system, 4, &packed, false), memory_peak_bytes(&f.system, 4, &padded, false));
  params_free(f.params);
}

Test(models_memory, sharding) {
  struct fixture f;
  set_up(&f, "llama2-7b", "h200_8x4", "fused");
  const int64_t n = transformer_params(&f.model);
  struct microbatch mb = {.batch = 1, .seqlen = 4096, .recompute_blocks = {32}};
  struct memory_parts p[4];
  for (int zero = 0; zero < 4; zero++) {
    f.system.parallel.zero = zero;
    p[zero] = memory_parts(&f.system, 1, &mb, false);
    cr_expect_eq(p[zero].total_bytes, p[zero].weights_bytes + p[zero].gradients_bytes + p[zero].optimizer_bytes +
                                          p[zero].activations_bytes + p[zero].working_bytes + p[zero].logits_bytes +
                                          p[zero].reserve_bytes);
  }
  cr_expect(p[0].weights_bytes == 2 * n && p[0].gradients_bytes == 2 * n && p[0].optimizer_bytes == 12 * n);
  cr_expect(p[1].gradients_bytes == 2 * n && p[1].optimizer_bytes == 12 * n / 32);
  cr_expect(p[2].weights_bytes == 2 * n && p[2].gradients_bytes == 2 * n / 32);
  cr_expect_eq(p[3].weights_bytes, 2 * n / 32);
  cr_expect_eq(p[0].reserve_bytes, INT64_C(3) << 30);
  f.system.parallel.zero = 2;
  cr_expect_eq(memory_parts(&f.system, 1, &mb, true).gradients_bytes, 2 * n);
  f.system.parallel.shard_node = true;
  cr_expect_eq(memory_parts(&f.system, 1, &mb, false).gradients_bytes, 2 * n / 8);
  f.system.parallel.grad_bytes = 4;
  cr_expect_eq(memory_parts(&f.system, 1, &mb, false).gradients_bytes, 4 * n / 8);
  f.system.parallel.offload_optimizer = true;
  cr_expect_eq(memory_parts(&f.system, 1, &mb, false).optimizer_bytes, 0);
  f.system.parallel.head_chunk = 1024;
  cr_expect_eq(memory_parts(&f.system, 1, &mb, false).logits_bytes, 4 * 32000 * 1024);
  cr_expect_eq(memory_cap_bytes(&f.system, 0.5), f.cluster.memory_bytes / 2);
  params_free(f.params);
}

/* The counted rows of the published video set-up come out of the tables. */
Test(models_memory, counted_video_passes) {
  struct fixture f;
  set_up(&f, "stdit3-xl-2", "h100_8x4", "eager_apex");
  static const struct {
    enum block_kind kind;
    double forward_u, backward_u, saved_u;
  } counted[] = {{BLOCK_SPATIAL, 65, 144 + 18, 26},
                 {BLOCK_TEMPORAL, 101, 192 + 18, 26},
                 {BLOCK_TEMPORAL_SHORT, 109, 197 + 9, 24.7},
                 {BLOCK_TEMPORAL_ONE, 59, 130 + 9, 21}};
  for (int i = 0; i < 4; i++) {
    struct block_passes b = framework_block(f.system.framework, &f.model, counted[i].kind);
    double forward = 0, backward = 0, text = 0;
    for (int k = 0; k < b.n_forward; k++)
      forward += b.forward[k].hidden_u;
    for (int k = 0; k < b.n_backward; k++) {
      backward += b.backward[k].hidden_u;
      text += b.backward[k].text_u;
    }
    cr_expect_float_eq(forward, counted[i].forward_u, 1e-9);
    cr_expect_float_eq(backward, counted[i].backward_u, 1e-9);
    cr_expect_float_eq(text, 6, 1e-9);
    cr_expect_eq(b.saved_u, counted[i].saved_u);
    cr_expect_eq(b.host_syncs, 2);
  }
  cr_expect_eq(block_kind_of(&f.model, 1, 29), BLOCK_TEMPORAL_SHORT);
  cr_expect_eq(block_kind_of(&f.model, 1, 30), BLOCK_TEMPORAL);
  cr_expect_eq(block_kind_of(&f.model, 1, 1), BLOCK_TEMPORAL_ONE);
  cr_expect_eq(block_kind_of(&f.model, 0, 1), BLOCK_SPATIAL);
  params_free(f.params);
}

/* Fused never does or saves more than eager, and names within a list are unique. */
Test(models_memory, profiles_are_ordered) {
  static const char *const models[] = {"llama3.1-8b", "mpt-7b", "qwen2.5-7b", "stdit3-xl-2"};
  static const char *const names[] = {"fused", "eager_apex", "eager"};
  for (int i = 0; i < 4; i++) {
    struct transformer m;
    cr_assert_eq(transformer_load(&m, models[i], NULL), 0);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
      double before_bytes = 0, before_saved = 0;
      for (int k = 0; k < 3 && m.is_2d == (kind != BLOCK_LAYER); k++) {
        struct block_passes b = framework_block(framework_find(names[k], NULL), &m, (enum block_kind)kind);
        double bytes = 0;
        for (int j = 0; j < b.n_forward; j++)
          bytes += b.forward[j].hidden_u * (double)m.hidden + b.forward[j].ffn_u * (double)m.ffn +
                   b.forward[j].qkv_u * (double)((m.heads + 2 * m.kv_heads) * m.head_dim);
        for (int j = 0; j < b.n_backward; j++)
          for (int l = 0; l < j; l++)
            cr_expect(strcmp(b.backward[j].name, b.backward[l].name) != 0, "%s", b.backward[j].name);
        cr_expect(bytes >= before_bytes && b.saved_u >= before_saved, "%s %s %d: %g %g", models[i], names[k], kind,
                  bytes, b.saved_u);
        before_bytes = bytes;
        before_saved = b.saved_u;
      }
    }
  }
  struct err err = {0};
  cr_expect(framework_find("eagr", &err) == NULL && err.usage && strstr(err.msg, "eager"), "%s", err.msg);
}

/* The published profile: no reserve; 52 blocks beyond its two layers each repeat captions (300 x 1152 x 2 bytes) and
 * two modulation tensors (6 x 1152 x 2 bytes) of every sample, on every rank of the group. 1D models have neither. */
Test(models_memory, published_rule) {
  struct fixture f;
  set_up(&f, "stdit3-xl-2", "h100_8x4", "eager_apex");
  const int64_t reserve = params_reserve_bytes(f.params), per_sample = 52 * (300 + 12) * 1152 * 2;
  for (int sp = 1; sp <= 4; sp *= 4) {
    struct microbatch images = {.batch = 512, .frames = 1, .positions = 144, .recompute_blocks = {28, 28}};
    f.system.parallel.memory_rule = MEMORY_MODELLED;
    const int64_t modelled = memory_peak_bytes(&f.system, sp, &images, true);
    f.system.parallel.memory_rule = MEMORY_PUBLISHED;
    cr_expect_eq(memory_peak_bytes(&f.system, sp, &images, true), modelled - reserve + 512 * per_sample);
  }
  expect_linear(&f, 2, &(struct microbatch){.batch = 3, .frames = 15, .positions = 405});
  params_free(f.params);
  set_up(&f, "llama2-7b", "h200_8x4", "eager");
  struct microbatch text = {.batch = 2, .seqlen = 4096, .recompute_blocks = {32}};
  const int64_t modelled = memory_peak_bytes(&f.system, 1, &text, true);
  f.system.parallel.memory_rule = MEMORY_PUBLISHED;
  cr_expect_eq(memory_peak_bytes(&f.system, 1, &text, true), modelled - params_reserve_bytes(f.params));
  params_free(f.params);
}
