/* options_command.h: the command line that asks for an experiment again, from its options. */
#ifndef SIM_EXPERIMENT_OPTIONS_COMMAND_H
#define SIM_EXPERIMENT_OPTIONS_COMMAND_H
#include <stdio.h>

#include "sim/experiment/options.h"

/* "dcpsim simulate --trace wikipedia ...": of the "options" object of a result, whatever its strings hold. Options that
 * are not set or the default, outputs and keys that are no options are left out. Quoted for sh; `separator` stands
 * before every option. */
void options_command_write(FILE *out, const json_t *options, const char *separator);

/* The same on one line. Caller frees. */
char *options_command(const struct experiment_options *o);

/* An option's value as on the command line: "bucket,dcp", "auto", "" for null. */
void options_value_text(const json_t *value, char *buf, size_t size);

/* The options object of an experiment that asks for nothing; the caller's reference. */
json_t *options_default_json(void);

#endif
