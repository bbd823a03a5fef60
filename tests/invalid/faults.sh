#!/bin/sh
# faults.sh [COMMAND...]: everything that can fail, failing in turn: each allocation, each call that writes a file, each byte of
# a file. The program ends with one line and exit code 1 or, where the call did not matter, as ever; a file is whole or
# absent. FAULTS=N: how many places of each kind are tried, spread evenly (5); FAULTS=all: every one (half an hour and more).
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
dcpsim=$(cd "$(dirname "$dcpsim")" && pwd)/$(basename "$dcpsim")
faults=${dcpsim%/dcpsim}/tests/fake/faults.so
params=$PWD/tests/fuzz/corpus/params/a
rows=$PWD/calib/data
constants=$PWD/calib/data/constants_h200_sxm.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
[ -f "$faults" ] || { echo "no $faults: build with -DBUILD_TESTING=ON"; exit 1; }

"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=20000 -n 40 -o t.txt || exit 1
gzip -c t.txt >t.txt.gz
mkdir fit.d
awk 'NR == 1 || NR % 150 == 0' "$rows/h200_sxm/gemm_bf16.csv" >fit.d/gemm.csv
for mask in causal full; do
  awk 'NR == 1 || NR % 20 == 0' "$rows/h200_sxm/attention_${mask}_fwd_bf16.csv" >fit.d/$mask.csv
done
cp "$rows/attention_pairs.csv" "$rows/h200_sxm/nccl_intranode.csv" fit.d
cat >spec.json <<END2
{"schema": "dcpsim.sweep/1", "base": {"trace": "$work/t.txt", "model": "tiny-1d", "cluster": "h200_8x1", "params": "$params",
 "policy": ["bucket", "dcp"], "steps": 2, "draws": 0}, "grid": {"seed": [0, 1], "max_length": [100, 20000]}}
END2

# The commands: in a folder of their own, every file that they write.
simulate() {
  "$@" "$dcpsim" simulate --trace ../t.txt --model tiny-1d --cluster h200_8x1 --params "$params" --policy bucket,dcp --steps 2 \
    --draws 0 --threads 1 --result r.json --schedule 's-{policy}.jsonl' --csv c.csv
}
timeline() {
  "$@" "$dcpsim" simulate --trace ../t.txt --model tiny-1d --cluster h200_8x1 --params "$params" --policy dcp --steps 1 --draws 0 \
    --threads 1 --timeline tl.json --chakra et
}
sweep() { "$@" "$dcpsim" sweep ../spec.json -o table.csv -j 1; }
fit() {
  "$@" "$dcpsim" calibrate fit ../fit.d/*.csv --constants "$constants" --device h200_sxm -o params.json
}
convert() { "$@" "$dcpsim" trace convert ../t.txt.gz --to npy -o t.npy; }
check() { "$@" "$dcpsim" check ../good/s-dcp.jsonl; }
import_nccl() { "$@" "$dcpsim" calibrate import nccl-tests "${params%params/a}nccl/a" --csv rows.csv; }

mkdir good
(cd good && simulate env >/dev/null 2>&1) || exit 1

# sums FOLDER: what is in it, but for times of planning.
sums() {
  (cd "$1" && find . -type f | sort | while read -r file; do
    printf '%s %s\n' "$file" "$(sed 's/"plan_time_s":[^,}]*//; /^policy,\|^bucket,\|^dcp,/s/,[^,]*$//' "$file" | cksum)"
  done)
}

# judge NAME WHAT STATUS: after a run in the folder `run` with its stderr in `err`.
judge() {
  case $3 in
  0) good=$([ "$1" = sweep ] || [ "$(sums run)" = "$(cat "$1.sums")" ] && echo yes) ;; # it did not matter
  1) good=$(sed 1q err | grep -q '^dcpsim: .' && [ "$(grep -c -v -x -F -f "$1.err" err)" -eq 1 ] && echo yes) ;;
  *) good= ;;
  esac
  [ "$1" != check ] || ! grep -q '^not ok: ' out || good=yes # what the header names could not be read: a finding
  # What is there is whole; a table of a sweep may end with any whole point or, where even cutting failed, in one torn line.
  if [ "$1" != sweep ]; then
    sums run | grep -v -x -F -f "$1.sums" >/dev/null && good=
    [ -z "$(find run -name '.dcpsim*')" ] || good=
  elif [ -f run/table.csv ]; then # a sweep goes on; points that could not open a file have it in their rows
    sed -i '/No space left/d' run/table.csv
    (cd run && sweep 2>/dev/null && sort table.csv) | cmp -s - sweep.sorted || good=
  fi
  if [ -z "$good" ]; then
    echo "$1, $2: exit $3, files: $(find run -type f | tr '\n' ' '), stderr:"
    head -n 4 err
    failed=1
  fi
}

try() { # NAME WHAT PREFIX...
  rm -rf run
  mkdir run
  name=$1 what=$2
  shift 2
  # stderr through a pipe: limits on files are not to hold for it.
  (cd run && $name "$@" 2>&1 >../out </dev/null; echo $? >../status) | cat >err
  judge "$name" "$what" "$(cat status)"
}

# places N: which of N places are tried.
places() {
  awk -v n="$1" -v want="${FAULTS:-5}" 'BEGIN {
    if (want == "all" || want >= n) for (i = 1; i <= n; i++) print i
    else for (i = 0; i < want; i++) print int(1 + i * (n - 1) / (want - 1)) }'
}

[ $# -gt 0 ] || set -- simulate timeline sweep fit convert check import_nccl
for name in "$@"; do
  rm -rf run
  mkdir run
  (cd run && $name env >../out 2>../err </dev/null) || { echo "$name: exit $? without a fault"; cat err; failed=1; }
  sums run >"$name.sums"
  { cat err; echo 'no such line'; } >"$name.err"
  [ "$name" != sweep ] || sort run/table.csv >sweep.sorted
  largest=$(find run -type f -exec wc -c {} + | awk '$2 != "total" && $1 > n { n = $1 } END { print n + 0 }')
  printed=$(wc -c <out)
  rm -rf run
  total=
  for kind in memory file; do
    rm -rf log run
    mkdir run
    (cd run && $name env LD_PRELOAD="$faults" FAULT=$kind FAULT_LOG="$work/log" >/dev/null 2>&1 </dev/null)
    rm -rf run
    n=$(tail -n 1 log)
    total="$total $n $kind calls,"
    for at in $(places "$n"); do
      try "$name" "$kind call $at" env LD_PRELOAD="$faults" FAULT=$kind FAULT_AT="$at"
    done
  done
  # A disk that is full after so many bytes of a file: a limit on the size of files does the same to a write.
  if command -v prlimit >/dev/null 2>&1; then
    for at in $(places "$largest"); do
      try "$name" "byte $at of a file" prlimit --fsize=$((at - 1))
    done
  fi
  if [ "$printed" -gt 0 ] && [ -e /dev/full ]; then
    rm -rf run
    mkdir run
    (cd run && $name env >/dev/full 2>../err </dev/null)
    status=$?
    [ "$status" -eq 1 ] || { echo "$name >/dev/full: exit $status"; failed=1; }
    judge "$name" '/dev/full' "$status"
  fi
  rm -rf run
  echo "$name:$total $largest bytes"
done
exit "$failed"
