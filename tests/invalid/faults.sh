#!/bin/sh
# faults.sh [COMMAND...]: everything that can fail, failing in turn: each allocation, each system call that reads or writes, each
# byte of a file (tests/fake/faults.c has the kinds). The program ends with one line and exit code 1 or, where the call did
# not matter, as ever; a file is whole or absent; no memory is lost. FAULTS=N: how many places of each kind are tried,
# spread evenly (5); FAULTS=all: every one, but for `places`; FAULTS=stacks: allocations that differ by their callers.
# JOBS=N: so many runs at a time (all cores).
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
dcpsim=$(cd "$(dirname "$dcpsim")" && pwd)/$(basename "$dcpsim")
faults=${dcpsim%/dcpsim}/tests/fake/faults.so
check_faults=${dcpsim%/dcpsim}/tests/check_faults
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
corpus=$PWD/tests/fuzz/corpus
params=$corpus/params/a
rows=$PWD/calib/data
constants=$PWD/calib/data/constants_h200_sxm.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
[ -f "$faults" ] && [ -x "$check_faults" ] || { echo "no $faults: build with -DBUILD_TESTING=ON"; exit 1; }

"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=20000 -n 40 -o t.txt || exit 1
gzip -c t.txt >t.txt.gz
"$dcpsim" trace generate uniform:min=1,max=90000 -n 60000 -o b.txt || exit 1 # more than one read
for format in csv json jsonl npy; do
  "$dcpsim" trace convert b.txt -o b.$format || exit 1
done
mkdir fit.d
awk 'NR == 1 || NR % 150 == 0' "$rows/h200_sxm/gemm_bf16.csv" >fit.d/gemm.csv
for mask in causal full; do
  awk 'NR == 1 || NR % 20 == 0' "$rows/h200_sxm/attention_${mask}_fwd_bf16.csv" >fit.d/$mask.csv
done
cp "$rows/attention_pairs.csv" "$rows/h200_sxm/nccl_intranode.csv" fit.d
cat >spec.json <<END
{"schema": "dcpsim.sweep/1", "base": {"trace": "$work/t.txt", "model": "tiny-1d", "cluster": "h200_8x1", "params": "$params",
 "policy": ["bucket", "dcp"], "steps": 2, "draws": 0}, "grid": {"seed": [0, 1], "max_length": [100, 20000]}}
END

mkdir mds
python3 - <<END
data = open("$corpus/mds/fixed", "rb").read()
index, shard = data.split(b"\0", 1)
open("mds/index.json", "wb").write(index)
open("mds/shard.00000.mds", "wb").write(shard)
END

