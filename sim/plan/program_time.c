#include "sim/plan/program_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

#define ACCOUNT_WORDS (sizeof(struct account) / sizeof(int64_t))

void account_add(struct account *to, const struct account *from, int64_t times) {
  int64_t *t = (int64_t *)to;
  const int64_t *f = (const int64_t *)from;
  for (size_t i = 0; i < ACCOUNT_WORDS; i++)
    t[i] += f[i] * times;
}

int64_t account_total_ns(const struct account *a) {
  int64_t n = 0;
  const int64_t *v = (const int64_t *)a;
  for (size_t i = 0; i < ACCOUNT_WORDS; i++)
    n += v[i];
  return n;
}

struct rank_state rank_state_at(int64_t now_ns, double factor) {
  return (struct rank_state){.compute_free_ns = now_ns,
                             .exchange_free_ns = now_ns,
                             .exchange_before_ns = now_ns,
                             .arrive_ns = now_ns,
                             .start_ns = now_ns,
                             .host_ns = now_ns,
                             .mark_ns = now_ns,
                             .factor = factor};
}

void cursor_advance(const struct program *p, struct cursor *c) {
  const struct section *s = &p->sections[c->section];
  if (++c->op < s->n_ops)
    return;
  c->op = 0;
  if (++c->repeat < s->repeat)
    return;
  c->repeat = 0;
  c->section++;
}

int64_t scaled_ns(int64_t ns, double factor) { return factor == 1 ? ns : llround((double)ns * factor); }

static inline void take(int64_t *mark, int64_t limit, int64_t *into) {
  if (limit > *mark) {
    *into += limit - *mark;
    *mark = limit;
  }
}

/* In order: the exchange before the last one still running; the host not having issued; waiting for the group; the last
 * exchange; the host again. */
void rank_account_gap(struct rank_state *m, int64_t until_ns) {
  struct account *a = &m->account;
  take(&m->mark_ns, int64_min(until_ns, m->exchange_before_ns), &a->exchange_ns);
  take(&m->mark_ns, int64_min(until_ns, m->arrive_ns), &a->host_ns);
  take(&m->mark_ns, int64_min(until_ns, m->start_ns), &a->idle_ns);
  take(&m->mark_ns, int64_min(until_ns, m->exchange_free_ns), &a->exchange_ns);
  take(&m->mark_ns, until_ns, &a->host_ns);
}

static void play_compute(const struct op *op, struct rank_state *m) {
  int64_t needed = op->skip_last_exchange ? m->exchange_before_ns : m->exchange_free_ns;
  int64_t start = int64_max(int64_max(m->compute_free_ns, needed), m->host_ns);
  int64_t ns = scaled_ns(op->ns, m->factor);
  rank_account_gap(m, start);
  m->compute_free_ns = m->mark_ns = start + ns;
  if (op->category == TIMELINE_CAT_COMPUTE)
    m->account.work_ns[op->work] += ns;
  else if (op->category == TIMELINE_CAT_RECOMPUTE)
    m->account.recompute_ns += ns;
  else
    m->account.optimizer_ns += ns;
}

static void play_exchange(const struct op *op, struct rank_state *members, int n) {
  int64_t start = INT64_MIN;
  for (int i = 0; i < n; i++) {
    struct rank_state *m = &members[i];
    int64_t arrive = int64_max(int64_max(m->compute_free_ns, m->exchange_free_ns), m->host_ns);
    rank_account_gap(m, arrive);
    m->exchange_before_ns = m->exchange_free_ns;
    m->arrive_ns = arrive;
    start = int64_max(start, arrive);
  }
  for (int i = 0; i < n; i++) {
    members[i].start_ns = start;
    members[i].exchange_free_ns = start + op->ns;
  }
}

void program_play_op(const struct program *p, const struct op *op, struct rank_state *members, int n) {
  int64_t issue_ns = op->kernels * p->host_op_ns;
  for (int i = 0; i < n; i++)
    members[i].host_ns += issue_ns;
  switch ((enum op_kind)op->kind) {
  case OP_COMPUTE:
    for (int i = 0; i < n; i++)
      play_compute(op, &members[i]);
    break;
  case OP_EXCHANGE:
    play_exchange(op, members, n);
    break;
  case OP_HOST:
    for (int i = 0; i < n; i++) {
      struct rank_state *m = &members[i];
      m->host_ns = int64_max(m->host_ns, int64_max(m->compute_free_ns, m->exchange_free_ns)) + op->ns;
    }
    break;
  case OP_POST:
  case OP_WAIT:
    break;
  }
}

/* ---- folding loops ---- */

/* Streams of a member relative to `base`; whatever lies before its mark and compute cannot matter any more. */
struct relative {
  int64_t compute, exchange, before, arrive, start, mark;
};

