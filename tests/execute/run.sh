#!/bin/sh
# run.sh: plays schedules of every policy on 2 and 4 ranks of the CPU device and checks the arithmetic against one rank
# alone; and the virtual device against the prediction. DCPSIM = the program.
set -u
. "$(dirname "$0")/ranks.inc"

# verify NAME RANKS POLICY...: plays the schedules of these policies with --verify
verify() {
  name=$1
  ranks=$2
  shift 2
  for policy in "$@"; do
    on "$ranks" "$work/$policy.jsonl" --device cpu --verify --steps 2
    if [ "$code" -eq 0 ] && grep -q '^verified: [1-9]' "$work/out"; then
      printf "%-56s %s\n" "$name, $ranks ranks, $policy" "$(tail -n 1 "$work/out")"
    else
      fail "$name, $ranks ranks, $policy: exit $code: $(grep dcpsim "$work/out" | head -n 1)"
    fi
  done
}

trace=lengths.txt
for length in 100 37 256 511 64 12 300 128 77 200 33 90 1 17 129 400; do
  echo "$length"
done >"$work/lengths.txt"
every=static,bucket,packed,dcp_rebalance,dcp_inter,dcp,megatron_dp_balanced,megatron_dynamic_cp
each=$(printf '%s' "$every" | tr ',' ' ')

# shellcheck disable=SC2086
schedules 4 --model tiny-1d --policy "$every"
# shellcheck disable=SC2086
verify tiny-1d 4 $each
schedules 2 --model tiny-1d --policy dcp
verify tiny-1d 2 dcp
schedules 4 --model tiny-1d --policy static,packed --sp 4 --recompute none --weighting per_token --zero 0
verify "tiny-1d, sp 4, zero 0, kept, per token" 4 static packed
schedules 4 --model tiny-1d --policy static,packed --sp 2 --recompute full --zero 2
verify "tiny-1d, sp 2, zero 2, recomputed" 4 static packed

# Batches as a data loader forms them.
trace=batches.json
printf '{"batches": [[100, 37, 256], [511], [64, 12], [300, 128, 77, 200], [1]]}' >"$work/$trace"
for layout in padded packed; do
  schedules 2 --model tiny-1d --policy given --layout $layout --sp 1
  verify "batches, $layout" 2 given
done
trace=lengths.txt

# Zero 3: ranks meet at every layer of every micro-batch, also those that have fewer of them, or none.
# shellcheck disable=SC2086
schedules 4 --model tiny-1d --policy "$every" --zero 3 --batch 1 --tokens-per-step 2500
verify "tiny-1d, zero 3, unequal counts" 4 $each
schedules 4 --model tiny-1d --policy megatron_dynamic_cp --zero 3 --rank-tokens 200 --global-batch 11 --recompute full
verify "tiny-1d, zero 3, rounds, recomputed" 4 megatron_dynamic_cp
schedules 2 --model tiny-1d --policy static,packed --sp 2 --zero 3 --recompute none --weighting per_token
verify "tiny-1d, zero 3, sp 2, kept, per token" 2 static packed
head -n 3 "$work/lengths.txt" >"$work/three.txt"
trace=three.txt
schedules 4 --model tiny-1d --policy dcp --zero 3
verify "tiny-1d, zero 3, an idle rank" 4 dcp
trace=lengths.txt

# Sharded within nodes of 2, summed across them; the second iteration has the weights of both nodes.
schedules 4 --cluster h200_2x2 --shard node --model tiny-1d --policy dcp --zero 1 --tokens-per-step 1300
verify "tiny-1d, zero 1, sharded in a node" 4 dcp
schedules 4 --cluster h200_2x2 --shard node --model tiny-1d --policy dcp_rebalance --zero 3 --batch 1 \
  --tokens-per-step 1300
verify "tiny-1d, zero 3, sharded in a node, unequal" 4 dcp_rebalance

# Every kind of 1D model, and attention by a ring of key blocks.
# model NAME KEYS...: $work/NAME.json
model() {
  name=$1
  keys=$2
  printf '{"schema":"dcpsim.model/1","name":"%s","source":"test","layers":2,"hidden":64,"ffn":128,"vocab":256,%s}\n' \
    "$name" "$keys" >"$work/$name.json"
}
model biased '"heads":4,"norm_bias":true,"linear_bias":true,"learned_positions":1024,"tied_embeddings":true'
model normed '"heads":4,"kv_heads":2,"qkv_bias":true,"qk_norm":true,"mlp_matrices":3'
model full '"heads":2,"causal":false'
schedules 2 --model "$work/biased.json" --policy static,packed --sp 2
verify 'LayerNorm, biases, sp 2' 2 static packed
schedules 2 --model "$work/biased.json" --policy packed --zero 3
verify 'tied embeddings, zero 3' 2 packed
schedules 4 --model "$work/normed.json" --policy static,packed --sp 4
verify 'norms of q and k, sp 4' 4 static packed
schedules 4 --model "$work/full.json" --policy packed --sp 4 --recompute none
verify 'no mask, heads by 2, ring of 2' 4 packed
schedules 4 --model "$work/full.json" --policy static --sp 4 --sp-kind ring
verify 'no mask, ring of 4' 4 static
schedules 4 --model "$work/normed.json" --policy static,packed --sp 4 --sp-kind ring
verify 'causal, ring of 4' 4 static packed

