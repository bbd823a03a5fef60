#include "sim/experiment/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

#define SCHEMA "dcpsim.experiment/1"
#define NO_LIMIT 9e18

enum option_type { TYPE_FLAG, TYPE_INT, TYPE_REAL, TYPE_TEXT, TYPE_LIST, TYPE_BOUNDS, TYPE_STRAGGLER };

struct option_spec {
  const char *name;     /* with dashes */
  char letter;          /* -j */
  const char *argument; /* in help; NULL: a flag */
  enum option_type type;
  size_t offset;       /* into struct experiment_options */
  const char *initial; /* default; NULL: not set */
  const char *unset;   /* what "not set" means, for help; as a value of an integer it unsets it: "auto", "off" */
  double min, max;     /* of numbers */
  const char *values;  /* "drop|truncate|split": the only valid texts */
  unsigned commands;   /* enum options_command */
  const char *help;
  const char *group; /* heading before it in help */
};

#define AT(field) offsetof(struct experiment_options, field)
#define BOTH (OPTIONS_SIMULATE | OPTIONS_PLAN)

static const struct option_spec specs[] = {
    {"trace", 0, "NAME|FILE", TYPE_TEXT, AT(trace), .commands = BOTH, .group = "What",
     .help = "sequence lengths: a shipped trace, a file, or - for stdin (required; see: dcpsim list traces)"},
    {"model", 0, "NAME|FILE", TYPE_TEXT, AT(model), .commands = BOTH,
     .help = "transformer: a preset or a JSON file (required; see: dcpsim list models)"},
    {"cluster", 0, "NAME|FILE", TYPE_TEXT, AT(cluster), .commands = BOTH,
     .help = "GPUs: h200_8x4 is 4 nodes of 8; or a JSON file (required; see: dcpsim list clusters)"},
    {"params", 0, "NAME|FILE", TYPE_TEXT, AT(params), .unset = "the cluster's", .commands = BOTH,
     .help = "parameter file of the cost models"},
    {"policy", 0, "A,B,...", TYPE_LIST, AT(policy), .unset = "given if the trace holds batches, and " DEFAULT_POLICIES,
     .commands = BOTH, .help = "policies to compare (see: dcpsim list policies); plan takes one"},
    {"baseline", 0, "POLICY", TYPE_TEXT, AT(baseline), .unset = "given, else bucket, else the first named",
     .commands = OPTIONS_SIMULATE, .help = "policy that speedups are relative to"},
    {"seed", 0, "N", TYPE_INT, AT(seed), .initial = "0", .max = NO_LIMIT, .commands = BOTH,
     .help = "of every random choice: shuffles, picks, jitter, draws from a histogram"},
    {"seeds", 0, "N", TYPE_INT, AT(seeds), .initial = "1", .min = 1, .max = MAX_SEEDS, .commands = OPTIONS_SIMULATE,
     .help =
         "repeat with N shuffles (seed, seed + 1, ...); speedup_interval is the smallest and the largest speedup, all "
         "else is of the first seed"},
    {"draws", 0, "N", TYPE_INT, AT(draws), .initial = "8", .min = 0, .max = MAX_SEEDS, .commands = OPTIONS_SIMULATE,
     .help = "repeat 64 steps of each plan with every fitted quantity moved by its own fit error, N times: "
             "speedup_interval spans the speedups; 0: no interval"},
    {"no-shuffle", 0, NULL, TYPE_FLAG, AT(no_shuffle), .commands = BOTH, .help = "samples arrive in file order"},
    {"profile", 0, "FILE", TYPE_TEXT, AT(profile), .unset = "the cost models", .commands = OPTIONS_PLAN,
     .help = "measured bucket times (dcpsim.profile/1); then no trace, model or cluster"},
    {"format", 0, "NAME", TYPE_TEXT, AT(format), .unset = "by content", .commands = BOTH,
     .help = "format of the trace (see: dcpsim list formats)"},
    {"column", 0, "NAME", TYPE_TEXT, AT(column), .unset = "the first known one", .commands = BOTH,
     .help = "CSV column or JSON key that holds the length in tokens"},
    {"skip-bad", 0, NULL, TYPE_FLAG, AT(skip_bad), .commands = BOTH, .help = "leave out bad values of the trace"},

    {"epoch", 0, NULL, TYPE_FLAG, AT(epoch), .commands = BOTH, .group = "How much",
     .help = "to the end of the trace, which is the default"},
    {"steps", 0, "N", TYPE_INT, AT(steps), .unset = "to the end", .min = 1, .max = NO_LIMIT, .commands = BOTH,
     .help = "stop after N optimizer steps"},
    {"max-length", 0, "N", TYPE_INT, AT(max_length), .unset = "off", .min = 1, .max = 1e9, .commands = BOTH,
     .help = "tokens of the longest sample accepted"},
    {"overlong", 0, "RULE", TYPE_TEXT, AT(overlong), .initial = "drop", .values = "drop|truncate|split",
     .commands = BOTH, .help = "what becomes of samples over --max-length"},
    {"samples", 0, "N", TYPE_INT, AT(samples), .initial = "100000", .min = 1, .max = 4e9, .commands = BOTH,
     .help = "samples drawn where the trace is a histogram"},
    {"tokens-per-step", 0, "N", TYPE_INT, AT(tokens_per_step), .unset = "off", .min = 1, .max = NO_LIMIT,
     .commands = BOTH, .help = "real tokens of one optimizer step, at most: makes steps of policies comparable"},
    {"drop-last", 0, NULL, TYPE_FLAG, AT(drop_last), .commands = BOTH,
     .help = "the published drop_last rule, which discards what does not fill a batch, a round of ranks or an "
             "accumulation (by default nothing is discarded)"},

    {"sp", 0, "N", TYPE_INT, AT(sp), .unset = "auto", .min = 1, .max = 1e6, .commands = BOTH, .group = "Parallel",
     .help = "SP degree of the policies with one fixed degree, in ranks; auto tries all that hold every sample"},
    {"max-sp", 0, "N", TYPE_INT, AT(max_sp), .unset = "all GPUs", .min = 1, .max = 1e6, .commands = BOTH,
     .help = "largest SP degree, in ranks"},
    {"zero", 0, "0..3", TYPE_INT, AT(zero), .initial = "1", .max = 3, .commands = BOTH,
     .help = "ZeRO: what is sharded over ranks: 1 optimizer, 2 and gradients, 3 and weights"},
    {"shard", 0, "WHERE", TYPE_TEXT, AT(shard), .initial = "world", .values = "world|node", .commands = BOTH,
     .help = "shard over all ranks, or in each node with all-reduces across (HSDP)"},
    {"sp-kind", 0, "KIND", TYPE_TEXT, AT(sp_kind), .unset = "ulysses; dsp for 2D models", .values = "ulysses|ring|dsp",
     .commands = BOTH, .help = "how SP exchanges"},
    {"framework", 0, "NAME", TYPE_TEXT, AT(framework), .unset = "fused; eager_apex for stdit3-xl-2",
     .values = "fused|eager|eager_apex", .commands = BOTH,
     .help = "kernels and memory passes of the training framework"},

    {"batch", 0, "N", TYPE_INT, AT(batch), .unset = "by the memory cap", .min = 1, .max = 1e9, .commands = BOTH,
     .group = "Batches",
     .help = "samples of a micro-batch: of static its size; bucket and dcp_* take as many as fit, up to N"},
    {"buckets-per-octave", 0, "N", TYPE_INT, AT(buckets_per_octave), .initial = "4", .min = 1, .max = 256,
     .commands = BOTH, .help = "text: buckets between a length and its double"},
    {"bucket-bounds", 0, "A,B,...", TYPE_BOUNDS, AT(bucket_bounds), .unset = "by octave", .min = 1, .max = 2147483648.0,
     .commands = BOTH, .help = "text: upper bounds of the buckets in tokens, ascending"},
    {"layout", 0, "LAYOUT", TYPE_TEXT, AT(layout), .initial = "padded", .values = "padded|packed", .commands = BOTH,
     .help = "how the batches that the trace holds run (given)"},
    {"packing", 0, "RULE", TYPE_TEXT, AT(packing), .initial = "next_fit", .values = "next_fit|bfd|lpt",
     .commands = BOTH, .help = "which samples share a pack (packed)"},
    {"pack-tokens", 0, "N", TYPE_INT, AT(pack_tokens), .unset = "by the memory cap", .min = 1, .max = 1e12,
     .commands = BOTH, .help = "tokens of one pack of one SP group (packed)"},
    {"rank-tokens", 0, "N", TYPE_INT, AT(rank_tokens), .unset = "by the memory cap", .min = 1, .max = 1e12,
     .commands = BOTH, .help = "tokens of one rank in one micro-batch, at most (megatron_*)"},
    {"global-batch", 0, "N", TYPE_INT, AT(global_batch), .unset = "by --tokens-per-step, else 2 per GPU", .min = 1,
     .max = 4e9, .commands = BOTH, .help = "samples of one optimizer step (megatron_*)"},
    {"pick", 0, "RULE", TYPE_TEXT, AT(pick), .unset = "published; deterministic with --no-shuffle",
     .values = "published|proportional|deterministic", .commands = BOTH, .help = "which bucket is taken next (dcp_*)"},
    {"search", 0, "RULE", TYPE_TEXT, AT(search), .initial = "all", .values = "all|published", .commands = BOTH,
     .help = "which batches dcp_* profile at each SP degree: all that fit; published: from a quarter of the batch that "
             "did not fit at the degree before"},
    {"max-gas", 0, "N", TYPE_INT, AT(max_gas), .initial = "5", .min = 1, .max = 1e6, .commands = BOTH,
     .help = "accumulation: micro-batches of the slowest group, at most (dcp_inter, dcp)"},
    {"min-gas", 0, "N", TYPE_INT, AT(min_gas), .unset = "2 for dcp_inter, 15 for dcp", .min = 1, .max = 1e6,
     .commands = BOTH, .help = "accumulation: micro-batches of the quickest group, at least"},
    {"weighting", 0, "RULE", TYPE_TEXT, AT(weighting), .initial = "published", .values = "published|per_token",
     .commands = OPTIONS_SIMULATE, .help = "how much a micro-batch's gradient counts"},

    {"memory-cap-frac", 0, "X", TYPE_REAL, AT(memory_cap_frac), .initial = "0.9", .min = 0.01, .max = 1,
     .commands = BOTH, .group = "Memory",
     .help = "fraction of device memory that the peak may reach (published comparisons use 0.7)"},
    {"memory-rule", 0, "RULE", TYPE_TEXT, AT(memory_rule), .initial = "modelled", .values = "modelled|published",
     .commands = BOTH,
     .help = "what is counted against the cap: memory as modelled, or as the published DCP's profile counts it "
             "(captions once per block, no reserve)"},
    {"recompute", 0, "RULE", TYPE_TEXT, AT(recompute), .unset = "full; adaptive for dcp",
     .values = "full|none|adaptive", .commands = BOTH, .help = "which layers recompute their activations"},
    {"round-gib", 0, NULL, TYPE_FLAG, AT(round_gib), .commands = BOTH,
     .help = "adaptive recomputation counts memory in whole GiB, as published"},
    {"head-chunk", 0, "N", TYPE_INT, AT(head_chunk), .unset = "off", .min = 1, .max = 1e9, .commands = BOTH,
     .help = "tokens whose logits exist at a time"},
    {"grad-dtype", 0, "TYPE", TYPE_TEXT, AT(grad_dtype), .initial = "bf16", .values = "bf16|fp32", .commands = BOTH,
     .help = "gradients as kept and reduced"},
    {"offload", 0, "WHAT", TYPE_TEXT, AT(offload), .unset = "nothing", .values = "optimizer", .commands = BOTH,
     .help =
         "optimizer states in host memory: for memory questions (plan); simulate refuses it, its time is not modelled"},

    {"jitter", 0, "CV", TYPE_REAL, AT(jitter), .initial = "0", .max = 10, .commands = OPTIONS_SIMULATE,
     .group = "Faults",
     .help = "compute of every rank and step varies: lognormal of mean 1 and this coefficient of variation"},
    {"straggler", 0, "RANK:FACTOR", TYPE_STRAGGLER, AT(straggler_rank), .unset = "none", .min = 0.01, .max = 1000,
     .commands = OPTIONS_SIMULATE, .help = "compute of this rank takes FACTOR times as long"},

    {"json", 0, NULL, TYPE_FLAG, AT(json), .commands = BOTH, .group = "Output",
     .help = "print one JSON object instead of tables"},
    {"csv", 0, "FILE", TYPE_TEXT, AT(csv), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "also write a row per policy (- instead of the table)"},
    {"result", 0, "FILE", TYPE_TEXT, AT(result), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "also write the JSON object (for plot), beside the tables"},
    {"schedule", 0, "FILE", TYPE_TEXT, AT(schedule), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "write the schedule with sample ids (JSON Lines); several policies: {policy} in the name"},
    {"save-profile", 0, "FILE", TYPE_TEXT, AT(save_profile), .unset = "none", .commands = OPTIONS_PLAN,
     .help = "write the bucket times that the policy plans with, as --profile reads them"},
    {"timeline", 0, "FILE", TYPE_TEXT, AT(timeline), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "write the first steps for ui.perfetto.dev; several policies: {policy} in the name"},
    {"chakra", 0, "FOLDER", TYPE_TEXT, AT(chakra), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "write the first step as Chakra execution traces, a file per rank (for ASTRA-sim); several policies: "
             "{policy} in the name"},
    {"explain", 0, NULL, TYPE_FLAG, AT(explain), .commands = OPTIONS_SIMULATE,
     .help = "print where the time of each policy's median step goes, operation by operation"},
    {"advise", 0, NULL, TYPE_FLAG, AT(advise), .commands = OPTIONS_SIMULATE,
     .help = "say in words what to use, what limits it and what would help, from some extra runs that are listed"},
    {"threads", 'j', "N", TYPE_INT, AT(threads), .initial = "2", .min = 1, .max = MAX_THREADS,
     .commands = OPTIONS_SIMULATE, .help = "threads; never changes a result"},
};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static void *field(struct experiment_options *o, const struct option_spec *s) { return (char *)o + s->offset; }
static const void *const_field(const struct experiment_options *o, const struct option_spec *s) {
  return (const char *)o + s->offset;
}

