/* plot_kinds.h: the rows of the plot table, each defined in the file of its name. */
#ifndef SIM_REPORT_PLOT_KINDS_H
#define SIM_REPORT_PLOT_KINDS_H
#include "sim/report/plot.h"

extern const struct plot plot_speedup, plot_imbalance, plot_lengths, plot_timeline, plot_residuals;
extern const struct plot plot_sweep_curves, plot_sweep_heatmap;

#endif
