#include "sim/experiment/profile_memo.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

#define MEMO_RULES 512
#define MEMO_BUCKETS (1u << 18) /* of all rules */
#define MAX_DEGREES 24

/* A rule by value, field by field into zeroed bytes, so that equal rules are equal bytes: padding of copied structs may
 * be anything. (Model and cluster are copied whole; were their padding to differ, a bucket would be searched again.) */
struct rule_key {
  struct transformer model;
  struct cluster cluster;
  const struct params *params;
  const struct framework *framework;
  int64_t head_chunk, cap_bytes, max_batch;
  int zero, shard_node, sp_kind, grad_bytes, offload_optimizer, memory_rule;
  int unequal_counts, recompute, round_gib, sequential;
  unsigned policy_flags;
  int sps[MAX_DEGREES], n_sps;
};

#if __SIZEOF_POINTER__ == 8
_Static_assert(sizeof(struct parallel) == 32 && sizeof(struct fit) == 32, "a new field belongs into struct rule_key");
#endif

struct memo_rule {
  struct rule_key key;
  struct bucket_profile **slots;
  size_t n, n_slots;
};

struct profile_memo {
  struct memo_rule *rules[MEMO_RULES];
  size_t n, n_buckets;
};

struct profile_memo *profile_memo_new(void) {
  return xcalloc(1, sizeof(struct profile_memo));
}

static void free_rule(struct memo_rule *r) {
  for (size_t i = 0; i < r->n_slots; i++)
    if (r->slots[i]) {
      free(r->slots[i]->detail);
      free(r->slots[i]);
    }
  free(r->slots);
  free(r);
}

static void clear(struct profile_memo *m) {
  for (size_t i = 0; i < m->n; i++)
    free_rule(m->rules[i]);
  m->n = m->n_buckets = 0;
}

void profile_memo_free(struct profile_memo *m) {
  if (!m)
    return;
  clear(m);
  free(m);
}

static void fill_key(struct rule_key *k, const struct profile_rule *rule) {
  const struct system *s = rule->fit->system;
  ASSERT(rule->n_sps <= MAX_DEGREES);
  memset(k, 0, sizeof *k);
  k->model = *s->model;
  k->cluster = *s->cluster;
  k->params = s->params;
  k->framework = s->framework;
  k->head_chunk = s->parallel.head_chunk;
  k->cap_bytes = rule->fit->cap_bytes;
  k->max_batch = rule->max_batch;
  k->zero = s->parallel.zero;
  k->shard_node = s->parallel.shard_node;
  k->sp_kind = s->parallel.sp_kind;
  k->grad_bytes = s->parallel.grad_bytes;
  k->offload_optimizer = s->parallel.offload_optimizer;
  k->memory_rule = s->parallel.memory_rule;
  k->unequal_counts = rule->fit->unequal_counts;
  k->recompute = rule->fit->recompute;
  k->round_gib = rule->fit->round_gib;
  k->sequential = rule->sequential;
  k->policy_flags = rule->policy->flags;
  memcpy(k->sps, rule->sps, sizeof *k->sps * (size_t)rule->n_sps);
  k->n_sps = rule->n_sps;
}

struct memo_rule *profile_memo_rule(struct profile_memo *m, const struct profile_rule *rule) {
  struct rule_key key;
  fill_key(&key, rule);
  for (size_t i = 0; i < m->n; i++)
    if (memcmp(&m->rules[i]->key, &key, sizeof key) == 0)
      return m->rules[i];
  if (m->n == MEMO_RULES || m->n_buckets > MEMO_BUCKETS)
    clear(m);
  struct memo_rule *r = xcalloc(1, sizeof *r);
  r->n_slots = 64;
  r->slots = xcalloc(r->n_slots, sizeof *r->slots);
  memcpy(&r->key, &key, sizeof key);
  m->rules[m->n++] = r;
  return r;
}

/* Where the shape is in a table, or the empty slot where it belongs. */
static size_t slot_of(struct bucket_profile *const *slots, size_t n_slots, struct sample shape) {
  uint64_t h = ((uint64_t)shape.a << 32 | shape.b) * UINT64_C(0x9e3779b97f4a7c15);
  size_t at = (h ^ h >> 32) & (n_slots - 1);
  while (slots[at] && (slots[at]->shape.a != shape.a || slots[at]->shape.b != shape.b))
    at = (at + 1) & (n_slots - 1);
  return at;
}

static void copy(struct bucket_profile *to, const struct bucket_profile *from) {
  *to = *from;
  if (!from->detail)
    return;
  size_t n = (size_t)(from->n_detail > 0 ? from->n_detail : 1);
  to->detail = xcalloc(n, sizeof *to->detail);
  memcpy(to->detail, from->detail, sizeof *to->detail * (size_t)from->n_detail);
}

bool profile_memo_find(const struct memo_rule *known, struct bucket_profile *b) {
  const struct bucket_profile *found = known->slots[slot_of(known->slots, known->n_slots, b->shape)];
  if (found)
    copy(b, found);
  return found != NULL;
}

static void grow(struct memo_rule *r) {
  size_t n_slots = r->n_slots * 2;
  struct bucket_profile **slots = xcalloc(n_slots, sizeof *slots);
  for (size_t i = 0; i < r->n_slots; i++)
    if (r->slots[i])
      slots[slot_of(slots, n_slots, r->slots[i]->shape)] = r->slots[i];
  free(r->slots);
  r->slots = slots;
  r->n_slots = n_slots;
}

void profile_memo_keep(struct profile_memo *m, struct memo_rule *known, const struct bucket_profile *b) {
  if (2 * (known->n + 1) > known->n_slots)
    grow(known);
  struct bucket_profile *kept = xcalloc(1, sizeof *kept);
  copy(kept, b);
  known->slots[slot_of(known->slots, known->n_slots, b->shape)] = kept;
  known->n++;
  m->n_buckets++;
}
