/* The command line of simulate and plan, and the part of --help that lists its options. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/options_table.h"

static const char *command_name(enum options_command c) { return c == OPTIONS_SIMULATE ? "simulate" : "plan"; }

static int unknown(enum options_command command, const char *argument, struct err *err) {
  char flags[MAX_OPTIONS][OPTION_KEY_SIZE], word[80];
  const char *valid[MAX_OPTIONS + 2] = {NULL};
  int n = 0;
  for (const struct option_spec *s = option_specs; s->name; s++)
    if (s->commands & command) {
      snprintf(flags[n], sizeof flags[n], "--%s", s->name);
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
    a->spec = n > 0 ? option_find(text + 2, n) : NULL;
    value = text[2 + n] == '=' ? text + 3 + n : NULL;
  } else {
    for (const struct option_spec *s = option_specs; s->name; s++)
      if (s->letter == text[1])
        a->spec = s;
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
    if (option_set(o, arguments[i].spec, arguments[i].label, arguments[i].value, err) < 0)
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
    while (option_next_word(&list, '|', &word, &length)) {
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
  for (const struct option_spec *s = option_specs; s->name; s++) {
    group = s->group ? s->group : group;
    if (!(s->commands & command))
      continue;
    if (group)
      fprintf(out, "\n%s\n", group);
    group = NULL;
    help_one(s, out);
  }
}
