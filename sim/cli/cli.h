/* cli.h: the commands of the program. Each is given its own name as argv[0], prints results to stdout and one line per
 * error to stderr, and returns the exit code: 0 ok, 1 failure, 2 usage. */
#ifndef SIM_CLI_CLI_H
#define SIM_CLI_CLI_H
#include <getopt.h>

#include "calib/warning.h"
#include "sim/base/err.h"

int cmd_simulate(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_execute(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_list(int argc, char **argv);

/* Prints the error on stderr; returns its exit code. */
int cli_fail(const struct err *err);
/* The same for one of several ranks, at once: the others may wait for it in a collective, and it would for them if it
 * left in order. Of ranks that fail together one prints. */
_Noreturn void cli_fail_of_ranks(const struct err *err);

/* getopt_long for a command as it is typed, "trace info": the next option's letter with its value in optarg; -1 after
 * the last, optind then at the first word that is none; '?' with a usage error for what is no option or lacks its
 * value. `letters` begin with a colon. */
int cli_option(const char *command, int argc, char **argv, const char *letters, const struct option *options,
               struct err *err);

/* Prints warnings on stderr. */
extern const struct warning_sink cli_warnings;

#endif