# 2D: images and short videos, packed and padded.
trace=video.csv
printf 'num_frames,height,width\n1,144,256\n51,144,256\n1,240,426\n1,144,256\n1,144,256\n' >"$work/$trace"
schedules 4 --model tiny-2d --policy static,packed,dcp_rebalance,dcp,megatron_dynamic_cp
verify tiny-2d 4 static packed dcp_rebalance dcp megatron_dynamic_cp
schedules 4 --model tiny-2d --policy static,packed --sp 4 --recompute none --weighting per_token --zero 0
verify 'tiny-2d, sp 4, zero 0, kept, per token' 4 static packed
schedules 2 --model tiny-2d --policy static,packed --sp 2 --recompute full --zero 2
verify 'tiny-2d, sp 2, zero 2, recomputed' 2 static packed
schedules 4 --model tiny-2d --policy dcp,dcp_rebalance --zero 3 --batch 1 --tokens-per-step 20000
verify 'tiny-2d, zero 3, unequal counts, rounds' 4 dcp dcp_rebalance
schedules 2 --model tiny-2d --policy static,packed --sp 2 --recompute full --zero 3
verify 'tiny-2d, sp 2, zero 3, recomputed' 2 static packed
schedules 4 --cluster h200_2x2 --shard node --model tiny-2d --policy dcp --zero 2 --batch 1 --tokens-per-step 1500
verify 'tiny-2d, zero 2, sharded in a node' 4 dcp
schedules 1 --model tiny-2d --policy static
verify tiny-2d 1 static
schedules 2 --model tiny-2d --policy packed --framework eager
on 2 "$work/packed.jsonl" --device cpu
says 'eager|fused' 'a framework that is not played'
trace=lengths.txt

# One rank of eight, alone: exchanges are waited for, and marked.
schedules 8 --model tiny-1d --policy packed --sp 4
"$dcpsim" execute "$work/packed.jsonl" --device cpu --as-rank 5 --world 8 --json --timeline "$work/timeline.json" \
  >"$work/out" 2>&1 || fail "as rank: $(cat "$work/out")"
python3 - "$work/out" "$work/timeline.json" <<'PY' || failed=1
import json, sys
text = open(sys.argv[1]).read()
r = json.loads(text[text.index("{"):])
waited = {o["op"]: o for o in r["ops"] if o.get("waited")}
short = [o for o in waited.values() if o["measured_s"] < o["predicted_s"]]
names = {e["name"] for e in json.load(open(sys.argv[2]))["traceEvents"]}
ok = "sp_qkv (waited)" in waited and "grad_reduce (waited)" in waited and not short and "sp_qkv (waited)" in names
ok = ok and not any(o.get("waited") for o in r["ops"] if o["op"] == "attention")
ok = ok and r["memory"]["predicted_bytes"] > 0 and r["memory"]["measured_bytes"] > 0
print("as rank 5 of 8: %d kinds of operation waited for" % len(waited))
sys.exit(not ok)
PY
on 1 "$work/packed.jsonl" --device cpu --as-rank 5 --world 8 --verify
says 'verify|as-rank' '--verify of one rank'
on 1 "$work/packed.jsonl" --device cpu --as-rank 5 --world 4
says 'as-rank|world' 'a rank outside the world'
schedules 4 --model tiny-1d --policy packed --sp 2

# A gradient that is wrong by one part in a thousand must not pass.
sed '2s/"weight":0.5/"weight":0.501/' "$work/packed.jsonl" >"$work/wrong.jsonl"
on 4 "$work/wrong.jsonl" --device cpu
says 'check|weights' 'a schedule with a wrong weight'

# The player against the simulator: on the virtual device a step lasts as long as predicted.
"$dcpsim" simulate --trace wikipedia --model gpt-1.2b --cluster h200_2x1 --policy bucket,dcp --steps 2 --draws 0 \
  --tokens-per-step 100000 --max-length 8192 --overlong drop --schedule "$work/{policy}.jsonl" >"$work/out" 2>&1 ||
  fail "simulate: $(tail -n 1 "$work/out")"
for policy in bucket dcp; do
  on 2 "$work/$policy.jsonl" --device virtual --json
  [ "$code" -eq 0 ] || fail "virtual, $policy: $(cat "$work/out")"
  python3 - "$work/out" "$policy" <<'PY' || failed=1
import json, sys
r = json.load(open(sys.argv[1]))
off = [abs(i["measured_time_s"] / i["predicted_time_s"] - 1) for i in r["iterations"]]
mean = sum(off) / len(off)
print("virtual, %s: %d iterations, off by %.2f %% on average" % (sys.argv[2], len(off), 100 * mean))
sys.exit(mean > 0.02)
PY
done

[ "$failed" -eq 0 ]
