#!/bin/sh
# Speed of dcpsim on this machine, as one table: whole runs (wall seconds, peak memory), the engine's time for one step by
# cluster size, planning time per iteration, the event queue. Wall times drift on shared machines: compare ratios.
set -eu
cd "$(dirname "$0")/../.."
. tests/packages.sh
packages_install core test
if command -v ninja >/dev/null 2>&1; then
  export CMAKE_GENERATOR=Ninja
fi
mkdir -p build
{ cmake --preset release -DBUILD_TESTING=ON && cmake --build --preset release -j "$(nproc)"; } >build/performance.log 2>&1 || {
  tail -n 20 build/performance.log >&2
  exit 1
}
dcpsim=build/release/dcpsim

# run NAME COMMAND...: one row: wall seconds and peak resident memory of the whole process.
run() {
  name=$1
  shift
  python3 - "$name" "$@" <<'PYTHON'
import os, subprocess, sys, time
start = time.time()
child = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
_, status, use = os.wait4(child.pid, 0)
if status:
    sys.exit(f"{sys.argv[1]}: exit status {status}")
print(f"{sys.argv[1]:58s} {time.time() - start:8.1f} s {use.ru_utime + use.ru_stime:8.1f} s {use.ru_maxrss / 1024:8.0f} MiB", flush=True)
PYTHON
}

all=static,bucket,packed,dcp_rebalance,dcp_inter,dcp
printf '%-58s %10s %10s %12s\n' 'whole runs: llama2-7b, 32 H200' wall cpu memory
run 'wikipedia, 1,000,000 samples, six policies' \
  $dcpsim simulate --trace wikipedia --model llama2-7b --cluster h200_8x4 --policy $all --json
run 'the same, lengths to 131,072' \
  $dcpsim simulate --trace wikipedia --model llama2-7b --cluster h200_8x4 --policy $all --max-length 131072 --json
run 'wikipedia, static with --batch 1' \
  $dcpsim simulate --trace wikipedia --model llama2-7b --cluster h200_8x4 --policy static --batch 1 --json
run 'trace info wikipedia' $dcpsim trace info wikipedia

printf '\nsweeps of 2,000 points, 2 threads\n'
sh experiments/performance/sweep.sh $dcpsim

printf '\nengine: one step of a 32-layer model, SP 8, 4 all-to-alls per layer and pass, full recomputation\n'
build/release/bench/bench_engine
printf '\nplanning\n'
build/release/bench/bench_policy
printf '\nevent queue\n'
build/release/bench/bench_heap
