#!/bin/sh
# calibrate_run.sh: calibrate run on the CPU: a run, its continuation, kills in the middle, collectives under mpirun and in
# every placement over nodes, and the way of the rows through fit, check and simulate. No time is asserted but that of
# ending. KILLS=N: how often a run of one process is killed, KILLS_MPI=N: one of two.
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

printf 'gemm,fp32,7,7' >>"$work/rows/gemm.csv" # as a kill within a line leaves it
run --budget-s 120 --json >"$work/json" 2>"$work/err" || fail "last run: $(cat "$work/err")"
grep -q 'that line was cut off' "$work/err" || fail 'no word of the torn line'
whole 'after the last run'
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

# interrupted WHAT COMMAND...: Ctrl-C ends it cleanly, and soon; it is interrupted once it writes rows
interrupted() {
  what=$1
  shift
  rm -rf "$work/rows"
  "$@" calibrate run -o "$work/rows" --shape-limit-s 5 --confidence 0.0001 >"$work/out" 2>"$work/err" </dev/null &
  pid=$!
  for _ in $(seq 200); do
    sleep 0.1
    cat "$work"/rows/*.csv 2>/dev/null | grep -q ,fp32, && break
  done
  begin=$(date +%s%N)
  kill -TERM "$pid"
  wait "$pid"
  [ $? -eq 1 ] || fail "$what: exit status of an interrupted run"
  took_ms=$((($(date +%s%N) - begin) / 1000000))
  [ "$took_ms" -lt 10000 ] || fail "$what: it ended after $took_ms ms"
  echo "$what: ended $took_ms ms after SIGTERM"
  grep -q ', stopped; rows in' "$work/out" || fail "$what, interrupted: $(cat "$work/out" "$work/err")"
  whole "$what, after an interrupt"
}
interrupted 'one process' "$dcpsim"
grep -q 'stopped; the rows so far are kept' "$work/err" || fail "interrupted: $(cat "$work/err")"
run --budget-s 120 >"$work/out" 2>"$work/err" || fail "run after an interrupt: $(cat "$work/err")"

# lines.py FOLDER OUT [BEFORE]: what a run leaves but for what it measures, sorted. All lines are whole but for the end of
# a file, no shape is there twice, and what the folder BEFORE held is still there.
cat >"$work/lines.py" <<'EOF'
import csv, os, sys
folder, out = sys.argv[1:3]
keys = []
for name in sorted(os.listdir(folder)):
    text = open(f"{folder}/{name}").read()
    text = text[:text.rfind("\n") + 1]
    rows = list(csv.reader(text.splitlines()))
    for row in rows[1:]:
        assert len(row) == len(rows[0]), f"{name}: {row}"
        r = dict(zip(rows[0], row))
        assert float(r["time_s"]) > 0 and r["check"] and r["date"], f"{name}: {row}"
        for measured in ("time_s", "spread_frac", "confidence_frac", "repeats", "clocks", "date"):
            del r[measured]
        if "bytes" not in r: # an error, of inputs that depend on what was checked before
            del r["check"]
        keys.append(name + " " + " ".join(r.values()))
    before = f"{sys.argv[3]}/{name}" if len(sys.argv) > 3 else ""
    if os.path.exists(before):
        had = open(before).read()
        assert text.startswith(had[:had.rfind("\n") + 1]), name + ": a row was lost"
assert len(set(keys)) == len(keys), "a shape twice"
open(out, "w").write("".join(k + "\n" for k in sorted(keys)))
EOF
lines() { python3 "$work/lines.py" "$work/rows" "$@" || fail "$what: rows, after $kills kills"; }

# Kills a process with those that it started, mpirun with its ranks; every other time one rank only, which ends mpirun.
kill_hard() {
  children=$(pgrep -P "$1")
  if [ -n "$children" ] && [ $((kills % 2)) -eq 1 ]; then
    kill -9 "$(echo "$children" | shuf -n 1)"
  else
    # shellcheck disable=SC2086 # a word list
    kill -9 "$1" $children
  fi 2>/dev/null
}

# kill_and_resume WHAT KILLS LEAST_MS SPAN_MS COMMAND...: kills it at a random moment between LEAST_MS and SPAN_MS later and
# runs it again, so often; it ends with the rows of a run that nothing disturbed.
kill_and_resume() {
  what=$1 most=$2 least_ms=$3 span_ms=$4
  shift 4
  kills=0 hits=0 finished=1
  rm -rf "$work/rows" "$work/before"
  "$@" >"$work/out" 2>"$work/err" </dev/null || fail "$what: $(cat "$work/err")"
  lines "$work/wanted"
  rm "$work"/rows/*
  mkdir "$work/before"
  : >"$work/had"
  while [ "$kills" -lt "$most" ]; do
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    sleep "$(od -An -N2 -tu2 /dev/urandom | awk "{ print ($least_ms + \$1 / 65536 * $span_ms) / 1000 }")"
    kill_hard "$pid"
    wait "$pid" 2>/dev/null
    for child in $children; do
      while kill -0 "$child" 2>/dev/null; do sleep 0.05; done
    done
    kills=$((kills + 1))
    lines "$work/now" "$work/before"
    cmp -s "$work/now" "$work/had" || hits=$((hits + 1))
    comm -23 "$work/now" "$work/wanted" | grep . && fail "$what: rows that an undisturbed run does not have"
    mv "$work/now" "$work/had"
    rm -r "$work/before"
    if cmp -s "$work/had" "$work/wanted"; then # what is complete starts over, so that every kill has something to hit
      finished=$((finished + 1))
      rm "$work"/rows/*
      : >"$work/had"
    fi
    cp -r "$work/rows" "$work/before"
    for file in "$work"/rows/*.csv; do # every third time as a kill within a line leaves it
      [ -s "$file" ] && [ $((kills % 3)) -eq 0 ] && printf 'gemm,fp32,7' >>"$file"
    done
  done
  "$@" >"$work/out" 2>"$work/err" </dev/null || fail "$what: the last run: $(cat "$work/err")"
  lines "$work/now" "$work/before"
  whole "$what, after $kills kills"
  cmp "$work/now" "$work/wanted" || fail "$what: after $kills kills the rows differ"
  echo "$what: $kills kills, $hits of runs that had written rows; complete $finished times, each $(wc -l <"$work/wanted") rows"
}
# shellcheck disable=SC2086
kill_and_resume 'one process' "${KILLS:-3}" 40 500 "$dcpsim" calibrate run -o "$work/rows" $arguments --budget-s 300

"$dcpsim" calibrate fit "$work"/rows/attention.csv "$work"/rows/gemm.csv "$work"/rows/memory.csv --device cpu \
  --params h200_sxm -o "$work/one.json" 2>"$work/err" || fail "fit without collectives: $(cat "$work/err")"
"$dcpsim" calibrate check --params "$work/one.json" "$work/rows/gemm.csv" >/dev/null || fail 'check without collectives'

# the rest of the way
quick="--confidence 1 --shape-limit-s 0.001 --budget-s 300"
ranks() {
  n=$1
  shift
  mpirun -np "$n" --oversubscribe --mca mpi_yield_when_idle 1 "$@" </dev/null
}
# placements.py FILE: all collectives in all placements of 4 ranks as 2 nodes of 2, at all sizes that they have
cat >"$work/placements.py" <<'EOF'
import csv, sys
groups = {(2, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2), (4, 2, 1)}  # ranks, nodes, groups at once
wanted = set()
for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "all_to_all_uneven"):
    for ranks, nodes, at_once in groups:
        least = 4 * ranks * (2 if op == "all_to_all_uneven" else 1)
        wanted |= {(op, ranks, nodes, 2**k, at_once) for k in range(3, 25) if 2**k >= least}
wanted |= {("barrier", ranks, nodes, 0, at_once) for ranks, nodes, at_once in groups}
rows = list(csv.DictReader(open(sys.argv[1])))
have = [(r["op"], int(r["ranks"]), int(r["nodes"]), int(r["bytes"]), int(r["groups"])) for r in rows]
assert len(have) == len(set(have)) and set(have) == wanted, set(have) ^ wanted
assert all(r["check"] == "exact" and r["library"] == "MPI" and r["source"].endswith(" --ranks-per-node 2") for r in rows)
EOF
if mpirun --version >/dev/null 2>&1 && ranks 2 true 2>/dev/null; then
  # shellcheck disable=SC2086
  ranks 2 "$dcpsim" calibrate run -o "$work/rows" $quick >"$work/out" 2>"$work/err" || fail "collectives: $(cat "$work/out" "$work/err")"
  for op in all_reduce all_gather reduce_scatter all_to_all send_recv all_to_all_uneven; do
    grep -q "^$op,fp32,2,1,16,1,.*,exact\$" "$work/rows/collective.csv" || fail "no row of $op"
    grep -q "^$op,fp32,2,1,16777216,1,.*,exact\$" "$work/rows/collective.csv" || fail "no large row of $op"
  done
  whole 'collectives'
  "$dcpsim" calibrate fit "$work"/rows/*.csv --device cpu -o "$work/cpu.json" 2>"$work/err" || fail "fit: $(cat "$work/err")"
  "$dcpsim" calibrate fit "$work"/rows/*.csv --device cpu -o "$work/again.json" && cmp "$work/cpu.json" "$work/again.json" ||
    fail 'the same rows gave other bytes'
  "$dcpsim" calibrate check --params "$work/cpu.json" "$work"/rows/*.csv --json >"$work/out" 2>"$work/err" ||
    fail "check: $(cat "$work/err")"
  grep -q '"rows_not_predicted": 1,' "$work/out" || fail "check: $(cat "$work/out" "$work/err")"
  "$dcpsim" simulate --trace wikipedia --model tiny-1d --cluster cpu_2x1 --params "$work/cpu.json" --steps 2 \
    --max-length 256 >"$work/out" 2>"$work/err" || fail "simulate: $(cat "$work/err")"

  # two nodes of two ranks, as they are told; the second run goes on where the first ends
  four="$work/four/collective.csv"
  # shellcheck disable=SC2086
  ranks 4 "$dcpsim" calibrate run -o "$work/four" --ranks-per-node 2 $quick --budget-s 3 >"$work/out" 2>"$work/err" ||
    fail "two nodes: $(cat "$work/out" "$work/err")"
  cp "$four" "$work/first.csv"
  # shellcheck disable=SC2086
  ranks 4 "$dcpsim" calibrate run -o "$work/four" --ranks-per-node 2 $quick >"$work/out" 2>"$work/err" ||
    fail "two nodes: $(cat "$work/out" "$work/err")"
  head -c "$(wc -c <"$work/first.csv")" "$four" | cmp - "$work/first.csv" || fail 'two nodes: the first rows changed'
  grep -qx '2 nodes of 2 ranks; each group alone, and all disjoint ones at once' "$work/out" || fail "$(cat "$work/out")"
  grep -qx '  on 2 nodes: groups of 2, 4' "$work/out" || fail "$(cat "$work/out")"
  python3 "$work/placements.py" "$four" || fail 'two nodes: placements'
  "$dcpsim" calibrate fit "$four" --device cpu --params h200_sxm -o "$work/four.json" 2>"$work/err" ||
    fail "fit of two nodes: $(cat "$work/err")"
  # rows of groups at once change nothing but what the file says of its rows
  awk -F, 'NR == 1 || $6 == 1' "$four" >"$work/alone.csv"
  "$dcpsim" calibrate fit "$work/alone.csv" --device cpu --params h200_sxm -o "$work/alone.json" || fail 'fit of groups alone'
  python3 - "$work/four.json" "$work/alone.json" <<'EOF' || fail 'two nodes: curves'
import json, sys
four, alone = (json.load(open(p))["network"] for p in sys.argv[1:])
assert four == alone
curves = [(c["op"], c["ranks"], c["nodes"]) for c in four["curves"]]
assert len(curves) == 15 and all((op, r, 2) in curves for op in ("all_reduce", "send_recv") for r in (2, 4)), curves
EOF
  "$dcpsim" calibrate check --params "$work/four.json" "$four" --json >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
  python3 - "$work/out" "$four" <<'EOF' || fail 'two nodes: check'
import csv, json, sys
groups = json.load(open(sys.argv[1]))["groups"]
rows = [r for r in csv.DictReader(open(sys.argv[2])) if r["op"] != "barrier"]
for at_once in (False, True):
    for op in {r["op"] for r in rows}:
        n = sum(r["op"] == op and (r["groups"] != "1") == at_once for r in rows)
        assert [g["rows"] for g in groups if g["op"] == op and g.get("at_once", False) == at_once] == [n], (op, n, groups)
EOF
  ranks 4 "$dcpsim" calibrate run -o "$work/four" --ranks-per-node 3 >"$work/out" 2>"$work/err" && fail 'nodes of 3 of 4 ranks'
  grep -q -e '--ranks-per-node 3 does not divide the 4 ranks' "$work/err" || fail "$(cat "$work/err")"

  interrupted 'two ranks' mpirun -np 2 --oversubscribe --mca mpi_yield_when_idle 1 "$dcpsim"
  # shellcheck disable=SC2086
  kill_and_resume 'two ranks' "${KILLS_MPI:-${KILLS:-3}}" 300 2000 mpirun -np 2 --oversubscribe --mca mpi_yield_when_idle 1 \
    "$dcpsim" calibrate run -o "$work/rows" --ranks-per-node 1 $quick
else
  echo 'no mpirun: collectives not run'
fi
