/* chakra_step.h: one simulated step as Chakra execution traces: step.RANK.et of every rank, and groups.json, which
 * ranks each process group has (ASTRA-sim: --workload-configuration DIR/step, --comm-group-configuration
 * DIR/groups.json).
 *
 * Loops are unrolled. A rank's nodes are in the order in which it issues them, and depend on each other as the
 * program's streams do (sim/plan/program.h): compute on the compute node before it and on the exchanges it needs,
 * exchanges and gradient collectives each on the one before and on the compute that feeds them. Compute has its time
 * alone, with jitter and stragglers, without the slowdown beside collectives: that is for the reader to simulate, as
 * network times are. Host issue times are left out, host work that streams wait for is a node on the host. */
#ifndef SIM_EXPERIMENT_CHAKRA_STEP_H
#define SIM_EXPERIMENT_CHAKRA_STEP_H
#include "sim/base/output_folder.h"
#include "sim/engine/step.h"

struct chakra_summary {
  int ranks;
  int64_t nodes;     /* of all ranks */
  double compute_s;  /* GPU compute of all ranks, exact */
  double rounding_s; /* the largest difference on a rank between its compute as written and as simulated */
};

/* How many files that makes. */
int chakra_step_files(const struct system *system);

int chakra_step_write(struct output_folder *folder, const struct system *system, bool unequal_counts,
                      const struct step_input *step, struct chakra_summary *summary, struct err *err);

#endif
