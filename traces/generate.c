#include "traces/generate.h"

#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/rng.h"
#include "sim/base/units.h"
#include "traces/mixture.h"
#include "traces/video.h"

#define MAX_KEYS 4

struct generator_key {
  const char *name;
  double preset; /* NAN: must be given */
  double min, max;
};

/* `draw` makes one 1D length (rounded down and clipped to the keys min and max, where the generator has them, and to
 * 1 .. TRACE_MAX_LENGTH); a generator without it makes a whole trace by `make`. Values are in the order of the keys. */
struct generator {
  const char *name;
  const char *help;
  struct generator_key keys[MAX_KEYS + 1];
  double (*draw)(const double *value, gsl_rng *rng);
  int (*make)(struct trace *out, const double *value, uint64_t seed, struct err *err);
};

static double draw_lognormal(const double *value, gsl_rng *rng) {
  double mean = value[0], sigma = value[1];
  return gsl_ran_lognormal(rng, log(mean) - sigma * sigma / 2, sigma);
}

static double draw_pareto(const double *value, gsl_rng *rng) { return gsl_ran_pareto(rng, value[0], value[1]); }

/* Two modes, each lognormal with the same coefficient of variation: a Gaussian would reach below zero. */
static double draw_bimodal(const double *value, gsl_rng *rng) {
  double mean = gsl_rng_uniform(rng) < value[2] ? value[1] : value[0], cv = value[3];
  double variance = log(1 + cv * cv);
  return cv > 0 ? gsl_ran_lognormal(rng, log(mean) - variance / 2, sqrt(variance)) : mean;
}

static double draw_uniform(const double *value, gsl_rng *rng) {
  return value[0] + floor(gsl_rng_uniform(rng) * (value[1] - value[0] + 1));
}

static double draw_constant(const double *value, gsl_rng *rng) {
  (void)rng;
  return value[0];
}

/* Counts of `size` samples over n classes with p_i ~ (i + offset)^-exponent, i = 1..n: rounded half to even, and what
 * rounding leaves over goes to the first (what it takes too much, from the first that has any). */
static void zipf_counts(int64_t *counts, int n, int64_t size, double offset, double exponent) {
  double sum = 0;
  int64_t rest = size;
  for (int i = 0; i < n; i++)
    sum += pow(i + 1 + offset, -exponent);
  for (int i = 0; i < n; i++) {
    counts[i] = (int64_t)rint((double)size * pow(i + 1 + offset, -exponent) / sum);
    rest -= counts[i];
  }
  for (int i = 0; i < n && rest != 0; i++) {
    int64_t change = int64_max(rest, -counts[i]);
    counts[i] += change;
    rest -= change;
  }
}

/* Sizes of the table from length `first` to `last`, ascending by frames * pixels; ties (360p x 408 = 720p x 102) keep
 * the order of resolutions. */
static int sorted_sizes(struct video_size *sizes, int first, int last) {
  int n = 0;
  for (int r = 0; r < VIDEO_RESOLUTIONS; r++)
    for (int f = first; f <= last; f++) {
      struct video_size s = {video_lengths[f], video_resolutions[r].height, video_resolutions[r].width};
      int at = n++;
      for (;
           at > 0 && sizes[at - 1].frames * sizes[at - 1].height * sizes[at - 1].width > s.frames * s.height * s.width;
           at--)
        sizes[at] = sizes[at - 1];
      sizes[at] = s;
    }
  return n;
}

static void append_classes(struct trace *out, const struct video_size *sizes, const int64_t *counts, int n) {
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < counts[i]; k++)
      out->samples[out->n++] = video_sample(sizes[i].frames, sizes[i].height, sizes[i].width);
}

static void shuffle(struct sample *v, int64_t n, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed, "zipf_video order");
  for (int64_t i = n; i > 1; i--) {
    int64_t j = (int64_t)rng_below(&rng, (uint64_t)i);
    struct sample t = v[i - 1];
    v[i - 1] = v[j];
    v[j] = t;
  }
  rng_release(&rng);
}

