/* layout_2d.c: which rows of a micro-batch this rank holds, the memory of its arrays, and its inputs. */
#include <math.h>
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/execute/state_2d.h"

#define MAX_TIMESTEP 1000
#define FRAME_RATE 24
#define MAX_PERIOD 10000.0

/* What data_number makes. */
enum data { DATA_PATCH, DATA_TARGET, DATA_CAPTION, DATA_TIMESTEP };

/* ---- extents ---- */

static struct sample extent_of(const struct execute_micro_batch *mb, int64_t i) {
  return mb->packed ? mb->samples[i] : mb->shape;
}

static void add_run(struct player *p, struct run r) {
  struct state_2d *s = state_2d(p);
  int ranks = p->group->ranks;
  r.local = ceil_div(r.positions, ranks);
  r.frames_each = r.frames == 1 ? 0 : ceil_div(r.frames, ranks);
  r.units = r.frames == 1 ? ceil_div(r.count, ranks) : r.count * r.frames_each;
  r.local_at = s->rows;
  r.frames_at = s->frame_rows;
  r.part_at = s->part_rows;
  s->rows += r.count * r.frames * r.local;
  s->frame_rows += r.units * r.positions;
  s->part_rows += r.units * r.local;
  s->uneven |= r.local * ranks != r.positions || r.units * ranks != r.count * r.frames;
  s->has_temporal |= r.frames > 1;
  s->runs[s->n_runs++] = r;
}

/* Samples of equal extent become neighbours, in the order of their first. */
static void make_runs(struct player *p) {
  struct state_2d *s = state_2d(p);
  const struct execute_micro_batch *mb = p->mb;
  int64_t placed = 0;
  bool *done = xcalloc((size_t)mb->batch, sizeof *done);
  s->order = xrealloc(s->order, size_mul((size_t)mb->batch, sizeof *s->order));
  s->runs = xrealloc(s->runs, size_mul((size_t)mb->batch, sizeof *s->runs));
  s->n_runs = 0;
  s->rows = s->frame_rows = s->part_rows = s->tokens = 0;
  s->uneven = s->has_temporal = false;
  for (int64_t i = 0; i < mb->batch; i++) {
    struct sample e = extent_of(mb, i);
    struct run r = {.first = placed, .frames = e.a, .positions = e.b};
    s->tokens += sample_tokens(mb->samples[i]);
    for (int64_t j = i; j < mb->batch; j++) {
      struct sample other = extent_of(mb, j);
      if (done[j] || other.a != e.a || other.b != e.b)
        continue;
      done[j] = true;
      s->order[placed++] = j;
      r.count++;
    }
    if (r.count > 0)
      add_run(p, r);
  }
  free(done);
  s->all_rows = s->rows * p->group->ranks;
  s->text_rows = mb->batch * p->model->text_tokens;
}

/* ---- who attends to whom ---- */

/* Rows that are padding attend to each other, or to what the real ones see: their gradients are zero either way. */
static void make_sequences(struct player *p) {
  struct state_2d *s = state_2d(p);
  const struct sample *samples = p->mb->samples;
  int64_t rank = p->group->rank;
  sequences_clear(&s->self[SPATIAL]);
  sequences_clear(&s->self[TEMPORAL]);
  sequences_clear(&s->cross);
  for (const struct run *r = s->runs; r < s->runs + s->n_runs; r++) {
    for (int64_t i = 0; i < r->units; i++) {
      bool image = r->frames_each == 0;
      int64_t place = image ? rank * r->units + i : i / r->frames_each;
      int64_t frame = image ? 0 : rank * r->frames_each + i % r->frames_each;
      struct sample real = place < r->count ? samples[s->order[r->first + place]] : (struct sample){0, 0};
      sequences_add(&s->self[SPATIAL], r->positions, r->positions, frame < real.a ? real.b : r->positions);
    }
    for (int64_t i = 0; i < r->count * r->local; i++) {
      struct sample real = samples[s->order[r->first + i / r->local]];
      int64_t position = rank * r->local + i % r->local;
      sequences_add(&s->self[TEMPORAL], r->frames, r->frames, position < real.b ? real.a : r->frames);
    }
    for (int64_t i = 0; i < r->count; i++)
      sequences_add(&s->cross, r->frames * r->local, p->model->text_tokens, p->model->text_tokens);
  }
}

