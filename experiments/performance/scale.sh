#!/bin/sh
# How processor time and memory grow: of one step with GPUs, SP groups, layers and micro-batches, of the first step of every
# policy with GPUs, of whole runs with samples. Writes results.csv, scale.txt (a line per curve, with fitted exponents) and
# plots to experiments/performance/out. Memory is checked against bounds; seconds are only told. --short: small cases.
set -eu
cd "$(dirname "$0")/../.."
. experiments/common.sh
experiment_begin performance "$@"
root=$PWD
specs=$root/$here
. tests/packages.sh
packages_install core test
cd "$out"
python3 "$specs/scale.py" "$dcpsim" $short
cat scale.txt
for type in svg png; do
  gnuplot -e "plot_file='scale.$type'; terminal_type='$type'" "$specs/scale.gp"
done
rm -f samples_*.txt even.txt uneven.txt layers_*.json
cd "$root"
[ $docs = no ] || cp "$out/scale.svg" docs/figures/scale.svg
experiment_end
