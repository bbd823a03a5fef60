/* Generators: moments, determinism, limits, messages. */
#include <math.h>

#include "tests/unit/test_trace_files.h"
#include "traces/generate.h"

static struct trace make(const char *spec, int64_t n, uint64_t seed) {
  struct trace t;
  struct err err = {.set = false};
  cr_assert_eq(trace_generate(&t, spec, n, seed, &err), 0, "%s: %s", spec, err.msg);
  cr_assert_not(err.set);
  return t;
}

struct moments {
  double mean, deviation, min, max;
};

static struct moments moments_of(const char *spec, int64_t n) {
  struct trace t = make(spec, n, 1);
  struct moments m = {.min = INFINITY};
  double squares = 0;
  cr_assert_eq(t.n, n);
  for (int64_t i = 0; i < n; i++) {
    double l = t.samples[i].a;
    m.mean += l / (double)n;
    squares += l * l / (double)n;
    m.min = fmin(m.min, l);
    m.max = fmax(m.max, l);
    cr_assert_eq(t.samples[i].b, 1);
  }
  m.deviation = sqrt(squares - m.mean * m.mean);
  trace_release(&t);
  return m;
}

/* Bounds are four standard errors or more, plus the half token that rounding down takes. */
Test(trace_generate, moments) {
  struct moments m = moments_of("lognormal:mean=10000,sigma=0.5", 200000);
  cr_expect(fabs(m.mean / 10000 - 1) < 0.006, "%g", m.mean);
  cr_expect(fabs(m.deviation / (10000 * sqrt(exp(0.25) - 1)) - 1) < 0.02, "%g", m.deviation);
  m = moments_of("lognormal:mean=10000,sigma=1,min=5000,max=20000", 20000);
  cr_expect(m.min == 5000 && m.max == 20000);
  m = moments_of("pareto:alpha=3,scale=1000", 200000);
  cr_expect(fabs(m.mean / 1500 - 1) < 0.01 && m.min >= 1000, "%g", m.mean);
  m = moments_of("pareto:alpha=1,scale=1000,max=4000", 200000);
  cr_expect(m.max == 4000 && fabs(m.mean / (1000 * (1 + log(4))) - 1) < 0.01, "%g", m.mean);
  m = moments_of("bimodal:short=1000,long=50000,frac_long=0.2,cv=0.3", 200000);
  cr_expect(fabs(m.mean / 10800 - 1) < 0.03, "%g", m.mean);
  m = moments_of("bimodal:short=1000,long=50000,frac_long=0.25,cv=0", 40000);
  cr_expect(m.min == 1000 && m.max == 50000 && fabs(m.mean - 13250) < 500, "%g", m.mean);
  m = moments_of("uniform:min=3,max=6", 40000);
  cr_expect(m.min == 3 && m.max == 6 && fabs(m.mean - 4.5) < 0.03, "%g", m.mean);
  m = moments_of("constant:length=4096", 100);
  cr_expect(m.min == 4096 && m.max == 4096);
}

Test(trace_generate, deterministic) {
  static const char *const specs[] = {"lognormal:mean=1000,sigma=1", "zipf_video:offset=5,size=500,image_frac=1",
                                      "mixture:0.5*sharegpt+0.5*lognormal:mean=1e+3,sigma=1"};
  for (int i = 0; i < 3; i++) {
    struct trace a = make(specs[i], 1000, 7), b = make(specs[i], 1000, 7), c = make(specs[i], 1000, 8);
    size_t bytes = (size_t)a.n * sizeof *a.samples;
    cr_expect_eq(a.n, 1000);
    cr_expect_eq(memcmp(a.samples, b.samples, bytes), 0, "%s", specs[i]);
    cr_expect_neq(memcmp(a.samples, c.samples, bytes), 0, "%s", specs[i]);
    trace_release(&a);
    trace_release(&b);
    trace_release(&c);
  }
  /* The stream itself: a change of these breaks the reproduction of published runs. */
  struct trace t = make("uniform:min=1,max=1000", 5, 0);
  struct trace again = make("uniform:max=1000,min=1", 5, 0);
  cr_expect_eq(memcmp(t.samples, again.samples, 5 * sizeof *t.samples), 0);
  cr_expect(t.samples[0].a != t.samples[1].a || t.samples[1].a != t.samples[2].a);
  trace_release(&t);
  trace_release(&again);
}

