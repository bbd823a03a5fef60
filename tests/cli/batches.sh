#!/bin/sh
# batches.sh: batches that a data loader has formed: the policy given runs them as they are, in whatever order others do; what is
# wrong with them is one line.
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
on='--model tiny-1d --cluster h200_8x1'

fail() {
  echo "$*"
  failed=1
}

# refuse STATUS WORDS ARGUMENTS...: this exit code, one line on stderr with these words, nothing on stdout.
refuse() {
  status=$1
  words=$2
  shift 2
  "$dcpsim" "$@" >"$work/out" 2>"$work/err"
  code=$?
  if [ "$code" -ne "$status" ] || [ -s "$work/out" ] || [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -qF -e "$words" "$work/err"; then
    fail "$*: exit $code, $(cat "$work/err")"
  fi
}

python3 - "$work/b.json" <<'END'
import json, random, sys
random.seed(1)
length = lambda: max(16, min(8000, int(random.lognormvariate(6.5, 1.1))))
json.dump({"batches": [[length() for _ in range(random.randint(1, 12))] for _ in range(203)]}, open(sys.argv[1], "w"))
END

# Every micro-batch is a batch, in the order of the file, on any seed; beside every other policy.
# shellcheck disable=SC2086
for more in '' '--layout packed' '--seed 3' '--no-shuffle' '--tokens-per-step 60000' '--sp 8 --zero 3' '--drop-last' \
  '--recompute adaptive' '--recompute none'; do
  "$dcpsim" simulate --trace "$work/b.json" $on --draws 0 --json --schedule "$work/{policy}.jsonl" \
    --policy given,static,bucket,packed,dcp_rebalance,dcp_inter,dcp,megatron_dp_balanced $more >"$work/r.json" 2>/dev/null ||
    fail "simulate $more: exit $?"
  for policy in given static bucket packed dcp_rebalance dcp_inter dcp megatron_dp_balanced; do
    "$dcpsim" check "$work/$policy.jsonl" >"$work/out" || fail "check $policy $more: $(cat "$work/out")"
  done
  python3 - "$work" "$more" <<'END' || failed=1
import json, sys
work, more = sys.argv[1:]
lengths = json.load(open(work + "/b.json"))["batches"]
header, *lines = map(json.loads, open(work + "/given.jsonl"))
batches, at = [], 0
for b in lengths:
    batches.append(list(range(at, at + len(b))))
    at += len(b)
width = 8 // (lines[0]["groups"][0]["ranks"][1])
# Batch i is of round i // width and group i % width.
ran = []
for line in lines:
    rounds = max(len(g["micro_batches"]) for g in line["groups"])
    for j in range(rounds):
        ran += [g["micro_batches"][j]["samples"] for g in line["groups"] if j < len(g["micro_batches"])]
n = len(batches) - (len(batches) % width if "--drop-last" in more else 0)
layout = "packed" if "packed" in more else "padded"
shapes = [s for line in lines for g in line["groups"] for m in g["micro_batches"] for s in m["shapes"]]
ok = (ran == batches[:n] and header["dropped"] == [i for b in batches[n:] for i in b] and header["infeasible"] == [] and
      all(m["layout"] == layout for line in lines for g in line["groups"] for m in g["micro_batches"]))
policies = json.load(open(work + "/r.json"))["policies"]
ok = ok and all(p["samples"] + p["samples_dropped"] == at for p in policies) and policies[0]["speedup"] == 1
if not ok:
    print("given", more, "is not the batches of the file")
sys.exit(not ok)
END
done

# The default policies know whether there are batches; compressed and from stdin.
gzip -c "$work/b.json" >"$work/b.json.gz"
# shellcheck disable=SC2086
{
  "$dcpsim" simulate --trace "$work/b.json.gz" $on --draws 0 --steps 3 --csv - 2>/dev/null | cut -d, -f1 | tr '\n' ' ' >"$work/names"
  "$dcpsim" simulate --trace - $on --draws 0 --steps 3 <"$work/b.json" 2>/dev/null | grep -q "speedup is tokens/s over given's" ||
    fail 'given is not the baseline'
  "$dcpsim" plan --trace "$work/b.json" $on --policy given --layout packed --json 2>/dev/null | grep -q '"policy": *"given"' || fail 'plan'
  "$dcpsim" simulate --trace "$work/b.json" $on --advise --draws 2 --result "$work/r" >/dev/null 2>&1 &&
    "$dcpsim" report "$work/r" -o "$work/page.html" || fail 'advise and report'
}
[ "$(cat "$work/names")" = 'policy given bucket packed dcp_inter dcp ' ] || fail "default policies: $(cat "$work/names")"

# Sweeps read a trace once for many points.
cat >"$work/sweep.json" <<END
{"schema": "dcpsim.sweep/1", "base": {"trace": "$work/b.json", "model": "tiny-1d", "cluster": "h200_8x1"},
 "grid": {"policy": ["given", ["given", "static"], null], "layout": ["padded", "packed"]}}
END
"$dcpsim" sweep "$work/sweep.json" -o "$work/sweep.csv" -j 2 2>/dev/null || fail 'sweep'
[ "$(wc -l <"$work/sweep.csv")" -eq 15 ] || fail 'sweep: a header and 14 rows wanted'
"$dcpsim" sweep "$work/sweep.json" -o "$work/sweep.csv" 2>&1 | grep -q '6 of them were there already' || fail 'a sweep is not continued'

# Conversions.
"$dcpsim" trace convert "$work/b.json.gz" -o "$work/again.json" 2>"$work/err" && [ ! -s "$work/err" ] || fail 'convert'
"$dcpsim" trace convert "$work/again.json" -o - --to batches | cmp - "$work/again.json" || fail 'batches are not kept'
"$dcpsim" trace convert "$work/b.json" -o "$work/b.csv" 2>&1 | grep -q 'warning: 203 batches lost' || fail 'no warning'

# shellcheck disable=SC2086
{
  refuse 1 "policy 'given': trace 'b.csv' holds no batches (a file {\"batches\": [[512, 77], [2048]]} does)" \
    simulate --trace "$work/b.csv" $on --policy dcp,given
  refuse 2 "plan: --policy NAME is missing" plan --trace "$work/b.json" $on
  refuse 2 "--layout 'dense' is not valid (valid: padded, packed)" simulate --trace "$work/b.json" $on --layout dense
  refuse 2 "cannot be written as batches" trace convert wikipedia -o "$work/x.json" --to batches
  printf '{"batches": [[9],\n[5, 0]]}' >"$work/bad.json"
  refuse 1 "bad.json' line 2: length must be positive, got '0'" simulate --trace "$work/bad.json" $on
  printf '{"batches": [[9], [40000, 40000, 40000, 40000, 40000]]}' >"$work/large.json"
  refuse 1 "policy 'given': trace 'large.json': batch 1 of 5 samples, 200000 tokens padded, needs" \
    simulate --trace "$work/large.json" --model llama2-7b --cluster h200_8x1 --sp 1
}
"$dcpsim" simulate --trace "$work/large.json" --model llama2-7b --cluster h200_8x1 --policy given 2>&1 | grep -q 'given: SP [248] is' ||
  fail 'auto finds no SP degree for a large batch'
exit "$failed"
