/* dcpsim trace info | convert | generate */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/base/progress.h"
#include "sim/cli/cli.h"
#include "traces/bucket.h"
#include "traces/format.h"
#include "traces/generate.h"
#include "traces/trace.h"

struct arguments {
  struct trace_options trace;
  bool json, help;
  const char *out, *to; /* -o, --to */
  int64_t n;
  const char *input; /* FILE, IN or SPEC */
};

struct subcommand {
  const char *name;
  int (*run)(const struct arguments *a, struct err *err);
  void (*help)(FILE *out);
};

/* ---- info ---- */

static const struct {
  const char *name;
  double percent;
} quantiles[] = {{"p1", 1},   {"p5", 5},   {"p10", 10}, {"p25", 25}, {"p50", 50},
                 {"p75", 75}, {"p90", 90}, {"p95", 95}, {"p99", 99}, {"p99.9", 99.9}};
enum { QUANTILES = sizeof quantiles / sizeof *quantiles, MAX_SHAPE_ROWS = 40 };

static void info_json(const struct trace *t, const uint64_t *sorted, FILE *out) {
  struct json_writer w = {.file = out, .indent = true};
  int64_t tokens = trace_tokens(t);
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.trace/1");
  json_key_str(&w, "name", t->name);
  json_key_str(&w, "format", t->format);
  json_key_int(&w, "samples", t->n);
  if (t->batch)
    json_key_int(&w, "batches", trace_batches(t));
  json_key_int(&w, "tokens", tokens);
  json_key_int(&w, "min", (int64_t)sorted[0]);
  json_key_int(&w, "max", (int64_t)sorted[t->n - 1]);
  json_key_double(&w, "mean", (double)tokens / (double)t->n);
  json_key(&w, "quantiles");
  json_begin_object(&w);
  for (int i = 0; i < QUANTILES; i++)
    json_key_int(&w, quantiles[i].name, (int64_t)trace_quantile(sorted, t->n, quantiles[i].percent));
  json_end_object(&w);
  json_key_int(&w, "skipped_bad", t->skipped_bad);
  json_end_object(&w);
  fputc('\n', out);
}

struct grouped {
  char text[32];
};

/* 1234567 as "1,234,567". */
static struct grouped grouped(int64_t v) {
  struct grouped g;
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%lld", (long long)v), at = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0)
      g.text[at++] = ',';
    g.text[at++] = digits[i];
  }
  g.text[at] = 0;
  return g;
}

struct share_row {
  char name[80];
  int64_t samples;
  double tokens, squares; /* sums of L and L^2 */
};

static void print_shares(FILE *out, const char *what, const struct share_row *rows, int n) {
  struct share_row sum = {.samples = 0};
  for (int i = 0; i < n; i++) {
    sum.samples += rows[i].samples;
    sum.tokens += rows[i].tokens;
    sum.squares += rows[i].squares;
  }
  fprintf(out, "\n%-27s %13s %10s %10s %10s\n", what, "samples", "samples %", "tokens %", "L^2 %");
  for (int i = 0; i < n; i++)
    if (rows[i].samples > 0)
      fprintf(out, "%-27s %13s %10.3f %10.3f %10.3f\n", rows[i].name, grouped(rows[i].samples).text,
              100 * (double)rows[i].samples / (double)sum.samples, 100 * rows[i].tokens / sum.tokens,
              100 * rows[i].squares / sum.squares);
}

static void print_octaves(FILE *out, const uint64_t *sorted, int64_t n) {
  struct share_row rows[64] = {{.samples = 0}};
  for (int64_t i = 0; i < n; i++) {
    struct share_row *row = &rows[63 - __builtin_clzll(sorted[i])];
    double l = (double)sorted[i];
    row->samples++;
    row->tokens += l;
    row->squares += l * l;
  }
  for (int k = 0; k < 62; k++)
    snprintf(rows[k].name, sizeof rows[k].name, "%13s%s%s", grouped(INT64_C(1) << k).text, k ? " - " : "",
             k ? grouped((INT64_C(2) << k) - 1).text : "");
  print_shares(out, "length (tokens)", rows, 62);
}

static int by_tokens(const void *a, const void *b) {
  const struct bucket *x = a, *y = b;
  int64_t d = sample_tokens(x->shape) - sample_tokens(y->shape);
  return d ? (d > 0) - (d < 0) : (x->shape.a > y->shape.a) - (x->shape.a < y->shape.a);
}

