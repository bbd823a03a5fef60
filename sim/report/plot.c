#include "sim/report/plot.h"

#include <string.h>
#include <strings.h>

#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/report/plot_kinds.h"

const struct plot *const plots[] = {
    &plot_speedup, &plot_imbalance, &plot_imbalance_gpus, &plot_step_times,   &plot_sp_histogram,
    &plot_lengths, &plot_timeline,  &plot_residuals,      &plot_sweep_curves, &plot_sweep_heatmap,
    NULL};

const struct plot *plot_find(const char *name, struct err *err) {
  char valid[256] = "";
  for (int i = 0; plots[i]; i++) {
    if (strcmp(plots[i]->name, name) == 0)
      return plots[i];
    size_t n = strlen(valid);
    snprintf(valid + n, sizeof valid - n, "%s%s", i ? ", " : "", plots[i]->name);
  }
  err_usage(err, "unknown plot '%.60s' (valid: %s)", name, valid);
  return NULL;
}

void plot_list(FILE *out) {
  for (int i = 0; plots[i]; i++)
    fprintf(out, "  %-13s %s\n  %-13s   from %s%s\n", plots[i]->name, plots[i]->help, "", plots[i]->input,
            plots[i]->takes & PLOT_PUBLISHED ? "; takes --published" : "");
}

const char *plot_terminal(const char *out_path, struct err *err) {
  static const char *const suffixes[] = {"svg", "png", "pdf"};
  const char *dot = strrchr(out_path, '.');
  for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
    if (strcasecmp(dot + 1, suffixes[i]) == 0)
      return suffixes[i];
  err_usage(err, "cannot tell the kind of picture of '%s': the name must end in .svg, .png or .pdf", out_path);
  return NULL;
}

int plot_write(const struct plot *plot, const struct plot_input *in, const char *terminal, FILE *out, struct err *err) {
  struct gnuplot g;
  gnuplot_begin(&g, terminal);
  int status = plot->draw(in, &g, err);
  if (status == 0)
    status = gnuplot_run(&g, out, err);
  gnuplot_release(&g);
  return status;
}

int plot_draw(const struct plot *plot, const struct plot_input *in, const char *out_path, struct err *err) {
  const char *terminal = plot_terminal(out_path, err);
  struct output out = {0};
  if (!terminal || output_open(&out, out_path, err) < 0)
    return -1;
  int status = plot_write(plot, in, terminal, out.file, err);
  if (status == 0)
    status = output_commit(&out, err);
  output_discard(&out);
  return status;
}
