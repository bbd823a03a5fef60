/* plot_kinds.h: the rows of the plot table, each defined in the file of its name. */
#ifndef SIM_REPORT_PLOT_KINDS_H
#define SIM_REPORT_PLOT_KINDS_H
#include "sim/report/plot.h"

extern const struct plot plot_speedup, plot_imbalance, plot_imbalance_gpus, plot_step_times, plot_sp_histogram,
    plot_lengths;
extern const struct plot plot_timeline, plot_residuals, plot_sweep_curves, plot_sweep_heatmap;

#endif