/* ---- memory ---- */

static void lay_out_norm(struct player *p, struct norm_rows *n, int64_t rows) {
  n->mean = take_fp32(p, rows);
  n->rstd = take_fp32(p, rows);
}

static void lay_out_saved(struct player *p, struct saved *a, int64_t attention_rows) {
  const struct transformer *m = p->model;
  const struct state_2d *s = state_2d(p);
  const int64_t rows = s->rows, h = m->hidden, n = attention_rows;
  void **const of_rows[] = {&a->normed_1, &a->projected, &a->middle,      &a->cross_q,    &a->cross_attn,
                            &a->middle_2, &a->normed_2,  &a->modulated_2, &a->projected_2};
  void **const of_attention[] = {&a->modulated_1, &a->raw_q, &a->raw_k, &a->q, &a->k, &a->v, &a->out, &a->attn};
  a->modulation = take(p, p->mb->batch, PARTS * h);
  for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
    *of_rows[i] = take(p, rows, h);
  for (size_t i = 0; i < sizeof of_attention / sizeof *of_attention; i++)
    *of_attention[i] = take(p, n, h);
  a->lse = take_fp32(p, n * m->heads);
  a->cross_k = take(p, s->text_rows, h);
  a->cross_v = take(p, s->text_rows, h);
  a->cross_lse = take_fp32(p, rows * m->heads);
  a->up = take(p, rows, m->ffn * (m->mlp_matrices - 1));
  a->act = take(p, rows, m->ffn);
  lay_out_norm(p, &a->norm_1, rows);
  lay_out_norm(p, &a->norm_2, rows);
  lay_out_norm(p, &a->q_norm, n * m->heads);
  lay_out_norm(p, &a->k_norm, n * m->heads);
}

static void lay_out_embedder(struct player *p, struct embedder *e, int64_t rows) {
  e->in = take(p, rows, e->first.in);
  e->hidden = take(p, rows, e->first.out);
  e->act = take(p, rows, e->first.out);
  e->out = take(p, rows, e->second.out);
}

static void lay_out_inputs(struct player *p) {
  const struct transformer *m = p->model;
  struct state_2d *s = state_2d(p);
  const int64_t h = m->hidden, batch = p->mb->batch;
  sequences_take(p, &s->self[SPATIAL]);
  sequences_take(p, &s->self[TEMPORAL]);
  sequences_take(p, &s->cross);
  s->cu_rows = take_fp32(p, batch + 1);
  s->frame = take_fp32(p, s->rows);
  s->patches = take(p, s->all_rows, m->in_channels);
  s->target = take(p, s->rows, m->out_channels);
  lay_out_embedder(p, &s->time, batch);
  lay_out_embedder(p, &s->rate, batch);
  lay_out_embedder(p, &s->caption, s->text_rows);
  s->silu_time = take(p, batch, h);
  s->time_6 = take(p, batch, PARTS * h);
  s->whole = take(p, s->all_rows, h);
  s->normed = take(p, s->all_rows, h);
  s->modulated = take(p, s->all_rows, h);
  s->logits = take(p, s->all_rows, m->out_channels);
  s->predicted = take(p, s->rows, m->out_channels);
  s->loss = take_fp32(p, s->rows);
  s->final_modulation = take(p, batch, 2 * h);
  lay_out_norm(p, &s->final_rows, s->all_rows);
}

