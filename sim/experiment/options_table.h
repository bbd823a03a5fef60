/* options_table.h: the table of options, a row each, and what a row does. Only the files that implement options.h read
 * it: options.c (values), options_json.c (experiment file, results), options_arguments.c (command line, help). */
#ifndef SIM_EXPERIMENT_OPTIONS_TABLE_H
#define SIM_EXPERIMENT_OPTIONS_TABLE_H
#include <stddef.h>

#include "sim/experiment/options.h"

#define OPTION_NO_LIMIT 9e18
#define OPTION_KEY_SIZE 40 /* of a name, a key or a flag "--name" with its 0 */
#define MAX_OPTIONS 128    /* rows; the table's file checks it */

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

/* In the order of help and results; after the last a row without a name. */
extern const struct option_spec option_specs[];

/* The row of a name of `n` characters in either spelling, or NULL. */
const struct option_spec *option_find(const char *name, size_t n);

/* "tokens_per_step" */
void option_key(const struct option_spec *s, char key[OPTION_KEY_SIZE]);

/* The option's value is an owned string. */
bool option_is_text(const struct option_spec *s);

/* Where its value is. */
void *option_field(struct experiment_options *o, const struct option_spec *s);
const void *option_const_field(const struct experiment_options *o, const struct option_spec *s);

/* Sets the value from text. `label` is how the option is called where the text stands: "--steps" or "'steps'". */
int option_set(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
               struct err *err);
/* As if it had never been set; flags and reals, which always have a value, stay. */
void option_unset(struct experiment_options *o, const struct option_spec *s);

/* Splits "a|b|c" or "a,b,c" at `separator`: the next word as a span; false after the last. */
bool option_next_word(const char **list, char separator, const char **word, size_t *n);

#endif
