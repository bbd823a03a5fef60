#include "sim/policy/dcp_schedule.h"

const struct policy policy_dcp_inter = {
    .name = "dcp_inter",
    .help = "best SP per bucket, micro-batches per group by its time (Data-Centric Parallel: DCP-inter)",
    .flags = POLICY_BUCKETED | POLICY_UNEQUAL_COUNTS,
    .default_min_gas = 2,
    .open = dcp_schedule_open,
    .next = dcp_schedule_next,
    .close = dcp_schedule_close,
};