static bool is_text(const struct option_spec *s) { return s->type == TYPE_TEXT || s->type == TYPE_LIST; }

/* "tokens_per_step" */
static void key_of(const struct option_spec *s, char *buf, size_t size) {
  snprintf(buf, size, "%s", s->name);
  for (char *p = buf; *p; p++)
    *p = *p == '-' ? '_' : *p;
}

static bool is_named(const struct option_spec *s, const char *name, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (s->name[i] == '\0' || (name[i] != s->name[i] && !(name[i] == '_' && s->name[i] == '-')))
      return false;
  return s->name[n] == '\0';
}

/* ---- Setting from text ---------------------------------------------------------------------------------------------
 * `label` is how the option is called where the text stands: "--steps" or "'steps'". */

static int set_int(int64_t *out, const struct option_spec *s, const char *label, const char *text, struct err *err) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (s->unset && strcmp(text, s->unset) == 0) {
    *out = 0;
    return 0;
  }
  bool open = s->max >= NO_LIMIT;
  if (errno == 0 && end != text && *end == '\0' && *text != ' ' && (double)v >= s->min &&
      (open || (double)v <= s->max)) {
    *out = v;
    return 0;
  }
  const char *word = s->unset && strchr(s->unset, ' ') == NULL ? s->unset : NULL;
  char range[80];
  snprintf(range, sizeof range, open ? ">= %.0f" : "from %.0f to %.0f", s->min, s->max);
  return err_usage(err, "%s must be an integer %s%s%s, got '%.60s'", label, range, word ? " or " : "", word ? word : "",
                   text);
}

