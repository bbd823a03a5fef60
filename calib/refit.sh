#!/bin/sh
# refit.sh: makes calib/params/h200_sxm.json and h100_sxm.json again from calib/data: the same bytes on one machine and
# compiler. DCPSIM: the program (default build/release/dcpsim); an argument: a folder to write to instead.
set -eu
cd "$(dirname "$0")/.."
dcpsim=${DCPSIM:-build/release/dcpsim}
out=${1:-calib/params}

# fit GPU SIBLING: rows of the sibling tell which gemm kernel is picked, and how collectives bend, where GPU has no row.
fit() {
  "$dcpsim" calibrate fit "calib/data/$1/gemm_bf16.csv" "calib/data/$1/attention_causal_fwd_bf16.csv" \
    "calib/data/$1/attention_full_fwd_bf16.csv" "calib/data/$1/nccl_intranode.csv" calib/data/nccl_internode.csv \
    calib/data/attention_pairs.csv --sibling "calib/data/$2/gemm_bf16.csv" --sibling "calib/data/$2/nccl_intranode.csv" \
    --device "$1" -o "$out/$1.json"
}

fit h200_sxm h100_sxm
fit h100_sxm h200_sxm

# Last, with all kernels fitted: how much slower they run inside a step, by framework class.
"$dcpsim" calibrate fit-training calib/data/training_throughput.csv --params "$out/h100_sxm.json" \
  --write "$out/h100_sxm.json" --write "$out/h200_sxm.json"
