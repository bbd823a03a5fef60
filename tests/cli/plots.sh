#!/bin/sh
# plots.sh: plots of runs as users make them: published speedups, step times, SP degrees, imbalance against GPUs. What stands
# in the pictures is checked by their words and numbers.
. tests/common.sh
cd "$work" || exit 1

# run COMMAND ARGUMENTS...
run() {
  "$dcpsim" "$@" 2>err || fail "dcpsim $*: exit $?, $(cat err)"
}

# shows FILE WORD...: the picture has each of the words as a text of its own.
shows() {
  file=$1
  shift
  sed -n 's/.*<text>\(.*\)<\/text>.*/\1/p' "$file" | sed 's/^ *//; s/<[^>]*>//g' >texts
  for word in "$@"; do
    grep -q -x -F -e "$word" texts || fail "$file: no '$word' among: $(tr '\n' '|' <texts)"
  done
}

run trace generate lognormal:mean=2000,sigma=1.2,max=60000 -n 1500 -o t.txt
for nodes in 1 2; do
  run simulate --trace t.txt --model tiny-1d --cluster h200_8x$nodes --policy bucket,packed,dcp --steps 8 --draws 0 \
    --result "r$nodes.json" --schedule "s$nodes-{policy}.jsonl" >/dev/null
done
cat >spec.json <<'END'
{"schema": "dcpsim.sweep/1", "base": {"trace": "t.txt", "model": "tiny-1d", "policy": "bucket,dcp", "steps": 5, "draws": 0},
 "grid": {"cluster": ["h200_8x1", "h200_8x2", "h200_8x4"], "seed": [0, 1]}}
END
run sweep spec.json -o sweep.csv

# Published values stand at their place: bars begin where 0 is, so a published speedup of the simulated size is the bar's end.
printf '# from a paper\nsource,case,value\n"a, b",packed,1.25\nc,dcp,2\n' >published.csv
run plot speedup r1.json --published published.csv -o published.svg
shows published.svg 'bucket' 'packed' 'dcp' '◆ published, × in brackets'
grep -q '(1.25)' published.svg && grep -q '(2.00)' published.svg || fail 'published numbers are missing'
run plot speedup r1.json -o plain.svg
grep -q published plain.svg && fail 'a plot without published values speaks of them'

run plot step_times s1-bucket.jsonl s1-packed.jsonl s1-dcp.jsonl -o steps.svg
shows steps.svg 'bucket' 'packed' 'dcp' 'Time of optimizer steps by policy' 't.txt (1,500 samples) on tiny-1d, h200_8x1 (8 GPUs)' \
  "$(grep -c '^{"iteration"' s1-dcp.jsonl) steps"
run plot step_times s1-dcp.jsonl -o one.svg

# A schedule's steps are the steps of the result: where the times come from.
python3 - <<'END' || failed=1
import json, sys
for policy in json.load(open("r1.json"))["policies"]:
    steps = [json.loads(line)["predicted_time_s"] for line in open(f"s1-{policy['name']}.jsonl") if line.startswith('{"iteration"')]
    if len(steps) != policy["steps"] or abs(sum(steps) / policy["time_s"] - 1) > 1e-9:
        sys.exit(f"{policy['name']}: {len(steps)} steps of {sum(steps)} s in the schedule, the result has {policy['time_s']} s")
END

# The shares of a policy with one fixed degree are one part of 100.
run plot sp_histogram r1.json -o sp.svg
shows sp.svg 'bucket' 'packed' 'dcp' '100' "SP $(python3 -c '
import json
print(json.load(open("r1.json"))["policies"][0]["sp"])')"

run plot imbalance_gpus r1.json r2.json -o two.svg
shows two.svg '8' '16' 'bucket' 'packed' 'dcp' 'time lost to the slowest rank; one run at a size'
run plot imbalance_gpus sweep.csv -o sweep.svg
shows sweep.svg '8' '16' '32' 'bucket' 'dcp' 'time lost to the slowest rank; median and range of the runs at a size'
run plot imbalance_gpus sweep.csv -o sweep2.svg
cmp sweep.svg sweep2.svg || failed=1

for kind in step_times sp_histogram imbalance_gpus; do
  "$dcpsim" list plots | grep -q "^  *$kind " || fail "list plots does not name $kind"
done
for suffix in png pdf; do
  run plot sp_histogram r1.json -o "sp.$suffix"
  run plot step_times s1-dcp.jsonl -o "steps.$suffix"
  run plot imbalance_gpus sweep.csv -o "sweep.$suffix"
done
exit "$failed"