static int set_real(double *out, const struct option_spec *s, const char *label, const char *text, struct err *err) {
  char *end, low[32], high[32];
  double v = strtod(text, &end);
  if (end != text && *end == '\0' && *text != ' ' && v >= s->min && v <= s->max) {
    *out = v;
    return 0;
  }
  double_text(s->min, low);
  double_text(s->max, high);
  return err_usage(err, "%s must be a number from %s to %s, got '%.60s'", label, low, high, text);
}

/* Splits "a|b|c" or "a,b,c" at `separator`: the next word as a span; false after the last. */
static bool next_word(const char **list, char separator, const char **word, size_t *n) {
  if (!*list)
    return false;
  const char *end = strchr(*list, separator);
  *word = *list;
  *n = end ? (size_t)(end - *list) : strlen(*list);
  *list = end ? end + 1 : NULL;
  return true;
}

static int check_choice(const struct option_spec *s, const char *label, const char *text, struct err *err) {
  const char *list = s->values, *word;
  size_t n;
  char valid[200] = "";
  while (next_word(&list, '|', &word, &n)) {
    if (strlen(text) == n && memcmp(text, word, n) == 0)
      return 0;
    size_t at = strlen(valid);
    snprintf(valid + at, sizeof valid - at, "%s%.*s", at ? ", " : "", (int)n, word);
  }
  return err_usage(err, "%s '%.60s' is not valid (valid: %s)", label, text, valid);
}

