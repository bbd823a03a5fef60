/* print_result.h: results as tables for people. */
#ifndef SIM_CLI_PRINT_RESULT_H
#define SIM_CLI_PRINT_RESULT_H
#include <stdio.h>

#include "sim/experiment/experiment.h"

/* The comparison: a row per policy, where the time goes, and notes on what the numbers rest on. */
void print_results(FILE *out, const struct experiment *x, const struct policy_result *results);

/* Where the time of the policy's median step goes. */
void print_explain(FILE *out, const struct policy_result *r, const struct explain *e);

#endif