/* Counts computed independently from p_i ~ (i + offset)^-3, rounded half to even, the rest to the first. */
Test(trace_generate, zipf_video) {
  struct trace t = make("zipf_video:offset=5,size=2000,image_frac=50", 0, 1);
  static const int64_t image_counts[5] = {39003, 24562, 16454, 11556, 8425};
  static const uint32_t positions[5] = {144, 405, 920, 1590, 3600};
  static const struct {
    uint32_t a, b;
    int64_t count;
  } videos[] = {{15, 144, 592}, {30, 144, 373}, {15, 405, 250},  {60, 144, 176}, {30, 405, 128},
                {15, 920, 96},  {120, 144, 74}, {60, 405, 58},   {15, 1590, 47}, {30, 920, 38},
                {120, 405, 31}, {30, 1590, 26}, {60, 920, 22},   {15, 3600, 19}, {60, 1590, 16},
                {120, 920, 14}, {30, 3600, 12}, {120, 1590, 11}, {60, 3600, 9},  {120, 3600, 8}};
  int64_t total = 0, count;
  cr_assert(t.is_2d && t.n == 102000);
  cr_expect_str_eq(t.format, "zipf_video");
  for (int v = 0; v < 25; v++) {
    uint32_t a = v < 5 ? 1 : videos[v - 5].a, b = v < 5 ? positions[v] : videos[v - 5].b;
    count = 0;
    for (int64_t i = 0; i < t.n; i++)
      count += t.samples[i].a == a && t.samples[i].b == b;
    total += count;
    cr_expect_eq(count, v < 5 ? image_counts[v] : videos[v - 5].count, "%ux%u: %lld", a, b, (long long)count);
  }
  cr_expect_eq(total, 102000);
  int64_t images_first_half = 0;
  for (int64_t i = 0; i < 51000; i++)
    images_first_half += t.samples[i].a == 1;
  cr_expect(images_first_half > 49500 && images_first_half < 50500); /* shuffled */
  trace_release(&t);
  for (int size = 1; size < 60; size++) { /* small sizes: rounding never makes a count negative or loses a sample */
    char spec[80];
    sprintf(spec, "zipf_video:offset=1000,size=%d", size);
    t = make(spec, 0, 1);
    cr_expect_eq(t.n, size);
    trace_release(&t);
  }
}

Test(trace_generate, mixture) {
  struct trace t = make("mixture:0.75*constant:length=10+0.25*constant:length=1e+3", 40000, 1);
  int64_t longs = 0;
  for (int64_t i = 0; i < t.n; i++) {
    cr_assert(t.samples[i].a == 10 || t.samples[i].a == 1000);
    longs += t.samples[i].a == 1000;
  }
  cr_expect(longs > 9600 && longs < 10400, "%lld", (long long)longs); /* deviation 87 */
  cr_expect_str_eq(t.format, "mixture");
  trace_release(&t);
  t = make("mixture:1*zipf_video:offset=5,size=100+0*zipf_video:offset=5,size=10,image_frac=10", 50, 1);
  cr_expect(t.is_2d && t.n == 50 && t.samples[0].a > 1);
  trace_release(&t);
}

static void refused(const char *spec, int64_t n, const char *words) {
  struct trace t = {.n = -7};
  struct err err = {.set = false};
  char copy[200];
  cr_expect_eq(trace_generate(&t, spec, n, 0, &err), -1, "%s", spec);
  cr_expect(err.usage && t.n == -7, "%s", spec);
  snprintf(copy, sizeof copy, "%s", words);
  for (char *rest = copy, *word; (word = strsep(&rest, "|")) != NULL;)
    cr_expect(strstr(err.msg, word) != NULL, "%s: no '%s' in: %s", spec, word, err.msg);
}

Test(trace_generate, refusals) {
  refused("nope:x=1", 10, "'nope'|lognormal, pareto, bimodal, uniform, constant, zipf_video, mixture");
  refused("lognormal:mean=5", 10, "'sigma' is missing");
  refused("lognormal:mean=5,sigm=1", 10, "'sigm'|mean, sigma, min, max");
  refused("lognormal:mean=5,sigma=x", 10, "'sigma'|number|'x'");
  refused("lognormal:mean=5,sigma=-1", 10, "'sigma'|from 0 to 20");
  refused("lognormal:mean=5,mean=6,sigma=1", 10, "'mean' is given twice");
  refused("lognormal:mean=nan,sigma=1", 10, "'mean'");
  refused("lognormal:mean,sigma=1", 10, "'mean'|number");
  refused("lognormal", 10, "'mean' is missing");
  refused("uniform:min=9,max=5", 10, "'min' 9 is above 'max' 5");
  refused("constant:length=0", 10, "'length'|from 1");
  refused("constant:length=2e9", 10, "'length'");
  refused("constant:length=5", 0, "number of samples");
  refused("zipf_video:offset=5,size=1e9,image_frac=1000", 0, "image_frac");
  refused("mixture:", 10, "WEIGHT*TRACE");
  refused("mixture:x*wikipedia", 10, "WEIGHT*TRACE");
  refused("mixture:0*constant:length=5", 10, "positive sum");
  refused("mixture:-1*constant:length=5", 10, "WEIGHT*TRACE");
  refused("mixture:1*nosuch", 10, "nosuch|wikipedia");
  refused("mixture:1*constant:length=5+1*zipf_video:offset=1,size=5", 10, "1D");
  refused("mixture:1*mixture:1*wikipedia", 10, "mixture");
  refused("mixture:1*constant:length=5", 0, "number of samples");
}
