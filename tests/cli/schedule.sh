#!/bin/sh
# schedule.sh: the schedule that simulate writes passes check, for every policy and every fate of a sample.
. tests/common.sh
all=static,bucket,packed,dcp_rebalance,dcp_inter,dcp

"$dcpsim" trace generate lognormal:mean=3000,sigma=1.2,max=90000 -n 600 -o "$work/t.txt" || exit 1
cat >"$work/v.csv" <<END
num_frames,height,width
51,480,854
1,240,426
1,720,1280
102,144,256
51,240,426
1,144,256
204,360,640
51,480,854
1,240,426
END

# checks TRACE MODEL OPTIONS...
checks() {
  trace=$1
  model=$2
  shift 2
  rm -f "$work"/s_*
  if ! "$dcpsim" simulate --trace "$trace" --model "$model" --cluster h200_4x2 --policy $all \
    --schedule "$work/s_{policy}.jsonl" "$@" >/dev/null; then
    echo "simulate $*: failed"
    failed=1
    return
  fi
  for policy in static bucket packed dcp_rebalance dcp_inter dcp; do
    if ! "$dcpsim" check "$work/s_$policy.jsonl" >"$work/out" 2>&1; then
      echo "simulate $* of $policy on $model: check says"
      head -n 5 "$work/out"
      failed=1
    fi
  done
}

checks "$work/t.txt" tiny-1d
checks "$work/t.txt" llama2-7b --zero 3
checks "$work/t.txt" tiny-1d --drop-last --batch 4
checks "$work/t.txt" tiny-1d --steps 2
checks "$work/t.txt" tiny-1d --max-length 8000
checks "$work/t.txt" tiny-1d --max-length 8000 --overlong truncate --weighting per_token
checks "$work/t.txt" tiny-1d --max-length 8000 --overlong split --drop-last --batch 4
checks "$work/t.txt" tiny-1d --max-length 8000 --overlong split --steps 1
checks "$work/t.txt" llama2-7b --tokens-per-step 200000 --sp 2
checks "$work/t.txt" llama2-7b --recompute none --max-length 60000 --zero 2 --grad-dtype fp32
checks "$work/t.txt" llama2-7b --recompute adaptive --round-gib --head-chunk 1024 --shard node
checks "$work/v.csv" tiny-2d
checks "$work/v.csv" stdit3-xl-2 --drop-last --batch 1 --recompute adaptive

# A timeline of the first steps.
"$dcpsim" simulate --trace "$work/t.txt" --model tiny-1d --cluster h200_4x2 --policy bucket,dcp \
  --timeline "$work/t_{policy}.json" >/dev/null || failed=1
for policy in bucket dcp; do
  python3 -c 'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["traceEvents"])' "$work/t_$policy.json" ||
    fail "$policy: no timeline"
done

# One file for several policies: refused before anything runs.
if "$dcpsim" simulate --trace "$work/t.txt" --model tiny-1d --cluster h200_4x2 --schedule "$work/one" 2>"$work/err"; then
  echo "a schedule of four policies in one file was not refused"
  failed=1
fi
grep -q '{policy}' "$work/err" && [ ! -e "$work/one" ] || failed=1
exit "$failed"
