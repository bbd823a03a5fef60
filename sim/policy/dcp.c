#include "sim/policy/dcp_schedule.h"

const struct policy policy_dcp = {
    .name = "dcp",
    .help = "dcp_inter with recomputation adapted to the spare memory (paper: DCP-inter + DCP-intra; blog: PAC)",
    .flags = POLICY_BUCKETED | POLICY_UNEQUAL_COUNTS | POLICY_ADAPTS_RECOMPUTE,
    .default_min_gas = 15,
    .open = dcp_schedule_open,
    .next = dcp_schedule_next,
    .close = dcp_schedule_close,
};
