#!/bin/sh
# coverage.sh [TARGET...]: which lines of the readers' own files are reached by what tests/fuzz has and fuzzing found (CORPUS:
# build/fuzz/corpus). In build/fuzz/coverage/TARGET also the functions that nothing reaches. tests/fuzz/run.sh runs this with
# COVERAGE=1. Needs clang, llvm-profdata and llvm-cov.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_//; s/\.c$//')
grown=${CORPUS:-build/fuzz/corpus}
export LC_ALL=C

# tool NAME: under its own name, or with the number of its clang.
tool() {
  number=$(clang -dumpversion 2>/dev/null | cut -d . -f 1)
  command -v "$1-$number" || command -v "$1"
}
if ! profdata=$(tool llvm-profdata) || ! cov=$(tool llvm-cov); then
  echo 'skipped: coverage (no llvm-profdata or llvm-cov; Debian: llvm-14)'
  exit 0
fi

# sources TARGET: the files that read this kind of input.
sources() {
  case $1 in
  cluster) echo models/hardware.c ;;
  experiment) echo sim/experiment/options.c ;;
  generator) echo traces/generate.c traces/mixture.c ;;
  mds) echo traces/format_mds.c ;;
  model) echo models/transformer.c ;;
  nccl) echo calib/import_nccl_tests.c calib/nccl_line.c ;;
  params) echo models/params.c models/params_move.c models/operation.c ;;
  profile) echo sim/policy/profile.c ;;
  published) echo sim/report/published.c sim/report/plot_residuals.c sim/report/csv_line.c ;;
  result) echo sim/report/result_view.c $(ls sim/report/page*.c | grep -v sweep) ;;
  rows) echo calib/rows.c calib/table.c calib/import_csv.c calib/training_case.c ;;
  schedule) echo sim/plan/schedule_read.c sim/plan/schedule_check.c sim/plan/json_lines.c sim/report/plot_step_times.c ;;
  sweep) echo sim/sweep/sweep_spec.c ;;
  sweep_table) echo sim/sweep/sweep_table.c sim/report/sweep_view.c sim/report/page_sweep.c ;;
  timeline) echo sim/report/plot_timeline.c ;;
  trace) ls traces/*.c | grep -v 'mds\|generate\|mixture\|bucket\|shipped' ;;
  *) echo "tests/fuzz/coverage.sh has no files for $1" >&2 ;;
  esac
}

folder=build/fuzz/instrumented
mkdir -p build/fuzz/coverage
cmake -S . -B $folder -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DDCPSIM_CUDA=OFF -DDCPSIM_MPI=OFF -DBUILD_TESTING=OFF \
  -DCMAKE_C_FLAGS='-fprofile-instr-generate -fcoverage-mapping' >build/fuzz/cmake.log 2>&1 &&
  cmake --build $folder --target $(printf 'fuzz_%s ' "$@") -j "$(nproc 2>/dev/null || echo 2)" >>build/fuzz/cmake.log 2>&1 ||
  { tail -n 20 build/fuzz/cmake.log; exit 1; }

failed=0
for target in "$@"; do
  files=$(sources "$target")
  raw=build/fuzz/coverage/$target.profraw
  data=build/fuzz/coverage/$target.profdata
  [ -n "$files" ] || { failed=1; continue; }
  LLVM_PROFILE_FILE=$raw "$folder/fuzz/fuzz_$target" tests/fuzz/corpus/"$target" tests/fuzz/regressions/"$target" \
    "$grown/$target" >build/fuzz/coverage/"$target.log" 2>&1 </dev/null # a folder that is not there is no file either
  "$profdata" merge "$raw" -o "$data" || { failed=1; continue; }
  "$cov" export "$folder/fuzz/fuzz_$target" -instr-profile "$data" >"$data.json" || { failed=1; continue; }
  # $files is a word list
  # shellcheck disable=SC2086
  python3 tests/fuzz/coverage.py "$data.json" "$target" $files >build/fuzz/coverage/"$target" || failed=1
  head -n 1 build/fuzz/coverage/"$target"
  rm -f "$raw" "$data" "$data.json"
done
exit "$failed"
