#!/bin/sh
# Calibrates this machine's CPU, predicts three schedules of a tiny model, plays them on two ranks and compares: about a
# minute and a half after the build. Timelines, tables and plots in experiments/execute_cpu/out.
set -eu
cd "$(dirname "$0")/../.."
. experiments/common.sh
experiment_begin execute_cpu "$@"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1
ranks="mpirun -np 2 --oversubscribe --mca mpi_yield_when_idle 1"
policies="bucket packed dcp"

"$dcpsim" calibrate run -o "$out/rows" --model tiny-1d --max-tokens 2048 --budget-s "${BUDGET_S:-30}" >"$out/calibrate.txt"
$ranks "$dcpsim" calibrate run -o "$out/rows" --budget-s 10 >>"$out/calibrate.txt"
"$dcpsim" calibrate fit "$out"/rows/*.csv --device cpu -o "$out/cpu.json"

"$dcpsim" trace generate lognormal:mean=300,sigma=1,min=16,max=2000 -n 200 --seed 1 -o "$out/lengths.txt"
"$dcpsim" simulate --trace "$out/lengths.txt" --model tiny-1d --cluster cpu_2x1 --params "$out/cpu.json" --batch 8 \
  --pack-tokens 2048 --tokens-per-step 8192 --policy "$(echo "$policies" | tr ' ' ,)" --draws 0 \
  --schedule "$out/{policy}.jsonl" --timeline "$out/{policy}.simulated.json" >"$out/simulate.txt" 2>"$out/warnings.txt"

for policy in $policies; do
  echo
  "$dcpsim" check "$out/$policy.jsonl"
  $ranks "$dcpsim" execute "$out/$policy.jsonl" --device cpu --csv "$out/$policy.csv" \
    --timeline "$out/$policy.measured.json" >"$out/$policy.txt"
  head -n 3 "$out/$policy.txt"
  "$dcpsim" plot timeline "$out/$policy.simulated.json" "$out/$policy.measured.json" -o "$out/$policy.svg"
  "$dcpsim" plot timeline "$out/$policy.simulated.json" "$out/$policy.measured.json" -o "$out/$policy.png"
done
echo
$ranks "$dcpsim" execute "$out/dcp.jsonl" --device cpu --verify --steps 2 | tail -n 1

# This machine's speed drifts by tens of percent within seconds. The first iteration as a probe of its speed: the error of
# the others after dividing by the first one's measured over predicted time.
for policy in $policies; do
  awk -F, -v policy="$policy" 'NR == 2 { probe = $3 / $2 }
    NR > 1 { e = $3 / $2 - 1; sum += e < 0 ? -e : e; n++ }
    NR > 2 { e = $3 / $2 / probe - 1; after += e < 0 ? -e : e; m++ }
    END { print policy ",mean_abs_rel_error,," sum / n ","; if (m) print policy ",mean_abs_rel_error_after_probe,," after / m "," }' \
    "$out/$policy.csv"
done >"$out/rows.txt"
{ echo case,metric,published,simulated,rel_error && cat "$out/rows.txt"; } >"$out/results.csv"
echo
column -s, -t "$out/results.csv" 2>/dev/null || cat "$out/results.csv"
experiment_end
