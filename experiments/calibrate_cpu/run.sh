#!/bin/sh
# Calibrates this machine's CPU and MPI, fits a parameter file to most rows, and reports its error on the others:
# rows, parameters, errors and plots in experiments/calibrate_cpu/out. Takes no options: its
# results are timings, which nothing is compared with. DCPSIM=FILE uses that program and builds nothing.
set -eu
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || {
  echo "usage: sh experiments/calibrate_cpu/run.sh" >&2
  exit 2
}
. experiments/common.sh
experiment_begin calibrate_cpu
mkdir -p "$out/fit" "$out/unseen"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# One thread, as each of two processes on two cores has.
export OPENBLAS_NUM_THREADS=1
"$dcpsim" calibrate run -o "$out/rows" --model tiny-1d --max-tokens 1024 \
  --budget-s "${BUDGET_S:-75}" >"$out/kernels.txt"
mpirun -np 2 --oversubscribe --mca mpi_yield_when_idle 1 "$dcpsim" calibrate run -o "$out/rows" --budget-s 20 \
  >"$out/collectives.txt"

# Of each operation every fourth row from the sixth on is held out. The first rows are the ends of the axes: they stay, so
# that most held-out shapes lie between fitted ones, as the shapes of a model do.
for file in "$out"/rows/*.csv; do
  table=$(basename "$file")
  awk -F, 'NR == 1 || ++n[$1] < 6 || n[$1] % 4 != 2' "$file" >"$out/fit/$table"
  awk -F, 'NR == 1 || (++n[$1] >= 6 && n[$1] % 4 == 2)' "$file" >"$out/unseen/$table"
  [ "$(wc -l <"$out/unseen/$table")" -gt 1 ] || rm "$out/unseen/$table"
done
"$dcpsim" calibrate fit "$out"/fit/*.csv --device cpu -o "$out/cpu.json"
"$dcpsim" calibrate check --params "$out/cpu.json" "$out"/unseen/*.csv >"$out/unseen_all.txt"
# A row whose own median is known to no better than a tenth measured what else ran on this machine: the error is on the
# others; unseen_all.txt has it on all.
for file in "$out"/unseen/*.csv; do
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "confidence_frac") c = i; print; next } $c <= 0.1' "$file" \
    >"$file.sure"
  if [ "$(wc -l <"$file.sure")" -gt 1 ]; then mv "$file.sure" "$file"; else rm "$file" "$file.sure"; fi
done
"$dcpsim" calibrate check --params "$out/cpu.json" "$out"/unseen/*.csv >"$out/unseen.txt"
"$dcpsim" calibrate check --params "$out/cpu.json" "$out"/fit/*.csv >"$out/fitted.txt"
"$dcpsim" calibrate report --params "$out/cpu.json" "$out"/unseen/*.csv -o "$out"

# case,metric,published,simulated,rel_error: nothing is published of this machine; the error is on unseen shapes.
awk 'BEGIN { print "case,metric,published,simulated,rel_error" } /^operation/ { rows = 1; next }
  rows && NF == 6 { print $1 ",median_abs_rel_error,," $3 / 100 ",\n" $1 ",p90_abs_rel_error,," $4 / 100 "," }' \
  "$out/unseen.txt" >"$out/results.csv"
"$dcpsim" simulate --trace wikipedia --model tiny-1d --cluster cpu_2x1 --params "$out/cpu.json" --steps 5 \
  --max-length 2048 >"$out/simulate.txt" 2>&1

cat "$out/kernels.txt" "$out/collectives.txt"
echo
echo 'On the rows that were fitted:'
cat "$out/fitted.txt"
echo
echo 'On all shapes that the fit has not seen:'
cat "$out/unseen_all.txt"
echo
echo 'On those of them whose median is known to a tenth:'
cat "$out/unseen.txt"
experiment_end
