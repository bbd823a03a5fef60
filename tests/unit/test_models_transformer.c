/* Shapes: parameter counts that are published, FLOPs, presets and bad model files. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/transformer.h"

static struct transformer load(const char *name) {
  struct transformer m;
  struct err err = {0};
  cr_assert_eq(transformer_load(&m, name, &err), 0, "%s", err.msg);
  return m;
}

Test(models_transformer, parameter_counts) {
  static const struct {
    const char *name;
    int64_t params;
  } published[] = {
      {"stdit3-xl-2", 1207643936}, {"llama2-7b", 6738415616},   {"llama2-13b", 13015864320},
      {"llama2-70b", 68976648192}, {"llama3.1-8b", 8030261248}, {"llama3.1-70b", 70553706496},
      {"qwen2.5-7b", 7615616512},  {"mpt-760m", 760470528},     {"mpt-1b", 1315950592},
      {"mpt-3b", 2651837440},      {"mpt-7b", 6658859008},      {"mpt-13b", 12853954560},
      {"mpt-30b", 29975214080},    {"mpt-70b", 64862437376},
  };
  for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
    struct transformer m = load(published[i].name);
    cr_expect_eq(transformer_params(&m), published[i].params, "%s: %lld", m.name, (long long)transformer_params(&m));
  }
  struct transformer m = load("stdit3-xl-2");
  cr_expect_eq(transformer_block_params(&m, 0), 21255696);
  cr_expect_eq(transformer_block_params(&m, 1), 21255696);
  m = load("gpt-5b");
  cr_expect(transformer_params(&m) > 4900000000 && transformer_params(&m) < 5200000000);
  m = load("st-dit-5b");
  cr_expect(transformer_params(&m) > 4900000000 && transformer_params(&m) < 5100000000);
  m = load("gpt-1.2b");
  cr_expect(transformer_params(&m) > 1150000000 && transformer_params(&m) < 1250000000);
}

/* Longer learned positions give the published counts of the other rows, too. */
Test(models_transformer, learned_positions) {
  struct transformer m = load("mpt-7b");
  m.learned_positions = 8192;
  cr_expect_eq(transformer_params(&m), 6684024832);
  m = load("mpt-3b");
  m.learned_positions = 65536;
  cr_expect_eq(transformer_params(&m), 2814366720);
}

Test(models_transformer, every_preset_loads_and_is_listed) {
  static const char *const names[] = {"stdit3-xl-2", "st-dit-5b",       "gpt-1.2b",    "gpt-5b",       "llama2-7b",
                                      "llama2-13b",  "llama2-70b",      "llama3.1-8b", "llama3.1-70b", "mpt-125m",
                                      "mpt-350m",    "mpt-760m",        "mpt-1b",      "mpt-3b",       "mpt-7b",
                                      "mpt-13b",     "mpt-30b",         "mpt-70b",     "qwen2.5-7b",   "tiny-1d",
                                      "tiny-2d",     "megatron-dcp-12l"};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  transformer_list(out);
  fclose(out);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct transformer m = load(names[i]);
    cr_expect_str_eq(m.name, names[i]);
    cr_expect(strlen(m.source) > 0);
    cr_expect(strstr(text, names[i]) != NULL, "%s", names[i]);
  }
  free(text);
}

Test(models_transformer, flops) {
  struct transformer m = load("llama2-7b");
  /* 6 per parameter (embedding table excluded, head included) and token, plus causal attention: 6 L h T^2 */
  double t = 4096, dense = 6 * (double)(transformer_params(&m) - m.vocab * m.hidden - 65 * m.hidden) * t;
  double attention = 6.0 * m.layers * t * t * (double)m.hidden;
  cr_expect_float_eq(transformer_sample_flops(&m, 4096, 1) / (dense + attention), 1, 1e-12);
  m = load("stdit3-xl-2");
  struct sample_flops one = transformer_forward_flops(&m, 1, 400), many = transformer_forward_flops(&m, 15, 400);
  cr_expect_eq(one.temporal, 0);
  cr_expect_float_eq(many.temporal, 28 * 4.0 * 400 * 15 * 15 * 1152, 1);
  cr_expect_gt(many.gemm, 10 * one.gemm);
}

/* Writes text to a fresh file and returns what loading it says. */
static void expect_error(const char *text, const char *expected) {
  char path[] = "/tmp/dcpsim_model_XXXXXX";
  struct transformer m;
  struct err err = {0};
  int fd = mkstemp(path);
  char json_path[64];
  cr_assert_geq(fd, 0);
  close(fd);
  snprintf(json_path, sizeof json_path, "%s.json", path);
  FILE *f = fopen(json_path, "w");
  fputs(text, f);
  fclose(f);
  cr_expect_eq(transformer_load(&m, json_path, &err), -1);
  cr_expect(strstr(err.msg, expected) != NULL, "'%s' not in: %s", expected, err.msg);
  cr_expect(strstr(err.msg, json_path) != NULL, "no path in: %s", err.msg);
  cr_expect(!err.usage);
  unlink(json_path);
  unlink(path);
}

#define HEAD "{\"schema\":\"dcpsim.model/1\",\"name\":\"x\",\"source\":\"test\",\n\"layers\":2,\"hidden\":64,"

Test(models_transformer, bad_files) {
  expect_error(HEAD "\"heads\":4,\"vocab\":100,\"hiden\":3}", "hidden");
  expect_error(HEAD "\"heads\":\"four\",\"vocab\":100}", "'heads'");
  expect_error(HEAD "\"vocab\":100}", "'heads'");
  expect_error(HEAD "\"heads\":4}", "'vocab'");
  expect_error(HEAD "\"heads\":4,\"kv_heads\":3,\"vocab\":100}", "does not divide");
  expect_error(HEAD "\"heads\":4,\"vocab\":100,\"text_tokens\":3}", "2D models only");
  expect_error(HEAD "\"heads\":4,\"is_2d\":true,\"vocab\":100}", "1D models only");
  expect_error(HEAD "\"heads\":128,\"vocab\":100}", "'heads'");
  expect_error("{\"schema\":\"dcpsim.cluster/1\"}", "schema");
}

Test(models_transformer, unknown_name_is_a_usage_error) {
  struct transformer m;
  struct err err = {0};
  cr_expect_eq(transformer_load(&m, "llama3-8b", &err), -1);
  cr_expect(err.usage);
  cr_expect(strstr(err.msg, "llama3.1-8b") != NULL, "%s", err.msg);
  cr_expect(strstr(err.msg, "stdit3-xl-2") != NULL, "%s", err.msg);
}
