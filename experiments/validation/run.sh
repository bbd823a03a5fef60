#!/bin/sh
# Predicted against published training runs: predicts every row of calib/data/training_*.csv, and writes tables, CSVs and the
# scatter plot to experiments/validation/out. With --docs the tables and the figure of docs/VALIDATION.md are replaced by
# today's, too. --short is all rows: they take seconds.
set -eu
cd "$(dirname "$0")/../.."
. experiments/common.sh
experiment_begin validation "$@"
rows="calib/data/training_throughput.csv calib/data/training_memory.csv"

# shellcheck disable=SC2086
{
  "$dcpsim" calibrate check --training $rows --csv "$out/training.csv" >"$out/training.txt"
  "$dcpsim" calibrate check --training $rows --json >"$out/training.json"
}
"$dcpsim" calibrate fit-training calib/data/training_throughput.csv >"$out/fit.txt"
for device in h200_sxm h100_sxm; do # the rows of single operations that are furthest off
  "$dcpsim" calibrate check --params $device --worst 10 calib/data/$device/*.csv | sed '1,/^furthest off/d' \
    >"$out/rows_$device.txt"
done

# case,metric,published,simulated,rel_error of every row that has something to compare
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; print "case,metric,published,simulated,rel_error"; next }
  $c["predicted_step_s"] != "" {
    print $c["id"] ",tokens_per_s_per_gpu," $c["measured_tokens_per_s_per_gpu"] "," $c["predicted_tokens_per_s_per_gpu"] "," \
      sprintf("%.4f", $c["predicted_tokens_per_s_per_gpu"] / $c["measured_tokens_per_s_per_gpu"] - 1) }
  $c["predicted_memory_gib"] != "" {
    print $c["id"] ",peak_memory_gib," $c["measured_memory_gib"] "," $c["predicted_memory_gib"] "," \
      sprintf("%.4f", $c["memory_rel_error"]) }' "$out/training.csv" >"$out/results.csv"

# The ten rows that are furthest off, and why a row is not predicted, by reason.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
  $c["predicted_step_s"] != "" { e = $c["rel_error"]; printf "%8.4f %-6s %-13.13s %4d GPUs %-6s zero %d sp %d, %3d x %6d, %2d micro-batches: measured %9.4f s, predicted %9.4f s, %+6.1f %%\n", \
    (e < 0 ? -e : e), $c["id"], $c["model"], $c["gpus"], $c["framework"], $c["zero"], $c["sp"], $c["batch"], $c["seqlen"], \
    $c["micro_batches"], $c["measured_step_s"], $c["predicted_step_s"], 100 * e }' "$out/training.csv" |
  sort -k1,1nr | head -n 10 | cut -c10- >"$out/worst.txt"

# One block per repository for gnuplot: measured, predicted; H200 rows and another H100 are validation only.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
  $c["predicted_step_s"] != "" {
    name = $c["source"]; sub(/[ @].*/, "", name)
    if (!(name in rows)) order[++n] = name
    rows[name] = rows[name] $c["measured_tokens_per_s_per_gpu"] " " $c["predicted_tokens_per_s_per_gpu"] "\n" }
  END { for (i = 1; i <= n; i++) printf "%s\"%s\"\n%s", (i > 1 ? "\n\n" : ""), order[i], rows[order[i]] }' \
  "$out/training.csv" >"$out/scatter.dat"
for type in svg png; do
  gnuplot -e "type='$type'; data='$out/scatter.dat'" "$here/scatter.gp" >"$out/scatter.$type"
done

section() { sed -n "/^$1/,/^\$/p" "$out/training.txt" | sed '/^$/d'; }
section 'step time' >"$out/groups.txt"
section 'peak memory' >"$out/memory.txt"
section 'not predicted' | sed 1d | cut -c23- | sort | uniq -c >"$out/left_out.txt"
cat "$out/groups.txt"
echo
cat "$out/memory.txt"
echo
cat "$out/fit.txt"

if [ $docs = yes ]; then
  cp "$out/scatter.svg" docs/figures/validation.svg
  experiment_tables docs/VALIDATION.md
fi
experiment_end
