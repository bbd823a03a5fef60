/* Profiles: reading measured ones, and the rules that choose (sp, batch). */
#include <stdio.h>
#include <unistd.h>

#include "sim/policy/profile_search.h"
#include "tests/unit/test_policy_helpers.h"

/* Reads `text` as a profile file; returns profile_read's result. */
static int read_text(struct profile *p, const char *text, struct err *err) {
  char path[] = "/tmp/test_profile_XXXXXX";
  int fd = mkstemp(path);
  cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  int rc = profile_read(p, path, err);
  unlink(path);
  return rc;
}

#define HEAD "{\"schema\":\"dcpsim.profile/1\",\"world\":16,"
#define B0 "{\"name\":\"b0\",\"samples\":34,\"sp\":4,\"batch\":2,\"time_s\":0.75"

Test(policy_profile, reads_a_measured_profile) {
  struct profile p = {0};
  struct err err = {0};
  cr_assert(read_text(&p,
                      HEAD
                      "\"max_sp\":8,\"buckets\":[" B0
                      ",\"detail\":[{\"sp\":4,\"batch\":2,\"time_s\":0.75},{\"sp\":8,\"batch\":4,\"time_s\":0.8}]},"
                      "{\"name\":\"b1\",\"samples\":1,\"sp\":1,\"batch\":1,\"time_s\":2}]}",
                      &err) == 0,
            "%s", err.msg);
  cr_assert(p.world == 16 && p.max_sp == 8 && p.n_buckets == 2);
  const struct bucket_profile *b = &p.buckets[0];
  cr_assert(strcmp(b->name, "b0") == 0 && b->samples == 34 && b->best.sp == 4 && b->best.batch == 2);
  cr_assert(b->best.time_s == 0.75 && b->n_detail == 2 && b->detail[1].sp == 8 && b->detail[1].time_s == 0.8);
  cr_assert(b->best.recompute_blocks[0] == -1 && !b->infeasible && p.buckets[1].n_detail == 0);
  profile_release(&p);
}

Test(policy_profile, refuses_what_is_wrong) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{", "profile"},
      {"{\"schema\":\"dcpsim.plan/1\"}", "schema"},
      {HEAD "\"bucket\":[]}", "bucket"},
      {HEAD "\"max_sp\":32,\"buckets\":[]}", "max_sp"},
      {HEAD "\"buckets\":[7]}", "object"},
      {HEAD "\"buckets\":[" B0 "}," B0 "}]}", "two buckets"},
      {HEAD "\"buckets\":[{\"name\":\"b0\",\"samples\":34,\"sp\":3,\"batch\":2,\"time_s\":0.75}]}", "power of two"},
      {HEAD "\"buckets\":[{\"name\":\"b0\",\"samples\":34,\"sp\":32,\"batch\":2,\"time_s\":0.75}]}", "sp"},
      {HEAD "\"buckets\":[{\"name\":\"b0\",\"samples\":-1,\"sp\":4,\"batch\":2,\"time_s\":0.75}]}", "samples"},
      {HEAD "\"buckets\":[{\"name\":\"b0\",\"samples\":34,\"sp\":4,\"batch\":2,\"time_s\":0}]}", "time_s"},
      {HEAD "\"buckets\":[{\"name\":\"\",\"samples\":34,\"sp\":4,\"batch\":2,\"time_s\":1}]}", "name"},
      {HEAD "\"buckets\":[" B0
            ",\"detail\":[{\"sp\":8,\"batch\":2,\"time_s\":1},{\"sp\":4,\"batch\":1,\"time_s\":1}]}]}",
       "sorted"},
      {HEAD "\"buckets\":[" B0 ",\"detail\":[{\"sp\":8,\"batches\":2,\"time_s\":1}]}]}", "batches"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct profile p = {0};
    struct err err = {0};
    cr_assert(read_text(&p, cases[i].text, &err) < 0, "case %zu was read", i);
    cr_assert(strstr(err.msg, cases[i].message), "case %zu: %s", i, err.msg);
    cr_assert_null(p.buckets);
  }
}

/* Memory for `batch_per_sp` samples per rank; a micro-batch takes fixed + each * batch / sp seconds, or `slow_s` from
 * batch `slow_from` on. */
struct machine {
  int64_t batch_per_sp, slow_from;
  double fixed_s, each_s, slow_s;
};

static bool fits(void *context, int sp, int64_t batch) {
  const struct machine *m = context;
  return batch <= m->batch_per_sp * sp / 2; /* sp 1 of batch_per_sp 1: nothing fits */
}

static double time_s(void *context, int sp, int64_t batch, int recompute_blocks[2]) {
  const struct machine *m = context;
  cr_assert(fits(context, sp, batch), "asked for what does not fit");
  recompute_blocks[0] = sp;
  recompute_blocks[1] = (int)batch;
  if (m->slow_from && batch >= m->slow_from)
    return m->slow_s;
  return m->fixed_s + m->each_s * (double)batch / sp;
}

Test(policy_profile, search_rules) {
  static const int sps[] = {1, 2, 4, 8};
  struct machine m = {.batch_per_sp = 8, .fixed_s = 1, .each_s = 1};
  struct profile_search s = {.context = &m, .fits = fits, .time_s = time_s, .sps = sps, .n_sps = 4};
  struct candidate best, detail[4];
  int n;
  cr_assert(profile_search_fixed(&s, 4, &best) && best.sp == 4 && best.batch == 16 && best.time_s == 5);
  cr_assert(best.recompute_blocks[0] == 4 && best.recompute_blocks[1] == 16);
  /* The last batch, unless the one before has more than twice its throughput: 8/3 s against 16/t. */
  m.slow_from = 16;
  m.slow_s = 12;
  cr_assert(profile_search_fixed(&s, 4, &best) && best.batch == 16, "exactly twice");
  m.slow_s = 12.1;
  cr_assert(profile_search_fixed(&s, 4, &best) && best.batch == 8);
  /* Over all, and over the largest batch of each sp: equal ones keep the first. */
  m.slow_from = 0;
  cr_assert(profile_search_best(&s, detail, &n, &best) && n == 4 && best.sp == 1 && best.batch == 4);
  cr_assert(profile_search_largest(&s, detail, &n, &best) && n == 4 && best.sp == 1);
  for (int i = 0; i < n; i++)
    cr_assert(detail[i].sp == sps[i] && detail[i].batch == 4 * sps[i]);
  m.slow_from = 4;
  m.slow_s = 100;
  cr_assert(profile_search_best(&s, detail, &n, &best) && best.sp == 1 && best.batch == 2, "smaller batches count");
  for (int i = 0; i < n; i++)
    cr_assert(detail[i].sp == sps[i] && detail[i].batch == 2, "of each sp its best, here the last below 4");
  cr_assert(profile_search_largest(&s, detail, &n, &best) && best.sp == 1 && best.batch == 4, "here they do not");
  /* What does not fit at a small sp fits at a larger one. */
  m = (struct machine){.batch_per_sp = 1, .fixed_s = 1, .each_s = 1};
  cr_assert(!profile_search_fixed(&s, 1, &best));
  cr_assert(profile_search_largest(&s, detail, &n, &best) && n == 3 && detail[0].sp == 2);
  s.n_sps = 1;
  cr_assert(!profile_search_best(&s, detail, &n, &best) && !profile_search_largest(&s, detail, &n, &best) && n == 0);
  /* --batch is the largest tried. */
  m.batch_per_sp = 64;
  s.max_batch = 6;
  cr_assert(profile_search_fixed(&s, 1, &best) && best.batch == 6);
}