static int set_text(char **out, const struct option_spec *s, const char *label, const char *text, struct err *err) {
  if (*text == '\0')
    return err_usage(err, "%s must not be empty", label);
  if (s->values && check_choice(s, label, text, err) < 0)
    return -1;
  free(*out);
  *out = xstrdup(text);
  return 0;
}

static int set_bounds(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
                      struct err *err) {
  const char *list = text, *word;
  size_t n;
  int count = 0;
  int64_t bounds[MAX_BUCKET_BOUNDS];
  while (next_word(&list, ',', &word, &n)) {
    char one[32];
    if (count == MAX_BUCKET_BOUNDS)
      return err_usage(err, "%s has more than %d bounds", label, MAX_BUCKET_BOUNDS);
    snprintf(one, sizeof one, "%.*s", (int)(n < 31 ? n : 31), word);
    if (set_int(&bounds[count], s, label, one, err) < 0)
      return -1;
    if (count > 0 && bounds[count] <= bounds[count - 1])
      return err_usage(err, "%s must ascend, got %" PRId64 " after %" PRId64, label, bounds[count], bounds[count - 1]);
    count++;
  }
  memcpy(o->bucket_bounds, bounds, sizeof bounds[0] * (size_t)count);
  o->n_bucket_bounds = count;
  return 0;
}

static int set_straggler(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
                         struct err *err) {
  char *end, *end_factor;
  errno = 0;
  long long rank = strtoll(text, &end, 10);
  double factor = *end == ':' ? strtod(end + 1, &end_factor) : 0;
  if (errno || end == text || *end != ':' || end_factor == end + 1 || *end_factor || rank < 0 || rank > 1000000 ||
      !(factor >= s->min && factor <= s->max))
    return err_usage(err, "%s must be RANK:FACTOR with a factor from %g to %g, as in 3:1.5, got '%.60s'", label, s->min,
                     s->max, text);
  o->straggler_rank = rank;
  o->straggler_factor = factor;
  return 0;
}

