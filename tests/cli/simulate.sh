#!/bin/sh
# simulate.sh: results as JSON, CSV and table; equal runs; experiment files; what becomes of every sample.
. tests/common.sh
on='--model tiny-1d --cluster h200_8x1'

run() {
  "$dcpsim" simulate "$@" || fail "simulate $*: exit $?"
}

# Everything of a result but the one field that may differ.
stable() {
  grep -v plan_time_s "$1"
}

"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=60000 -n 3000 -o "$work/t.txt" || exit 1
all=static,bucket,packed,dcp_rebalance,dcp_inter,dcp

# shellcheck disable=SC2086
{
  run --trace "$work/t.txt" $on --policy $all --json >"$work/a.json"
  run --trace "$work/t.txt" $on --policy $all --json -j 1 >"$work/b.json"
  run --trace "$work/t.txt" $on --policy $all --json -j 7 >"$work/c.json"
  run --trace - $on --policy bucket <"$work/t.txt" >"$work/stdin.txt"
  run --trace "$work/t.txt" $on --policy bucket >"$work/table.txt"
  run --trace "$work/t.txt" $on --policy $all --csv - >"$work/a.csv"
  run --trace "$work/t.txt" $on --policy $all --csv "$work/b.csv" >/dev/null
  run --trace "$work/t.txt" $on --policy bucket,dcp --explain >"$work/explain.txt"
}
stable "$work/a.json" >"$work/a" && stable "$work/b.json" >"$work/b" && stable "$work/c.json" >"$work/c"
cmp "$work/a" "$work/b" || fail 'one thread and two: different results'
cmp "$work/a" "$work/c" || fail 'two threads and seven: different results'
grep -q 'tokens/s.*speedup' "$work/table.txt" || fail 'no table'
sed 1d "$work/table.txt" >"$work/x" && sed 1d "$work/stdin.txt" | cmp - "$work/x" || fail 'stdin differs from the file'
[ "$(wc -l <"$work/a.csv")" -eq 7 ] || fail 'CSV: a header and six rows wanted'
sed 's/,[^,]*$//' "$work/a.csv" >"$work/x" && sed 's/,[^,]*$//' "$work/b.csv" | cmp - "$work/x" ||
  fail 'CSV on stdout and in a file differ'
grep -q 'the median one, takes' "$work/explain.txt" || fail 'no explanation'
grep -q 'attention_backward' "$work/explain.txt" || fail 'no operations in the explanation'
awk 'length($0) > 160' "$work/table.txt" | grep -q . && fail 'the table is wider than 160 columns'

# Shapes smaller than any measured are told of where they matter: on short samples alone, not beside long ones.
seven='--model llama2-7b --cluster h200_1x1'
printf '9\n5\n7\n' >"$work/short.txt"
printf '9\n5\n40000\n' >"$work/mixed.txt"
# shellcheck disable=SC2086
{
  run --trace "$work/short.txt" $seven --policy bucket,packed >/dev/null 2>"$work/short"
  run --trace "$work/mixed.txt" $seven --policy bucket,packed >/dev/null 2>"$work/mixed"
}
grep -q "warning: bucket: [1-9][0-9.]* % of the compute time is in GEMMs smaller than any measured for parameters 'h200_sxm'" \
  "$work/short" || fail "short samples: no warning of small GEMMs"
[ ! -s "$work/mixed" ] || fail "two short samples beside a long one: $(cat "$work/mixed")"

# An experiment file says the same as the command line; the command line wins.
cat >"$work/e.json" <<END
{"schema": "dcpsim.experiment/1", "trace": "$work/t.txt", "model": "tiny-1d", "cluster": "h200_8x1",
 "policy": ["static", "bucket", "packed", "dcp_rebalance", "dcp_inter", "dcp"], "json": true, "seed": 5, "sp": "auto",
 "tokens_per_step": null}
END
run "$work/e.json" --seed 0 >"$work/d.json"
stable "$work/d.json" | cmp - "$work/a" || fail 'experiment file and command line differ'
# The options of a result are an experiment file.
python3 - "$work" <<'END' || failed=1
import json, sys
work = sys.argv[1]
options = json.load(open(work + "/a.json"))["options"]
json.dump({"schema": "dcpsim.experiment/1", **options}, open(work + "/again.json", "w"))
END
run "$work/again.json" >"$work/again"
stable "$work/again" | cmp - "$work/a" || fail "a result's options do not lead to the same result"

# Every sample is accounted for, whatever is done with long ones.
# shellcheck disable=SC2086
for rule in drop truncate split; do
  for more in "" "--drop-last --batch 4" "--steps 3" "--tokens-per-step 200000" "--sp 2" "--no-shuffle" "--zero 3" "--zero 2"; do
    run --trace "$work/t.txt" $on --policy $all --max-length 9000 --overlong $rule $more --json >"$work/o.json"
    python3 - "$work/o.json" "$rule $more" <<'END' || failed=1
import json, sys
o = json.load(open(sys.argv[1]))
bad = []
for p in o["policies"]:
    total = sum(p[k] for k in ("samples", "samples_dropped", "samples_infeasible", "samples_overlong", "samples_remaining"))
    checks = {"samples": total == o["trace"]["samples"],
              "shares": abs(sum(p["share"].values()) - 1) < 1e-9 and min(p["share"].values()) >= 0,
              "bound": p["bound_gap_frac"] >= 0,
              "histogram": abs(sum(p["sp_histogram"].values()) - 1) < 1e-9,
              "hfu": p["hfu_frac"] >= p["mfu_frac"] > 0,
              "gpu_hours": abs(p["gpu_hours"] * 3600 - p["time_s"] * o["gpus"]) < 1e-6 * p["time_s"],
              "fractions": all(0 <= p[k] < 1 for k in ("padding_frac", "imbalance_frac", "mfu_frac")),
              "tokens": p["tokens"] <= o["trace"]["tokens"],
              "memory": p["peak_memory_bytes"] <= 0.9 * 143771 * 2**20}
    bad += [f"{p['name']}: {k}" for k, ok in checks.items() if not ok]
if bad:
    print(sys.argv[2], bad)
sys.exit(bool(bad))
END
  done
done
exit "$failed"
