#!/bin/sh
# The DCP blog's figures on 32 H100, published and simulated side by side: throughput of four policies on three mixes,
# imbalance at 8, 16 and 32 GPUs, best SP and gain of adaptive recomputation per bucket, throughput against SP. One
# to four minutes on two cores after the build. Writes results.csv and plots to experiments/dcp_h100_blog/out.
#   --short   recompute only the Apex predictions of imbalance at 8 GPUs and of the profile (best SP, recomputation,
#             SP curve) and compare them with the committed results.csv: a few seconds, exit code 1 on a difference
set -eu
cd "$(dirname "$0")/../.."
here=experiments/dcp_h100_blog
out=$here/out
short=no
case "${1:-}" in
'') ;;
--short) short=yes ;;
*)
  echo "usage: $0 [--short]" >&2
  exit 2
  ;;
esac
dcpsim=${DCPSIM:-build/release/dcpsim}
if [ -z "${DCPSIM:-}" ]; then
  . tests/packages.sh
  packages_install core
  if command -v ninja >/dev/null 2>&1; then
    export CMAKE_GENERATOR=Ninja
  fi
  mkdir -p build
  { cmake --preset release -DDCPSIM_WERROR=OFF && cmake --build --preset release -j "$(nproc)" --target dcpsim; } \
    >build/dcp_h100_blog.log 2>&1 || {
    tail -n 20 build/dcp_h100_blog.log >&2
    exit 1
  }
fi
rm -rf "$out"
mkdir -p "$out"

policies="bucket dcp_rebalance dcp_inter dcp"
# As published: STDiT3-XL/2, ZeRO-1, SP by switching dimensions, bucket at SP 4, 0.70 of the memory, remainders dropped,
# buckets picked, memory counted and profiles searched as the published code does.
model="--model stdit3-xl-2 --zero 1 --sp-kind dsp --sp 4 --memory-cap-frac 0.70 --drop-last --pick published
  --memory-rule published --search published --round-gib"

# generate OFFSET SIZE IMAGE_FRACTION SEED: the published generator's buckets, in the seed's order
generate() {
  $dcpsim trace generate "zipf_video:offset=$1,size=$2,image_frac=$3" -n 1 --seed "$4" -o "$out/trace.csv" >/dev/null
}

# simulate CASE NODES SEED POLICIES PARAMS FRAMEWORK: on $out/trace.csv, a line per policy:
# "CASE SEED POLICY seconds imbalance steps tokens elements first-iteration samples"
simulate() {
  list=$(echo "$4" | tr ' ' ,)
  # shellcheck disable=SC2086
  $dcpsim simulate --trace "$out/trace.csv" --cluster "h100_8x$2" --seed "$3" --policy "$list" --params "$5" \
    --framework "$6" $model --draws 0 --csv "$out/run.csv" --schedule "$out/{policy}.jsonl" --json \
    >/dev/null 2>>"$out/warnings.txt"
  for policy in $4; do
    echo "$1 $3 $policy $(awk -F, -v policy="$policy" '
      NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
      $1 == policy { print $column["time_s"], $column["imbalance_frac"], $column["steps"], $column["tokens"] }' \
      "$out/run.csv") $(awk -f $here/schedule.awk "$out/$policy.jsonl")"
  done
}

# study CASE OFFSET SIZE IMAGE_FRACTION NODES SEEDS POLICIES PARAMS FRAMEWORK
study() {
  seed=0
  while [ "$seed" -lt "$6" ]; do
    generate "$2" "$3" "$4" "$seed"
    simulate "$1" "$5" "$seed" "$7" "$8" "$9"
    seed=$((seed + 1))
  done
}

# profile CASE POLICY PARAMS FRAMEWORK: bucket times that the policy plans with: "CASE POLICY bucket best_sp sp batch
# seconds", a line per SP degree
profile() {
  # shellcheck disable=SC2086
  $dcpsim plan --trace "$out/trace.csv" --cluster h100_8x4 --policy "$2" --params "$3" --framework "$4" $model \
    --steps 1 --save-profile "$out/profile.json" >/dev/null 2>>"$out/warnings.txt"
  awk -v name="$1 $2" -f $here/profile.awk "$out/profile.json"
}

profiles() {
  generate 15 4000 1 0
  profile "$1" dcp_inter "$2" "$1"
  profile "$1" dcp "$2" "$1"
}

