/* Options: defaults, both spellings, files, the command line over the file, messages. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/experiment/options.h"

static char path[] = "/tmp/test_options_XXXXXX";

static void write_file(const char *text) {
  strcpy(path, "/tmp/test_options_XXXXXX");
  int fd = mkstemp(path);
  cr_assert(fd >= 0);
  cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

static int parse(struct experiment_options *o, enum options_command command, struct err *err, const char *a,
                 const char *b, const char *c, const char *d) {
  char *argv[5] = {(char *)a, (char *)b, (char *)c, (char *)d, NULL};
  int argc = 0;
  bool help;
  while (argc < 4 && argv[argc])
    argc++;
  return options_parse(o, command, argc, argv, &help, err);
}

Test(options, defaults) {
  struct experiment_options o;
  options_init(&o);
  cr_assert_null(o.policy); /* depends on the trace */
  cr_assert_null(o.trace);
  cr_assert_eq(o.seed, 0);
  cr_assert_eq(o.seeds, 1);
  cr_assert_eq(o.steps, 0);
  cr_assert_eq(o.samples, 100000);
  cr_assert_eq(o.zero, 1);
  cr_assert_eq(o.sp, 0);
  cr_assert_eq(o.buckets_per_octave, 4);
  cr_assert_eq(o.max_gas, 5);
  cr_assert_eq(o.min_gas, 0);
  cr_assert_eq(o.memory_cap_frac, 0.9);
  cr_assert_str_eq(o.overlong, "drop");
  cr_assert_str_eq(o.packing, "next_fit");
  cr_assert_str_eq(o.weighting, "published");
  cr_assert_str_eq(o.grad_dtype, "bf16");
  cr_assert_str_eq(o.shard, "world");
  cr_assert_null(o.recompute);
  cr_assert_null(o.pick);
  cr_assert_eq(o.straggler_rank, -1);
  cr_assert_eq(o.threads, 2);
  options_release(&o);
}

Test(options, set_in_both_spellings) {
  struct experiment_options o;
  struct err err = {.set = false};
  options_init(&o);
  cr_assert_eq(options_set(&o, "tokens-per-step", "5000", &err), 0);
  cr_assert_eq(o.tokens_per_step, 5000);
  cr_assert_eq(options_set(&o, "tokens_per_step", "off", &err), 0);
  cr_assert_eq(o.tokens_per_step, 0);
  cr_assert_eq(options_set(&o, "sp", "8", &err), 0);
  cr_assert_eq(options_set(&o, "sp", "auto", &err), 0);
  cr_assert_eq(o.sp, 0);
  cr_assert_eq(options_set(&o, "bucket-bounds", "128,512,4096", &err), 0);
  cr_assert_eq(o.n_bucket_bounds, 3);
  cr_assert_eq(o.bucket_bounds[2], 4096);
  cr_assert_eq(options_set(&o, "straggler", "3:1.5", &err), 0);
  cr_assert_eq(o.straggler_rank, 3);
  cr_assert_eq(o.straggler_factor, 1.5);
  cr_assert_not(err.set);
  cr_assert_eq(options_set(&o, "tokens-per-stp", "1", &err), -1);
  cr_assert_str_eq(err.msg, "unknown option 'tokens-per-stp', did you mean 'tokens-per-step'?");
  cr_assert(err.usage);
  options_release(&o);
}

Test(options, command_line_wins_over_file) {
  struct experiment_options o;
  struct err err = {.set = false};
  options_init(&o);
  write_file(
      "{\"schema\": \"dcpsim.experiment/1\", \"trace\": \"a\", \"seed\": 7, \"max_gas\": 1e1, \"policy\": [\"bucket\", "
      "\"dcp\"],\n \"no_shuffle\": true, \"memory_cap_frac\": 1, \"sp\": \"auto\", \"batch\": null, "
      "\"bucket_bounds\": [1, 2]}");
  cr_assert_eq(parse(&o, OPTIONS_SIMULATE, &err, "--seed=9", path, "--json", "-j4"), 0, "%s", err.msg);
  cr_assert_str_eq(o.trace, "a");
  cr_assert_eq(o.seed, 9);
  cr_assert_eq(o.max_gas, 10);
  cr_assert_str_eq(o.policy, "bucket,dcp");
  cr_assert(o.no_shuffle);
  cr_assert(o.json);
  cr_assert_eq(o.memory_cap_frac, 1);
  cr_assert_eq(o.n_bucket_bounds, 2);
  cr_assert_eq(o.threads, 4);
  unlink(path);
  options_release(&o);
}

