/* dcp_rebalance.c: one micro-batch per group; batch and sp of each group are chosen anew per iteration so that all take
 * about as long as the quickest (the older blog's and code's "DCP-intra"). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/policy/fill.h"

struct rebalance {
  const struct policy_input *in;
  struct fill fill;
  struct fill_entry *entries; /* of the iteration in the making */
  int n_entries;
};

/* A removed partial batch makes room for another pick before the entries are counted again: world + 1 at most. */
static int rebalance_open(void **run, const struct policy_input *in, struct err *err) {
  struct rebalance *r = xcalloc(1, sizeof *r);
  r->in = in;
  r->entries = xcalloc((size_t)in->world + 1, sizeof *r->entries);
  if (fill_init(&r->fill, in, "dcp_rebalance.pick", true, err) < 0)
    goto fail;
  for (int b = 0; b < in->profile->n_buckets; b++)
    if (r->fill.left[b] > 0 && in->profile->buckets[b].n_detail == 0) {
      err_set(err, "bucket '%s': 'detail' (its largest batch at each sp) is needed", in->profile->buckets[b].name);
      goto fail;
    }
  *run = r;
  return 0;
fail:
  fill_release(&r->fill);
  free(r->entries);
  free(r);
  return -1;
}

static void rebalance_close(void *run) {
  struct rebalance *r = run;
  fill_release(&r->fill);
  free(r->entries);
  free(r);
}

static const struct bucket_profile *profile_of(const struct rebalance *r, int bucket) {
  return &r->in->profile->buckets[bucket];
}

static const struct candidate *detail_at(const struct bucket_profile *p, int sp) {
  for (int i = 0; i < p->n_detail; i++)
    if (p->detail[i].sp == sp)
      return &p->detail[i];
  return p->best.sp == sp ? &p->best : NULL;
}

static bool has_left(const struct rebalance *r, const struct fill_entry *e) { return r->fill.left[e->bucket] > 0; }

/* drop_last, after every pick: the quickest of the partial batches goes, unless it is alone. Returns ranks freed. */
static int remove_partial(struct rebalance *r, struct plan_iteration *it) {
  int quickest = -1;
  for (int i = 0; i < r->n_entries; i++)
    if (r->entries[i].count < profile_of(r, r->entries[i].bucket)->best.batch &&
        (quickest < 0 || r->entries[i].time_s < r->entries[quickest].time_s))
      quickest = i;
  if (quickest < 0 || r->n_entries < 2)
    return 0;
  struct fill_entry e = r->entries[quickest];
  plan_add_drop(it, e.bucket, e.count, NULL, true);
  r->n_entries--;
  memmove(&r->entries[quickest], &r->entries[quickest + 1], (size_t)(r->n_entries - quickest) * sizeof *r->entries);
  return e.sp;
}

/* A. Returns the ranks that no bucket could take. */
static int fill_ranks(struct rebalance *r, struct plan_iteration *it) {
  int free_ranks = r->in->world;
  while (free_ranks > 0) {
    int b = fill_pick(&r->fill, free_ranks);
    if (b < 0)
      break;
    const struct candidate *best = &profile_of(r, b)->best;
    int64_t count = int64_min(best->batch, r->fill.left[b]);
    double time_s = best->time_s * (double)count / (double)best->batch;
    r->entries[r->n_entries++] = (struct fill_entry){b, best->sp, count, time_s};
    fill_take(&r->fill, b, count);
    free_ranks -= best->sp;
    if (r->in->options.remainder == REMAINDER_DROP_LAST)
      free_ranks += remove_partial(r, it);
  }
  return free_ranks;
}

/* B. The entry all others aim at: the quickest (of those whose bucket still has samples, unless drop_last), or -1. */
static int find_reference(const struct rebalance *r) {
  int quickest = -1;
  for (int i = 0; i < r->n_entries; i++) {
    if (r->in->options.remainder != REMAINDER_DROP_LAST && !has_left(r, &r->entries[i]))
      continue;
    if (quickest < 0 || r->entries[i].time_s < r->entries[quickest].time_s)
      quickest = i;
  }
  return quickest;
}

/* The most samples the entry can hold at `detail`, given what is left of its bucket. */
static int64_t most_samples(const struct rebalance *r, const struct fill_entry *e, const struct candidate *detail) {
  return int64_min(detail->batch, e->count + r->fill.left[e->bucket]);
}

