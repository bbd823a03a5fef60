/* dcp_schedule.h: the schedule that dcp_inter and dcp share: they differ only in the profile (dcp: times after adapted
 * recomputation) and in the default of min_gas. The slots of their `struct policy`. */
#ifndef SIM_POLICY_DCP_SCHEDULE_H
#define SIM_POLICY_DCP_SCHEDULE_H
#include "sim/policy/policy.h"

int dcp_schedule_open(void **run, const struct policy_input *in, struct err *err);
int dcp_schedule_next(void *run, struct plan_iteration *it, struct err *err);
void dcp_schedule_close(void *run);

#endif
