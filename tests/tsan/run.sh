#!/bin/sh
# run.sh: builds the simulator with ThreadSanitizer, in a folder of its own and without MPI (which is not instrumented),
# and runs what uses threads. Any report fails.
set -u
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S . -B build/tsan -DCMAKE_C_COMPILER="${CC:-gcc}" -DCMAKE_BUILD_TYPE=Debug -DDCPSIM_SANITIZE=thread \
  -DDCPSIM_MPI=OFF -DDCPSIM_CUDA=OFF -DBUILD_TESTING=ON >/dev/null &&
  cmake --build build/tsan --target check_threads -j "$(nproc)" || exit 1
# Without random addresses: the sanitizer of older compilers does not know the layouts of newer kernels.
TSAN_OPTIONS="halt_on_error=0 exitcode=66 log_path=$work/report" setarch -R build/tsan/tests/check_threads "$work"
status=$?
cat "$work"/report* 2>/dev/null
exit "$status"
