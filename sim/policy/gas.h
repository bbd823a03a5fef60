/* gas.h: how many micro-batches each group runs so that all finish together: GAS(times; max_gas, min_gas).
 *
 * Published rule: cap = longest time * max_gas. Every multiple m * t_i up to the cap is a target; at a target each
 * group takes the k in 1..int(cap/t_j) with the least penalty (1.2 x the overshoot, 1 x the undershoot; the first such
 * k), and the target with the least sum of penalties wins, the first such. If the largest k stays below min_gas, all
 * are multiplied by ceil(min_gas / largest). */
#ifndef SIM_POLICY_GAS_H
#define SIM_POLICY_GAS_H

#define GAS_MAX_MICRO_BATCHES 10000000 /* bound on int(max_gas * longest / shortest time) */

/* gas[n] out. times[n] > 0. The published triple loop's result, to the bit, in
 * O(n log n + targets * distinct times), targets <= distinct times * max_gas * longest / shortest. */
void gas_choose(const double *times, int n, int max_gas, int min_gas, int *gas);

#endif