/* C. for one entry: the (sp, samples) that comes nearest to the reference time. */
static void fit_to(struct rebalance *r, struct fill_entry *e, double reference_s) {
  struct fill_entry best = *e;
  double least = INFINITY;
  for (int sp = e->sp; sp <= r->in->profile->max_sp && sp <= r->in->world; sp *= 2) {
    const struct candidate *detail = detail_at(profile_of(r, e->bucket), sp);
    if (!detail)
      continue;
    double one_s = detail->time_s / (double)detail->batch;
    double wanted = fmax(1, fmin(nearbyint(reference_s / one_s), (double)most_samples(r, e, detail)));
    double time_s = one_s * wanted, difference = fabs(time_s - reference_s);
    if (difference >= least)
      continue;
    least = difference;
    best = (struct fill_entry){e->bucket, sp, (int64_t)wanted, time_s};
    if (fabs(time_s / reference_s - 1) < 0.1)
      break;
  }
  fill_take(&r->fill, e->bucket, best.count - e->count);
  *e = best;
}

static void rebalance_entries(struct rebalance *r) {
  int reference = find_reference(r);
  if (reference < 0)
    return;
  struct fill_entry ref = r->entries[reference];
  bool exhausted = false;
  for (int i = 0; i < r->n_entries; i++)
    exhausted = exhausted || !has_left(r, &r->entries[i]);
  bool leave_faster = exhausted && r->in->options.remainder != REMAINDER_DROP_LAST;
  for (int i = 0; i < r->n_entries; i++) {
    struct fill_entry *e = &r->entries[i];
    if (e->bucket != ref.bucket && !(leave_faster && e->time_s < ref.time_s))
      fit_to(r, e, ref.time_s);
  }
}

/* D. */
static void pop_surplus(struct rebalance *r) {
  int ranks = 0;
  fill_sort(r->entries, r->n_entries);
  for (int i = 0; i < r->n_entries; i++)
    ranks += r->entries[i].sp;
  for (; ranks > r->in->world; r->n_entries--) {
    const struct fill_entry *last = &r->entries[r->n_entries - 1];
    ranks -= last->sp;
    fill_take(&r->fill, last->bucket, -last->count);
  }
}

/* E. Entries that end before any could at its fullest take more samples. */
static void top_up(struct rebalance *r) {
  double cap_s = INFINITY;
  for (int i = 0; i < r->n_entries; i++) {
    const struct fill_entry *e = &r->entries[i];
    int64_t most = most_samples(r, e, detail_at(profile_of(r, e->bucket), e->sp));
    cap_s = fmin(cap_s, e->time_s / (double)e->count * (double)most);
  }
  for (int i = 0; i < r->n_entries; i++) {
    struct fill_entry *e = &r->entries[i];
    if (!(e->time_s < cap_s))
      continue;
    double one_s = e->time_s / (double)e->count;
    int64_t most = most_samples(r, e, detail_at(profile_of(r, e->bucket), e->sp));
    int64_t more = int64_max(0, int64_min((int64_t)fill_floor_divide(cap_s - e->time_s, one_s), most - e->count));
    fill_take(&r->fill, e->bucket, more);
    e->count += more;
    e->time_s += one_s * (double)more;
  }
}

static void run_entries(struct rebalance *r, struct plan_iteration *it) {
  int rank = 0;
  for (int i = 0; i < r->n_entries; i++) {
    const struct fill_entry *e = &r->entries[i];
    const struct bucket_profile *p = profile_of(r, e->bucket);
    plan_add_group(it, rank, e->sp, e->bucket)->planned_gas = 1;
    rank += e->sp;
    struct plan_micro_batch *m = plan_add_micro_batch(it);
    m->count = e->count;
    m->shape = p->shape;
    m->time_s = e->time_s;
    memcpy(m->recompute_blocks, detail_at(p, e->sp)->recompute_blocks, sizeof m->recompute_blocks);
  }
}

static int rebalance_next(void *run, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct rebalance *r = run;
  while (!fill_done(&r->fill)) {
    r->n_entries = 0;
    int idle = fill_ranks(r, it);
    if (idle == 0 || r->in->options.remainder == REMAINDER_FAIR) {
      rebalance_entries(r);
      pop_surplus(r);
      top_up(r);
      run_entries(r, it);
      return 1;
    }
    for (int i = 0; i < r->n_entries; i++)
      plan_add_drop(it, r->entries[i].bucket, r->entries[i].count, NULL, false);
  }
  return 0;
}

const struct policy policy_dcp_rebalance = {
    .name = "dcp_rebalance",
    .help = "batch and SP chosen anew per iteration, one micro-batch per group (VideoSys; the blog's DCP-intra)",
    .flags = POLICY_BUCKETED | POLICY_MERGES,
    .open = rebalance_open,
    .next = rebalance_next,
    .close = rebalance_close,
};