/* A row per shape of a 2D trace. False: too many, print octaves of tokens instead. */
static bool print_shapes(FILE *out, const struct trace *t, struct err *err) {
  struct share_row rows[MAX_SHAPE_ROWS];
  struct bucketing b;
  if (bucketing_make(&b, t->samples, t->n, true, 1, NULL, 0, err))
    return false;
  bool few = b.n <= MAX_SHAPE_ROWS;
  qsort(b.buckets, (size_t)b.n, sizeof *b.buckets, by_tokens);
  for (int i = 0; few && i < b.n; i++) {
    double l = (double)sample_tokens(b.buckets[i].shape), n = (double)b.buckets[i].samples;
    rows[i] = (struct share_row){.samples = b.buckets[i].samples, .tokens = n * l, .squares = n * l * l};
    snprintf(rows[i].name, sizeof rows[i].name, "%-14s%13s", b.buckets[i].name,
             grouped(sample_tokens(b.buckets[i].shape)).text);
  }
  if (few)
    print_shares(out, "frames x pos.        tokens", rows, b.n);
  bucketing_release(&b);
  return few;
}

static int print_padding(FILE *out, const struct trace *t, struct err *err) {
  double real = (double)trace_tokens(t);
  fprintf(out, "\n%-27s %13s %10s %10s\n", "buckets per octave", "buckets", "padded/L", "padding %");
  for (int k = 1; k <= 8; k *= 2) {
    struct bucketing b;
    double padded = 0;
    if (bucketing_make(&b, t->samples, t->n, false, k, NULL, 0, err))
      return -1;
    for (int i = 0; i < b.n; i++)
      padded += (double)sample_tokens(b.buckets[i].shape) * (double)b.buckets[i].samples;
    fprintf(out, "%-27d %13d %10.3f %10.2f\n", k, b.n, padded / real, 100 * (1 - real / padded));
    bucketing_release(&b);
  }
  return 0;
}

static int info_table(const struct trace *t, const uint64_t *sorted, FILE *out, struct err *err) {
  int64_t tokens = trace_tokens(t);
  fprintf(out, "trace %s (format %s)\n", t->name, t->format);
  fprintf(out, "%-10s %15s\n%-10s %15s\n", "samples", grouped(t->n).text, "tokens", grouped(tokens).text);
  if (t->batch)
    fprintf(out, "%-10s %15s\n", "batches", grouped(trace_batches(t)).text);
  if (t->skipped_bad > 0)
    fprintf(out, "%-10s %15s\n", "skipped", grouped(t->skipped_bad).text);
  fprintf(out, "\n%-10s %15s\n%-10s %15s\n", "length", "tokens", "min", grouped((int64_t)sorted[0]).text);
  for (int i = 0; i < QUANTILES; i++)
    fprintf(out, "%-10s %15s\n", quantiles[i].name,
            grouped((int64_t)trace_quantile(sorted, t->n, quantiles[i].percent)).text);
  fprintf(out, "%-10s %15s\n%-10s %15.1f\n", "max", grouped((int64_t)sorted[t->n - 1]).text, "mean",
          (double)tokens / (double)t->n);
  if (t->is_2d && print_shapes(out, t, err))
    return 0;
  print_octaves(out, sorted, t->n);
  return t->is_2d ? 0 : print_padding(out, t, err);
}

static int run_info(const struct arguments *a, struct err *err) {
  struct trace t;
  struct output out = {0};
  if (trace_load(&t, a->input, &a->trace, err))
    return -1;
  uint64_t *sorted = trace_sorted_tokens(t.samples, t.n);
  int rc = output_open(&out, "-", err);
  if (rc == 0 && a->json)
    info_json(&t, sorted, out.file);
  else if (rc == 0)
    rc = info_table(&t, sorted, out.file, err);
  if (rc == 0)
    rc = output_commit(&out, err);
  free(sorted);
  trace_release(&t);
  return rc;
}

