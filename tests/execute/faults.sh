#!/bin/sh
# faults.sh: what execute refuses before anything starts, and what it does when a rank fails on the way: every rank ends
# within seconds, one line says why, the rows of finished iterations are on disk. DCPSIM = the program.
set -u
. "$(dirname "$0")/ranks.inc"
fakes=$(cd "$(dirname "$dcpsim")/tests/fake" 2>/dev/null && pwd)
golden=$(dirname "$0")/../golden/schedules

# with ENVIRONMENT ARGUMENTS...: execute on 4 ranks, the third of which has this environment besides
with() {
  environment=$1
  shift
  # shellcheck disable=SC2086 # several variables
  timeout 120 mpirun --oversubscribe --mca mpi_yield_when_idle 1 -np 2 "$dcpsim" execute "$@" : \
    -np 1 env $environment "$dcpsim" execute "$@" : -np 1 "$dcpsim" execute "$@" >"$work/out" 2>&1
  code=$?
}

# rows AT_LEAST WHAT: the CSV file has the header and whole rows of at least so many iterations
rows() {
  awk -F, -v least="$1" 'NR == 1 && $1 != "iteration" || NR > 1 && (NF != 6 || $1 != NR - 2 || $3 <= 0) { bad = 1 }
    END { exit bad || NR < least + 1 }' "$work/rows.csv" || fail "$2: rows: $(cat "$work/rows.csv")"
}

trace=lengths.txt
seq 16 16 768 >"$work/lengths.txt"

# ---- before anything starts ----
schedules 4 --model tiny-1d --policy static --no-shuffle --sp 2
cp "$work/static.jsonl" "$work/growing.jsonl" # every iteration's samples are longer than the last one's
for ranks in 1 2; do
  on $ranks "$work/growing.jsonl" --device virtual
  says '4|ranks|mpirun' "$ranks processes for 4 ranks"
done
on 4 "$work/none.jsonl" --device cpu
says 'none.jsonl' 'no such schedule'
on 4 "$work/lengths.txt" --device cpu
says 'lengths.txt|schedule' 'lengths for a schedule'
on 4 "$work/growing.jsonl" --device abacus
says 'abacus|cpu' 'unknown device'
on 4 "$work/growing.jsonl" --device cpu --csv "$work/none/rows.csv"
says 'none/rows.csv' 'a CSV file in no folder'
on 4 "$work/growing.jsonl" --device virtual --memory-bytes 1000000
says 'memory-bytes|virtual' 'memory of the virtual device'

# changed WHAT SED WORDS: the schedule with that change is refused
changed() {
  sed "$2" "$work/growing.jsonl" >"$work/changed.jsonl"
  cmp -s "$work/growing.jsonl" "$work/changed.jsonl" && fail "$1: nothing was changed"
  on 4 "$work/changed.jsonl" --device cpu --csv "$work/changed.csv"
  says "$3" "$1"
  [ ! -e "$work/changed.csv" ] || fail "$1: something had started"
}
changed 'another model' '1s/"tiny-1d"/"tiny-2d"/' 'check|finding|modules|tiny-2d'
changed 'an unknown model' '1s/"tiny-1d"/"tiny-3d"/' 'tiny-3d'
changed 'other parameters' '1s/"h200_sxm"/"h100_sxm"/' 'parameters|changed'
changed 'a schema to come' '1s/schedule.1/schedule\/2/' 'dcpsim.schedule/2|dcpsim.schedule/1'
changed 'a line cut off' '3s/.*/{"iteration":1,/' 'line|3'
changed 'ranks twice' '2s/"ranks":.2,4./"ranks":[0,2]/' 'check|ranks'

# Weights beyond the memory are refused before any of them is drawn.
sed '1s/"tiny-1d"/"gpt-1.2b"/' "$work/growing.jsonl" >"$work/changed.jsonl"
on 4 "$work/changed.jsonl" --device cpu --memory-bytes 2000000000
says 'rank|bytes|weights|--memory-bytes' 'a model that is too large'

# A schedule as the first version wrote it, brought to today's parameters: played.
sha=$(sed -n '1s/.*"sha256":"\([0-9a-f]*\)".*/\1/p' "$work/growing.jsonl")
for name in packed rounds video; do
  sed "1s/\"sha256\":\"[0-9a-f]*\"/\"sha256\":\"$sha\"/" "$golden/$name.jsonl" >"$work/golden.jsonl"
  on 8 "$work/golden.jsonl" --device virtual --json
  [ "$code" -eq 0 ] || fail "$name.jsonl of the first version: exit $code: $(cat "$work/out")"
done
on 8 "$golden/video.jsonl" --device virtual
says 'parameters|changed|sha256' 'a schedule of other parameters'

