#!/bin/sh
# kernels.sh: runs the CUDA kernels on the CPU (tests/cuda_shim/shim.h) against double references: plain, and the short
# cases again with AddressSanitizer and UndefinedBehaviorSanitizer. Needs g++; no CUDA toolkit, no GPU.
# kernels.sh all: attention in every combination of head dims, masks and dropped barriers, about twice as long.
set -eu
cd "$(dirname "$0")/../.."
out=build/cuda_shim
jobs=$(nproc 2>/dev/null || echo 2)
rm -rf "$out"

# programs FOLDER FLAGS: compiles and links the three test programs.
programs() {
  folder=$out/$1
  mkdir -p "$folder"
  export folder
  export flags="-std=c++17 -I. -include tests/cuda_shim/shim.h -Wall -Wextra -Werror -Wno-unknown-pragmas $2"
  # shellcheck disable=SC2016 # expanded by the inner shell
  printf '%s\n' kernels/*.cu tests/cuda/*.cc tests/cuda_shim/*.cc | xargs -P "$jobs" -I{} sh -c \
    '${CXX:-g++} $flags -x c++ -c {} -o "$folder/$(basename {}).o"'
  for test in attention operators shim; do
    # shellcheck disable=SC2086 # flags are a word list
    ${CXX:-g++} $flags "$folder"/*.cu.o "$folder/shim.cc.o" "$folder/kernel_test.cc.o" "$folder/test_$test.cc.o" \
      -o "$folder/test_$test"
  done
}

programs plain -O2
programs sanitized '-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'
"$out/plain/test_shim"
"$out/plain/test_operators" &
operators=$!
"$out/sanitized/test_operators" short &
sanitized_operators=$!
"$out/plain/test_attention" "$@" &
attention=$!
"$out/sanitized/test_attention" short
wait $operators
wait $sanitized_operators
wait $attention
"$out/sanitized/test_shim"
if "$out/sanitized/test_shim" overrun 2>"$out/overrun.log" || ! grep -q 'heap-buffer-overflow' "$out/overrun.log"; then
  echo "a write beyond shared memory was not reported"
  exit 1
fi
echo "a write beyond shared memory is reported"