static void lay_out_gradients(struct player *p) {
  const struct transformer *m = p->model;
  struct state_2d *s = state_2d(p);
  const int64_t h = m->hidden, batch = p->mb->batch, widest = int64_max(s->rows, s->frame_rows);
  void **const of_rows[] = {&s->local, &s->dx, &s->dlocal, &s->dnormed, &s->dcross, &s->dcross_q};
  void **const of_attention[] = {&s->frames, &s->dframes, &s->dattn, &s->dout, &s->dq, &s->dk, &s->dv};
  void **const of_text[] = {&s->dcross_k, &s->dcross_v, &s->dtext, &s->dcaption};
  for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
    *of_rows[i] = take(p, s->rows, h);
  for (size_t i = 0; i < sizeof of_attention / sizeof *of_attention; i++)
    *of_attention[i] = take(p, widest, h);
  for (size_t i = 0; i < sizeof of_text / sizeof *of_text; i++)
    *of_text[i] = take(p, s->text_rows, h);
  s->qkv = take(p, widest, 3 * h);
  s->kv = take(p, s->text_rows, 2 * h);
  s->delta = take_fp32(p, widest * m->heads);
  s->dup = take(p, s->rows, m->ffn * (m->mlp_matrices - 1));
  s->dact = take(p, s->rows, m->ffn);
  s->dwhole = take(p, s->all_rows, h);
  s->send = take(p, s->part_rows * p->group->ranks, h);
  s->recv = take(p, s->part_rows * p->group->ranks, h);
  s->dmodulation = take_fp32(p, batch * PARTS * h);
  s->dfinal = take_fp32(p, batch * 2 * h);
  s->dtime = take_fp32(p, batch * h);
  s->dtime_6 = take_fp32(p, batch * PARTS * h);
  s->dmodulation_e = take(p, batch, PARTS * h);
  s->dbatch = take(p, batch, h);
  s->dbatch_2 = take(p, batch, h);
}

void layout_2d(struct player *p) {
  const struct transformer *m = p->model;
  struct state_2d *s = state_2d(p);
  const int64_t attention_rows[MODULES] = {s->frame_rows, s->rows};
  bool recomputes = false;
  lay_out_inputs(p);
  for (int i = 0; i <= MODULES * m->layers; i++)
    s->input[i] = take(p, s->rows, m->hidden);
  for (int module = 0; module < MODULES; module++) {
    for (int l = 0; l < s->kept[module]; l++)
      lay_out_saved(p, &s->saved[module][l], attention_rows[module]);
    recomputes |= s->kept[module] < m->layers;
  }
  if (recomputes)
    lay_out_saved(p, &s->shared, int64_max(s->rows, s->frame_rows));
  lay_out_gradients(p);
}

/* ---- inputs ---- */

static int upload(struct player *p, void *elements, float *host, int64_t n, struct err *err) {
  int rc = device_upload(p->device, elements, host, (size_t)n, err);
  free(host);
  return rc;
}

/* Where a row of rank `rank` in the local order is in its sample. */
struct place {
  int64_t sample, frame, position;
  bool real;
};

static struct place place_of(const struct player *p, const struct run *r, int64_t row, int64_t rank) {
  const struct state_2d *s = state_2d(p);
  int64_t each = r->frames * r->local;
  struct place at = {.sample = s->order[r->first + row / each],
                     .frame = row % each / r->local,
                     .position = rank * r->local + row % r->local};
  struct sample real = p->mb->samples[at.sample];
  at.real = at.frame < real.a && at.position < real.b;
  return at;
}

static void fill_numbers(const struct player *p, const struct place *at, enum data what, int64_t channels, float *out) {
  int64_t first = (at->frame * p->mb->samples[at->sample].b + at->position) * channels;
  for (int64_t c = 0; at->real && c < channels; c++)
    out[c] = data_number(p->options->seed, p->mb->ids[at->sample], what, first + c);
}

/* Patches of all ranks' rows. */
static int upload_patches(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t channels = p->model->in_channels;
  float *host = xcalloc(size_mul((size_t)s->all_rows, (size_t)channels), sizeof *host);
  for (int64_t rank = 0; rank < p->group->ranks; rank++)
    for (const struct run *r = s->runs; r < s->runs + s->n_runs; r++)
      for (int64_t row = 0; row < r->count * r->frames * r->local; row++) {
        struct place at = place_of(p, r, row, rank);
        fill_numbers(p, &at, DATA_PATCH, channels, host + (rank * s->rows + r->local_at + row) * channels);
      }
  return upload(p, s->patches, host, s->all_rows * channels, err);
}

static void add_target(struct state_2d *s, int64_t row) {
  if (s->n_targets > 0 && s->targets[s->n_targets - 1].first + s->targets[s->n_targets - 1].n == row) {
    s->targets[s->n_targets - 1].n++;
    return;
  }
  VEC_PUSH(s->targets, s->n_targets, s->targets_cap, ((struct stretch){row, 1}));
}

