#!/bin/sh
# determinism.sh PROGRAM...: the same commands give the same bytes whatever compiled the program (gcc, clang, with or without
# optimisation and sanitizers), on any number of threads and, sweeps, of MPI ranks. plan_time_s is the one field that may
# differ. Ends with a hash of everything that was equal.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
[ $# -ge 1 ] || { echo "usage: determinism.sh PROGRAM..."; exit 2; }
for program; do
  case $program in /*) ;; *) program=$PWD/$program ;; esac
  shift
  set -- "$@" "$program"
done
first=$1
runs=0
cd "$work" || exit 1 # results hold the names of their inputs
export ASAN_OPTIONS=detect_leaks=0 # MPI's own; the other tests look for ours

"$first" trace generate lognormal:mean=1500,sigma=1.3,max=60000 -n 1500 -o text.txt --seed 3 || exit 1
"$first" trace generate zipf_video:offset=5,size=60,image_frac=2 -n 100 -o video.csv || exit 1
all=static,bucket,packed,dcp_rebalance,dcp_inter,dcp

# run LABEL PROGRAM ARGUMENTS...: what the program prints, but plan_time_s, into $work/LABEL.
run() {
  label=$1
  shift
  "$@" >"$work/raw" 2>"$work/err" || {
    echo "$*: exit $?"
    head -n 3 "$work/err"
    failed=1
  }
  grep -v plan_time_s "$work/raw" >"$work/$label"
}

# equal NAME RUN: $work/got is $work/wanted.
equal() {
  runs=$((runs + 1))
  cmp -s "$work/wanted" "$work/got" && return
  echo "$1: '$first' and '$2' differ:"
  diff "$work/wanted" "$work/got" | head -n 6
  failed=1
}

# keep: what is wanted goes into the hash.
keep() { cat "$work/wanted" >>"$work/everything"; }

# compare NAME COMMAND...: every program, and 1, 2 and 3 threads where the command has -j.
compare() {
  name=$1
  shift
  run wanted "$first" "$@"
  keep
  for program in $programs; do
    for threads in '-j 1' '-j 2' '-j 3'; do
      if [ "$1" != simulate ]; then
        [ "$threads" = '-j 1' ] || continue
        threads=
      fi
      # shellcheck disable=SC2086
      run got "$program" "$@" $threads
      equal "$name" "$program $threads"
    done
  done
}

# files NAME COMMAND...: the file that the command writes when its name is put at the end.
files() {
  name=$1
  shift
  "$first" "$@" "$work/wanted" >/dev/null || failed=1
  keep
  for program in $programs; do
    for threads in 1 2; do
      "$program" "$@" "$work/got" -j $threads >/dev/null || failed=1
      equal "$name" "$program -j $threads"
    done
  done
}

ranks() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 \
    mpirun "$@"
}

# sweep SPEC: the sorted table of every program, on 1 to 3 threads and 1 to 4 ranks.
sweep() {
  "$first" sweep "$1" -o - -j 1 2>/dev/null | sort >"$work/wanted"
  keep
  for program in $programs; do
    for threads in 1 2 3; do
      "$program" sweep "$1" -o - -j $threads 2>/dev/null | sort >"$work/got"
      equal sweep "$program -j $threads"
    done
    has_mpi "$program" || continue
    for n in 1 2 3 4; do
      rm -f "$work/table"
      ranks -np $n "$program" sweep "$1" -o "$work/table" -j 1 >"$work/err" 2>&1 </dev/null || head -n 3 "$work/err"
      sort "$work/table" >"$work/got"
      equal sweep "mpirun -np $n $program"
    done
  done
}

has_mpi() { command -v mpirun >/dev/null 2>&1 && ldd "$1" | grep -q libmpi; }

programs=$*
text="--trace text.txt --model llama2-7b --cluster h200_8x2"
video="--trace video.csv --model tiny-2d --cluster h200_4x2"
# shellcheck disable=SC2086
{
  compare 'trace info' trace info text.txt --json
  compare 'simulate' simulate $text --policy $all --json
  compare 'simulate, capped steps' simulate $text --policy $all --json --tokens-per-step 200000 --seeds 2
  compare 'simulate, faults' simulate $text --policy bucket,dcp --json --jitter 0.1 --straggler 3:1.5 --steps 20
  compare 'simulate, zero 3' simulate $text --policy bucket,dcp --json --zero 3 --drop-last --batch 4
  compare 'simulate, video' simulate $video --policy $all --json --seed 9
  compare 'simulate, table' simulate $text --policy bucket,dcp --explain
  compare 'plan' plan $text --policy dcp --json
  files 'schedule' simulate $text --policy dcp --schedule
  files 'timeline' simulate $text --policy bucket --steps 1 --timeline
}
cat >"$work/sweep.json" <<END
{"schema": "dcpsim.sweep/1",
 "base": {"trace": "text.txt", "model": "llama2-7b", "cluster": "h200_8x2", "steps": 5, "policy": "bucket,dcp"},
 "grid": {"max_length": {"from": 4096, "to": 16384, "factor": 2}, "seed": [0, 1], "memory_cap_frac": [0.7, 0.1]}}
END
sweep "$work/sweep.json"
hash=$(sha256sum <"$work/everything" | cut -c 1-16)
[ "$failed" -ne 0 ] || echo "$# programs, $runs runs (1 to 3 threads, 1 to 4 ranks): one hash $hash"
exit "$failed"
