/* print_advice.h: --advise on the terminal. */
#ifndef SIM_CLI_PRINT_ADVICE_H
#define SIM_CLI_PRINT_ADVICE_H
#include <stdio.h>

#include "sim/experiment/advice.h"

int print_advice(FILE *out, const struct experiment *x, const struct policy_result *results,
                 const struct advice *advice, struct err *err);

#endif
