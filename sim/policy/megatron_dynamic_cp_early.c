/* megatron_dynamic_cp_early.c: Megatron-Core's dynamic context parallelism (its `default_dynamic_cp`) as it was until
 * June 2026: the rule in its tree when its published benchmark ran. What rounds are: cp_rounds.h.
 *
 * A round, from the samples that are left, longest first:
 *   1. The samples are cut into runs, as many as there are different degrees needed: a run ends before the sample that
 *      would take its work over 1.1 times an equal share, or where few samples are left for the runs to come.
 *   2. Take the first sample of the first run whose degree has a group or enough empty ranks; none: the round ends.
 *      A sample only ever uses the degree it needs: empty ranks if there are enough, else the group of that degree with
 *      room and least work (of equals the one opened first); no room anywhere: the round ends.
 *   3. Once a sample needed less than the first one, the round ends as soon as the work of all ranks is within 5 %.
 * Compared on 2,000 global batches of the published lengths with the original's function: equal plans. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/policy/cp_rounds.h"

#define RUN_SLACK 0.1
#define BALANCE 0.05

/* Runs are neighbours in `items`: of run k, [next[k], end[k]) is still to be placed. */
struct runs {
  int64_t *next, *end; /* per run */
  int n, first;        /* runs before `first` are empty */
};

static double own_work(const struct cp_rounds *r, int64_t i) {
  return cp_work(r->items[i].tokens, cp_needed_degree(r->in, r->items[i].tokens));
}

static int count_degrees(const struct cp_rounds *r) {
  int n = 0, last = 0;
  for (int64_t i = 0; i < r->n_items; i++) { /* longest first: degrees descend */
    int need = cp_needed_degree(r->in, r->items[i].tokens);
    n += need != last;
    last = need;
  }
  return n;
}

/* As written in the original, which subtracts the closed runs twice from those to come. */
static void runs_cut(struct runs *runs, const struct cp_rounds *r) {
  int degrees = count_degrees(r);
  double total = 0, work = 0;
  *runs = (struct runs){.next = xcalloc((size_t)r->n_items, sizeof *runs->next),
                        .end = xcalloc((size_t)r->n_items, sizeof *runs->end)};
  for (int64_t i = 0; i < r->n_items; i++)
    total += own_work(r, i);
  double most = total / degrees * (1.0 + RUN_SLACK);
  for (int64_t i = 0; i < r->n_items; i++) {
    double w = own_work(r, i);
    if (i > runs->next[runs->n] && (work + w > most || r->n_items - i <= degrees - 2 * runs->n)) {
      runs->end[runs->n++] = i;
      runs->next[runs->n] = i;
      work = 0;
    }
    work += w;
  }
  runs->end[runs->n++] = r->n_items;
}

static void runs_release(struct runs *runs) {
  free(runs->next);
  free(runs->end);
}

/* The run to take from; -1: none can go on. */
static int pick_run(const struct runs *runs, const struct cp_rounds *r) {
  for (int k = runs->first; k < runs->n; k++) {
    if (runs->next[k] == runs->end[k])
      continue;
    int need = cp_needed_degree(r->in, r->items[runs->next[k]].tokens);
    if (r->free_ranks >= need || cp_count_groups(r, need) > 0)
      return k;
  }
  return -1;
}

/* The group to put it in; -1: none. */
static int place_item(struct cp_rounds *r, int64_t tokens) {
  int need = cp_needed_degree(r->in, tokens);
  return r->free_ranks >= need ? cp_open_group(r, need) : cp_find_group(r, need, tokens, 0, 0);
}

static bool is_balanced(const struct cp_rounds *r) {
  return r->free_ranks == 0 && r->most_work - cp_least_work(r) <= BALANCE * r->most_work;
}

static void form_round(struct cp_rounds *r) {
  struct runs runs;
  bool shrunk = false;
  runs_cut(&runs, r);
  for (int k; (k = pick_run(&runs, r)) >= 0;) {
    struct cp_item *item = &r->items[runs.next[k]];
    int group = place_item(r, item->tokens);
    if (group < 0)
      break;
    cp_join_group(r, item, group);
    runs.next[k]++;
    while (runs.first < runs.n && runs.next[runs.first] == runs.end[runs.first])
      runs.first++;
    shrunk = shrunk || r->groups[group].sp < r->groups[0].sp;
    if (shrunk && runs.first < runs.n && is_balanced(r))
      break;
  }
  runs_release(&runs);
}

static int dynamic_cp_early_open(void **run, const struct policy_input *in, struct err *err) {
  return cp_rounds_open(run, in, form_round, err);
}

const struct policy policy_megatron_dynamic_cp_early = {
    .name = "megatron_dynamic_cp_early",
    .help = "the rule of megatron_dynamic_cp until June 2026, which the published benchmark ran (its source)",
    .flags = POLICY_NEEDS_SAMPLES | POLICY_PACKS | POLICY_GLOBAL_BATCH,
    .open = dynamic_cp_early_open,
    .next = cp_rounds_next,
    .close = cp_rounds_close,
};