/* What a result says about its options is an experiment file that sets them again. */
Test(options, written_options_read_back) {
  struct experiment_options o, again;
  struct err err = {.set = false};
  char *text = NULL, *text_again = NULL;
  size_t size;
  options_init(&o);
  cr_assert_eq(options_set(&o, "trace", "wiki \"x\".txt", &err), 0);
  cr_assert_eq(options_set(&o, "jitter", "0.1", &err), 0);
  cr_assert_eq(options_set(&o, "bucket-bounds", "1,2,3", &err), 0);
  cr_assert_eq(options_set(&o, "straggler", "3:1.1", &err), 0);
  cr_assert_eq(options_set(&o, "recompute", "none", &err), 0);
  cr_assert_eq(options_set(&o, "drop-last", "true", &err), 0);
  for (int pass = 0; pass < 2; pass++) {
    char **to = pass == 0 ? &text : &text_again;
    FILE *file = open_memstream(to, &size);
    struct json_writer w = {.file = file};
    options_write_json(&w, pass == 0 ? &o : &again);
    fclose(file);
    if (pass == 1)
      break;
    char document[8000];
    snprintf(document, sizeof document, "{\"schema\":\"dcpsim.experiment/1\",%s", text + 1);
    write_file(document);
    options_init(&again);
    cr_assert_eq(options_read_file(&again, path, &err), 0, "%s", err.msg);
    unlink(path);
  }
  cr_assert_str_eq(text, text_again);
  cr_assert_null(strstr(text, "threads"));
  free(text);
  free(text_again);
  options_release(&o);
  options_release(&again);
}

Test(options, messages) {
  static const struct {
    const char *a, *b, *message;
  } cases[] = {
      {"--steps", "0", "simulate: --steps must be an integer >= 1, got '0'"},
      {"--zero", "9", "simulate: --zero must be an integer from 0 to 3, got '9'"},
      {"--sp", "x", "simulate: --sp must be an integer from 1 to 1000000 or auto, got 'x'"},
      {"--memory-cap-frac", "2", "simulate: --memory-cap-frac must be a number from 0.01 to 1, got '2'"},
      {"--overlong", "cut", "simulate: --overlong 'cut' is not valid (valid: drop, truncate, split)"},
      {"--seeds", NULL, "simulate: a value is missing after --seeds"},
      {"--profile", "x", "simulate: unknown option '--profile' (dcpsim simulate --help lists them)"},
      {"--polyc", "x", "simulate: unknown option '--polyc', did you mean '--policy'?"},
      {"a.json", "b.json", "simulate: at most one experiment file, got 'a.json' and 'b.json'"},
      {"-x", NULL, "simulate: unknown option '-x' (dcpsim simulate --help lists them)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct experiment_options o;
    struct err err = {.set = false};
    options_init(&o);
    cr_expect_eq(parse(&o, OPTIONS_SIMULATE, &err, cases[i].a, cases[i].b, NULL, NULL), -1);
    cr_expect_str_eq(err.msg, cases[i].message);
    cr_expect(err.usage);
    options_release(&o);
  }
}

Test(options, differences) {
  struct experiment_options o;
  char buf[200];
  options_init(&o);
  options_differences(&o, buf, sizeof buf);
  cr_assert_str_eq(buf, "");
  cr_assert_eq(options_set(&o, "max-length", "131072", NULL), 0);
  cr_assert_eq(options_set(&o, "drop-last", "true", NULL), 0);
  cr_assert_eq(options_set(&o, "seed", "3", NULL), 0);
  options_differences(&o, buf, sizeof buf);
  cr_assert_str_eq(buf, "max-length 131072, drop-last");
  options_release(&o);
}