/* Targets of this rank's rows. */
static int upload_targets(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t channels = p->model->out_channels;
  float *host = xcalloc(size_mul((size_t)s->rows, (size_t)channels), sizeof *host);
  s->n_targets = 0;
  for (const struct run *r = s->runs; r < s->runs + s->n_runs; r++)
    for (int64_t row = 0; row < r->count * r->frames * r->local; row++) {
      struct place at = place_of(p, r, row, p->group->rank);
      fill_numbers(p, &at, DATA_TARGET, channels, host + (r->local_at + row) * channels);
      if (at.real)
        add_target(s, r->local_at + row);
    }
  return upload(p, s->target, host, s->rows * channels, err);
}

/* First row of each sample, and the frame of each row in the order of temporal attention. */
static int upload_rows(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t batch = p->mb->batch;
  int32_t *cu_rows = xcalloc((size_t)batch + 1, sizeof *cu_rows), *frame = xcalloc((size_t)s->rows, sizeof *frame);
  for (const struct run *r = s->runs; r < s->runs + s->n_runs; r++) {
    for (int64_t i = 0; i < r->count; i++)
      cu_rows[r->first + i + 1] = (int32_t)(r->local_at + (i + 1) * r->frames * r->local);
    for (int64_t row = 0; row < r->count * r->frames * r->local; row++)
      frame[r->local_at + row] = (int32_t)(row % r->frames);
  }
  int rc = device_copy(p->device, s->cu_rows, cu_rows, ((size_t)batch + 1) * sizeof *cu_rows, err) ||
           device_copy(p->device, s->frame, frame, (size_t)s->rows * sizeof *frame, err);
  free(cu_rows);
  free(frame);
  return rc ? -1 : 0;
}

/* Cosines and sines of falling frequencies. */
static void sinusoid(double x, float *out, int64_t width) {
  int64_t half = width / 2;
  for (int64_t i = 0; i < half; i++) {
    double angle = x * exp(-log(MAX_PERIOD) * (double)i / (double)half);
    out[i] = (float)cos(angle);
    out[half + i] = (float)sin(angle);
  }
}

static int upload_times(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t width = p->model->frequency_dim, n = p->mb->batch * width;
  float *time = xcalloc((size_t)n, sizeof *time), *rate = xcalloc((size_t)n, sizeof *rate);
  for (int64_t i = 0; i < p->mb->batch; i++) {
    float u = data_number(p->options->seed, p->mb->ids[s->order[i]], DATA_TIMESTEP, 0);
    sinusoid((u + 1) / 2 * MAX_TIMESTEP, time + i * width, width);
    sinusoid(FRAME_RATE, rate + i * width, width);
  }
  int rc = device_upload(p->device, s->time.in, time, (size_t)n, err) ||
           device_upload(p->device, s->rate.in, rate, (size_t)n, err);
  free(time);
  free(rate);
  return rc ? -1 : 0;
}

static void make_captions(struct player *p) {
  struct state_2d *s = state_2d(p);
  int64_t each = p->model->text_tokens * p->model->text_channels;
  s->captions = xrealloc(s->captions, size_mul((size_t)(p->mb->batch * each), sizeof *s->captions));
  for (int64_t i = 0; i < p->mb->batch; i++)
    for (int64_t j = 0; j < each; j++)
      s->captions[i * each + j] = data_number(p->options->seed, p->mb->ids[s->order[i]], DATA_CAPTION, j);
}

int layout_2d_captions(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return device_upload(p->device, s->caption.in, s->captions, (size_t)(s->text_rows * p->model->text_channels), err);
}

int layout_2d_measure(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  (void)err;
  make_runs(p);
  make_sequences(p);
  for (int module = 0; module < MODULES; module++)
    s->kept[module] = p->model->layers - p->mb->recompute_blocks[module];
  return 0;
}

int layout_2d_fill(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  make_captions(p);
  return upload_rows(p, err) || upload_patches(p, err) || upload_targets(p, err) || upload_times(p, err) ||
                 sequences_upload(p, &s->self[SPATIAL], err) || sequences_upload(p, &s->self[TEMPORAL], err) ||
                 sequences_upload(p, &s->cross, err)
             ? -1
             : 0;
}

void layout_2d_release(struct player *p) {
  struct state_2d *s = state_2d(p);
  sequences_release(&s->self[SPATIAL]);
  sequences_release(&s->self[TEMPORAL]);
  sequences_release(&s->cross);
  free(s->order);
  free(s->runs);
  free(s->targets);
  free(s->captions);
}
