/* Published training runs: what a row means, why rows are left out, conversions, scores, and the fit of the in-step
 * scalars on rows made to have a known answer. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calib/check_training.h"
#include "calib/fit_training.h"
#include "sim/base/units.h"
#include "sim/engine/step.h"
#include "sim/plan/lower.h"

#define HEADER                                                                                                         \
  "id,source,model,n_params,layers,hidden,heads,kv_heads,ffn_hidden,mlp_type,vocab,gpu,n_gpus,interconnect,framework," \
  "precision,attn_kernel,dp_sharding,tp,pp,cp,cp_kind,mbs,grad_accum,gbs_seqs,seqlen,recompute,offload,compile,"       \
  "tok_s_gpu,step_time_s,tflops_gpu,flops_convention,peak_mem_gib,phase1_fit,notes\n"

#define MPT_7B                                                                                                         \
  "a1,github mosaicml/llm-foundry @ 8c8d README.md,MPT-7b,6658859008,32,4096,32,32,16384,gelu,50368,H100 80GB "        \
  "SXM,16,,llm-foundry/Composer FSDP1,amp_bf16,flash or triton,FSDP FULL_SHARD (ZeRO-3),1,1,1,,6,2,192,2048,full,"     \
  "none,,10000,,,,,yes,\n"

#define LLAMA                                                                                                          \
  "b1,github NVIDIA/dgxc @ 143b README.md,Llama-3.1-8B,8030261248,32,4096,32,8,14336,swiglu,128256,H100 80GB SXM,"     \
  "16,,NeMo/Megatron-Core,bf16,TE/cuDNN,DP with distributed optimizer (ZeRO-1 like),1,1,2,Megatron CP (ring p2p),1,"   \
  "4,32,8192,none stated,,,,3.5,,,,yes,\n"

static struct table table;
static struct err error;

/* The case of one row after the header, in which `from` is replaced by `to`. */
static struct training_case read_changed(const char *row, const char *from, const char *to) {
  char text[4000];
  const char *at = strstr(row, from);
  struct training_case c;
  cr_assert(at, "'%s'", from);
  snprintf(text, sizeof text, HEADER "%.*s%s%s", (int)(at - row), row, to, at + strlen(from));
  cr_assert_eq(table_parse(&table, "rows", "r.csv", text, &error), 0, "%s", error.msg);
  cr_assert_eq(training_case_read(&c, &table, 0, &error), 0, "%s", error.msg);
  return c;
}

static struct training_case read_row(const char *row) { return read_changed(row, "github", "github"); }

Test(check_training, row_as_case) {
  struct training_case c = read_row(MPT_7B);
  cr_expect(!c.why_no_time && c.for_fit && c.why_no_memory);
  cr_expect_eq(transformer_params(&c.model), 6658859008);
  cr_expect(c.model.tied_embeddings && c.model.causal && c.model.learned_positions == 2048);
  cr_expect_str_eq(c.cluster.gpu, "h100_sxm");
  cr_expect(c.cluster.nodes == 2 && c.cluster.gpus_per_node == 8 && c.cluster.nic_bytes_per_s == 50e9);
  cr_expect_str_eq(c.framework.name, "eager");
  cr_expect(c.framework.attention_kernel == ATTENTION_FLASH_1 && c.framework.gather_bytes_per_param == 4);
  cr_expect(c.parallel.zero == 3 && c.parallel.grad_bytes == 2 && c.sp == 1);
  cr_expect(c.batch == 6 && c.micro_batches == 2 && c.recompute == CASE_RECOMPUTE_ALL);
  cr_expect_eq(training_case_tokens(&c), 16.0 * 6 * 2 * 2048);
  cr_expect_float_eq(c.measured_step_s, 6 * 2 * 2048 / 10000.0, 1e-12);
  table_release(&table);

  c = read_row(LLAMA);
  cr_expect_str_eq(c.framework.name, "fused");
  cr_expect(c.parallel.zero == 1 && c.parallel.grad_bytes == 4 && c.sp == 2 && c.parallel.sp_kind == SP_RING);
  cr_expect(c.framework.attention_kernel == ATTENTION_NEWEST && c.recompute == CASE_RECOMPUTE_NONE);
  cr_expect_eq(training_case_tokens(&c), 8.0 * 4 * 8192);
  cr_expect_eq(c.measured_step_s, 3.5);
  table_release(&table);
}

