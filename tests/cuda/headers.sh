#!/bin/sh
# headers.sh: the numbers, structs and symbols that kernels/ writes down by hand, as it is built without CUDA's headers,
# against the headers and libraries of a toolkit. Skipped where there is none. CUDA_HOME: where it is.
set -eu
cd "$(dirname "$0")/../.."
cuda=${CUDA_HOME:-/usr/local/cuda}
checked=
# compile FILE HEADER CONDITION...: FILE of kernels/ with the real header beside it, where the conditions must hold
compile() {
  if [ ! -f "$cuda/include/$2" ]; then
    echo "skipped: no $cuda/include/$2"
    return
  fi
  {
    echo "#include <stddef.h>"
    echo "#include <$2>"
    echo "#include \"kernels/$1\""
    shift 2
    printf '_Static_assert(%s, "");\n' "$@"
  } | ${CC:-cc} -std=gnu17 -w -fsyntax-only -I. -I"$cuda/include" -x c -
  checked="$checked $1"
}
compile cuda_driver.h cuda.h 'CUDA_OUT_OF_MEMORY == CUDA_ERROR_OUT_OF_MEMORY' 'CUDA_NO_DEVICE == CUDA_ERROR_NO_DEVICE' \
  'CUDA_CAPABILITY_MAJOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR' \
  'CUDA_CAPABILITY_MINOR == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR' \
  'CUDA_FUNCTION_MAX_SHARED_BYTES == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES' \
  'CUDA_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING' 'sizeof(CUdeviceptr) == sizeof(void *)' 'sizeof(CUdevice) == sizeof(int)'
real=cublasLtMatmulHeuristicResult_t
compile cublaslt.c cublasLt.h 'COMPUTE_32F == CUBLAS_COMPUTE_32F' 'TYPE_32F == CUDA_R_32F' 'TYPE_16BF == CUDA_R_16BF' \
  'OP_N == CUBLAS_OP_N' 'OP_T == CUBLAS_OP_T' 'DESC_TRANS_A == CUBLASLT_MATMUL_DESC_TRANSA' \
  'DESC_TRANS_B == CUBLASLT_MATMUL_DESC_TRANSB' 'DESC_EPILOGUE == CUBLASLT_MATMUL_DESC_EPILOGUE' \
  'DESC_BIAS_POINTER == CUBLASLT_MATMUL_DESC_BIAS_POINTER' 'EPILOGUE_BIAS == CUBLASLT_EPILOGUE_BIAS' \
  'PREFERENCE_WORKSPACE == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES' \
  'PREFERENCE_REDUCTIONS == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK' \
  'REDUCTION_COMPUTE_TYPE == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE' \
  'PREFERENCE_ALIGNMENT_A == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES' \
  'PREFERENCE_ALIGNMENT_A + 3 == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES' \
  "sizeof(struct heuristic) == sizeof($real)" 'sizeof(cublasLtMatmulAlgo_t) == 64' \
  "offsetof(struct heuristic, workspace_bytes) == offsetof($real, workspaceSize)" \
  "offsetof(struct heuristic, status) == offsetof($real, state)"
compile communicator_nccl.c nccl.h 'NCCL_FLOAT32 == ncclFloat32' 'NCCL_BFLOAT16 == ncclBfloat16' 'NCCL_SUM == ncclSum' \
  'sizeof(struct nccl_id) == sizeof(ncclUniqueId)'
# symbols FILE LIBRARY: all of FILE's are among those that the library exports
symbols() {
  [ -f "$2" ] || return 0
  exported=$(nm -D --defined-only "$2" | awk '{print $3}' | sed 's/@.*//')
  for symbol in $(grep -o '^  X([A-Za-z]*[A-Za-z0-9_]*' "$1" | cut -c 5-); do
    echo "$exported" | grep -qx "$symbol" || {
      echo "$2 has no $symbol"
      exit 1
    }
  done
  checked="$checked $(basename "$2")"
}
symbols kernels/cuda_driver.h "$cuda/lib64/stubs/libcuda.so"
symbols kernels/cublaslt.c "$cuda/lib64/libcublasLt.so.13"
symbols kernels/communicator_nccl.c "$cuda/lib64/libnccl.so.2"
[ -z "$checked" ] || echo "as in the toolkit:$checked"
