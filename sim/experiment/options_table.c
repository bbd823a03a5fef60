#include "sim/experiment/options_table.h"

#include <string.h>

#define AT(field) offsetof(struct experiment_options, field)
#define BOTH (OPTIONS_SIMULATE | OPTIONS_PLAN)

const struct option_spec option_specs[] = {
    {"trace", 0, "NAME|FILE", TYPE_TEXT, AT(trace), .commands = BOTH, .group = "What",
     .help = "sequence lengths: a shipped trace, a file, or - for stdin (required; see: dcpsim list traces)"},
    {"model", 0, "NAME|FILE", TYPE_TEXT, AT(model), .commands = BOTH,
     .help = "transformer: a preset or a JSON file (required; see: dcpsim list models)"},
    {"cluster", 0, "NAME|FILE", TYPE_TEXT, AT(cluster), .commands = BOTH,
     .help = "GPUs: h200_8x4 is 4 nodes of 8; or a JSON file (required; see: dcpsim list clusters)"},
    {"params", 0, "NAME|FILE", TYPE_TEXT, AT(params), .unset = "the cluster's", .commands = BOTH,
     .help = "parameter file of the cost models"},
    {"policy", 0, "A,B,...", TYPE_LIST, AT(policy), .unset = "given if the trace holds batches, and " DEFAULT_POLICIES,
     .commands = BOTH, .help = "policies to compare (see: dcpsim list policies); plan takes one"},
    {"baseline", 0, "POLICY", TYPE_TEXT, AT(baseline), .unset = "given, else bucket, else the first named",
     .commands = OPTIONS_SIMULATE, .help = "policy that speedups are relative to"},
    {"seed", 0, "N", TYPE_INT, AT(seed), .initial = "0", .max = OPTION_NO_LIMIT, .commands = BOTH,
     .help = "of every random choice: shuffles, picks, jitter, draws from a histogram"},
    {"seeds", 0, "N", TYPE_INT, AT(seeds), .initial = "1", .min = 1, .max = MAX_SEEDS, .commands = OPTIONS_SIMULATE,
     .help =
         "repeat with N shuffles (seed, seed + 1, ...); speedup_interval is the smallest and the largest speedup, all "
         "else is of the first seed"},
    {"draws", 0, "N", TYPE_INT, AT(draws), .initial = "8", .min = 0, .max = MAX_SEEDS, .commands = OPTIONS_SIMULATE,
     .help = "repeat 64 steps of each plan with every fitted quantity moved by its own fit error, N times: "
             "speedup_interval spans the speedups; 0: no interval"},
    {"no-shuffle", 0, NULL, TYPE_FLAG, AT(no_shuffle), .commands = BOTH, .help = "samples arrive in file order"},
    {"profile", 0, "FILE", TYPE_TEXT, AT(profile), .unset = "the cost models", .commands = OPTIONS_PLAN,
     .help = "measured bucket times (dcpsim.profile/1); then no trace, model or cluster"},
    {"format", 0, "NAME", TYPE_TEXT, AT(format), .unset = "by content", .commands = BOTH,
     .help = "format of the trace (see: dcpsim list formats)"},
    {"column", 0, "NAME", TYPE_TEXT, AT(column), .unset = "the first known one", .commands = BOTH,
     .help = "CSV column or JSON key that holds the length in tokens"},
    {"skip-bad", 0, NULL, TYPE_FLAG, AT(skip_bad), .commands = BOTH, .help = "leave out bad values of the trace"},

    {"epoch", 0, NULL, TYPE_FLAG, AT(epoch), .commands = BOTH, .group = "How much",
     .help = "to the end of the trace, which is the default"},
    {"steps", 0, "N", TYPE_INT, AT(steps), .unset = "to the end", .min = 1, .max = OPTION_NO_LIMIT, .commands = BOTH,
     .help = "stop after N optimizer steps"},
    {"max-length", 0, "N", TYPE_INT, AT(max_length), .unset = "off", .min = 1, .max = 1e9, .commands = BOTH,
     .help = "tokens of the longest sample accepted"},
    {"overlong", 0, "RULE", TYPE_TEXT, AT(overlong), .initial = "drop", .values = "drop|truncate|split",
     .commands = BOTH, .help = "what becomes of samples over --max-length"},
    {"samples", 0, "N", TYPE_INT, AT(samples), .initial = "100000", .min = 1, .max = 4e9, .commands = BOTH,
     .help = "samples drawn where the trace is a histogram"},
    {"tokens-per-step", 0, "N", TYPE_INT, AT(tokens_per_step), .unset = "off", .min = 1, .max = OPTION_NO_LIMIT,
     .commands = BOTH, .help = "real tokens of one optimizer step, at most: makes steps of policies comparable"},
    {"drop-last", 0, NULL, TYPE_FLAG, AT(drop_last), .commands = BOTH,
     .help = "the published drop_last rule, which discards what does not fill a batch, a round of ranks or an "
             "accumulation (by default nothing is discarded)"},

    {"sp", 0, "N", TYPE_INT, AT(sp), .unset = "auto", .min = 1, .max = 1e6, .commands = BOTH, .group = "Parallel",
     .help = "SP degree of the policies with one fixed degree, in ranks; auto tries all that hold every sample"},
    {"max-sp", 0, "N", TYPE_INT, AT(max_sp), .unset = "all GPUs", .min = 1, .max = 1e6, .commands = BOTH,
     .help = "largest SP degree, in ranks"},
    {"zero", 0, "0..3", TYPE_INT, AT(zero), .initial = "1", .max = 3, .commands = BOTH,
     .help = "ZeRO: what is sharded over ranks: 1 optimizer, 2 and gradients, 3 and weights"},
    {"shard", 0, "WHERE", TYPE_TEXT, AT(shard), .initial = "world", .values = "world|node", .commands = BOTH,
     .help = "shard over all ranks, or in each node with all-reduces across (HSDP)"},
    {"sp-kind", 0, "KIND", TYPE_TEXT, AT(sp_kind), .unset = "ulysses; dsp for 2D models", .values = "ulysses|ring|dsp",
     .commands = BOTH, .help = "how SP exchanges"},
    {"framework", 0, "NAME", TYPE_TEXT, AT(framework), .unset = "fused; eager_apex for stdit3-xl-2",
     .values = "fused|eager|eager_apex", .commands = BOTH,
     .help = "kernels and memory passes of the training framework"},

    {"batch", 0, "N", TYPE_INT, AT(batch), .unset = "by the memory cap", .min = 1, .max = 1e9, .commands = BOTH,
     .group = "Batches",
     .help = "samples of a micro-batch: of static its size; bucket and dcp_* take as many as fit, up to N"},
    {"buckets-per-octave", 0, "N", TYPE_INT, AT(buckets_per_octave), .initial = "4", .min = 1, .max = 256,
     .commands = BOTH, .help = "text: buckets between a length and its double"},
    {"bucket-bounds", 0, "A,B,...", TYPE_BOUNDS, AT(bucket_bounds), .unset = "by octave", .min = 1, .max = 2147483648.0,
     .commands = BOTH, .help = "text: upper bounds of the buckets in tokens, ascending"},
    {"layout", 0, "LAYOUT", TYPE_TEXT, AT(layout), .initial = "padded", .values = "padded|packed", .commands = BOTH,
     .help = "how the batches that the trace holds run (given)"},
    {"packing", 0, "RULE", TYPE_TEXT, AT(packing), .initial = "next_fit", .values = "next_fit|bfd|lpt",
     .commands = BOTH, .help = "which samples share a pack (packed)"},
    {"pack-tokens", 0, "N", TYPE_INT, AT(pack_tokens), .unset = "by the memory cap", .min = 1, .max = 1e12,
     .commands = BOTH, .help = "tokens of one pack of one SP group (packed)"},
    {"rank-tokens", 0, "N", TYPE_INT, AT(rank_tokens), .unset = "by the memory cap", .min = 1, .max = 1e12,
     .commands = BOTH, .help = "tokens of one rank in one micro-batch, at most (megatron_*)"},
    {"global-batch", 0, "N", TYPE_INT, AT(global_batch), .unset = "by --tokens-per-step, else 2 per GPU", .min = 1,
     .max = 4e9, .commands = BOTH, .help = "samples of one optimizer step (megatron_*)"},
    {"pick", 0, "RULE", TYPE_TEXT, AT(pick), .unset = "published; deterministic with --no-shuffle",
     .values = "published|proportional|deterministic", .commands = BOTH, .help = "which bucket is taken next (dcp_*)"},
    {"search", 0, "RULE", TYPE_TEXT, AT(search), .initial = "all", .values = "all|published", .commands = BOTH,
     .help = "which batches dcp_* profile at each SP degree: all that fit; published: from a quarter of the batch that "
             "did not fit at the degree before"},
    {"max-gas", 0, "N", TYPE_INT, AT(max_gas), .initial = "5", .min = 1, .max = 1e6, .commands = BOTH,
     .help = "accumulation: micro-batches of the slowest group, at most (dcp_inter, dcp)"},
    {"min-gas", 0, "N", TYPE_INT, AT(min_gas), .unset = "2 for dcp_inter, 15 for dcp", .min = 1, .max = 1e6,
     .commands = BOTH, .help = "accumulation: micro-batches of the quickest group, at least"},
    {"weighting", 0, "RULE", TYPE_TEXT, AT(weighting), .initial = "published", .values = "published|per_token",
     .commands = OPTIONS_SIMULATE, .help = "how much a micro-batch's gradient counts"},

    {"memory-cap-frac", 0, "X", TYPE_REAL, AT(memory_cap_frac), .initial = "0.9", .min = 0.01, .max = 1,
     .commands = BOTH, .group = "Memory",
     .help = "fraction of device memory that the peak may reach (published comparisons use 0.7)"},
    {"memory-rule", 0, "RULE", TYPE_TEXT, AT(memory_rule), .initial = "modelled", .values = "modelled|published",
     .commands = BOTH,
     .help = "what is counted against the cap: memory as modelled, or as the published DCP's profile counts it "
             "(captions once per block, no reserve)"},
    {"recompute", 0, "RULE", TYPE_TEXT, AT(recompute), .unset = "full; adaptive for dcp",
     .values = "full|none|adaptive", .commands = BOTH, .help = "which layers recompute their activations"},
    {"round-gib", 0, NULL, TYPE_FLAG, AT(round_gib), .commands = BOTH,
     .help = "adaptive recomputation counts memory in whole GiB, as published"},
    {"head-chunk", 0, "N", TYPE_INT, AT(head_chunk), .unset = "off", .min = 1, .max = 1e9, .commands = BOTH,
     .help = "tokens whose logits exist at a time"},
    {"grad-dtype", 0, "TYPE", TYPE_TEXT, AT(grad_dtype), .initial = "bf16", .values = "bf16|fp32", .commands = BOTH,
     .help = "gradients as kept and reduced"},
    {"offload", 0, "WHAT", TYPE_TEXT, AT(offload), .unset = "nothing", .values = "optimizer", .commands = BOTH,
     .help =
         "optimizer states in host memory: for memory questions (plan); simulate refuses it, its time is not modelled"},

    {"jitter", 0, "CV", TYPE_REAL, AT(jitter), .initial = "0", .max = 10, .commands = OPTIONS_SIMULATE,
     .group = "Faults",
     .help = "compute of every rank and step varies: lognormal of mean 1 and this coefficient of variation"},
    {"straggler", 0, "RANK:FACTOR", TYPE_STRAGGLER, AT(straggler_rank), .unset = "none", .min = 0.01, .max = 1000,
     .commands = OPTIONS_SIMULATE, .help = "compute of this rank takes FACTOR times as long"},

    {"json", 0, NULL, TYPE_FLAG, AT(json), .commands = BOTH, .group = "Output",
     .help = "print one JSON object instead of tables"},
    {"csv", 0, "FILE", TYPE_TEXT, AT(csv), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "also write a row per policy (- instead of the table)"},
    {"result", 0, "FILE", TYPE_TEXT, AT(result), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "also write the JSON object (for plot), beside the tables"},
    {"schedule", 0, "FILE", TYPE_TEXT, AT(schedule), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "write the schedule with sample ids (JSON Lines); several policies: {policy} in the name"},
    {"save-profile", 0, "FILE", TYPE_TEXT, AT(save_profile), .unset = "none", .commands = OPTIONS_PLAN,
     .help = "write the bucket times that the policy plans with, as --profile reads them"},
    {"timeline", 0, "FILE", TYPE_TEXT, AT(timeline), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "write the first steps for ui.perfetto.dev; several policies: {policy} in the name"},
    {"chakra", 0, "FOLDER", TYPE_TEXT, AT(chakra), .unset = "none", .commands = OPTIONS_SIMULATE,
     .help = "write the first step as Chakra execution traces, a file per rank (for ASTRA-sim); several policies: "
             "{policy} in the name"},
    {"explain", 0, NULL, TYPE_FLAG, AT(explain), .commands = OPTIONS_SIMULATE,
     .help = "print where the time of each policy's median step goes, operation by operation"},
    {"advise", 0, NULL, TYPE_FLAG, AT(advise), .commands = OPTIONS_SIMULATE,
     .help = "say in words what to use, what limits it and what would help, from some extra runs that are listed"},
    {"threads", 'j', "N", TYPE_INT, AT(threads), .initial = "2", .min = 1, .max = MAX_THREADS,
     .commands = OPTIONS_SIMULATE, .help = "threads; never changes a result"},
    {.name = NULL},
};
_Static_assert(sizeof option_specs / sizeof option_specs[0] <= MAX_OPTIONS + 1, "MAX_OPTIONS is too small");

static bool is_named(const struct option_spec *s, const char *name, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (s->name[i] == '\0' || (name[i] != s->name[i] && !(name[i] == '_' && s->name[i] == '-')))
      return false;
  return s->name[n] == '\0';
}

const struct option_spec *option_find(const char *name, size_t n) {
  for (const struct option_spec *s = option_specs; s->name; s++)
    if (is_named(s, name, n))
      return s;
  return NULL;
}

void option_key(const struct option_spec *s, char key[OPTION_KEY_SIZE]) {
  snprintf(key, OPTION_KEY_SIZE, "%s", s->name);
  for (char *p = key; *p; p++)
    *p = *p == '-' ? '_' : *p;
}

bool option_is_text(const struct option_spec *s) { return s->type == TYPE_TEXT || s->type == TYPE_LIST; }

void *option_field(struct experiment_options *o, const struct option_spec *s) { return (char *)o + s->offset; }
const void *option_const_field(const struct experiment_options *o, const struct option_spec *s) {
  return (const char *)o + s->offset;
}