static struct relative relative_of(const struct rank_state *m, int64_t base) {
  int64_t floor = m->mark_ns;
  return (struct relative){m->compute_free_ns - base,
                           int64_max(m->exchange_free_ns, floor) - base,
                           int64_max(m->exchange_before_ns, floor) - base,
                           int64_max(m->arrive_ns, floor) - base,
                           int64_max(m->start_ns, floor) - base,
                           m->mark_ns - base};
}

static void shift(struct rank_state *m, int64_t ns) {
  m->compute_free_ns += ns;
  m->exchange_free_ns += ns;
  m->exchange_before_ns += ns;
  m->arrive_ns += ns;
  m->start_ns += ns;
  m->mark_ns += ns;
}

/* Whether the repeat from `before` to `after` will repeat exactly: the streams stand as they stood, shifted; and the
 * host either stands so, too, or did not hold anything up and is not falling behind. */
static bool steady(const struct rank_state *before, const struct rank_state *after, int n) {
  int64_t base0 = before[0].compute_free_ns, base1 = after[0].compute_free_ns, delta = base1 - base0;
  for (int i = 0; i < n; i++) {
    struct relative a = relative_of(&before[i], base0), b = relative_of(&after[i], base1);
    int64_t host = after[i].host_ns - before[i].host_ns;
    bool free_host = after[i].account.host_ns == before[i].account.host_ns && host <= delta &&
                     before[i].host_ns <= before[i].mark_ns;
    if (memcmp(&a, &b, sizeof a) != 0 || (host != delta && !free_host))
      return false;
  }
  return true;
}

static void repeat_steady(const struct rank_state *before, struct rank_state *after, int n, int64_t times) {
  int64_t delta = after[0].compute_free_ns - before[0].compute_free_ns;
  for (int i = 0; i < n; i++) {
    struct account grown = after[i].account;
    account_add(&grown, &before[i].account, -1);
    account_add(&after[i].account, &grown, times);
    shift(&after[i], delta * times);
    after[i].host_ns += (after[i].host_ns - before[i].host_ns) * times;
  }
}

#define MAX_FOLDED_MEMBERS 64

/* All repeats of a section from its begin. */
static void play_section(const struct program *p, const struct section *s, struct rank_state *members, int n,
                         bool fold) {
  struct rank_state before[MAX_FOLDED_MEMBERS];
  fold = fold && n <= MAX_FOLDED_MEMBERS;
  for (int r = 0; r < s->repeat; r++) {
    bool may_fold = fold && r + 1 < s->repeat;
    if (may_fold)
      memcpy(before, members, (size_t)n * sizeof *members);
    for (int i = 0; i < s->n_ops; i++)
      program_play_op(p, &p->ops[s->first_op + i], members, n);
    if (may_fold && steady(before, members, n)) {
      repeat_steady(before, members, n, s->repeat - 1 - r);
      return;
    }
  }
}

static bool stops(const struct program *p, const struct section *s) {
  for (int i = 0; i < s->n_ops; i++)
    if (p->ops[s->first_op + i].kind == OP_POST || p->ops[s->first_op + i].kind == OP_WAIT)
      return true;
  return false;
}

void program_play(const struct program *p, struct cursor *cursor, struct rank_state *members, int n,
                  enum play_stop stop, bool fold) {
  while (cursor->section < p->n_sections) {
    const struct section *s = &p->sections[cursor->section];
    bool whole = cursor->op == 0 && cursor->repeat == 0 && !(stop == PLAY_TO_POST && stops(p, s));
    if (whole) {
      play_section(p, s, members, n, fold);
      cursor->section++;
      continue;
    }
    const struct op *op = cursor_op(p, cursor);
    if (stop == PLAY_TO_POST && (op->kind == OP_POST || op->kind == OP_WAIT))
      return;
    program_play_op(p, op, members, n);
    cursor_advance(p, cursor);
  }
}

/* ---- cached folds ---- */

static struct program_fold fold_of(const struct program *p, int64_t host_ns) {
  struct rank_state m = rank_state_at(0, 1);
  m.host_ns = host_ns;
  struct cursor c = {0};
  program_play(p, &c, &m, 1, PLAY_ALL, true);
  int64_t end = int64_max(m.compute_free_ns, m.exchange_free_ns);
  rank_account_gap(&m, end);
  return (struct program_fold){.time_ns = end, .host_ns = m.host_ns - host_ns, .account = m.account};
}

/* By how much the host must be ahead at the start so as never to hold up: the largest (time issued - time the streams
 * were ready), with a host that starts at 0 and waits for nothing. */
