/* cli.h: the commands of the program. Each is given its own name as argv[0], prints results to stdout and one line per
 * error to stderr, and returns the exit code: 0 ok, 1 failure, 2 usage. */
#ifndef SIM_CLI_CLI_H
#define SIM_CLI_CLI_H
#include "sim/base/err.h"

int cmd_simulate(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_sweep(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_list(int argc, char **argv);

/* Prints the error on stderr; returns its exit code. */
int cli_fail(const struct err *err);

#endif
