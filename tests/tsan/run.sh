#!/bin/sh
# run.sh: builds the simulator with ThreadSanitizer, in a folder of its own and without MPI (which is not instrumented),
# and runs what uses threads: experiments, sweeps and the library (check_threads.c); by the program, experiments and sweeps
# with their progress bars, executions with their watchdog, refits of rows left out. Any report fails.
set -u
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S . -B build/tsan -DCMAKE_C_COMPILER="${CC:-gcc}" -DCMAKE_BUILD_TYPE=Debug -DDCPSIM_SANITIZE=thread \
  -DDCPSIM_MPI=OFF -DDCPSIM_CUDA=OFF -DBUILD_TESTING=ON >/dev/null &&
  cmake --build build/tsan --target check_threads dcpsim -j "$(nproc)" || exit 1
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 log_path=$work/report" OPENBLAS_NUM_THREADS=1
failed=0

# try COMMAND...: without random addresses: the sanitizer of older compilers does not know the layouts of newer kernels.
try() {
  setarch -R "$@" >"$work/out" 2>&1 </dev/null && return
  echo "$*: exit $?"
  tail -n 5 "$work/out"
  failed=1
}

# try_terminal COMMAND: likewise on a terminal, where the program draws its progress.
try_terminal() {
  try script -qec "$1" "$work/typescript"
  grep -q '%' "$work/typescript" || { echo "$1: no progress bar"; failed=1; }
}

try build/tsan/tests/check_threads "$work"
cat "$work/out"
dcpsim=build/tsan/dcpsim
"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=20000 -n 300 -o "$work/t.txt" || exit 1
run="--trace $work/t.txt --model tiny-1d"
cat >"$work/sweep.json" <<END
{"schema": "dcpsim.sweep/1", "base": {"trace": "$work/t.txt", "model": "tiny-1d", "cluster": "h200_8x1", "policy": "dcp"},
 "grid": {"seed": [0, 1, 2, 3]}}
END
try_terminal "$dcpsim simulate $run --cluster h200_8x1 --policy bucket,dcp --draws 8 -j 4"
try_terminal "$dcpsim sweep $work/sweep.json -o $work/table.csv -j 3"
# $run is a word list
# shellcheck disable=SC2086
try "$dcpsim" simulate $run --cluster cpu_1x1 --params h200_sxm --policy static --batch 1 --max-length 200 --overlong drop \
  --steps 3 --schedule "$work/s.jsonl"
for device in virtual cpu; do
  try "$dcpsim" execute "$work/s.jsonl" --device $device
done
try "$dcpsim" calibrate check --leave-out bytes calib/data/h200_sxm/nccl_intranode.csv --params h200_sxm -j 3
cat "$work"/report* 2>/dev/null
exit "$failed"
