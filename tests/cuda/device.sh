#!/bin/sh
# device.sh: the CUDA device from operator calls to results without a GPU: its host code on the driver and cuBLASLt of
# tests/fake, its kernels on the CPU by tests/cuda_shim.
set -eu
cd "$(dirname "$0")/../.."
tests=$(dirname "$DCPSIM")/tests
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if ! [ -e tests/cuda_shim/shim.h ]; then
  echo "built without CUDA kernels: nothing to check"
  exit 0
fi
flags="-std=c++17 -O2 -fPIC -I. -include tests/cuda_shim/shim.h -Wno-unknown-pragmas"
for source in kernels/*.cu tests/cuda_shim/shim.cc tests/fake/shim_kernels.cc; do
  # shellcheck disable=SC2086 # flags are a word list
  ${CXX:-g++} $flags -x c++ -c "$source" -o "$dir/$(basename "$source").o"
done
${CXX:-g++} -shared "$dir"/*.o -o "$dir/kernels.so"
LD_LIBRARY_PATH="$tests/fake" FAKE_CUDA_KERNELS="$dir/kernels.so" "$tests/check_cuda_device"