# The commands: in a folder of their own, every file that they write.
run="--model tiny-1d --cluster h200_8x1 --params $params --draws 0 --threads 1"
simulate() {
  # shellcheck disable=SC2086
  "$@" "$dcpsim" simulate --trace "$work/t.txt" $run --policy bucket,dcp --steps 2 --result r.json --schedule 's-{policy}.jsonl' \
    --csv c.csv
}
timeline() {
  # shellcheck disable=SC2086
  "$@" "$dcpsim" simulate --trace "$work/t.txt" $run --policy dcp --steps 1 --timeline tl.json --chakra et
}
sweep() { "$@" "$dcpsim" sweep "$work/spec.json" -o table.csv -j 1; }
fit() {
  "$@" "$dcpsim" calibrate fit "$work"/fit.d/*.csv --constants "$constants" --device h200_sxm -o params.json
}
convert() { "$@" "$dcpsim" trace convert "$work/t.txt.gz" --to npy -o t.npy; }
convert_print() { "$@" "$dcpsim" trace convert "$work/t.txt" --to csv -o -; }
info_text() { "$@" "$dcpsim" trace info "$work/b.txt" --json; }
info_csv() { "$@" "$dcpsim" trace info "$work/b.csv" --json; }
info_jsonl() { "$@" "$dcpsim" trace info "$work/b.jsonl" --json; }
info_json() { "$@" "$dcpsim" trace info "$work/b.json" --json; }
info_npy() { "$@" "$dcpsim" trace info "$work/b.npy" --json; }
info_zst() { "$@" "$dcpsim" trace info "$corpus/trace/zst" --json; }
info_idx() { "$@" "$dcpsim" trace info "$corpus/trace/uint16.idx" --json; }
info_mds() { "$@" "$dcpsim" trace info "$work/mds/index.json" --json; }
check() { "$@" "$dcpsim" check "$work/good/s-dcp.jsonl"; }
plan() { "$@" "$dcpsim" plan --policy dcp --profile "$corpus/profile/a" --json; }
import_nccl() { "$@" "$dcpsim" calibrate import nccl-tests "$corpus/nccl/a" --csv rows.csv; }
calibrate_check() { "$@" "$dcpsim" calibrate check "$work"/fit.d/gemm.csv --params "$params" --json; }
report() { "$@" "$dcpsim" report "$work/good/r.json" -o page.html; }
plot() { "$@" "$dcpsim" plot speedup "$work/good/r.json" -o plot.svg; }

# once FOLDER NAME: the command without a fault, its files in FOLDER.
once() {
  mkdir -p "$1"
  (cd "$1" && "$2" env LD_PRELOAD="$faults" FAULT=none </dev/null)
}
once good simulate >/dev/null 2>&1 || exit 1
once swept sweep >/dev/null 2>&1 || exit 1

# sums FOLDER: what is in it.
sums() { (cd "$1" && find . -type f -exec cksum {} +); }

# judge NAME FOLDER: one outcome of the command NAME, as check_faults leaves it; USUAL has that without a fault.
judge() {
  read -r status <"$2/status"
  read -r leaked <"$2/leaked"
  case $status in
  0) good=$([ "$1" = sweep ] || { [ "$(sums "$2/run")" = "$(sums usual/1/run)" ] && cmp -s "$2/out" usual/1/out; } && echo yes) ;;
  1) good=$(grep -q '^dcpsim: .' "$2/err" && [ "$(grep -c -v -x -F -f usual/lines "$2/err")" -eq 1 ] && echo yes) ;;
  *) good= ;;
  esac
  case $(cat "$2/where") in short*) [ "$status" -eq 0 ] || good= ;; esac
  [ "$leaked" -le "$(cat usual/1/leaked)" ] || good=
  # What is there is whole; a table of a sweep may end with any whole point or, where even cutting failed, in one torn line.
  if [ "$1" != sweep ]; then
    sums "$2/run" >sums
    ! grep -v -x -F -f usual/sums sums >/dev/null || good=
    [ -z "$(find "$2/run" -name '.dcpsim*')" ] || good=
  elif [ -f "$2/run/table.csv" ]; then # a sweep goes on; points that could not read a file have it in their rows
    sed -i '/No space left\|Cannot allocate\|Input\/output error\|Interrupted/d' "$2/run/table.csv"
    (cd "$2/run" && sweep >/dev/null 2>&1 && sort table.csv) >sorted
    sort swept/table.csv | cmp -s - sorted || good=
  fi
  [ "$1" != check ] || ! grep -q '^not ok: ' "$2/out" || good=yes # what the header names could not be read: a finding
  [ "$1" != report ] || ! grep -q 'cannot be shown' "$2/run/page.html" 2>/dev/null || good=yes # a page that says what it lacks
  # A picture that lacks but the line break at its end is whole.
  [ "$1,$status" != plot,0 ] || [ "$(cat "$2/run/plot.svg")" != "$(cat usual/1/run/plot.svg)" ] || good=yes
  [ -z "$good" ] || return 0
  echo "$1, $(cat "$2/where") and $(($(cat "$2/runs") - 1)) others: exit $status, leaked $leaked, files: $(cd "$2/run" &&
    find . -type f | tr '\n' ' '), stderr:"
  head -n 4 "$2/err"
  failed=1
}

# places NAME KIND: which calls fail. A fit takes a second: of its 94,000 allocations, those that differ by their callers.
places() {
  case ${FAULTS:-5},$1,$2 in
  all,fit,memory | stacks,*,memory) echo stacks ;;
  stacks,*) echo 5 ;;
  all,fit,byte) echo 500 ;;
  all,*,byte) echo 6000 ;;
  all,*) echo 1000000 ;;
  *) echo "${FAULTS:-5}" ;;
  esac
}

[ $# -gt 0 ] || set -- simulate timeline sweep fit convert convert_print info_text info_csv info_jsonl info_json info_npy \
  info_zst info_idx info_mds check plan import_nccl calibrate_check report plot
kinds='memory space read short interrupt pipe byte'
env LD_PRELOAD="$faults" FAULT=read FAULT_AT=0 "$dcpsim" --version >/dev/null 2>&1
if [ $? -eq 99 ]; then
  kinds='memory byte'
  echo 'skipped: failing system calls (no filter of them here, as in some containers)'
fi
for name in "$@"; do
  rm -rf usual
  "$name" "$check_faults" "$faults" none 0 0 "$work/usual" >/dev/null || { echo "$name: does not run"; exit 1; }
  [ "$(cat usual/1/status)" -eq 0 ] || { echo "$name: exit $(cat usual/1/status) without a fault"; cat usual/1/err; exit 1; }
  sums usual/1/run >usual/sums
  { cat usual/1/err; echo 'no such line'; } >usual/lines
  for kind in $kinds; do
    rm -rf outcomes
    tried=$("$name" "$check_faults" "$faults" $kind "$(places "$name" $kind)" "$jobs" "$work/outcomes") ||
      { echo "$name, $kind: $tried"; failed=1; }
    for outcome in outcomes/[0-9]*; do
      [ -d "$outcome" ] && judge "$name" "$outcome"
    done
    printf '%-16s %-10s %15s  %d outcomes\n' "$name" "$kind" "$tried" "$(find outcomes -maxdepth 1 -name '[0-9]*' | wc -l)"
  done
done
exit "$failed"