struct lead {
  struct rank_state rank;
  int64_t issued_ns, lead_ns;
};

static void lead_op(const struct program *p, const struct op *op, struct lead *l) {
  const struct rank_state *m = &l->rank;
  int64_t exchange = op->kind == OP_COMPUTE && op->skip_last_exchange ? m->exchange_before_ns : m->exchange_free_ns;
  l->issued_ns += op->kernels * p->host_op_ns;
  if (op->kind == OP_COMPUTE || op->kind == OP_EXCHANGE)
    l->lead_ns = int64_max(l->lead_ns, l->issued_ns - int64_max(m->compute_free_ns, exchange));
  l->rank.host_ns = INT64_MIN / 2;
  program_play_op(p, op, &l->rank, 1);
}

/* Once repeats are alike, issuing gains or loses the same on the streams in each: the last of them decides, if any. */
static void lead_section(const struct program *p, const struct section *s, struct lead *l) {
  for (int r = 0; r < s->repeat; r++) {
    struct lead before = *l;
    l->lead_ns = INT64_MIN / 2;
    for (int i = 0; i < s->n_ops; i++)
      lead_op(p, &p->ops[s->first_op + i], l);
    int64_t body_lead = l->lead_ns, times = s->repeat - 1 - r;
    l->lead_ns = int64_max(before.lead_ns, body_lead);
    before.rank.host_ns = l->rank.host_ns;
    if (times == 0 || !steady(&before.rank, &l->rank, 1))
      continue;
    int64_t delta = l->rank.compute_free_ns - before.rank.compute_free_ns;
    int64_t issue = l->issued_ns - before.issued_ns;
    l->lead_ns = int64_max(l->lead_ns, body_lead + times * (issue - delta));
    l->issued_ns += times * issue;
    shift(&l->rank, times * delta);
    return;
  }
}

static int64_t needed_lead(const struct program *p) {
  struct lead l = {.rank = rank_state_at(0, 1)};
  for (size_t i = 0; i < p->n_sections; i++)
    lead_section(p, &p->sections[i], &l);
  return l.lead_ns;
}

/* Sums of what follows must stay within int64. */
static void refuse_overlong(struct program *p) {
  double ns = 0;
  for (size_t s = 0; s < p->n_sections; s++)
    for (int i = 0; i < p->sections[s].n_ops; i++) {
      const struct op *op = &p->ops[p->sections[s].first_op + i];
      ns += ((double)op->ns + (double)op->kernels * (double)p->host_op_ns) * p->sections[s].repeat;
    }
  if (ns <= (double)PROGRAM_MAX_NS)
    return;
  for (size_t i = 0; i < p->n_ops; i++)
    p->ops[i].ns = 0;
  if (!p->overlong) {
    p->overlong = "";
    p->overlong_s = ns * 1e-9;
  }
}

void program_fold_cache(struct program *p) {
  refuse_overlong(p);
  p->has_host_ops = false;
  p->longest = 0;
  for (size_t i = 0; i < p->n_ops; i++) {
    p->has_host_ops = p->has_host_ops || p->ops[i].kind == OP_HOST;
    p->longest = p->ops[i].ns > p->ops[p->longest].ns ? i : p->longest;
  }
  p->cold = fold_of(p, 0);
  if (!p->has_host_ops) {
    p->warm = fold_of(p, INT64_MIN / 2);
    p->warm.lead_ns = needed_lead(p);
  }
}

double program_time_s(const struct program *p) { return p->overlong ? INFINITY : s_from_ns(p->cold.time_ns); }

static void apply_fold(struct rank_state *m, const struct program_fold *f, int64_t base_ns, int64_t host_ns) {
  rank_account_gap(m, base_ns);
  account_add(&m->account, &f->account, 1);
  int64_t end = base_ns + f->time_ns;
  m->compute_free_ns = m->exchange_free_ns = m->exchange_before_ns = end;
  m->arrive_ns = m->start_ns = m->mark_ns = end;
  m->host_ns = host_ns + f->host_ns;
}

void program_play_whole(const struct program *p, struct rank_state *m) {
  int64_t streams = int64_max(m->compute_free_ns, m->exchange_free_ns);
  bool plain = m->factor == 1;
  if (plain && (m->host_ns >= streams || p->host_sync_first)) {
    int64_t base = int64_max(streams, m->host_ns);
    apply_fold(m, &p->cold, base, base);
  } else if (plain && !p->has_host_ops && streams - m->host_ns >= p->warm.lead_ns &&
             m->exchange_free_ns <= m->compute_free_ns) {
    apply_fold(m, &p->warm, streams, m->host_ns);
  } else {
    struct cursor c = {0};
    program_play(p, &c, m, 1, PLAY_ALL, true);
  }
}