static int set(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
               struct err *err) {
  switch (s->type) {
  case TYPE_FLAG:
    *(bool *)field(o, s) = strcmp(text, "true") == 0;
    return 0;
  case TYPE_INT:
    return set_int(field(o, s), s, label, text, err);
  case TYPE_REAL:
    return set_real(field(o, s), s, label, text, err);
  case TYPE_TEXT:
  case TYPE_LIST:
    return set_text(field(o, s), s, label, text, err);
  case TYPE_BOUNDS:
    return set_bounds(o, s, label, text, err);
  case TYPE_STRAGGLER:
    return set_straggler(o, s, label, text, err);
  }
  return -1;
}

static void unset(struct experiment_options *o, const struct option_spec *s) {
  if (is_text(s)) {
    free(*(char **)field(o, s));
    *(char **)field(o, s) = NULL;
  } else if (s->type == TYPE_INT) {
    *(int64_t *)field(o, s) = 0;
  } else if (s->type == TYPE_BOUNDS) {
    o->n_bucket_bounds = 0;
  } else if (s->type == TYPE_STRAGGLER) {
    o->straggler_rank = -1;
  }
}

void options_init(struct experiment_options *o) {
  *o = (struct experiment_options){.straggler_rank = -1, .straggler_factor = 1};
  for (int i = 0; i < N_SPECS; i++)
    if (specs[i].initial)
      ASSERT(set(o, &specs[i], specs[i].name, specs[i].initial, NULL) == 0);
}

void options_copy(struct experiment_options *to, const struct experiment_options *from) {
  *to = *from;
  for (int i = 0; i < N_SPECS; i++)
    if (is_text(&specs[i])) {
      const char *text = *(char *const *)const_field(from, &specs[i]);
      *(char **)field(to, &specs[i]) = text ? xstrdup(text) : NULL;
    }
}

void options_release(struct experiment_options *o) {
  for (int i = 0; i < N_SPECS; i++)
    if (is_text(&specs[i]))
      unset(o, &specs[i]);
}

static const struct option_spec *find(const char *name, size_t n) {
  for (int i = 0; i < N_SPECS; i++)
    if (is_named(&specs[i], name, n))
      return &specs[i];
  return NULL;
}

