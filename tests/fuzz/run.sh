#!/bin/sh
# run.sh [MINUTES [TARGET...]]: feeds the readers of every kind of input with damaged files, MINUTES (2 seconds; 0.5 is half
# a minute) for each target (all: tests/fuzz/fuzz_TARGET.c), after the files of corpus/TARGET and regressions/TARGET. A day
# on two targets:
#   sh tests/fuzz/run.sh 720 trace schedule
# COVERAGE=1: then which lines of the readers all files reach that were kept or found (needs llvm-profdata and llvm-cov;
# Debian: llvm-14); the functions that none reaches are in build/fuzz/coverage/TARGET.
# Needs clang with libFuzzer; without it the files are replayed through a plain main, built with gcc's
# sanitizers. What is found lies in build/fuzz/found/TARGET-...; a fault that was mended goes to regressions/TARGET.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=2
if [ $# -gt 0 ]; then
  seconds=$(awk -v minutes="$1" 'BEGIN { if (minutes !~ /^([0-9]+\.?[0-9]*|\.[0-9]+)$/) exit 1; printf "%.0f", minutes * 60 }') ||
    { echo "usage: run.sh [MINUTES [TARGET...]]: '$1' is no number of minutes"; exit 2; }
  shift
fi
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_//; s/\.c$//')
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 LC_ALL=C

mkdir -p build/fuzz/found
cat >build/fuzz/probe.c <<'END'
int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long n);
int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long n) { return n > 9 && data[0] == 1 ? -1 : 0; }
END
if clang -fsanitize=fuzzer,address,undefined build/fuzz/probe.c -o build/fuzz/probe 2>/dev/null; then
  folder=build/fuzz/libfuzzer
  compiler='-DCMAKE_C_COMPILER=clang -DDCPSIM_FUZZ=ON'
else
  folder=build/fuzz/replay
  compiler='-DCMAKE_C_COMPILER=gcc'
  seconds=0
  echo 'skipped: fuzzing (no clang with libFuzzer; Debian: clang and libclang-rt-14-dev); the kept files are replayed'
fi
# $compiler is a word list
# shellcheck disable=SC2086
cmake -S . -B "$folder" $compiler -DCMAKE_BUILD_TYPE=Release -DDCPSIM_SANITIZE=address,undefined -DDCPSIM_CUDA=OFF \
  -DDCPSIM_MPI=OFF -DBUILD_TESTING=OFF >build/fuzz/cmake.log 2>&1 &&
  cmake --build "$folder" --target fuzz -j "$(nproc 2>/dev/null || echo 2)" >>build/fuzz/cmake.log 2>&1 ||
  { tail -n 20 build/fuzz/cmake.log; exit 1; }

failed=0
for target in "$@"; do
  grown=build/fuzz/corpus/$target
  log=build/fuzz/$target.log
  kept="tests/fuzz/corpus/$target"
  [ ! -d "tests/fuzz/regressions/$target" ] || kept="$kept tests/fuzz/regressions/$target"
  mkdir -p "$grown"
  # $kept is a word list of folders. First the kept files alone, for a fault of one of them shows its name.
  # shellcheck disable=SC2086
  if ! "$folder/fuzz/fuzz_$target" -runs=0 -timeout=20 $kept >"$log" 2>&1 </dev/null; then
    echo "$target: a kept file fails, see $log"
    tail -n 12 "$log"
    failed=1
  elif [ "$seconds" -gt 0 ]; then
    # shellcheck disable=SC2086
    "$folder/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2500 -max_len=16384 \
      -artifact_prefix="build/fuzz/found/$target-" "$grown" $kept >"$log" 2>&1 </dev/null
    status=$?
    printf '%-12s %s\n' "$target" "$(awk '/cov:/ { cov = $4; ft = $6 } /^Done/ { runs = $2 }
      END { printf "%s executions, %s edges, %s features", runs, cov, ft }' "$log")"
    [ "$status" -eq 0 ] || { echo "$target: a fault, see $log"; tail -n 4 "$log"; failed=1; }
  else
    echo "$target: $(find $kept -type f | wc -l) files"
  fi
done
[ -z "${COVERAGE:-}" ] || sh tests/fuzz/coverage.sh "$@" || failed=1
exit "$failed"
