/* Bucket bounds, padding of a real trace, insertion order, shapes of videos, limits. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "traces/bucket.h"

static struct bucketing make(const struct sample *s, int64_t n, bool is_2d, int k, const int64_t *bounds,
                             int n_bounds) {
  struct bucketing b;
  struct err err = {.set = false};
  cr_assert_eq(bucketing_make(&b, s, n, is_2d, k, bounds, n_bounds, &err), 0, "%s", err.msg);
  return b;
}

Test(bucket, bounds) {
  static const struct {
    int64_t tokens;
    int k;
    int64_t bound;
  } want[] = {{1, 1, 1},
              {2, 1, 2},
              {3, 1, 4},
              {100, 1, 128},
              {129, 1, 256},
              {1025, 1, 2048},
              {1, 4, 1},
              {3, 4, 3},
              {5, 4, 5},
              {100, 4, 108},
              {109, 4, 128},
              {129, 4, 256},
              {257, 4, 384},
              {385, 4, 512},
              {513, 4, 640},
              {1823777, 4, 2097152},
              {1000000000, 4, 1073741824},
              {4096, 8, 4096},
              {4097, 8, 4480}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    cr_expect_eq(bucket_bound(want[i].tokens, want[i].k), want[i].bound, "%lld at %d: %lld", (long long)want[i].tokens,
                 want[i].k, (long long)bucket_bound(want[i].tokens, want[i].k));
}

/* The table of bucketing_make against bucket_bound, its slow twin: every length to 5000, and around every bound. */
Test(bucket, twins) {
  enum { N = 9000 };
  static struct sample s[N];
  static const int per_octave[] = {1, 2, 3, 4, 8, 16};
  for (int p = 0; p < 6; p++) {
    int64_t n = 0;
    int k = per_octave[p];
    for (uint32_t t = 1; t <= 5000; t++)
      s[n++] = (struct sample){t, 1};
    for (double t = 5000; t < 1e9 && n < N - 3; t *= exp2(1.0 / k)) {
      uint32_t bound = (uint32_t)bucket_bound((int64_t)t, k);
      s[n++] = (struct sample){bound, 1};
      s[n++] = (struct sample){bound - 1, 1};
      s[n++] = (struct sample){bound < TRACE_MAX_LENGTH ? bound + 1 : bound, 1};
    }
    struct bucketing b = make(s, n, false, k, NULL, 0);
    for (int64_t i = 0; i < n; i++) {
      int64_t padded = sample_tokens(b.buckets[b.of_sample[i]].shape);
      if (padded != bucket_bound(s[i].a, k))
        cr_assert_fail("k %d: %u padded to %lld", k, s[i].a, (long long)padded);
    }
    bucketing_release(&b);
  }
}

Test(bucket, padding_of_wikipedia) {
  static const double want[] = {1.435, 1.202, 1.111, 1.074};
  struct trace t;
  struct err err = {.set = false};
  cr_assert_eq(trace_load(&t, "wikipedia", NULL, &err), 0, "%s", err.msg);
  for (int i = 0; i < 4; i++) {
    struct bucketing b = make(t.samples, t.n, false, 1 << i, NULL, 0);
    double padded = 0;
    int64_t samples = 0;
    for (int j = 0; j < b.n; j++) {
      padded += (double)b.buckets[j].samples * (double)sample_tokens(b.buckets[j].shape);
      samples += b.buckets[j].samples;
    }
    cr_expect_eq(samples, 1000000);
    cr_expect(fabs(padded / 1013648780 - want[i]) < 0.0005, "k %d: %.4f", 1 << i, padded / 1013648780);
    bucketing_release(&b);
  }
  trace_release(&t);
}

Test(bucket, order_and_names) {
  struct sample s[] = {{300, 1}, {5, 1}, {384, 1}, {5, 1}, {1, 1}, {257, 1}, {256, 1}};
  struct bucketing b = make(s, 7, false, 4, NULL, 0);
  static const uint16_t of_sample[] = {0, 1, 0, 1, 2, 0, 3};
  static const char *const names[] = {"384", "5", "1", "256"};
  static const int64_t counts[] = {3, 2, 1, 1};
  cr_assert_eq(b.n, 4);
  cr_expect_eq(memcmp(b.of_sample, of_sample, sizeof of_sample), 0);
  for (int i = 0; i < 4; i++) {
    cr_expect_str_eq(b.buckets[i].name, names[i]);
    cr_expect(b.buckets[i].samples == counts[i] && b.buckets[i].shape.b == 1);
  }
  bucketing_release(&b);

  int64_t bounds[] = {10, 300, 400};
  b = make(s, 7, false, 0, bounds, 3);
  cr_assert_eq(b.n, 3);
  cr_expect(strcmp(b.buckets[0].name, "300") == 0 && b.buckets[0].samples == 3); /* 300, 257, 256 */
  cr_expect(strcmp(b.buckets[1].name, "10") == 0 && b.buckets[1].samples == 3);
  cr_expect(strcmp(b.buckets[2].name, "400") == 0 && b.buckets[2].samples == 1);
  bucketing_release(&b);
}

Test(bucket, shapes) {
  struct sample s[] = {{15, 3600}, {1, 144}, {15, 3600}, {15, 144}, {3600, 15}};
  struct bucketing b = make(s, 5, true, 4, NULL, 0);
  static const uint16_t of_sample[] = {0, 1, 0, 2, 3};
  cr_assert_eq(b.n, 4);
  cr_expect_eq(memcmp(b.of_sample, of_sample, sizeof of_sample), 0);
  cr_expect_str_eq(b.buckets[0].name, "15x3600");
  cr_expect_str_eq(b.buckets[3].name, "3600x15");
  cr_expect(b.buckets[0].samples == 2 && b.buckets[0].shape.a == 15 && b.buckets[0].shape.b == 3600);
  bucketing_release(&b);
  enum { MANY = 65536 };
  struct sample *many = malloc(MANY * sizeof *many);
  struct err err = {.set = false};
  for (uint32_t i = 0; i < MANY; i++)
    many[i] = (struct sample){i + 1, 7};
  cr_expect_eq(bucketing_make(&b, many, MANY, true, 4, NULL, 0, &err), -1);
  cr_expect(strstr(err.msg, "65535"));
  b = make(many, MANY - 1, true, 4, NULL, 0);
  cr_expect_eq(b.n, MANY - 1);
  cr_expect_eq(b.of_sample[MANY - 2], MANY - 2);
  bucketing_release(&b);
  free(many);
}

static void refused(int k, const int64_t *bounds, int n_bounds, const char *word) {
  struct sample s = {500, 1};
  struct bucketing b;
  struct err err = {.set = false};
  cr_expect_eq(bucketing_make(&b, &s, 1, false, k, bounds, n_bounds, &err), -1);
  cr_expect(err.usage && strstr(err.msg, word), "no '%s' in: %s", word, err.msg);
}

Test(bucket, refusals) {
  refused(0, NULL, 0, "per octave");
  refused(1000, NULL, 0, "per octave");
  refused(4, (const int64_t[]){100, 499}, 2, "longest sample has 500");
  refused(4, (const int64_t[]){600, 500}, 2, "ascend");
  refused(4, (const int64_t[]){500, 500}, 2, "ascend");
  refused(4, (const int64_t[]){0, 500}, 2, "from 1");
}
