#!/bin/sh
# calibrate_run.sh: calibrate run on the CPU: a run, its continuation, kills in the middle, collectives under mpirun, and
# the way of the rows through fit, check and simulate. No time is asserted.
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1
fail() {
  echo "$*"
  exit 1
}
arguments="--model tiny-1d --max-tokens 256 --confidence 1 --shape-limit-s 0.001"
# shellcheck disable=SC2086 # arguments are a word list
run() { "$dcpsim" calibrate run -o "$work/rows" $arguments "$@"; }
rows() { grep -c '^[a-z_]*,fp32,' "$work/rows/$1.csv" || true; }
# every line of a file has as many fields as its header (one field is quoted and holds a comma)
whole() {
  python3 - "$work"/rows/*.csv <<'EOF' || fail "$1"
import csv, sys
for path in sys.argv[1:]:
    text = open(path).read()
    rows = list(csv.reader(text.splitlines()))
    assert text.endswith("\n"), path + ": torn"
    assert all(len(row) == len(rows[0]) for row in rows), path
    shapes = [tuple(row[:rows[0].index("time_s")]) for row in rows]
    assert len(set(shapes)) == len(shapes), path + ": a shape twice"
EOF
}

# a run of a second, then the rest of it
run --budget-s 1 >"$work/out" 2>"$work/err" || fail "first run: $(cat "$work/err")"
[ ! -s "$work/err" ] || fail "first run: $(cat "$work/err")"
first=$(rows gemm)
[ "$first" -gt 0 ] || fail "no gemm row in a second"
whole 'first run'

# killed in the middle, three times; each next run repairs and goes on
for n in 1 2 3; do
  # shellcheck disable=SC2086
  "$dcpsim" calibrate run -o "$work/rows" $arguments --budget-s 60 >/dev/null 2>"$work/err" &
  pid=$!
  sleep 0.3
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  printf 'gemm,fp32,7,7' >>"$work/rows/gemm.csv" # as a kill within a line leaves it
done
run --budget-s 120 --json >"$work/json" 2>"$work/err" || fail "last run: $(cat "$work/err")"
grep -q 'that line was cut off' "$work/err" || fail 'no word of the torn line'
whole 'after kills'
python3 - "$work/json" <<'EOF' || fail "result: $(cat "$work/json")"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["schema"] == "dcpsim.calibration/1" and r["ending"] == "complete" and r["refused"] == 0
assert r["measured"] + r["had"] == r["planned"] and r["had"] > 0
assert {"op", "planned", "measured", "had", "refused", "spread_frac", "check"} == set(r["ops"][0])
EOF
all=$(cat "$work"/rows/*.csv | wc -l)
run >"$work/out" 2>"$work/err" || fail "run with nothing left: $(cat "$work/err")"
[ "$(cat "$work"/rows/*.csv | wc -l)" -eq "$all" ] || fail 'shapes were measured again'

# Ctrl-C ends cleanly
rm -r "$work/rows"
"$dcpsim" calibrate run -o "$work/rows" --shape-limit-s 5 --confidence 0.0001 >"$work/out" 2>"$work/err" &
pid=$!
sleep 0.7
kill -TERM "$pid"
wait "$pid"
[ $? -eq 1 ] || fail 'exit status of an interrupted run'
grep -q 'stopped; the rows so far are kept' "$work/err" || fail "interrupted: $(cat "$work/err")"
whole 'after an interrupt'
run --budget-s 120 >"$work/out" 2>"$work/err" || fail "run after an interrupt: $(cat "$work/err")"

# the rest of the way
if mpirun --version >/dev/null 2>&1 && mpirun -np 2 --oversubscribe true 2>/dev/null; then
  mpirun -np 2 --oversubscribe --mca mpi_yield_when_idle 1 "$dcpsim" calibrate run -o "$work/rows" --confidence 1 \
    --shape-limit-s 0.001 --budget-s 120 >"$work/out" 2>"$work/err" || fail "collectives: $(cat "$work/out" "$work/err")"
  for op in all_reduce all_gather reduce_scatter all_to_all send_recv; do
    grep -q "^$op,fp32,2,1,8,.*,exact\$" "$work/rows/collective.csv" || fail "no row of $op"
    grep -q "^$op,fp32,2,1,16777216,.*,exact\$" "$work/rows/collective.csv" || fail "no large row of $op"
  done
  whole 'collectives'
  "$dcpsim" calibrate fit "$work"/rows/*.csv --device cpu -o "$work/cpu.json" 2>"$work/err" || fail "fit: $(cat "$work/err")"
  "$dcpsim" calibrate fit "$work"/rows/*.csv --device cpu -o "$work/again.json" && cmp "$work/cpu.json" "$work/again.json" ||
    fail 'the same rows gave other bytes'
  "$dcpsim" calibrate check --params "$work/cpu.json" "$work"/rows/*.csv --json >"$work/out" 2>"$work/err" ||
    fail "check: $(cat "$work/err")"
  grep -q '"rows_not_predicted": 0' "$work/out" || fail "check: $(cat "$work/out" "$work/err")"
  "$dcpsim" simulate --trace wikipedia --model tiny-1d --cluster cpu_2x1 --params "$work/cpu.json" --steps 2 \
    --max-length 256 >"$work/out" 2>"$work/err" || fail "simulate: $(cat "$work/err")"
else
  echo 'no mpirun: collectives not run'
fi
"$dcpsim" calibrate fit "$work"/rows/attention.csv "$work"/rows/gemm.csv "$work"/rows/memory.csv --device cpu \
  --params h200_sxm -o "$work/one.json" 2>"$work/err" || fail "fit without collectives: $(cat "$work/err")"
"$dcpsim" calibrate check --params "$work/one.json" "$work/rows/gemm.csv" >/dev/null || fail 'check without collectives'