int options_set(struct experiment_options *o, const char *name, const char *value, struct err *err) {
  const struct option_spec *s = find(name, strlen(name));
  const char *names[N_SPECS + 1] = {NULL};
  for (int i = 0; i < N_SPECS; i++)
    names[i] = specs[i].name;
  const char *nearest = s ? NULL : nearest_word(name, names);
  if (!s)
    return err_usage(err, "unknown option '%.60s'%s%s%s", name, nearest ? ", did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
  return set(o, s, s->name, value, err);
}

/* ---- Experiment file -----------------------------------------------------------------------------------------------
 */

/* A JSON value as command-line text; NULL: not of a kind that this option takes. Caller frees. */
static char *text_of(const json_t *v) {
  char buf[40];
  if (json_is_string(v))
    return xstrdup(json_string_value(v));
  if (json_is_integer(v)) {
    snprintf(buf, sizeof buf, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    return xstrdup(buf);
  }
  if (json_is_real(v)) {
    double real = json_real_value(v);
    if (real == floor(real) && fabs(real) < 9e15) /* 1e6 is an integer too */
      snprintf(buf, sizeof buf, "%.0f", real);
    else
      double_text(real, buf);
    return xstrdup(buf);
  }
  return NULL;
}

/* An array of numbers or strings as "a,b,c". */
static char *joined_text(const json_t *array, bool strings) {
  char *joined = xstrdup("");
  for (size_t i = 0; i < json_array_size(array); i++) {
    const json_t *v = json_array_get(array, i);
    char *one = strings == json_is_string(v) ? text_of(v) : NULL;
    if (!one || strchr(one, ',')) {
      free(one);
      free(joined);
      return NULL;
    }
    size_t n = strlen(joined), size = n + strlen(one) + 2;
    joined = xrealloc(joined, size);
    snprintf(joined + n, size - n, "%s%s", i ? "," : "", one);
    free(one);
  }
  return joined;
}

static const char *wanted_json(enum option_type type) {
  static const char *const names[] = {[TYPE_FLAG] = "true or false",
                                      [TYPE_INT] = "an integer",
                                      [TYPE_REAL] = "a number",
                                      [TYPE_TEXT] = "a string",
                                      [TYPE_LIST] = "a string or an array of strings",
                                      [TYPE_BOUNDS] = "an array of integers",
                                      [TYPE_STRAGGLER] = "a string RANK:FACTOR"};
  return names[type];
}

/* Caller frees; NULL: wrong type. */
static char *json_text(const struct option_spec *s, const json_t *v) {
  bool word = s->type == TYPE_INT && s->unset && json_is_string(v) && strcmp(json_string_value(v), s->unset) == 0;
  switch (s->type) {
  case TYPE_FLAG:
    return json_is_boolean(v) ? xstrdup(json_is_true(v) ? "true" : "false") : NULL;
  case TYPE_INT:
  case TYPE_REAL:
    return json_is_number(v) || word ? text_of(v) : NULL;
  case TYPE_LIST:
    return json_is_array(v) ? joined_text(v, true) : json_is_string(v) ? text_of(v) : NULL;
  case TYPE_BOUNDS:
    return json_is_array(v) ? joined_text(v, false) : NULL;
  case TYPE_TEXT:
  case TYPE_STRAGGLER:
    return json_is_string(v) ? text_of(v) : NULL;
  }
  return NULL;
}

/* `where`: the node whose line an error names. */
static int set_from_json(struct experiment_options *o, const struct json_doc *doc, const json_t *where,
                         const struct option_spec *s, const char *key, const json_t *value, struct err *err) {
  char label[80];
  struct err inner = {.set = false};
  if (json_is_null(value) && !s->initial) { /* as results print what is not set */
    unset(o, s);
    return 0;
  }
  char *text = json_text(s, value);
  if (!text)
    return json_error(doc, where, err, "'%s' must be %s", key, wanted_json(s->type));
  snprintf(label, sizeof label, "'%s'", key);
  int rc = set(o, s, label, text, &inner);
  free(text);
  return rc < 0 ? json_error(doc, where, err, "%s", inner.msg) : 0;
}

int options_check_keys(const struct json_doc *doc, const json_t *object, const char *also, struct err *err) {
  char keys[N_SPECS][40];
  const char *valid[N_SPECS + 2] = {NULL};
  for (int i = 0; i < N_SPECS; i++) {
    key_of(&specs[i], keys[i], sizeof keys[i]);
    valid[i] = keys[i];
  }
  valid[N_SPECS] = also;
  return json_check_keys(doc, object, valid, err);
}

int options_set_json(struct experiment_options *o, const struct json_doc *doc, const json_t *where, const char *key,
                     const json_t *value, struct err *err) {
  const struct option_spec *s = find(key, strlen(key));
  ASSERT(s);
  return set_from_json(o, doc, where, s, key, value, err);
}

int options_read_object(struct experiment_options *o, const struct json_doc *doc, const json_t *object,
                        struct err *err) {
  int rc = 0;
  for (int i = 0; rc == 0 && i < N_SPECS; i++) {
    char key[40];
    key_of(&specs[i], key, sizeof key);
    const json_t *value = json_object_get(object, key);
    rc = value ? set_from_json(o, doc, value, &specs[i], key, value, err) : 0;
  }
  return rc;
}

/* Releases the document. */
static int read_doc(struct experiment_options *o, struct json_doc *doc, struct err *err) {
  int rc = options_check_keys(doc, doc->root, "schema", err);
  if (rc == 0)
    rc = options_read_object(o, doc, doc->root, err);
  json_doc_release(doc);
  return rc;
}

int options_read_file(struct experiment_options *o, const char *path, struct err *err) {
  struct json_doc doc;
  return json_doc_read(&doc, "experiment", path, SCHEMA, err) < 0 ? -1 : read_doc(o, &doc, err);
}

int options_read_text(struct experiment_options *o, const char *path, const char *text, struct err *err) {
  struct json_doc doc;
  return json_doc_parse(&doc, "experiment", path, text, SCHEMA, err) < 0 ? -1 : read_doc(o, &doc, err);
}

/* ---- Command line ---------------------------------------------------------------------------------------------------
 */

static const char *command_name(enum options_command c) { return c == OPTIONS_SIMULATE ? "simulate" : "plan"; }

static int unknown(enum options_command command, const char *argument, struct err *err) {
  char flags[N_SPECS][40], word[80];
  const char *valid[N_SPECS + 2] = {NULL};
  int n = 0;
  for (int i = 0; i < N_SPECS; i++)
    if (specs[i].commands & command) {
      snprintf(flags[n], sizeof flags[n], "--%s", specs[i].name);
      valid[n] = flags[n];
      n++;
    }
  valid[n] = "--help";
  snprintf(word, sizeof word, "%.*s", (int)strcspn(argument, "="), argument);
  const char *nearest = nearest_word(word, valid);
  if (nearest)
    return err_usage(err, "unknown option '%s', did you mean '%s'?", word, nearest);
  return err_usage(err, "unknown option '%s' (dcpsim %s --help lists them)", word, command_name(command));
}

struct argument {
  const struct option_spec *spec; /* NULL: the experiment file */
  const char *value;
  char label[44];
};

/* The argument at argv[*i], which moves past it. */
static int next_argument(enum options_command command, int argc, char **argv, int *i, struct argument *a,
                         struct err *err) {
  const char *text = argv[(*i)++], *value = NULL;
  *a = (struct argument){.value = text};
  if (text[0] != '-' || text[1] == '\0')
    return 0;
  if (text[1] == '-') {
    size_t n = strcspn(text + 2, "=");
    a->spec = n > 0 ? find(text + 2, n) : NULL;
    value = text[2 + n] == '=' ? text + 3 + n : NULL;
  } else {
    for (int k = 0; k < N_SPECS; k++)
      if (specs[k].letter == text[1])
        a->spec = &specs[k];
    value = text[2] ? text + 2 : NULL;
  }
  if (!a->spec || !(a->spec->commands & command))
    return unknown(command, text, err);
  if (text[1] == '-')
    snprintf(a->label, sizeof a->label, "--%s", a->spec->name);
  else
    snprintf(a->label, sizeof a->label, "-%c", a->spec->letter);
  if (a->spec->type == TYPE_FLAG && value)
    return err_usage(err, "%s takes no value", a->label);
  if (a->spec->type != TYPE_FLAG && !value && *i >= argc)
    return err_usage(err, "a value is missing after %s", a->label);
  a->value = a->spec->type == TYPE_FLAG ? "true" : value ? value : argv[(*i)++];
  return 0;
}

static int parse(struct experiment_options *o, enum options_command command, struct argument *arguments, int argc,
                 char **argv, struct err *err) {
  const char *file = NULL;
  int n = 0;
  for (int i = 0; i < argc;) {
    struct argument *a = &arguments[n];
    if (next_argument(command, argc, argv, &i, a, err) < 0)
      return -1;
    if (a->spec)
      n++;
    else if (file)
      return err_usage(err, "at most one experiment file, got '%.60s' and '%.60s'", file, a->value);
    else
      file = a->value;
  }
  if (file && options_read_file(o, file, err) < 0)
    return 1;
  for (int i = 0; i < n; i++)
    if (set(o, arguments[i].spec, arguments[i].label, arguments[i].value, err) < 0)
      return -1;
  return 0;
}

int options_parse(struct experiment_options *o, enum options_command command, int argc, char **argv, bool *help,
                  struct err *err) {
  *help = false;
  for (int i = 0; i < argc; i++)
    *help = *help || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
  if (*help)
    return 0;
  struct argument *arguments = xcalloc((size_t)argc + 1, sizeof *arguments);
  int rc = parse(o, command, arguments, argc, argv, err);
  free(arguments);
  if (rc < 0)
    err_prefix(err, "%s", command_name(command));
  return rc == 0 ? 0 : -1;
}

/* ---- Help -----------------------------------------------------------------------------------------------------------
 */

#define HELP_COLUMN 28
#define HELP_WIDTH 112

/* Words of `text`, wrapped; the first line continues at HELP_COLUMN. */
static void print_wrapped(FILE *out, const char *text) {
  size_t at = HELP_COLUMN;
  while (*text) {
    size_t n = strcspn(text, " ");
    if (at + n + 1 > HELP_WIDTH) {
      fprintf(out, "\n%*s", HELP_COLUMN, "");
      at = HELP_COLUMN;
    }
    fprintf(out, "%s%.*s", at > HELP_COLUMN ? " " : "", (int)n, text);
    at += n + (at > HELP_COLUMN);
    text += n;
    text += *text == ' ';
  }
  fputc('\n', out);
}

static void help_one(const struct option_spec *s, FILE *out) {
  char left[64], text[600], values[200] = "";
  const char *initial = s->initial ? s->initial : s->unset;
  int n = snprintf(left, sizeof left, "  %c%c%s--%s %s", s->letter ? '-' : ' ', s->letter ? s->letter : ' ',
                   s->letter ? ", " : "  ", s->name, s->argument ? s->argument : "");
  if (s->values && strchr(s->values, '|')) {
    const char *list = s->values, *word;
    size_t length;
    while (next_word(&list, '|', &word, &length)) {
      size_t at = strlen(values);
      snprintf(values + at, sizeof values - at, "%s%.*s", at ? ", " : ": ", (int)length, word);
    }
  } else if (s->values) {
    snprintf(values, sizeof values, ": %s", s->values);
  }
  snprintf(text, sizeof text, "%s%s%s%s%s", s->help, values, initial ? " (default: " : "", initial ? initial : "",
           initial ? ")" : "");
  if (n >= HELP_COLUMN)
    fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
  else
    fprintf(out, "%-*s", HELP_COLUMN, left);
  print_wrapped(out, text);
}

void options_help(enum options_command command, FILE *out) {
  const char *group = NULL;
  for (int i = 0; i < N_SPECS; i++) {
    group = specs[i].group ? specs[i].group : group;
    if (!(specs[i].commands & command))
      continue;
    if (group)
      fprintf(out, "\n%s\n", group);
    group = NULL;
    help_one(&specs[i], out);
  }
}

/* ---- Results --------------------------------------------------------------------------------------------------------
 */

static void write_list(struct json_writer *w, const char *list) {
  const char *word;
  size_t n;
  json_begin_array(w);
  while (next_word(&list, ',', &word, &n)) {
    char *one = xstrdup(word);
    one[n] = '\0';
    json_str(w, one);
    free(one);
  }
  json_end_array(w);
}

static void write_value(struct json_writer *w, const struct experiment_options *o, const struct option_spec *s) {
  const void *at = const_field(o, s);
  char straggler[64];
  switch (s->type) {
  case TYPE_FLAG:
    json_bool(w, *(const bool *)at);
    return;
  case TYPE_INT:
    if (*(const int64_t *)at == 0 && s->unset && strcmp(s->unset, "auto") == 0)
      json_str(w, "auto");
    else if (*(const int64_t *)at == 0 && !s->initial)
      json_put_null(w);
    else
      json_int(w, *(const int64_t *)at);
    return;
  case TYPE_REAL:
    json_double(w, *(const double *)at);
    return;
  case TYPE_TEXT:
  case TYPE_LIST:
    if (!*(char *const *)at)
      json_put_null(w);
    else if (s->type == TYPE_LIST)
      write_list(w, *(char *const *)at);
    else
      json_str(w, *(char *const *)at);
    return;
  case TYPE_BOUNDS:
    if (o->n_bucket_bounds == 0) {
      json_put_null(w);
      return;
    }
    json_begin_array(w);
    for (int i = 0; i < o->n_bucket_bounds; i++)
      json_int(w, o->bucket_bounds[i]);
    json_end_array(w);
    return;
  case TYPE_STRAGGLER:
    if (o->straggler_rank < 0) {
      json_put_null(w);
      return;
    }
    int n = snprintf(straggler, sizeof straggler, "%" PRId64 ":", o->straggler_rank);
    double_text(o->straggler_factor, straggler + n);
    json_str(w, straggler);
    return;
  }
}

void options_write_json(struct json_writer *w, const struct experiment_options *o) {
  json_begin_object(w);
  for (int i = 0; i < N_SPECS; i++) {
    char key[40];
    if (specs[i].letter == 'j')
      continue;
    key_of(&specs[i], key, sizeof key);
    json_key(w, key);
    write_value(w, o, &specs[i]);
  }
  json_end_object(w);
}

/* The option's value as text, "" when a set flag. False: as by default. */
static bool differs(const struct experiment_options *o, const struct option_spec *s, char *buf, size_t size) {
  struct experiment_options plain;
  const void *at = const_field(o, s);
  buf[0] = '\0';
  options_init(&plain);
  const void *initial = const_field(&plain, s);
  bool differ = false;
  if (s->type == TYPE_FLAG) {
    differ = *(const bool *)at != *(const bool *)initial;
  } else if (s->type == TYPE_INT) {
    differ = *(const int64_t *)at != *(const int64_t *)initial;
    snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
  } else if (s->type == TYPE_REAL) {
    differ = *(const double *)at != *(const double *)initial;
    snprintf(buf, size, "%g", *(const double *)at);
  } else if (is_text(s)) {
    const char *a = *(char *const *)at, *b = *(char *const *)initial;
    differ = a && (!b || strcmp(a, b) != 0);
    snprintf(buf, size, "%s", a ? a : "");
  } else if (s->type == TYPE_BOUNDS) {
    differ = o->n_bucket_bounds > 0;
    snprintf(buf, size, "(%d)", o->n_bucket_bounds);
  } else {
    differ = o->straggler_rank >= 0;
    snprintf(buf, size, "%" PRId64 ":%g", o->straggler_rank, o->straggler_factor);
  }
  options_release(&plain);
  return differ;
}

bool options_is_output(const char *name) {
  const char *group = NULL;
  for (int i = 0; i < N_SPECS; i++) {
    group = specs[i].group ? specs[i].group : group;
    if (is_named(&specs[i], name, strlen(name)))
      return strcmp(group, "Output") == 0;
  }
  return false;
}

void options_differences(const struct experiment_options *o, char *buf, size_t size) {
  static const char *const shown_elsewhere[] = {"trace",    "model", "cluster", "params",          "policy",
                                                "baseline", "seed",  "epoch",   "memory-cap-frac", NULL};
  size_t at = 0;
  buf[0] = '\0';
  for (int i = 0; i < N_SPECS && at < size; i++) {
    char value[80];
    bool elsewhere = options_is_output(specs[i].name);
    for (int k = 0; shown_elsewhere[k]; k++)
      elsewhere = elsewhere || strcmp(shown_elsewhere[k], specs[i].name) == 0;
    if (!elsewhere && differs(o, &specs[i], value, sizeof value))
      at += (size_t)snprintf(buf + at, size - at, "%s%s%s%s", at ? ", " : "", specs[i].name, *value ? " " : "", value);
  }
}
