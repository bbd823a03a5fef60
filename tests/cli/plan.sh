#!/bin/sh
# plan.sh: plans from the models and from measured bucket times.
. tests/common.sh

"$dcpsim" trace generate lognormal:mean=2000,sigma=1,max=30000 -n 2000 -o "$work/t.txt" || exit 1
for policy in static bucket packed dcp_rebalance dcp_inter dcp; do
  for more in "" "--drop-last --batch 4" "--steps 2" "--max-length 4000 --overlong split" "--tokens-per-step 100000"; do
    # shellcheck disable=SC2086
    "$dcpsim" plan --policy $policy --trace "$work/t.txt" --model tiny-1d --cluster h200_8x1 $more --json >"$work/p.json" &&
      python3 - "$work/p.json" "$policy $more" <<'END' || failed=1
import json, sys
p = json.load(open(sys.argv[1]))
its = p["iterations"]
total = sum(p[k] for k in ("samples", "samples_dropped", "samples_infeasible", "samples_overlong", "samples_remaining"))
ran = sum(n for it in its for g in it["groups"] for n in g["micro_batches"])
ok = (p["schema"] == "dcpsim.plan/1" and p["world"] == 8 and total == 2000
      and ("split" in sys.argv[2] or ran == p["samples"])
      and abs(sum(it["time_s"] for it in its) - p["time_s"]) < 1e-9 * max(1, p["time_s"])
      and all(len(it["gas"]) == len(it["groups"]) for it in its)
      and all(g["time_s"] > 0 for it in its for g in it["groups"]))
if not ok:
    print(sys.argv[2], "is wrong", total, ran, p["samples"])
sys.exit(not ok)
END
  done
done

# From a profile: worked out by hand. Two buckets of sp 2 and 1 on 4 ranks.
cat >"$work/profile.json" <<'END'
{"schema": "dcpsim.profile/1", "world": 4, "max_sp": 2, "buckets": [
  {"name": "long", "samples": 4, "sp": 2, "batch": 1, "time_s": 2.0},
  {"name": "short", "samples": 8, "sp": 2, "batch": 2, "time_s": 1.0}]}
END
"$dcpsim" plan --policy dcp_inter --profile "$work/profile.json" --no-shuffle --max-gas 1 --min-gas 1 --json >"$work/p.json"
python3 - "$work/p.json" <<'END' || failed=1
import json, sys
p = json.load(open(sys.argv[1]))
got = [[(g["bucket"], g["micro_batches"]) for g in it["groups"]] for it in p["iterations"]]
want = [[("long", [1]), ("long", [1])], [("long", [1]), ("long", [1])],
        [("short", [2]), ("short", [2])], [("short", [2]), ("short", [2])]]
if got != want or p["time_s"] != 6.0:
    print("plan from a profile:", got, p["time_s"])
    sys.exit(1)
END
"$dcpsim" plan --policy bucket --trace "$work/t.txt" --model tiny-1d --cluster h200_8x1 | grep -q '^total: ' || {
  echo 'no table of a plan'
  failed=1
}

# What --save-profile writes, --profile plans with: the same groups (the times of partial batches are modelled only there).
plan() { "$dcpsim" plan --policy dcp_rebalance --no-shuffle --drop-last "$@" --json; }
plan --trace "$work/t.txt" --model tiny-1d --cluster h200_8x1 --batch 4 --save-profile "$work/saved.json" >"$work/a.json"
plan --profile "$work/saved.json" >"$work/b.json"
python3 - "$work/a.json" "$work/b.json" <<'END' || failed=1
import json, sys
a, b = ([[(g["bucket"], g["sp"], g["micro_batches"]) for g in it["groups"]] for it in json.load(open(f))["iterations"]]
        for f in sys.argv[1:])
if a != b or len(a) < 2:
    print("a saved profile plans otherwise than the models:", len(a), len(b))
    sys.exit(1)
END
exit "$failed"
