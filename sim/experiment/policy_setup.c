#include "sim/experiment/policy_setup.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/profile_model.h"
#include "sim/experiment/program_cache.h"
#include "sim/experiment/shared_inputs.h"
#include "sim/policy/given.h"

static bool is_packed(const struct policy *p) { return p->flags & POLICY_PACKS; }

/* --rank-tokens or --pack-tokens, as tokens of one group of `sp` ranks; 0: neither was given. */
static int64_t asked_pack_tokens(const struct experiment *x, const struct policy *p, int sp) {
  return p->flags & POLICY_GLOBAL_BATCH ? x->options.rank_tokens * sp : x->options.pack_tokens;
}

/* ---- What one SP degree holds ---- */

/* Which samples fit alone. 1D static and packed, and packs at any SP degree: those of up to `tokens`; else by bucket
 * (2D: shape). */
struct held {
  bool by_tokens;
  int64_t limit_tokens;
  bool *buckets;
  int64_t tokens; /* held in all */
  int64_t samples;
  struct sample longest; /* padded; 2D static: the longest of either extent */
  int64_t pack_tokens;   /* packed: what fits */
};

static int64_t largest_pack(const struct experiment *x, const struct fit *f, int sp) {
  struct sample *shapes = xmalloc(size_mul((size_t)x->bucketing.n + 1, sizeof *shapes));
  for (int b = 0; b < x->bucketing.n; b++)
    shapes[b] = x->bucketing.buckets[b].shape;
  int64_t tokens = fit_pack_tokens(f, sp, shapes, x->bucketing.n);
  free(shapes);
  return tokens;
}