static void help_info(FILE *out) {
  fprintf(out,
          "usage: dcpsim trace info FILE [options]\n\n"
          "Describes a length trace: number of samples and tokens, quantiles, share of samples, tokens and L^2 by\n"
          "octave of length, padding by buckets per octave. FILE: a shipped trace, a file, or - for stdin.\n\n"
          "  --json           print dcpsim.trace/1 instead of tables\n"
          "  --format NAME    format of the file (default: by content)\n"
          "  --column NAME    CSV column or JSON key that holds the length, in tokens (default: length, num_tokens,\n"
          "                   num_total_tokens, ContextTokens or \"Total tokens\"; in JSON Lines also seq_len,\n"
          "                   input_length, or the size of input_ids or tokens)\n"
          "  --skip-bad       count bad values and leave them out (default: a bad value is an error)\n"
          "  --samples N      samples drawn from a length,weight histogram (default 100000)\n"
          "  --seed N         seed of those draws (default 0)\n\nFormats:\n");
  trace_formats_list(out);
  fprintf(out, "\nShipped traces:\n");
  trace_list(out);
}

/* ---- convert, generate ---- */

static int write_as_asked(const struct trace *t, const struct arguments *a, struct err *err) {
  const struct trace_format *by_suffix = trace_format_of_suffix(a->out);
  const char *to = a->to ? a->to : t->is_2d ? "video_csv" : by_suffix ? by_suffix->name : "text";
  if (!a->to && t->batch && by_suffix == &format_json)
    to = format_batches.name;
  int rc = trace_write(t, to, a->out, err);
  if (rc == 0 && t->batch && strcmp(to, format_batches.name) != 0)
    log_warn("%lld batches lost: format %s holds their lengths alone", (long long)trace_batches(t), to);
  return rc;
}

static int run_convert(const struct arguments *a, struct err *err) {
  struct trace t;
  if (!a->out)
    return err_usage(err, "trace convert: -o OUT is missing");
  if (trace_load(&t, a->input, &a->trace, err))
    return -1;
  int rc = write_as_asked(&t, a, err);
  if (rc == 0 && t.skipped_bad > 0)
    log_warn("%lld bad values left out", (long long)t.skipped_bad);
  trace_release(&t);
  return rc;
}

static void help_convert(FILE *out) {
  fprintf(out,
          "usage: dcpsim trace convert IN -o OUT [--to FORMAT] [options]\n\n"
          "Reads a length trace in any format and writes it in another.\n\n"
          "  -o, --output OUT file to write, - for stdout (required)\n"
          "  --to FORMAT      text, csv, json, jsonl, npy, batches or video_csv (default: by the suffix of OUT, else\n"
          "                   text; 2D traces: video_csv; where IN holds batches and OUT ends in .json: batches)\n"
          "  --format, --column, --skip-bad, --samples, --seed as for dcpsim trace info\n");
}

static int run_generate(const struct arguments *a, struct err *err) {
  struct trace t;
  if (!a->out)
    return err_usage(err, "trace generate: -o OUT is missing");
  if (trace_generate(&t, a->input, a->n, a->trace.seed, err))
    return -1;
  int rc = write_as_asked(&t, a, err);
  trace_release(&t);
  return rc;
}

static void help_generate(FILE *out) {
  fprintf(out,
          "usage: dcpsim trace generate SPEC -n N -o OUT [--seed N] [--to FORMAT]\n\n"
          "Draws lengths (in tokens) from a distribution; the same seed gives the same file.\n\n"
          "  -n N             samples (default 100000)\n"
          "  --seed N         seed of the random streams (default 0)\n"
          "  -o, --output OUT file to write, - for stdout (required)\n"
          "  --to FORMAT      text, csv, json, jsonl, npy or video_csv (default: by the suffix of OUT, else text;\n"
          "                   2D traces: video_csv)\n\n"
          "SPEC is KIND:key=value,...; a key shown without a value must be given:\n");
  trace_generators_list(out);
}

/* ---- arguments ---- */

enum option_code { OPT_JSON = 1000, OPT_FORMAT, OPT_COLUMN, OPT_SKIP_BAD, OPT_SAMPLES, OPT_SEED, OPT_TO };

static const struct subcommand subcommands[] = {
    {"info", run_info, help_info},
    {"convert", run_convert, help_convert},
    {"generate", run_generate, help_generate},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static int parse_number(const char *option, const char *text, int64_t min, int64_t max, int64_t *out, struct err *err) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (errno || end == text || *end || v < min || v > max)
    return err_usage(err, "%s must be an integer from %lld to %lld, got '%s'", option, (long long)min, (long long)max,
                     text);
  *out = v;
  return 0;
}

