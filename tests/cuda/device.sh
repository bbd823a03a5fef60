#!/bin/sh
# device.sh: the CUDA device from operator calls to results. Without a GPU: its host code on the driver and cuBLASLt of
# tests/fake, its kernels on the CPU by tests/cuda_shim. With a GPU: the same program on the real driver.
set -eu
cd "$(dirname "$0")/../.."
tests=$(dirname "$DCPSIM")/tests
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export dir flags="-std=c++17 -O2 -fPIC -I. -include tests/cuda_shim/shim.h -Wno-unknown-pragmas"
# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\n' kernels/*.cu tests/cuda_shim/shim.cc tests/fake/shim_kernels.cc |
  xargs -P "$(nproc 2>/dev/null || echo 2)" -I{} sh -c '${CXX:-g++} $flags -x c++ -c {} -o "$dir/$(basename {}).o"'
${CXX:-g++} -shared "$dir"/*.o -o "$dir/kernels.so"
fake() {
  env LD_LIBRARY_PATH="$tests/fake" FAKE_CUDA_KERNELS="$dir/kernels.so" "$@"
}
fake "$tests/verify"
# Kernels that do nothing must be found out: all but the two operators that have none.
echo 'const char *fake_cuda_run(void); const char *fake_cuda_run(void) { return 0; }' |
  ${CC:-cc} -x c -shared -fPIC -o "$dir/nothing.so" -
if fake FAKE_CUDA_KERNELS="$dir/nothing.so" "$tests/verify" >"$dir/nothing" || grep ': right$' "$dir/nothing" |
  grep -v '^gemm \|^clear '; then
  echo "kernels that do nothing were not found out"
  exit 1
fi
tail -1 "$dir/nothing"
rc=0
"$tests/verify" || rc=$?
[ "$rc" -eq 0 ] || [ "$rc" -eq 77 ]
