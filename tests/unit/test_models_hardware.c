/* Cluster presets and files, SP groups. */
#include <criterion/criterion.h>
#include <string.h>

#include "models/system.h"

Test(models_hardware, presets) {
  struct cluster c;
  struct err err = {0};
  cr_assert_eq(cluster_load(&c, "h200_8x4", &err), 0);
  cr_expect_eq(cluster_gpus(&c), 32);
  cr_expect_eq(c.memory_bytes, INT64_C(143771) << 20);
  cr_expect_str_eq(c.gpu, "h200_sxm");
  cr_expect_str_eq(c.name, "h200_8x4");
  cr_assert_eq(cluster_load(&c, "h100_8x2048", &err), 0);
  cr_expect_eq(cluster_gpus(&c), 16384);
  static const char *const bad[] = {"h200",      "h200_9x1",  "h200_0x1",  "h200_8x0", "h200_8x2049",       "a100_8x4",
                                    "h200_8x4 ", "h200_08x4", "h200_8x-1", "",         "h200_8x99999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct err e = {0};
    cr_expect_eq(cluster_load(&c, bad[i], &e), -1, "%s", bad[i]);
    cr_expect(e.usage && strstr(e.msg, "h200_8x4"), "%s", e.msg);
  }
  cr_expect_eq(cluster_load(&c, "/nowhere/c.json", &err), -1);
  cr_expect(!err.usage);
}

Test(models_hardware, sp_groups) {
  struct cluster c;
  struct transformer text = {.heads = 28, .hidden = 3584}, video = {.is_2d = true, .heads = 16};
  struct err err = {0};
  struct system s = {.model = &text, .cluster = &c, .parallel = {.sp_kind = SP_ULYSSES}};
  int u, ring;
  const char *why = NULL;
  cr_assert_eq(cluster_load(&c, "h200_8x4", &err), 0);
  for (int sp = 1; sp <= 32; sp *= 2)
    cr_expect(system_sp_valid(&s, sp, NULL));
  cr_expect(!system_sp_valid(&s, 3, &why) && why);
  cr_expect(!system_sp_valid(&s, 64, NULL) && !system_sp_valid(&s, 0, NULL));
  cr_expect_eq(system_sp_nodes(&s, 8), 1);
  cr_expect_eq(system_sp_nodes(&s, 16), 2);
  system_sp_split(&s, 8, &u, &ring);
  cr_expect(u == 4 && ring == 2);
  s.parallel.sp_kind = SP_RING;
  system_sp_split(&s, 8, &u, &ring);
  cr_expect(u == 1 && ring == 8);
  s.parallel.sp_kind = SP_DSP;
  cr_expect(!system_sp_valid(&s, 2, &why) && system_sp_valid(&s, 1, NULL));
  s.model = &video;
  cr_expect(system_sp_valid(&s, 8, NULL) && !system_sp_valid(&s, 16, NULL) && system_sp_valid(&s, 32, NULL));
  c.gpus_per_node = 6;
  s.parallel.sp_kind = SP_ULYSSES;
  s.model = &text;
  cr_expect(system_sp_valid(&s, 2, NULL) && !system_sp_valid(&s, 4, &why));
}

Test(models_hardware, microbatch_tokens) {
  struct transformer text = {0}, video = {.is_2d = true};
  struct system s = {.model = &text};
  struct sample pack[] = {{100, 1}, {31, 1}};
  struct microbatch padded = {.batch = 3, .seqlen = 101}, packed = {.batch = 2, .packed = pack};
  cr_expect_eq(microbatch_tokens(&s, &padded), 303);
  cr_expect_eq(microbatch_local_tokens(&s, &padded, 4), 76);
  cr_expect_eq(microbatch_tokens(&s, &packed), 131);
  cr_expect_eq(microbatch_local_tokens(&s, &packed, 2), 66);
  s.model = &video;
  struct sample clips[] = {{15, 405}, {1, 405}};
  struct microbatch clip = {.batch = 2, .frames = 15, .positions = 405}, clip_pack = {.batch = 2, .packed = clips};
  cr_expect_eq(microbatch_tokens(&s, &clip), 2 * 15 * 405);
  cr_expect_eq(microbatch_local_tokens(&s, &clip, 4), 2 * 15 * 102);
  cr_expect_eq(microbatch_tokens(&s, &clip_pack), 16 * 405);
  cr_expect_eq(microbatch_local_tokens(&s, &clip_pack, 4), 16 * 102);
}
