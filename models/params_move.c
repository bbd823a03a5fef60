/* Parameters moved by their own errors: what a prediction would be if every fitted quantity were off by as much as the
 * fit is off on its rows. Errors come from the file's fit record; quantities without rows have declared ones, below. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/params_table.h"
#include "sim/base/rng.h"
#include "sim/base/units.h"

/* Declared relative errors of what no row gives. Bandwidth classes: spread of the sources of one class; network between
 * nodes: spread of the public logs at equal size; derate: leave-one-source-out errors of calibrate fit-training; the
 * host's issue time and the slow-down beside a collective are guesses within a factor. */
static const double MEMORY_ERROR = 0.10, INTER_NODE_ERROR = 0.12, DERATE_ERROR = 0.06, HOST_ERROR = 0.4,
                    OVERLAP_ERROR = 0.5;

struct mover {
  struct rng rng;
  double least; /* of the shifts made since it was set to 0: how much faster anything became */
};

static double draw(struct mover *m, double error) {
  double shift = error * rng_gaussian(&m->rng);
  m->least = fmin(m->least, shift);
  return shift;
}

static double *draws(struct mover *m, int n, double error) {
  double *v = xmalloc(size_mul((size_t)n, sizeof *v));
  for (int i = 0; i < n; i++)
    v[i] = draw(m, error);
  return v;
}

/* Errors of neighbouring sizes are alike, of far ones not: one shift per node of each axis, added up. */
static void move_gemm(struct params *p, struct mover *m) {
  struct gemm_table *g = &p->gemm;
  double error = p->fit_error[FIT_GEMM] / sqrt(3);
  double *by_m = draws(m, g->m.n, error), *by_n = draws(m, g->n.n, error), *by_k = draws(m, g->k.n, error);
  double fastest = 0;
  for (int i = 0; i < g->m.n; i++)
    for (int j = 0; j < g->n.n; j++)
      for (int k = 0; k < g->k.n; k++) {
        double shift = by_m[i] + by_n[j] + by_k[k];
        g->log_time[(i * g->n.n + j) * g->k.n + k] += shift;
        fastest = fmin(fastest, shift);
      }
  g->best_flops_per_s *= exp(-fastest);
  free(by_m);
  free(by_n);
  free(by_k);
}

static void move_attention(struct params *p, struct attention_table *t, struct mover *m) {
  double error = p->fit_error[FIT_ATTENTION_FORWARD] / sqrt(2);
  double *by_keys = draws(m, t->keys.n, error), *by_tiles = draws(m, t->tiles.n, error);
  double *backward = draws(m, t->keys.n, p->fit_error[FIT_ATTENTION_BACKWARD]);
  double fastest = 0, fastest_backward = 0;
  for (int i = 0; i < t->keys.n; i++)
    for (int j = 0; j < t->tiles.n; j++) {
      int at = i * t->tiles.n + j;
      double shift = by_keys[i] + by_tiles[j];
      t->log_forward[at] += shift;
      t->log_backward[at] += shift + backward[i];
      if (t->log_grouped)
        t->log_grouped[at] += shift;
      fastest = fmin(fastest, shift);
      fastest_backward = fmin(fastest_backward, shift + backward[i]);
    }
  t->best_forward_flops_per_s *= exp(-fastest);
  t->best_backward_flops_per_s *= exp(-fastest_backward);
  free(by_keys);
  free(by_tiles);
  free(backward);
}

static void move_memory(struct params *p, struct mover *m) {
  m->least = 0;
  for (int i = 0; i < MEMORY_CLASSES; i++)
    p->memory_bytes_per_s[i] *= exp(-draw(m, MEMORY_ERROR));
  p->best_memory_bytes_per_s *= exp(-m->least);
}

static void move_network(struct params *p, struct mover *m) {
  struct network_table *n = &p->network;
  for (int i = 0; i < n->n_curves; i++) {
    struct collective_curve *c = &n->curves[i];
    double shift = draw(m, c->nodes > 1 ? INTER_NODE_ERROR : p->fit_error[FIT_COLLECTIVE + c->op]);
    for (int k = 0; k < c->bytes.n; k++) {
      c->time_s[k] *= exp(shift);
      c->log_time[k] += shift;
    }
  }
  for (int op = 0; op < COLLECTIVE_KINDS; op++) {
    double rate = exp(-draw(m, INTER_NODE_ERROR)), floor = exp(draw(m, INTER_NODE_ERROR));
    for (int k = 0; k < n->nodes.n; k++) {
      n->inter[op].nic_bytes_per_s[k] *= rate;
      n->inter[op].floor_s[k] *= floor;
    }
  }
}

static void move_in_step(struct params *p, struct mover *m) {
  for (int i = 0; i < p->n_in_step; i++) {
    struct in_step_scalars *s = &p->in_step[i].scalars;
    s->compute_derate = fmax(1, s->compute_derate * exp(draw(m, DERATE_ERROR)));
    s->host_op_s *= exp(draw(m, HOST_ERROR));
  }
  p->overlap_slowdown_frac *= exp(draw(m, OVERLAP_ERROR));
}

void params_move(struct params *p, uint64_t seed) {
  struct mover m = {.least = 0};
  rng_init(&m.rng, seed, "parameters moved by their fit errors");
  move_gemm(p, &m);
  for (int i = 0; i < p->n_attention; i++)
    move_attention(p, &p->attention[i], &m);
  move_memory(p, &m);
  move_network(p, &m);
  move_in_step(p, &m);
  rng_release(&m.rng);
}