Test(check_training, variants) {
  struct training_case c = read_changed(MPT_7B, "FSDP FULL_SHARD (ZeRO-3)", "HSDP");
  cr_expect(c.parallel.zero == 3 && c.parallel.shard_node);
  table_release(&table);
  c = read_changed(MPT_7B, "SXM,16,,", "SXM,16,800 Gbps per node,");
  cr_expect_eq(c.cluster.nic_bytes_per_s, 12.5e9);
  table_release(&table);
  c = read_changed(MPT_7B, "H100 80GB SXM", "H100 96GB HBM2e 500W");
  cr_expect_float_eq(c.memory_factor, 3.35 / 2.4, 1e-12);
  cr_expect_float_eq(c.matrix_factor, 1.1447, 1e-4);
  cr_expect(!c.why_no_time && !c.for_fit);
  table_release(&table);
  c = read_changed(MPT_7B, "H100 80GB SXM", "H200 SXM");
  cr_expect(!c.why_no_time && !c.for_fit);
  cr_expect_str_eq(c.cluster.gpu, "h200_sxm");
  table_release(&table);
  c = read_changed(LLAMA, "Megatron CP (ring p2p)", "Ulysses");
  cr_expect_eq(c.parallel.sp_kind, SP_ULYSSES);
  table_release(&table);
}