/* A sample is padded to its bound: the longest sample whose bound fits, up to `high`. */
static int64_t longest_padded(const struct experiment *x, const struct fit *f, int sp, int64_t high) {
  int per_octave = (int)x->options.buckets_per_octave;
  int64_t low = 0;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (fit_padded(f, sp, 1, (struct sample){(uint32_t)bucket_bound(middle, per_octave), 1}))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static int64_t longest_bucket(const struct experiment *x) {
  int64_t longest = 0;
  for (int b = 0; b < x->bucketing.n; b++)
    longest = int64_max(longest, x->bucketing.buckets[b].shape.a);
  return longest;
}

static void hold_by_tokens(struct held *h, const struct experiment *x) {
  const struct sample_set *s = &x->samples;
  for (int64_t i = 0; i < s->n; i++)
    if (sample_tokens(s->samples[i]) <= h->limit_tokens) {
      h->tokens += sample_tokens(s->samples[i]);
      h->samples++;
      h->longest.a = s->samples[i].a > h->longest.a ? s->samples[i].a : h->longest.a;
    }
  h->longest.b = 1;
}

static void hold_by_bucket(struct held *h, const struct experiment *x, const struct policy *policy, const struct fit *f,
                           int sp) {
  bool widest = !(policy->flags & POLICY_BUCKETED); /* static pads each extent to the largest of its batch */
  h->buckets = xcalloc((size_t)x->bucketing.n + 1, sizeof *h->buckets);
  for (int b = 0; b < x->bucketing.n; b++) {
    struct sample shape = x->bucketing.buckets[b].shape;
    if (!fit_padded(f, sp, 1, shape) || (h->pack_tokens > 0 && sample_tokens(shape) > h->pack_tokens))
      continue;
    h->buckets[b] = true;
    h->tokens += x->bucket_tokens[b];
    h->samples += x->bucketing.buckets[b].samples;
    if (widest) {
      h->longest.a = shape.a > h->longest.a ? shape.a : h->longest.a;
      h->longest.b = shape.b > h->longest.b ? shape.b : h->longest.b;
    } else if (sample_tokens(shape) > sample_tokens(h->longest)) {
      h->longest = shape;
    }
  }
}

static void held_init(struct held *h, const struct experiment *x, const struct policy *policy, const struct fit *f,
                      int sp) {
  *h = (struct held){.by_tokens = !(policy->flags & POLICY_BUCKETED) && !x->model.is_2d};
  if (is_packed(policy)) {
    h->pack_tokens = largest_pack(x, f, sp);
    int64_t asked = asked_pack_tokens(x, policy, sp);
    if (asked > 0)
      h->pack_tokens = int64_min(h->pack_tokens, asked);
  }
  if (h->by_tokens) {
    h->limit_tokens = is_packed(policy) ? h->pack_tokens : longest_padded(x, f, sp, longest_bucket(x));
    hold_by_tokens(h, x);
    if (!is_packed(policy) && h->samples > 0)
      h->longest.a = (uint32_t)bucket_bound(h->longest.a, (int)x->options.buckets_per_octave);
  } else {
    hold_by_bucket(h, x, policy, f, sp);
  }
}

/* Packs at any SP degree: tokens of a rank that fit at every one. */
static int64_t largest_rank_tokens(const struct experiment *x, const struct fit *f) {
  int64_t tokens = INT64_MAX;
  for (int i = 0; i < x->n_sps; i++)
    tokens = int64_min(tokens, largest_pack(x, f, x->sps[i]) / x->sps[i]);
  return tokens;
}

static int64_t settled_rank_tokens(const struct experiment *x, const struct fit *f) {
  return x->options.rank_tokens > 0 ? x->options.rank_tokens : largest_rank_tokens(x, f);
}

static void held_init_any_sp(struct held *h, const struct experiment *x, const struct fit *f) {
  *h = (struct held){.by_tokens = true, .limit_tokens = settled_rank_tokens(x, f) * x->sps[x->n_sps - 1]};
  hold_by_tokens(h, x);
}

/* ---- Which SP degrees to try ---- */

/* Whether --batch or --pack-tokens fit here; *largest: what would. */
static bool accepts(const struct experiment *x, const struct policy *policy, const struct fit *f, int sp,
                    const struct held *h, int64_t *largest) {
  const struct experiment_options *o = &x->options;
  if (is_packed(policy)) {
    int64_t fits = largest_pack(x, f, sp);
    *largest = int64_max(*largest, policy->flags & POLICY_GLOBAL_BATCH ? fits / sp : fits);
    return asked_pack_tokens(x, policy, sp) <= fits;
  }
  if (o->batch == 0)
    return true;
  int64_t fits = fit_largest_batch(f, sp, h->longest, o->batch);
  *largest = int64_max(*largest, fits);
  return fits == o->batch;
}

static int refuse_size(const struct experiment *x, const struct policy *policy, int64_t largest, struct sample longest,
                       struct err *err) {
  bool per_rank = policy->flags & POLICY_GLOBAL_BATCH;
  if (is_packed(policy))
    return err_usage(err, "--%s-tokens %lld does not fit in memory under policy '%s': the largest that does is %lld",
                     per_rank ? "rank" : "pack",
                     (long long)(per_rank ? x->options.rank_tokens : x->options.pack_tokens), policy->name,
                     (long long)largest);
  return err_usage(err,
                   "--batch %lld does not fit in memory at the longest sample (%lld tokens, padded) under policy '%s': "
                   "the largest that does is %lld",
                   (long long)x->options.batch, (long long)sample_tokens(longest), policy->name, (long long)largest);
}

static int refuse_all(const struct experiment *x, const struct policy *policy, const struct fit *f, int sp,
                      struct err *err) {
  struct sample least = x->bucketing.buckets[0].shape;
  for (int b = 1; b < x->bucketing.n; b++)
    if (sample_tokens(x->bucketing.buckets[b].shape) < sample_tokens(least))
      least = x->bucketing.buckets[b].shape;
  fit_error(f, sp, least, err);
  return err_prefix(err, "policy '%s' can run no sample", policy->name);
}

/* Policies that choose SP degrees themselves: any that fits will do. */
static int check_free_sp(const struct experiment *x, const struct policy *policy, const struct fit *f, bool *holds_all,
                         struct err *err) {
  int64_t largest = 0;
  bool any = false, accepted = false, *held_buckets = xcalloc((size_t)x->bucketing.n + 1, sizeof *held_buckets);
  struct sample longest = {0, 0};
  for (int i = 0; i < x->n_sps; i++) {
    struct held h;
    held_init(&h, x, policy, f, x->sps[i]);
    for (int b = 0; b < x->bucketing.n; b++)
      held_buckets[b] = held_buckets[b] || h.buckets[b];
    any = any || h.samples > 0;
    if (sample_tokens(h.longest) > sample_tokens(longest))
      longest = h.longest;
    free(h.buckets);
  }
  *holds_all = true;
  for (int b = 0; b < x->bucketing.n; b++)
    *holds_all = *holds_all && held_buckets[b];
  struct held at_longest = {.longest = longest};
  for (int i = 0; any && i < x->n_sps; i++)
    accepted = accepts(x, policy, f, x->sps[i], &at_longest, &largest) || accepted;
  free(held_buckets);
  if (!any)
    return refuse_all(x, policy, f, x->sps[x->n_sps - 1], err);
  return accepted ? 0 : refuse_size(x, policy, largest, longest, err);
}

/* The same for packs, which must fit at every degree. */
static int check_free_packs(const struct experiment *x, const struct policy *policy, const struct fit *f,
                            bool *holds_all, struct err *err) {
  struct held h;
  int64_t largest = largest_rank_tokens(x, f);
  if (largest > 0 && x->options.rank_tokens > largest)
    return refuse_size(x, policy, largest, (struct sample){0, 0}, err);
  held_init_any_sp(&h, x, f);
  if (largest == 0 || h.samples == 0)
    return refuse_all(x, policy, f, x->sps[x->n_sps - 1], err);
  *holds_all = h.samples == x->samples.n;
  return 0;
}

/* Whether a fixed-SP policy may have this degree. */
static bool is_candidate(const struct experiment *x, int sp) {
  return system_world(&x->system) % sp == 0 && (x->options.sp == 0 || sp == x->options.sp);
}

static int fixed_sps(const struct experiment *x, const struct policy *policy, const struct fit *f, int *sps, int *n_sps,
                     bool *holds_all, struct err *err) {
  int64_t most = 0, largest = 0;
  int last = 0;
  struct sample longest = {0, 0};
  *n_sps = 0;
  for (int i = 0; i < x->n_sps; i++) {
    struct held h;
    int sp = x->sps[i];
    if (!is_candidate(x, sp))
      continue;
    last = sp;
    held_init(&h, x, policy, f, sp);
    free(h.buckets);
    if (h.samples == 0)
      continue;
    longest = sample_tokens(h.longest) > sample_tokens(longest) ? h.longest : longest;
    if (!accepts(x, policy, f, sp, &h, &largest) || h.tokens < most)
      continue;
    if (h.tokens > most)
      *n_sps = 0;
    most = h.tokens;
    *holds_all = h.samples == x->samples.n;
    sps[(*n_sps)++] = sp;
  }
  if (*n_sps > 0)
    return 0;
  return longest.a > 0 ? refuse_size(x, policy, largest, longest, err) : refuse_all(x, policy, f, last, err);
}

/* ---- The batches that the trace holds: all must fit as they are ---- */

static bool packs_given(const struct experiment *x) { return strcmp(x->options.layout, "packed") == 0; }

static int64_t given_tokens(const struct experiment *x, const struct given_batch *b) {
  return packs_given(x) ? b->tokens : b->n * sample_tokens(b->shape);
}

static struct microbatch given_micro_batch(const struct experiment *x, const struct given_batch *b,
                                           const int blocks[2]) {
  return packs_given(x) ? microbatch_packed(&x->samples.samples[b->first], b->n, blocks)
                        : microbatch_padded(&x->system, b->n, b->shape, blocks);
}

static bool given_fits(const struct experiment *x, const struct fit *f, int sp, const struct given_batch *b,
                       const int blocks[2]) {
  struct microbatch mb = given_micro_batch(x, b, blocks);
  return given_tokens(x, b) <= SCHEDULE_MAX_TOKENS && fit_peak_bytes(f, sp, &mb) <= f->cap_bytes;
}

/* Batches that do not fit; *largest: the first of most tokens among them. */
static int64_t count_misfits(const struct experiment *x, const struct fit *f, int sp, struct given_batch *largest) {
  struct given_batch b = {0};
  int64_t n = 0;
  int blocks[2];
  fit_blocks(f, blocks);
  while (given_batch_next(&b, &x->samples))
    if (!given_fits(x, f, sp, &b, blocks)) {
      if (n == 0 || given_tokens(x, &b) > given_tokens(x, largest))
        *largest = b;
      n++;
    }
  return n;
}

static int refuse_batches(const struct experiment *x, const struct policy *policy, const struct fit *f, int sp,
                          const struct given_batch *b, int64_t n, struct err *err) {
  char what[400], several[80] = "";
  int blocks[2];
  fit_blocks(f, blocks);
  struct microbatch mb = given_micro_batch(x, b, blocks);
  if (n > 1)
    snprintf(several, sizeof several, "%lld of its batches do not fit; the largest, ", (long long)n);
  snprintf(what, sizeof what, "trace '%.200s': %sbatch %u of %lld samples, %lld tokens %s,", x->trace.name, several,
           b->number, (long long)b->n, (long long)given_tokens(x, b), x->options.layout);
  if (given_tokens(x, b) > SCHEDULE_MAX_TOKENS)
    err_set(err, "%s is more than the %lld tokens that a micro-batch may have", what, (long long)SCHEDULE_MAX_TOKENS);
  else
    fit_error_of(f, sp, &mb, what, err);
  return err_prefix(err, "policy '%s'", policy->name);
}

static int given_sps(const struct experiment *x, const struct policy *policy, const struct fit *f, int *sps, int *n_sps,
                     struct err *err) {
  struct given_batch largest;
  int64_t misfits = 0;
  int last = 0;
  *n_sps = 0;
  for (int i = 0; i < x->n_sps; i++) {
    if (!is_candidate(x, x->sps[i]))
      continue;
    last = x->sps[i];
    misfits = count_misfits(x, f, last, &largest);
    if (misfits == 0)
      sps[(*n_sps)++] = last;
  }
  return *n_sps > 0 ? 0 : refuse_batches(x, policy, f, last, &largest, misfits, err);
}

int policy_setup_sps(const struct experiment *x, const struct policy *policy, int *sps, int *n_sps, bool *holds_all,
                     struct err *err) {
  struct fit f = experiment_fit(x, policy);
  *holds_all = true;
  if (policy->flags & POLICY_GIVEN)
    return given_sps(x, policy, &f, sps, n_sps, err);
  if (policy->flags & POLICY_FIXED_SP)
    return fixed_sps(x, policy, &f, sps, n_sps, holds_all, err);
  sps[0] = 0;
  *n_sps = 1;
  if (is_packed(policy))
    return check_free_packs(x, policy, &f, holds_all, err);
  return check_free_sp(x, policy, &f, holds_all, err);
}

/* ---- The longest sample, whether or not the trace has it ---- */

#define LONGEST_ASKED 1000000000 /* tokens */

int64_t policy_setup_longest(const struct experiment *x, const struct policy *policy, int sp) {
  struct fit f = experiment_fit(x, policy);
  int64_t longest = 0;
  if (is_packed(policy)) {
    bool fixed = policy->flags & POLICY_FIXED_SP;
    int64_t asked = asked_pack_tokens(x, policy, sp), fits = largest_pack(x, &f, sp);
    longest = fixed ? (asked > 0 ? int64_min(fits, asked) : fits) : settled_rank_tokens(x, &f) * sp;
  } else if ((policy->flags & POLICY_GIVEN) && packs_given(x)) {
    longest = largest_pack(x, &f, sp);
  } else if (x->model.is_2d) {
    for (int b = 0; b < x->bucketing.n; b++)
      if (fit_padded(&f, sp, 1, x->bucketing.buckets[b].shape))
        longest = int64_max(longest, sample_tokens(x->bucketing.buckets[b].shape));
  } else if (x->options.n_bucket_bounds > 0 && (policy->flags & POLICY_BUCKETED)) {
    for (int b = 0; b < x->options.n_bucket_bounds; b++)
      if (fit_padded(&f, sp, 1, (struct sample){(uint32_t)x->options.bucket_bounds[b], 1}))
        longest = x->options.bucket_bounds[b];
  } else {
    longest = longest_padded(x, &f, sp, LONGEST_ASKED);
  }
  return longest;
}

/* ---- Settled options ---- */

static enum pick pick_of(const char *name) {
  return strcmp(name, "published") == 0      ? PICK_PUBLISHED
         : strcmp(name, "proportional") == 0 ? PICK_PROPORTIONAL
                                             : PICK_DETERMINISTIC;
}

static enum packing packing_of(const char *name) {
  return strcmp(name, "next_fit") == 0 ? PACKING_NEXT_FIT : strcmp(name, "bfd") == 0 ? PACKING_BFD : PACKING_LPT;
}

static void exclude(struct policy_setup *s, const struct experiment *x, const struct held *h) {
  if (h->samples == x->samples.n)
    return;
  s->excluded = xcalloc((size_t)x->samples.n, sizeof *s->excluded);
  for (int64_t i = 0; i < x->samples.n; i++)
    s->excluded[i] =
        h->by_tokens ? sample_tokens(x->samples.samples[i]) > h->limit_tokens : !h->buckets[x->samples.bucket[i]];
}

/* Largest power of two that fits at the longest sample. */
static int64_t default_batch(const struct fit *f, int sp, struct sample longest) {
  int64_t batch = 1;
  while (batch < (INT64_C(1) << 30) && fit_padded(f, sp, batch * 2, longest))
    batch *= 2;
  return batch;
}

/* static and packed run any mixture of shapes with one number of recomputed blocks: the one their largest allows.
 * (Packs of videos have no one largest, so they do not adapt.) */
static void adapt_to_largest(struct policy_setup *s, int sp, const struct held *h, bool packed) {
  int *blocks = s->options.full_recompute_blocks;
  const struct system *system = s->fit.system;
  fit_blocks(&s->fit, blocks);
  if (packed && system->model->is_2d)
    return;
  struct sample shape = h->longest;
  if (packed)
    shape = (struct sample){1, 1};
  struct microbatch mb = microbatch_padded(system, s->options.batch, shape, blocks);
  if (packed) {
    mb.batch = 1;
    mb.seqlen = s->options.pack_tokens;
  }
  fit_adapt(&s->fit, sp, &mb, blocks);
}

static void settle_unbucketed(struct policy_setup *s, const struct experiment *x, const struct policy *policy, int sp) {
  const struct experiment_options *o = &x->options;
  struct held h;
  held_init(&h, x, policy, &s->fit, sp);
  exclude(s, x, &h);
  s->options.pack_tokens = h.pack_tokens;
  if (!is_packed(policy))
    s->options.batch = o->batch > 0 ? o->batch : default_batch(&s->fit, sp, h.longest);
  adapt_to_largest(s, sp, &h, is_packed(policy));
  free(h.buckets);
}

/* Packs at any SP degree: each block is recomputed that is at any of them. */
static void settle_free_packs(struct policy_setup *s, const struct experiment *x) {
  struct held h;
  held_init_any_sp(&h, x, &s->fit);
  exclude(s, x, &h);
  s->options.rank_tokens = settled_rank_tokens(x, &s->fit);
  int most[2] = {0, 0};
  for (int i = 0; i < x->n_sps; i++) {
    s->options.pack_tokens = s->options.rank_tokens * x->sps[i];
    adapt_to_largest(s, x->sps[i], &h, true);
    for (int m = 0; m < 2; m++)
      most[m] = s->options.full_recompute_blocks[m] > most[m] ? s->options.full_recompute_blocks[m] : most[m];
    s->options.sp_degrees |= (uint32_t)x->sps[i];
  }
  s->options.pack_tokens = 0;
  memcpy(s->options.full_recompute_blocks, most, sizeof most);
}

/* All batches run with one number of recomputed blocks: as few as each of them allows. */
static void settle_given(struct policy_setup *s, const struct experiment *x, int sp) {
  int *most = s->options.full_recompute_blocks, blocks[2];
  struct given_batch b = {0};
  s->options.packed = packs_given(x);
  if (s->fit.recompute != RECOMPUTE_ADAPTIVE)
    return;
  most[0] = most[1] = 0;
  while (given_batch_next(&b, &x->samples)) {
    struct microbatch mb = given_micro_batch(x, &b, most);
    if (!s->fit.round_gib && fit_peak_bytes(&s->fit, sp, &mb) <= s->fit.cap_bytes)
      continue;
    fit_adapt(&s->fit, sp, &mb, blocks);
    for (int m = 0; m < 2; m++)
      most[m] = blocks[m] > most[m] ? blocks[m] : most[m];
  }
}

int policy_setup_init(struct policy_setup *s, const struct experiment *x, const struct policy *policy, int sp,
                      struct err *err) {
  const struct experiment_options *o = &x->options;
  *s = (struct policy_setup){.fit = experiment_fit(x, policy)};
  s->options = (struct policy_options){.remainder = o->drop_last ? REMAINDER_DROP_LAST : REMAINDER_FAIR,
                                       .pick = pick_of(o->pick),
                                       .max_gas = (int)o->max_gas,
                                       .min_gas = o->min_gas > 0 ? (int)o->min_gas : policy->default_min_gas,
                                       .tokens_per_step = o->tokens_per_step,
                                       .packing = packing_of(o->packing),
                                       .global_batch = o->global_batch,
                                       .sp = sp,
                                       .per_octave = (int)o->buckets_per_octave,
                                       .shuffle = !o->no_shuffle,
                                       .lockstep = o->zero == 3};
  bool fixed = policy->flags & POLICY_FIXED_SP;
  struct profile_rule rule = {.policy = policy,
                              .fit = &s->fit,
                              .sps = fixed ? &sp : x->sps,
                              .n_sps = fixed ? 1 : x->n_sps,
                              .max_batch = o->batch,
                              .sequential = strcmp(o->search, "published") == 0};
  fit_blocks(&s->fit, s->options.full_recompute_blocks);
  if (policy->flags & POLICY_GIVEN)
    settle_given(s, x, sp);
  else if (is_packed(policy) && !(policy->flags & POLICY_FIXED_SP))
    settle_free_packs(s, x);
  else if (!(policy->flags & POLICY_BUCKETED))
    settle_unbucketed(s, x, policy, sp);
  else
    return profile_model_make(&s->profile, &rule, &x->bucketing, x->shared ? shared_inputs_profiles(x->shared) : NULL,
                              err);
  return 0;
}

void policy_setup_release(struct policy_setup *s) {
  profile_release(&s->profile);
  free(s->excluded);
}
