#!/bin/sh
# Calibrates this machine's CPU, predicts three schedules of a tiny model, plays them on two and on four ranks and compares:
# measures for 45 s at most, then plays. Timelines, tables and plots in experiments/execute_cpu/out. Takes no options: its
# results are timings, which nothing is compared with. DCPSIM=FILE uses that program and builds nothing.
set -eu
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || {
  echo "usage: sh experiments/execute_cpu/run.sh" >&2
  exit 2
}
. experiments/common.sh
experiment_begin execute_cpu
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
policies="bucket packed dcp"

# on RANKS ARGUMENTS...: dcpsim under mpirun
on() {
  ranks=$1
  shift
  mpirun -np "$ranks" --oversubscribe --mca mpi_yield_when_idle 1 "$dcpsim" "$@"
}

# Kernels one at a time, each on a core of its own: that is what is predicted, also for ranks that share a core. Collectives
# among as many processes as will play.
budget_s=${BUDGET_S:-30} # more on a busy machine, where few shapes fit into it
"$dcpsim" calibrate run -o "$out/rows" --model tiny-1d --max-tokens 2048 --budget-s "$budget_s" >"$out/calibrate.txt"
for ranks in 2 4; do
  on $ranks calibrate run -o "$out/rows" --budget-s $((budget_s / 4)) >>"$out/calibrate.txt"
done
"$dcpsim" calibrate fit "$out"/rows/*.csv --device cpu -o "$out/cpu.json"
"$dcpsim" trace generate lognormal:mean=300,sigma=1,min=16,max=2000 -n 200 --seed 1 -o "$out/lengths.txt"

# What the machine does in an iteration beside what was predicted: measured / predicted over all iterations; the error of an
# iteration; and, as the speed of a shared machine drifts by tens of percent within seconds, the error of the others with
# their prediction scaled by the first iteration's measured / predicted. One row each in results.csv.
compare() {
  awk -F, -v of="$1" 'NR > 1 { predicted += $2; measured += $3; e = $3 / $2 - 1; sum += e < 0 ? -e : e; n++ }
    NR == 2 { probe = $3 / $2 }
    NR > 2 { e = $3 / $2 / probe - 1; after += e < 0 ? -e : e; m++ }
    END { print of ",measured_over_predicted,," measured / predicted ","
      print of ",mean_abs_rel_error,," sum / n ","
      if (m) print of ",mean_abs_rel_error_first_iteration_as_probe,," after / m "," }' "$2" >>"$out/results.csv"
}

echo case,metric,published,simulated,rel_error >"$out/results.csv"
echo "ranks on cores: 2 and 4 on $(getconf _NPROCESSORS_ONLN)"
for ranks in 2 4; do
  "$dcpsim" simulate --trace "$out/lengths.txt" --model tiny-1d --cluster "cpu_${ranks}x1" --params "$out/cpu.json" --batch 8 \
    --pack-tokens 2048 --tokens-per-step 8192 --policy "$(echo "$policies" | tr ' ' ,)" --draws 0 \
    --schedule "$out/{policy}_$ranks.jsonl" --timeline "$out/{policy}_$ranks.simulated.json" >"$out/simulate_$ranks.txt" \
    2>"$out/warnings_$ranks.txt"
  for policy in $policies; do
    run=$out/${policy}_$ranks
    echo
    "$dcpsim" check "$run.jsonl"
    on $ranks execute "$run.jsonl" --device cpu --csv "$run.csv" --timeline "$run.measured.{rank}.json" >"$run.txt"
    head -n 2 "$run.txt"
    for format in svg png; do
      "$dcpsim" plot timeline "$run.simulated.json" "$run.measured.{rank}.json" -o "$run.$format"
    done
    compare "${policy}_${ranks}_ranks" "$run.csv"
  done
  on $ranks execute "$out/dcp_$ranks.jsonl" --device cpu --verify --steps 2 | tail -n 1
done

awk -F, 'NR == 1 { printf "%-16s %22s %18s %26s\n", "", "measured / predicted", "error, %", "error after the first, %"; next }
  $2 == "measured_over_predicted" { if (row) print row; row = sprintf("%-16s %22.2f", $1, $4); next }
  { row = row sprintf(" %" ($2 == "mean_abs_rel_error" ? 18 : 26) ".0f", 100 * $4) }
  END { print row }' "$out/results.csv" >"$out/report.txt"
echo
cat "$out/report.txt"
experiment_end