static int make_zipf_video(struct trace *out, const double *value, uint64_t seed, struct err *err) {
  struct video_size sizes[VIDEO_RESOLUTIONS * VIDEO_LENGTHS];
  int64_t counts[VIDEO_RESOLUTIONS * VIDEO_LENGTHS];
  double offset = value[0], exponent = value[3], images = floor(value[1] * value[2]);
  if (value[1] + images > TRACE_MAX_SAMPLES)
    return err_usage(err, "generator zipf_video: size * (1 + image_frac) must be at most %u", TRACE_MAX_SAMPLES);
  int64_t size = (int64_t)value[1], n_images = (int64_t)images;
  out->is_2d = true;
  out->samples = xmalloc(size_mul((size_t)(size + n_images), sizeof *out->samples));
  int n = sorted_sizes(sizes, 0, 0);
  zipf_counts(counts, n, n_images, offset, exponent);
  append_classes(out, sizes, counts, n);
  n = sorted_sizes(sizes, 1, VIDEO_LENGTHS - 1);
  zipf_counts(counts, n, size, offset, exponent);
  append_classes(out, sizes, counts, n);
  shuffle(out->samples, out->n, seed);
  return 0;
}

#define LONGEST ((double)TRACE_MAX_LENGTH)

static const struct generator generators[] = {
    {"lognormal",
     "lognormal of this mean before clipping to min..max; sigma is the deviation of the logarithm",
     {{"mean", NAN, 1, LONGEST}, {"sigma", NAN, 0, 20}, {"min", 1, 1, LONGEST}, {"max", LONGEST, 1, LONGEST}},
     draw_lognormal,
     NULL},
    {"pareto",
     "Pareto with tail exponent alpha, from scale up, clipped to max",
     {{"alpha", NAN, 1e-3, 1e3}, {"scale", NAN, 1, LONGEST}, {"max", LONGEST, 1, LONGEST}},
     draw_pareto,
     NULL},
    {"bimodal",
     "two lognormal modes of mean short and long and coefficient of variation cv; frac_long of the samples are long",
     {{"short", NAN, 1, LONGEST}, {"long", NAN, 1, LONGEST}, {"frac_long", NAN, 0, 1}, {"cv", 0.1, 0, 100}},
     draw_bimodal,
     NULL},
    {"uniform",
     "every length from min to max alike",
     {{"min", NAN, 1, LONGEST}, {"max", NAN, 1, LONGEST}},
     draw_uniform,
     NULL},
    {"constant", "one length", {{"length", NAN, 1, LONGEST}}, draw_constant, NULL},
    {"zipf_video",
     "videos over the Open-Sora sizes ascending by frames*pixels, share (i + offset)^-exponent; size videos and "
     "image_frac*size images over the resolutions, shuffled (2D; sets the number of samples itself)",
     {{"offset", NAN, 0, 1e6}, {"size", NAN, 1, 1e9}, {"image_frac", 0, 0, 1e6}, {"exponent", 3, 0, 100}},
     NULL,
     make_zipf_video},
};
enum { GENERATORS = sizeof generators / sizeof *generators };

static const struct generator *find_generator(const char *spec, size_t n, struct err *err) {
  char names[200] = "";
  for (int i = 0; i < GENERATORS; i++) {
    if (strlen(generators[i].name) == n && memcmp(generators[i].name, spec, n) == 0)
      return &generators[i];
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", generators[i].name);
  }
  err_usage(err, "unknown generator '%.*s' (one of: %smixture)", (int)(n < 60 ? n : 60), spec, names);
  return NULL;
}