long="15 4000 1"
if [ $short = yes ]; then
  # shellcheck disable=SC2086
  study eager_apex_gpus_8 $long 1 8 "$policies" h100_sxm eager_apex >"$out/runs.txt"
  profiles eager_apex h100_sxm >"$out/profiles.txt"
  awk -f $here/results.awk $here/published.csv "$out/profiles.txt" "$out/runs.txt" >"$out/results.csv"
  awk -f $here/compare.awk $here/results.csv "$out/results.csv"
  exit
fi

# 1. The mixes. Which numbers the published "short", "balanced" and "long" stand for is unknown. Fitted: to the ratios of
# bucket's three published throughputs alone, with Apex, over this grid. Nothing else is fitted.
for offset in 2 5 10 15 30; do
  for fraction in 1 5 20 50; do
    study "$offset/4000/$fraction" $offset 4000 $fraction 4 4 bucket h100_sxm eager_apex
  done
done >"$out/grid.txt"
awk -f $here/mixes.awk $here/published.csv "$out/grid.txt" >"$out/mixes.txt"

# 2. The tables, under both frameworks that may have run, then (eager_apex) every constant at the ends of its range.
# end NAME CONTIGUOUS BROADCAST PERMUTE REDUCTION MIXED COPY DERATE: bytes per second by class, of the captions' way to
# the GPU, and the compute derate (its declared error is 6 %).
end() {
  sed -e "/\"contiguous\": {/,/bytes_per_s/ s/\"bytes_per_s\": [^,]*/\"bytes_per_s\": $2/" \
    -e "/\"broadcast\": {/,/bytes_per_s/ s/\"bytes_per_s\": [^,]*/\"bytes_per_s\": $3/" \
    -e "/\"permute\": {/,/bytes_per_s/ s/\"bytes_per_s\": [^,]*/\"bytes_per_s\": $4/" \
    -e "/\"reduction\": {/,/bytes_per_s/ s/\"bytes_per_s\": [^,]*/\"bytes_per_s\": $5/" \
    -e "/\"mixed\": {/,/bytes_per_s/ s/\"bytes_per_s\": [^,]*/\"bytes_per_s\": $6/" \
    -e "s/\"copy_bytes_per_s\": [^,]*/\"copy_bytes_per_s\": $7/" \
    -e "/\"eager\": {/,/host_op_s/ s/\"compute_derate\": [^,]*/\"compute_derate\": $8/" \
    -e "/\"eager_apex\": {/,/host_op_s/ s/\"compute_derate\": [^,]*/\"compute_derate\": $8/" \
    calib/params/h100_sxm.json >"$out/$1.json"
}
end slow 2.0e12 1.0e12 0.6e12 0.7e12 0.4e12 1.64e9 1.16
end fast 2.9e12 2.3e12 2.3e12 2.0e12 0.8e12 4.9e9 1.03

while read -r mix offset size fraction; do
  for framework in eager_apex eager; do
    study "${framework}_$mix" "$offset" "$size" "$fraction" 4 8 "$policies" h100_sxm $framework
  done
  study "slow_$mix" "$offset" "$size" "$fraction" 4 8 "$policies" "$out/slow.json" eager
  study "fast_$mix" "$offset" "$size" "$fraction" 4 8 "$policies" "$out/fast.json" eager_apex
done <"$out/mixes.txt" >"$out/runs.txt"
for framework in eager_apex eager; do
  for nodes in 1 2 4; do
    # shellcheck disable=SC2086
    study "${framework}_gpus_$((8 * nodes))" $long $nodes 8 "$policies" h100_sxm $framework
  done
  profiles $framework h100_sxm >>"$out/profiles.txt"
done >>"$out/runs.txt"
awk -f $here/results.awk $here/published.csv "$out/profiles.txt" "$out/runs.txt" >"$out/results.csv"
rm -f "$out"/*.jsonl "$out/trace.csv" "$out/run.csv" "$out/profile.json"

awk -F, '$2 ~ /^(mega_elements|speedup|imbalance)/ && $2 !~ /_sd\./ && $1 ~ /^eager/ { printf "%-22s %-34s %8s %8.4g %8s\n", $1, $2, $3, $4, $5 }
  $1 ~ /summary/ { printf "%-22s %-34s %8s %8.4g\n", $1, $2, $3, $4 }' "$out/results.csv"
if command -v gnuplot >/dev/null 2>&1; then
  awk -v out="$out" -f $here/plots.awk "$out/results.csv"
  for type in svg png; do
    gnuplot -e "out='$out'; type='$type'" $here/plots.gp
  done
fi
