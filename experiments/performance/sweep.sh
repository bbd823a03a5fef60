#!/bin/sh
# sweep.sh [PROGRAM...]: wall and processor seconds of the two sweeps of 2,000 points in this folder (four policies, 100
# steps at most, 20,000 lengths, 32 GPUs), on 2 threads. Several programs (an older build, say) take turns, so that a busy
# machine is busy for all, and must write the same tables. Default: build/release/dcpsim.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- build/release/dcpsim
mkdir -p build/performance
"$1" trace generate lognormal:mean=2000,sigma=1.2,max=60000 -n 20000 -o build/performance/lengths.txt
printf '%-18s %-40s %10s %10s %10s\n' sweep program wall cpu memory
for sweep in sweep_fixed_sp sweep_auto_sp; do
  wanted=
  for program; do
    rm -f build/performance/table.csv
    python3 - "$sweep" "$program" <<'PYTHON'
import os, subprocess, sys, time
sweep, program = sys.argv[1:]
spec, table = f"experiments/performance/{sweep}.json", "build/performance/table.csv"
start = time.time()
child = subprocess.Popen([program, "sweep", spec, "-o", table, "-j", "2"], stderr=subprocess.DEVNULL)
_, status, use = os.wait4(child.pid, 0)
if status:
    sys.exit(f"{program}: exit status {status}")
print(f"{sweep:18s} {program:40s} {time.time() - start:8.1f} s {use.ru_utime + use.ru_stime:8.1f} s"
      f" {use.ru_maxrss / 1024:6.0f} MiB", flush=True)
PYTHON
    # The second column is a hash of spec and version: the version may differ.
    got=$(cut -d, -f1,3- build/performance/table.csv | sort | sha256sum)
    [ "${wanted:-$got}" = "$got" ] || { echo "$sweep: the table of $program differs from that of $1"; exit 1; }
    wanted=$got
  done
done