static int set_option(struct arguments *a, const char *command, int code, struct err *err) {
  int64_t seed;
  bool is_info = strcmp(command, "info") == 0, is_generate = strcmp(command, "generate") == 0;
  switch (code) {
  case 'h':
    a->help = true;
    return 0;
  case 'o':
    a->out = optarg;
    return is_info ? err_usage(err, "trace info: no option -o") : 0;
  case 'n':
    return is_generate ? parse_number("-n", optarg, 1, TRACE_MAX_SAMPLES, &a->n, err)
                       : err_usage(err, "trace %s: no option -n (--samples draws from a histogram)", command);
  case OPT_SEED:
    if (parse_number("--seed", optarg, 0, INT64_MAX, &seed, err))
      return -1;
    a->trace.seed = (uint64_t)seed;
    return 0;
  case OPT_TO:
    a->to = optarg;
    if (is_info)
      return err_usage(err, "trace info: no option --to");
    return trace_format_find(optarg, err) ? 0 : -1;
  case OPT_JSON:
    a->json = true;
    return is_info ? 0 : err_usage(err, "trace %s: no option --json", command);
  default:
    break;
  }
  if (is_generate)
    return err_usage(err, "trace generate: takes -n, --seed, -o and --to only");
  switch (code) {
  case OPT_FORMAT:
    a->trace.format = optarg;
    return trace_format_find(optarg, err) ? 0 : -1;
  case OPT_COLUMN:
    a->trace.column = optarg;
    return 0;
  case OPT_SKIP_BAD:
    a->trace.skip_bad = true;
    return 0;
  default:
    return parse_number("--samples", optarg, 1, TRACE_MAX_SAMPLES, &a->trace.draws, err);
  }
}

static int parse_arguments(struct arguments *a, const struct subcommand *command, int argc, char **argv,
                           struct err *err) {
  static const struct option options[] = {
      {"help", no_argument, NULL, 'h'},
      {"json", no_argument, NULL, OPT_JSON},
      {"format", required_argument, NULL, OPT_FORMAT},
      {"column", required_argument, NULL, OPT_COLUMN},
      {"skip-bad", no_argument, NULL, OPT_SKIP_BAD},
      {"samples", required_argument, NULL, OPT_SAMPLES},
      {"seed", required_argument, NULL, OPT_SEED},
      {"output", required_argument, NULL, 'o'},
      {"to", required_argument, NULL, OPT_TO},
      {0},
  };
  int code;
  *a = (struct arguments){.trace.draws = 100000, .n = 100000};
  char name[40];
  snprintf(name, sizeof name, "trace %s", command->name);
  while ((code = cli_option(name, argc, argv, ":ho:n:", options, err)) != -1)
    if (code == '?' || set_option(a, command->name, code, err))
      return -1;
  if (a->help)
    return 0;
  if (argc - optind != 1)
    return err_usage(err, "trace %s: expected one %s, got %d (dcpsim trace %s --help)", command->name,
                     command->run == run_generate ? "SPEC" : "FILE", argc - optind, command->name);
  a->input = argv[optind];
  return 0;
}

static void help_trace(FILE *out) {
  fprintf(out, "usage: dcpsim trace info FILE [--json]            describe a length trace\n"
               "       dcpsim trace convert IN -o OUT --to FORMAT  convert between formats\n"
               "       dcpsim trace generate SPEC -n N -o OUT      draw lengths from a distribution\n\n"
               "Each of them has --help.\n");
}

static int run(int argc, char **argv, struct err *err) {
  struct arguments a;
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    help_trace(stdout);
    return 0;
  }
  for (int i = 0; i < SUBCOMMANDS; i++) {
    if (strcmp(subcommands[i].name, name) != 0)
      continue;
    if (parse_arguments(&a, &subcommands[i], argc - 1, argv + 1, err))
      return -1;
    if (!a.help)
      return subcommands[i].run(&a, err);
    subcommands[i].help(stdout);
    return 0;
  }
  if (!*name)
    return err_usage(err, "trace: a command is missing (info, convert or generate; dcpsim trace --help)");
  return err_usage(err, "trace: no command '%s' (info, convert or generate; dcpsim trace --help)", name);
}

/* argv[0] is "trace". */
int cmd_trace(int argc, char **argv) {
  struct err err = {.set = false};
  return run(argc, argv, &err) == 0 ? 0 : cli_fail(&err);
}
