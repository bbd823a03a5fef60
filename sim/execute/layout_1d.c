/* layout_1d.c: the memory of a micro-batch's arrays and its inputs. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/execute/state_1d.h"

/* ---- a micro-batch's memory ---- */

static void lay_out_norm(struct player *p, struct norm_rows *n, int64_t rows) {
  n->mean = take_fp32(p, rows);
  n->rstd = take_fp32(p, rows);
}

static void lay_out_layer(struct player *p, struct activations *a) {
  const struct transformer *m = p->model;
  const struct state_1d *s = state_1d(p);
  a->normed_1 = take(p, s->rows, m->hidden);
  lay_out_norm(p, &a->norm_1, s->rows);
  a->q = take(p, s->all_rows, s->heads * m->head_dim);
  a->k = take(p, s->all_rows, s->kv_heads * m->head_dim);
  a->v = take(p, s->all_rows, s->kv_heads * m->head_dim);
  a->out = take(p, s->all_rows, s->heads * m->head_dim);
  a->lse = take_fp32(p, s->all_rows * s->heads);
  a->attn = take(p, s->rows, m->heads * m->head_dim);
  a->middle = take(p, s->rows, m->hidden);
  a->normed_2 = take(p, s->rows, m->hidden);
  lay_out_norm(p, &a->norm_2, s->rows);
  if (m->qk_norm) {
    a->raw_q = take(p, s->rows, m->heads * m->head_dim);
    a->raw_k = take(p, s->rows, m->kv_heads * m->head_dim);
    lay_out_norm(p, &a->q_norm, s->rows * m->heads);
    lay_out_norm(p, &a->k_norm, s->rows * m->kv_heads);
  }
  a->up = take(p, s->rows, up_width(m));
  a->act = take(p, s->rows, m->ffn);
}

void layout_1d(struct player *p) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  int64_t rows = s->rows;
  s->token = take_fp32(p, rows);
  s->target = take_fp32(p, rows);
  s->position = take_fp32(p, rows);
  for (int l = 0; l <= m->layers; l++)
    s->input[l] = take(p, rows, m->hidden);
  for (int l = 0; l < s->first_recomputed; l++)
    lay_out_layer(p, &s->kept[l]);
  if (s->first_recomputed < m->layers)
    lay_out_layer(p, &s->shared);
  s->normed = take(p, rows, m->hidden);
  lay_out_norm(p, &s->final_rows, rows);
  s->logits = take(p, rows, m->vocab);
  s->loss = take_fp32(p, rows);
  s->lse = take_fp32(p, rows);
  s->dx = take(p, rows, m->hidden);
  s->dy = take(p, rows, m->hidden);
  s->dnormed = take(p, rows, m->hidden);
  s->projected = take(p, rows, m->hidden);
  s->dup = take(p, rows, up_width(m));
  s->dact = take(p, rows, m->ffn);
  s->dattn = take(p, rows, m->heads * m->head_dim);
  s->qkv = take(p, rows, qkv_width(m));
  s->local_q = take(p, rows, m->heads * m->head_dim);
  s->local_k = take(p, rows, m->kv_heads * m->head_dim);
  s->local_v = take(p, rows, m->kv_heads * m->head_dim);
  attention_1d_lay_out(p);
}

/* ---- inputs ---- */

/* Rows of one sample in the micro-batch: its tokens, then padding. */
struct row_fill {
  int32_t *token, *target, *position;
  int64_t first, rows; /* this rank's rows of the micro-batch */
};

static void fill_sample(const struct player *p, struct row_fill *f, int64_t i, int64_t begin) {
  const struct execute_micro_batch *mb = p->mb;
  int64_t n = mb->samples[i].a, offset = mb->offsets && mb->offsets[i] != UINT32_MAX ? mb->offsets[i] : 0;
  for (int64_t j = 0; j < n; j++) {
    int64_t row = attention_1d_row(p, mb->packed ? n : mb->shape.a, begin, j) - f->first;
    if (row < 0 || row >= f->rows)
      continue;
    f->token[row] = data_token(p->options->seed, mb->ids[i], offset + j, p->model->vocab);
    f->target[row] = data_token(p->options->seed, mb->ids[i], offset + j + 1, p->model->vocab);
    f->position[row] = (int32_t)j;
  }
}

static int upload_rows(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  const struct execute_micro_batch *mb = p->mb;
  size_t rows = (size_t)s->rows;
  struct row_fill f = {.first = p->group->rank * s->rows, .rows = s->rows};
  f.token = xcalloc(rows, sizeof(int32_t));
  f.target = xmalloc(size_mul(rows, sizeof(int32_t)));
  f.position = xcalloc(rows, sizeof(int32_t));
  memset(f.target, 0xff, rows * sizeof(int32_t)); /* -1: no target */
  int64_t begin = 0;
  for (int64_t i = 0; i < mb->batch; i++) {
    fill_sample(p, &f, i, begin);
    begin += attention_1d_rows(p, mb->packed ? mb->samples[i].a : mb->shape.a);
  }
  int rc = device_copy(p->device, s->token, f.token, rows * sizeof(int32_t), err) ||
           device_copy(p->device, s->target, f.target, rows * sizeof(int32_t), err) ||
           device_copy(p->device, s->position, f.position, rows * sizeof(int32_t), err);
  free(f.token);
  free(f.target);
  free(f.position);
  return rc ? -1 : 0;
}

int layout_1d_measure(struct player *p, struct err *err) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  attention_1d_measure(p);
  if (m->heads % s->u != 0 || (m->kv_heads % s->u != 0 && s->u % m->kv_heads != 0))
    return err_set(err, "%d ranks do not share the %lld heads and %lld key heads of model '%s' evenly: not played",
                   s->u, (long long)m->heads, (long long)m->kv_heads, m->name);
  s->first_recomputed = m->layers - p->mb->recompute_blocks[0];
  return communicator_group(p->world, s->u, 1, &s->heads_group, err);
}

int layout_1d_fill(struct player *p, struct err *err) {
  return upload_rows(p, err) || attention_1d_upload(p, err) ? -1 : 0;
}
