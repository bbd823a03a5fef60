/* result.h: results as JSON (dcpsim.result/1) and CSV. */
#ifndef SIM_EXPERIMENT_RESULT_H
#define SIM_EXPERIMENT_RESULT_H
#include "sim/base/json.h"
#include "sim/experiment/advice.h"

/* The dcpsim.result/1 object. outputs: NULL, or what `explain` and `chakra` of each policy come from; advice: NULL for
 * none. */
void result_write_json(struct json_writer *w, const struct experiment *x, const struct policy_result *results,
                       const struct experiment_outputs *outputs, const struct advice *advice);

/* A header and a row per policy: the numbers of the JSON object, nested keys joined by '_'. */
void result_write_csv(FILE *out, const struct experiment *x, const struct policy_result *results);

/* The parts of it that two runs have alike, that is, all but plan_time_s; without an end of line. r NULL: as many empty
 * values. */
void result_write_csv_names(FILE *out);
void result_write_csv_values(FILE *out, const struct policy_result *r);

#endif