Test(check_training, rows_left_out) {
  static const struct {
    const char *row, *from, *to, *why;
  } cases[] = {
      {MPT_7B, "(ZeRO-3),1,1,", "(ZeRO-3),2,1,", "tensor or pipeline"},
      {MPT_7B, "(ZeRO-3),1,1,", "(ZeRO-3),1,4,", "tensor or pipeline"},
      {MPT_7B, "amp_bf16", "bf16 + float8 linear", "float8"},
      {MPT_7B, "amp_bf16", "fp32", "not bf16"},
      {MPT_7B, "full,none", "full,CPU AdamW", "optimizer runs on the CPU"},
      {MPT_7B, "yes,\n", "partial (packed LoRA),LoRA finetuning\n", "LoRA"},
      {MPT_7B, "yes,\n", "partial (packed SFT),\n", "packs"},
      {MPT_7B, ",10000,", ",,", "throughput is not stated"},
      {MPT_7B, "llm-foundry/Composer FSDP1", "homemade", "framework"},
      {MPT_7B, "FSDP FULL_SHARD (ZeRO-3)", "mesh", "sharding"},
      {MPT_7B, "H100 80GB SXM", "A100", "H100 and H200"},
      {MPT_7B, "SXM,16,", "SXM,12,", "nodes of 8"},
      {MPT_7B, ",192,2048", ",190,2048", "batch is not"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct training_case c = read_changed(cases[i].row, cases[i].from, cases[i].to);
    cr_expect(c.why_no_time && strstr(c.why_no_time, cases[i].why), "%s: %s", cases[i].why,
              c.why_no_time ? c.why_no_time : "predicted");
    cr_expect(!c.for_fit);
    table_release(&table);
  }
  struct training_case c = read_changed(MPT_7B, "full,none,,10000,,,,", "full,CPU AdamW,,10000,,,,16.3");
  cr_expect(c.why_no_time && !c.why_no_memory && c.parallel.offload_optimizer);
  table_release(&table);
}

Test(check_training, wrong_rows) {
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
      {",10000,", ",fast,", "rows 'r.csv' line 2: 'tok_s_gpu' must be a number > 0, got 'fast'"},
      {",4096,32,", ",4096,31,", "rows 'r.csv' line 2: 'heads' must divide 'hidden', 'kv_heads' must divide 'heads'"},
      {"6658859008", "9658859008", "'n_params' says 9658859008"},
      {",6,2,192", ",6.5,2,192", "'mbs' must be an integer from 1 to 1048576, got '6.5'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[4000];
    const char *at = strstr(MPT_7B, cases[i].from);
    struct training_case c;
    snprintf(text, sizeof text, HEADER "%.*s%s%s", (int)(at - MPT_7B), MPT_7B, cases[i].to, at + strlen(cases[i].from));
    cr_assert_eq(table_parse(&table, "rows", "r.csv", text, &error), 0, "%s", error.msg);
    cr_expect_eq(training_case_read(&c, &table, 0, &error), -1);
    cr_expect(strstr(error.msg, cases[i].message), "%s", error.msg);
    table_release(&table);
  }
}

/* 32 layers, 4096 wide, 2048 tokens: N = 6,658,859,008. */
Test(check_training, flops_by_convention) {
  struct training_case c = read_row(MPT_7B);
  double n = (double)transformer_params(&c.model), lds = 32.0 * 4096 * 2048;
  cr_expect_float_eq(training_flops_per_token(&c, "MFU: 6N + 12*L*d*s per token (not halved)"), 6 * n + 12 * lds, 1);
  cr_expect_float_eq(training_flops_per_token(&c, "6*N*tok + causal attention 6*s^2*d*h*L"), 6 * n + 6 * lds, 1);
  cr_expect_float_eq(training_flops_per_token(&c, "model flops 4.74e14 per sequence"), 4.74e14 / 2048, 1e-3);
  cr_expect_eq(training_flops_per_token(&c, "something else"), 0);
  table_release(&table);
  /* 430 TFLOP/s by the first convention is 430e12 / (6N + 12Lds) tokens a second */
  c = read_changed(MPT_7B, ",10000,,,,", ",,,430,6N + 12*L*d*s,");
  cr_expect_float_eq(c.measured_step_s, 6 * 2 * 2048 / (430e12 / (6 * n + 12 * lds)), 1e-9);
  table_release(&table);
  c = read_changed(MPT_7B, ",10000,,,,", ",,,430,unstated,");
  cr_expect(c.why_no_time && strstr(c.why_no_time, "throughput"));
  table_release(&table);
}

/* One group, the others' ranks idle, takes as long as all of them. */
Test(check_training, one_group_stands_for_all) {
  static const char *const shardings[] = {"ZeRO-1", "FSDP FULL_SHARD (ZeRO-3)", "HSDP"};
  struct training_params params;
  cr_assert_eq(training_params_load(&params, NULL, &error), 0, "%s", error.msg);
  for (size_t i = 0; i < sizeof shardings / sizeof shardings[0]; i++) {
    struct training_case c = read_changed(MPT_7B, "FSDP FULL_SHARD (ZeRO-3)", shardings[i]);
    struct training_prediction p;
    struct system s = training_case_system(&c, params.h100);
    struct microbatch mb = training_case_micro_batch(&c, params.h100, false);
    struct step_group groups[16];
    struct program program;
    const struct program *list[] = {&program, &program};
    training_predict(&c, params.h100, NULL, &p);
    lower_micro_batch(&program, &s, 1, &mb);
    for (int g = 0; g < 16; g++)
      groups[g] = (struct step_group){.first_rank = g, .sp = 1, .programs = list, .n_micro_batches = 2};
    struct step_input in = {.groups = groups, .n_groups = 16};
    struct engine *engine = engine_new(&s, false);
    cr_expect_eq(engine_step(engine, &in, NULL)->step_ns, ns_from_s(p.step_s), "%s", shardings[i]);
    cr_expect_float_eq(p.work_s + p.recompute_s + p.exchange_s + p.sync_s + p.optimizer_s + p.host_s + p.idle_s,
                       p.step_s, 1e-9);
    engine_free(engine);
    program_release(&program);
    table_release(&table);
  }
  training_params_release(&params);
}

/* Rows of three lengths whose measured step is the one predicted with the scalars given, by source. */
static void make_rows(char *text, size_t size, const struct params *params, double derate, int first_id) {
  static const int lengths[] = {512, 2048, 8192};
  for (int i = 0; i < 3; i++) {
    char from[64], to[64];
    snprintf(from, sizeof from, ",192,2048,");
    snprintf(to, sizeof to, ",192,%d,", lengths[i]);
    struct training_case c = read_changed(MPT_7B, from, to);
    struct in_step_scalars scalars = {derate, 7e-6};
    struct training_prediction p;
    training_predict(&c, params, &scalars, &p);
    size_t n = strlen(text);
    snprintf(text + n, size - n,
             "x%d,github me/repo%d @ 1 f,MPT-7b,,32,4096,32,32,16384,gelu,50368,H100 80GB SXM,16,,llm-foundry,"
             "amp_bf16,,FULL_SHARD,1,1,1,,6,2,192,%d,full,none,,,%.17g,,,,yes,\n",
             first_id + i, first_id, lengths[i], p.step_s);
    table_release(&table);
  }
}

Test(check_training, fit_finds_what_rows_were_made_with) {
  char text[8000] = HEADER;
  struct training_params params;
  struct training_check check;
  struct training_fit *fit = calloc(1, sizeof *fit);
  cr_assert_eq(training_params_load(&params, NULL, &error), 0, "%s", error.msg);
  make_rows(text, sizeof text, params.h100, 1.23, 1);
  make_rows(text, sizeof text, params.h100, 1.23, 4);
  cr_assert_eq(table_parse(&table, "rows", "r.csv", text, &error), 0, "%s", error.msg);
  cr_assert_eq(training_check_run(&check, &table, 1, &params, &error), 0, "%s", error.msg);
  cr_expect(check.predicted == 6 && check.n_groups == 2 && check.groups[0].rows == 3);
  training_fit_run(fit, "eager", &check, params.h100);
  cr_expect(fit->rows == 6 && fit->n_sources == 2);
  cr_expect_float_eq(fit->scalars.compute_derate, 1.23, 2e-3);
  cr_expect(fit->mean_after < 1e-3 && fit->sources[1].mean_without < 2e-3);
  cr_expect(!fit->host_op_determined && fit->scalars.host_op_s == fit->before.host_op_s);
  training_fit_run(fit, "fused", &check, params.h100);
  cr_expect(fit->rows == 0 && fit->scalars.compute_derate == fit->before.compute_derate);
  free(fit);
  training_check_release(&check);
  table_release(&table);
  training_params_release(&params);
}

Test(check_training, parameter_file_is_updated) {
  char path[] = "/tmp/dcpsim-test-params-XXXXXX", shell[4200];
  struct training_fit fits[2] = {
      {.framework = "fused", .rows = 3, .scalars = {1.1875, 3e-6}},
      {.framework = "eager", .rows = 2, .scalars = {1.25, 9e-6}, .host_op_determined = true}};
  struct params *p = NULL;
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  snprintf(shell, sizeof shell, "cat '%s/calib/params/h100_sxm.json' >%s", DCPSIM_SOURCE_DIR, path);
  cr_assert_eq(system(shell), 0);
  char json_path[64];
  snprintf(json_path, sizeof json_path, "%s.json", path);
  cr_assert_eq(rename(path, json_path), 0);
  for (int again = 0; again < 2; again++)
    cr_assert_eq(training_fit_update_file(json_path, fits, 2, "0123456789abcdef", &error), 0, "%s", error.msg);
  cr_assert_eq(params_load(&p, json_path, &error), 0, "%s", error.msg);
  cr_expect_eq(params_in_step(p, "fused").compute_derate, 1.1875);
  cr_expect_eq(params_in_step(p, "fused").host_op_s, 3e-6);
  cr_expect_eq(params_in_step(p, "eager").compute_derate, 1.25);
  cr_expect_eq(params_in_step(p, "eager_apex").host_op_s, 9e-6);
  snprintf(shell, sizeof shell,
           "diff '%s/calib/params/h100_sxm.json' %s | grep '^[<>]' | grep -v 'compute_derate\\|host_op_s\\|source'",
           DCPSIM_SOURCE_DIR, json_path);
  cr_expect_neq(system(shell), 0); /* nothing else differs */
  params_free(p);
  unlink(json_path);
  close(fd);
}

/* The shipped rows under the shipped parameters. */
Test(check_training, shipped_rows) {
  struct training_params params;
  struct training_check check;
  struct table tables[2];
  cr_assert_eq(training_params_load(&params, NULL, &error), 0, "%s", error.msg);
  cr_assert_eq(table_read(&tables[0], "rows", DCPSIM_SOURCE_DIR "/calib/data/training_throughput.csv", &error), 0, "%s",
               error.msg);
  cr_assert_eq(table_read(&tables[1], "rows", DCPSIM_SOURCE_DIR "/calib/data/training_memory.csv", &error), 0, "%s",
               error.msg);
  cr_assert_eq(training_check_run(&check, tables, 2, &params, &error), 0, "%s", error.msg);
  cr_expect_geq(check.predicted, 50);
  cr_expect(check.mean < 0.10, "mean error %.3f", check.mean);
  for (size_t i = 0; i < check.n_groups; i++)
    cr_expect(check.groups[i].rows == 0 || check.groups[i].mean < 0.20, "%s: %.3f", check.groups[i].source,
              check.groups[i].mean);
  for (size_t i = 0; i < check.n_rows; i++) {
    const struct training_check_row *row = &check.rows[i];
    if (row->c.why_no_memory || strstr(row->c.source, "ulysses-sp")) /* that one is off: docs/VALIDATION.md */
      continue;
    double error_frac = (double)row->p.peak_bytes / GIB_BYTES / row->c.measured_memory_gib - 1;
    cr_expect(fabs(error_frac) < 0.10, "%s: %+.3f", row->c.id, error_frac);
  }
  training_check_release(&check);
  table_release(&tables[0]);
  table_release(&tables[1]);
  training_params_release(&params);
}
