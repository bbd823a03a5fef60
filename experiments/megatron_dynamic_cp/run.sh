#!/bin/sh
# NVIDIA's published benchmark of dynamic context parallelism, simulated: Megatron-Core's dp_balanced against its dynamic
# CP on lognormal lengths, 4 to 64 GPUs, 20 seeds. Writes results.csv and plots to experiments/megatron_dynamic_cp/out.
# --short: 4 to 16 GPUs, as calibrated.
set -eu
cd "$(dirname "$0")/../.."
. experiments/common.sh
experiment_begin megatron_dynamic_cp "$@"

seeds=20
nodes_list="1 2 4 8 16"
[ $short = no ] || nodes_list="1 2 4"
policies="megatron_dp_balanced megatron_dynamic_cp_early megatron_dynamic_cp"
# The benchmark's script: TP 1, CP 4, 8 x DP samples a step, 2048 tokens per rank, neither distributed optimizer nor
# recomputation, gradients reduced in fp32, loss per token; 20 timed iterations.
options="--model megatron-dcp-12l --policy $(echo "$policies" | tr ' ' ,) --sp 4 --sp-kind ring --rank-tokens 2048
  --draws 0 --steps 20 --no-shuffle --zero 0 --recompute none --grad-dtype fp32 --weighting per_token"

# study CASE PARAMS: a line "CASE GPUS SEED POLICY milliseconds micro-batches tokens work" per run.
study() {
  for nodes in $nodes_list; do
    seed=1
    while [ "$seed" -le $seeds ]; do
      "$dcpsim" trace generate lognormal:mean=1024,sigma=1.5,min=128,max=8192 -n $((20 * 8 * nodes)) --seed $seed \
        -o "$out/lengths.txt" >/dev/null
      # shellcheck disable=SC2086
      "$dcpsim" simulate --trace "$out/lengths.txt" --cluster h100_4x$nodes --params "$2" $options \
        --global-batch $((8 * nodes)) --schedule "$out/{policy}.jsonl" --json >/dev/null
      for policy in $policies; do
        numbers=$(awk -f $here/step.awk "$out/$policy.jsonl")
        echo "$1 $((4 * nodes)) $seed $policy $numbers"
      done
      seed=$((seed + 1))
    done
  done
}

# What if the host needed longer to issue one operation? Not a fit: round numbers.
host_params() {
  sed "/\"fused\"/,/host_op_s/ s/\"host_op_s\": [^,]*/\"host_op_s\": $2/" calib/params/h100_sxm.json >"$1"
}
host_params "$out/host_100us.json" 1e-4
host_params "$out/host_200us.json" 2e-4
{
  study as_calibrated h100_sxm
  if [ $short = no ]; then
    study host_100us "$out/host_100us.json"
    study host_200us "$out/host_200us.json"
  fi
} >"$out/runs.txt"
awk -f $here/results.awk $here/published.csv "$out/runs.txt" >"$out/results.csv"
rm -f "$out"/*.jsonl "$out/lengths.txt"

awk -F, '$2 ~ /^(speedup\.|step_time)/ { printf "%-24s %-40s %9s %9s %8s\n", $1, $2, $3, $4, $5 }' "$out/results.csv"
if [ $short = no ] && command -v gnuplot >/dev/null 2>&1; then
  for type in svg png; do
    gnuplot -e "results='$out/results.csv'; plot_file='$out/speedup.$type'; terminal_type='$type'" $here/speedup.gp
  done
fi
experiment_end
