#!/bin/sh
# run.sh: installs what is missing, builds four times (gcc, clang, clang without optimisation, gcc with sanitizers) and runs
# every test that needs no GPU. One line per step; logs in build/logs. Last line: 'N passed, N failed'; exit 1 if any failed.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/packages.sh
packages_install core test || exit 1

unset DCPSIM_SHARE CC CFLAGS LDFLAGS
export LC_ALL=C
if command -v ninja >/dev/null 2>&1; then
  export CMAKE_GENERATOR=Ninja
fi
jobs=$(nproc 2>/dev/null || echo 2)
logs=$PWD/build/logs
rm -rf "$logs"
mkdir -p "$logs"
passed=0
failed=0
started=$(date +%s)

# report STATUS NAME SECONDS [NOTE]
report() {
  printf '%-4s  %-46s %4d s%s\n' "$1" "$2" "$3" "${4:+  $4}"
}

# step NAME COMMAND...: one check with its own log; prints the end of the log when it fails.
step() {
  name=$1
  shift
  log=$logs/$(printf '%s' "$name" | tr -c 'A-Za-z0-9\n' '_').log
  begin=$(date +%s)
  if "$@" >"$log" 2>&1 </dev/null; then
    passed=$((passed + 1))
    report ok "$name" $(($(date +%s) - begin))
    return 0
  fi
  failed=$((failed + 1))
  report FAIL "$name" $(($(date +%s) - begin)) "$log"
  tail -n 25 "$log" | sed 's/^/      | /'
  return 1
}

# build FOLDER CMAKE_ARGUMENTS...
build() {
  folder=$1
  shift
  cmake -S . -B "build/$folder" -DBUILD_TESTING=ON -DDCPSIM_WERROR=ON "$@" && cmake --build "build/$folder" -j "$jobs"
}

# Only one release of clang-format gives these exact line breaks; another would report differences that are none.
format_version=14
check_format() {
  find sim models traces kernels calib tests -regex '.*\.\([ch]\|cuh?\|cc\)' -print0 | xargs -0 clang-format --dry-run -Werror
}

# One Criterion program. Criterion reports success in spite of leaks and when nothing ran: so a sanitizer's log file
# counts as a failure, as do a missing closing line, a crash and zero tests.
criterion_one() {
  program=$1
  log=$2
  ASAN_OPTIONS=log_path=$log.sanitizer:detect_leaks=1 \
    UBSAN_OPTIONS=log_path=$log.sanitizer:print_stacktrace=1 timeout 600 "$program" >"$log" 2>&1 </dev/null
  status=$?
  line=$(grep -o 'Tested: [0-9]* | Passing: [0-9]* | Failing: [0-9]* | Crashing: [0-9]*' "$log" | tail -n 1)
  # shellcheck disable=SC2046
  set -- $(printf '%s' "${line:-0 0 0 0}" | tr -c '0-9\n' ' ')
  good=$2
  bad=$(($3 + $4))
  if [ "$1" -eq 0 ]; then
    bad=$((bad + 1))
    echo "no test ran (exit status $status)" >>"$log"
  elif [ "$bad" -eq 0 ] && [ "$status" -ne 0 ]; then
    bad=1
    echo "exit status $status" >>"$log"
  fi
  if ls "$log".sanitizer* >/dev/null 2>&1; then
    [ "$bad" -gt 0 ] || bad=1
    head -n 20 "$log".sanitizer* >>"$log"
  fi
  passed=$((passed + good))
  failed=$((failed + bad))
  ran=$((ran + good + bad))
  if [ "$bad" -gt 0 ]; then
    bad_programs="$bad_programs $(basename "$program")"
    printf '      %s\n' "$(basename "$program"): $bad failed, $log"
    tail -n 15 "$log" | sed 's/^/      | /'
  fi
}

# criterion_all FOLDER: every unit and property test of one build.
criterion_all() {
  begin=$(date +%s)
  ran=0
  bad_programs=
  mkdir -p "$logs/$1"
  for source in tests/unit/test_*.c tests/property/test_*.c; do
    [ -f "$source" ] || continue
    program=$(basename "$source" .c)
    criterion_one "build/$1/tests/$program" "$logs/$1/$program.log"
  done
  word=ok
  [ -z "$bad_programs" ] || word=FAIL
  report "$word" "unit and property tests, $1" $(($(date +%s) - begin)) "$ran tests$bad_programs"
}

# scripts FOLDER: each tests/FOLDER/*.sh with DCPSIM = the program; exit 0 is a pass.
scripts() {
  for script in tests/"$1"/*.sh; do
    [ -f "$script" ] || continue
    DCPSIM=$PWD/build/release/dcpsim step "$1/$(basename "$script" .sh)" timeout 600 sh "$script"
  done
}

step 'include rules' python3 tests/check_includes.py
step 'include rules: planted violations' python3 tests/check_includes.py --self-test
if clang-format --version | grep -q "version $format_version\."; then
  step 'format' check_format
else
  report skip 'format' 0 "needs clang-format $format_version"
fi
step 'build: gcc, release' build release -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release
step 'build: clang, release' build clang -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release -DDCPSIM_CUDA=OFF
step 'build: gcc, debug, sanitizers' build asan -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug \
  -DDCPSIM_SANITIZE=address,undefined -DDCPSIM_CUDA=OFF
step 'build: clang, debug' build debug -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DDCPSIM_CUDA=OFF -DBUILD_TESTING=OFF
criterion_all release
criterion_all asan
scripts cli
scripts mpi
scripts invalid
scripts golden
scripts execute
scripts cuda
scripts install
scripts tsan
if [ -f tests/determinism.sh ]; then
  step 'determinism: gcc, clang, debug, sanitizers' timeout 900 sh tests/determinism.sh "$PWD/build/release/dcpsim" \
    "$PWD/build/clang/dcpsim" "$PWD/build/debug/dcpsim" "$PWD/build/asan/dcpsim"
fi
step 'fuzz targets, 2 s each' timeout 900 sh tests/fuzz/run.sh
step 'experiments, short, against their results.csv' env DCPSIM="$PWD/build/release/dcpsim" timeout 900 sh tests/experiments.sh

echo "total $(($(date +%s) - started)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