static int unknown_key(const struct generator *g, const char *key, size_t n, struct err *err) {
  char names[100] = "";
  for (int i = 0; g->keys[i].name; i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", g->keys[i].name);
  return err_usage(err, "generator %s: no key '%.*s' (keys: %s)", g->name, (int)(n < 60 ? n : 60), key, names);
}

/* One "key=value", ended by a comma or the end of the spec. */
static int set_key(const struct generator *g, const char *p, size_t n, double *value, bool *given, struct err *err) {
  const char *equals = memchr(p, '=', n);
  size_t key_n = equals ? (size_t)(equals - p) : n;
  char text[48], *end;
  int k = 0;
  while (g->keys[k].name && !(strlen(g->keys[k].name) == key_n && memcmp(g->keys[k].name, p, key_n) == 0))
    k++;
  if (!g->keys[k].name)
    return unknown_key(g, p, key_n, err);
  if (given[k])
    return err_usage(err, "generator %s: '%s' is given twice", g->name, g->keys[k].name);
  snprintf(text, sizeof text, "%.*s", equals ? (int)(n - key_n - 1) : 0, equals ? equals + 1 : "");
  value[k] = strtod(text, &end);
  if (end == text || *end || !(value[k] >= g->keys[k].min && value[k] <= g->keys[k].max))
    return err_usage(err, "generator %s: '%s' must be a number from %.10g to %.10g, got '%s'", g->name, g->keys[k].name,
                     g->keys[k].min, g->keys[k].max, text);
  given[k] = true;
  return 0;
}

static int key_index(const struct generator *g, const char *name) {
  for (int k = 0; g->keys[k].name; k++)
    if (strcmp(g->keys[k].name, name) == 0)
      return k;
  return -1;
}

static int parse_values(const struct generator *g, const char *p, double *value, struct err *err) {
  bool given[MAX_KEYS] = {false};
  for (int k = 0; g->keys[k].name; k++)
    value[k] = g->keys[k].preset;
  while (*p) {
    size_t n = strcspn(p, ",");
    if (set_key(g, p, n, value, given, err))
      return -1;
    p += n + (p[n] == ',');
  }
  for (int k = 0; g->keys[k].name; k++)
    if (isnan(value[k]))
      return err_usage(err, "generator %s: '%s' is missing (%s)", g->name, g->keys[k].name, g->help);
  int min = key_index(g, "min"), max = key_index(g, "max");
  if (min >= 0 && max >= 0 && value[min] > value[max])
    return err_usage(err, "generator %s: 'min' %.10g is above 'max' %.10g", g->name, value[min], value[max]);
  return 0;
}

static void draw_all(struct trace *out, const struct generator *g, const double *value, int64_t n, uint64_t seed) {
  int min_at = key_index(g, "min"), max_at = key_index(g, "max");
  double min = min_at >= 0 ? value[min_at] : 1, max = max_at >= 0 ? value[max_at] : LONGEST;
  struct rng rng;
  rng_init(&rng, seed, g->name);
  out->samples = xmalloc(size_mul((size_t)n, sizeof *out->samples));
  out->n = n;
  for (int64_t i = 0; i < n; i++)
    out->samples[i] = (struct sample){(uint32_t)fmin(fmax(g->draw(value, rng.gsl), min), max), 1};
  rng_release(&rng);
}

int trace_generate(struct trace *out, const char *spec, int64_t n, uint64_t seed, struct err *err) {
  size_t name_n = strcspn(spec, ":");
  double value[MAX_KEYS];
  if (strncmp(spec, "mixture:", 8) == 0)
    return mixture_generate(out, spec, n, seed, err);
  const struct generator *g = find_generator(spec, name_n, err);
  if (!g || parse_values(g, spec + name_n + (spec[name_n] == ':'), value, err))
    return -1;
  if (g->draw && (n < 1 || n > TRACE_MAX_SAMPLES))
    return err_usage(err, "generator %s: the number of samples must be from 1 to %u, got %lld", g->name,
                     TRACE_MAX_SAMPLES, (long long)n);
  struct trace t = {.format = g->name};
  if (g->draw)
    draw_all(&t, g, value, n, seed);
  else if (g->make(&t, value, seed, err))
    return -1;
  t.name = xstrdup(spec);
  *out = t;
  return 0;
}

static void list_keys(FILE *out, const struct generator *g) {
  for (int k = 0; g->keys[k].name; k++) {
    fprintf(out, "%s%s=", k ? "," : ":", g->keys[k].name);
    if (!isnan(g->keys[k].preset))
      fprintf(out, "%.10g", g->keys[k].preset);
  }
}

void trace_generators_list(FILE *out) {
  for (int i = 0; i < GENERATORS; i++) {
    fprintf(out, "  %s", generators[i].name);
    list_keys(out, &generators[i]);
    fprintf(out, "\n      %s\n", generators[i].help);
  }
  fprintf(out, "  mixture:W*TRACE+W*TRACE...\n      draws from traces, files or generators by weight: "
               "mixture:0.9*wikipedia+0.1*prolong\n");
}