# Memory: every rank knows what it will hold.
on 4 "$work/growing.jsonl" --device cpu --json
[ "$code" -eq 0 ] || fail "growing: $(cat "$work/out")"
peak=$(sed -n 's/.*"measured_bytes": \([0-9]*\).*/\1/p' "$work/out")
on 4 "$work/growing.jsonl" --device cpu --steps 2 --memory-bytes $((peak - 1)) # earlier ones take less
[ "$code" -eq 0 ] || fail "memory enough for two iterations: $(cat "$work/out")"
rm -f "$work/rows.csv"
on 4 "$work/growing.jsonl" --device cpu --memory-bytes $((peak - 1)) --csv "$work/rows.csv"
says "rank|$peak|iteration|$((peak - 1))|--memory-bytes" 'too little memory'
[ ! -e "$work/rows.csv" ] || fail 'too little memory: something had started'
if [ -e "$fakes/libcuda.so.1" ] && LD_LIBRARY_PATH=$fakes "$dcpsim" execute "$work/none.jsonl" --device cuda 2>&1 |
  grep -q none.jsonl; then
  export LD_LIBRARY_PATH="$fakes" FAKE_CUDA_GPUS=4
  FAKE_CUDA_BYTES=$((33554432 + peak / 2)) on 4 "$work/growing.jsonl" --device cuda # 32 MiB are cuBLASLt's
  says 'rank|growing.jsonl|bytes|iteration|fake|GPU' 'a GPU with too little memory'
  FAKE_CUDA_BYTES=36000000 on 4 "$work/growing.jsonl" --device cuda
  says 'rank|weights|bytes|fake|GPU' 'a GPU too small for the weights'
  FAKE_CUDA_GPUS=2 on 4 "$work/growing.jsonl" --device cuda
  says 'cuda|2|GPUs' 'more ranks than GPUs'
  FAKE_CUDA_FAIL=cuMemAlloc_v2:10:2 on 4 "$work/growing.jsonl" --device cuda
  says 'rank|iteration|0,|inputs|bytes|beside|free' 'all GPUs out of memory'
  unset LD_LIBRARY_PATH
else
  echo 'skipped: no CUDA kernels or no fake driver in this build'
fi

# ---- on the way ----
# Out of memory: the last time that the third rank's activations grow, its device has no more.
if [ -e "$fakes/faults.so" ]; then
  with "LD_PRELOAD=$fakes/faults.so FAULT=device FAULT_AT=0 FAULT_LOG=$work/log" "$work/growing.jsonl" --device cpu
  [ "$code" -eq 0 ] || fail "growing: $(cat "$work/out")"
  with "LD_PRELOAD=$fakes/faults.so FAULT=device FAULT_AT=$(cut -d" " -f1 "$work/log")" "$work/growing.jsonl" --device cpu \
    --csv "$work/rows.csv"
  says 'rank|2,|iteration|inputs|bytes|beside' 'out of memory'
  finished=$(sed -n 's/^dcpsim: .*iteration \([0-9]*\).*/\1/p' "$work/out")
  [ "$finished" -ge 2 ] || fail "out of memory: in iteration $finished"
  rows "$finished" 'out of memory'
  echo "out of memory: $(grep '^dcpsim: ' "$work/out")"
else
  echo 'skipped: no faults.so in this build'
fi

on 4 "$work/growing.jsonl" --device cpu --optimizer sgd --learning-rate 1e20 --csv "$work/rows.csv"
says 'rank|iteration|number' 'a loss that is not a number'
rows 1 'a loss that is not a number'

# struck SIGNAL RANK LIMIT_S ARGUMENTS...: execute on 4 ranks, of which RANK gets SIGNAL when two iterations are done
struck() {
  signal=$1
  struck=$2
  limit=$3
  shift 3
  : >"$work/rows.csv"
  (on 4 "$@" --csv "$work/rows.csv" && echo "$code" >"$work/code") &
  for _ in $(seq 300); do
    [ "$(wc -l <"$work/rows.csv")" -lt 3 ] || break
    sleep 0.2
  done
  victim=
  for pid in $(pgrep -f "^$dcpsim execute $1"); do
    tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -q "^OMPI_COMM_WORLD_RANK=$struck\$" && victim=$pid
  done
  kill -s "$signal" "$victim" 2>/dev/null || fail "$signal: no process to signal"
  begun=$(date +%s)
  wait
  took=$(($(date +%s) - begun))
  code=$(cat "$work/code")
  what="rank $struck of 4 got $signal, $2 $3"
  [ "$took" -le "$limit" ] || fail "$what: took $took s to end"
  [ "$code" -ne 0 ] || fail "$what: exit code 0"
  rows 2 "$what"
  if [ "$signal" = STOP ]; then
    says 'rank|iteration|timeout' "$what"
  else # mpirun's own message says it
    grep -q "rank $struck .*signal 9" "$work/out" || fail "$what: $(cat "$work/out")"
    [ "$(grep -c '^dcpsim: ' "$work/out")" -eq 0 ] || fail "$what: more than mpirun's message: $(cat "$work/out")"
  fi
  echo "$what: all ended after $took s, $(($(wc -l <"$work/rows.csv") - 1)) rows"
}

"$dcpsim" trace generate constant:length=64 -n 8000 -o "$work/same.txt" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
trace=same.txt
schedules 4 --model tiny-1d --policy packed --pack-tokens 256 --sp 4
mv "$work/packed.jsonl" "$work/long.jsonl"
"$dcpsim" simulate --trace wikipedia --model gpt-1.2b --cluster h200_4x1 --policy packed --steps 100 --draws 0 \
  --tokens-per-step 50000 --max-length 8192 --overlong drop --pack-tokens 20000 --sp 4 --schedule "$work/waits.jsonl" \
  >"$work/out" 2>&1 || fail "simulate: $(tail -n 1 "$work/out")"
for signal in STOP KILL; do
  struck $signal 2 12 "$work/long.jsonl" --device cpu --timeout-s 3
  struck $signal 0 12 "$work/waits.jsonl" --device virtual --timeout-s 3
done
[ "$failed" -eq 0 ]
