#!/bin/sh
# Speedups over bucket parallel on 32 H200: 1D and 2D transformers of 1.2 B and 5 B, three length mixes, beside the published
# ranges. Writes results.csv, tables and plots to experiments/dcp_h200/out. --short: the published rules only.
set -eu
cd "$(dirname "$0")/../.."
. experiments/common.sh
experiment_begin dcp_h200 "$@"

# The mixes, chosen before the first run and never changed for a result (README.md).
text() { "$dcpsim" trace generate "lognormal:mean=$2,sigma=1.5,min=64,max=131072" -n "$3" --seed 1 -o "$out/$1.txt" >/dev/null; }
video() { "$dcpsim" trace generate "zipf_video:offset=$2,size=$3,image_frac=$4" --seed 1 -o "$out/$1.csv" >/dev/null; }
text short 1024 200000
text balanced 4096 50000
text long 16384 12500
video short 5 2000 50
video balanced 15 4000 5
video long 15 4000 1
for mix in short.txt balanced.txt long.txt short.csv balanced.csv long.csv; do
  "$dcpsim" trace info "$out/$mix" | awk -v mix=$mix '$1 == "tokens" { gsub(/,/, "", $2); print "tokens," mix "," $2 }'
done >"$out/tokens.csv"

sweeps="text video"
[ $short = yes ] || sweeps="$sweeps text_whatif video_whatif"
for sweep in $sweeps; do
  (cd "$out" && "$dcpsim" sweep "$OLDPWD/$here/$sweep.json" -o "$sweep.csv") 2>"$out/warnings.txt" || {
    cat "$out/warnings.txt" >&2
    exit 1
  }
  grep '^point,' "$out/$sweep.csv"
  grep -v '^point,' "$out/$sweep.csv" | sort -s -t, -k1,1n
done >"$out/runs.csv"
awk -f $here/results.awk $here/published.csv "$out/tokens.csv" "$out/runs.csv" >"$out/results.csv"
awk -v table=speedup -f $here/tables.awk "$out/results.csv" >"$out/speedup.txt"
awk -v table=parts -f $here/tables.awk "$out/results.csv" >"$out/parts.txt"
cat "$out/speedup.txt"
echo
cat "$out/parts.txt"
if [ $short = no ]; then
  awk -v table=whatif -f $here/tables.awk "$out/results.csv" >"$out/whatif.txt"
  echo
  cat "$out/whatif.txt"
  # The case of dcp's largest speedup, operation by operation.
  best=$(awk -F, '$2 == "speedup.dcp" && $1 !~ /:/ && $4 > max { max = $4; best = $1 } END { print best }' "$out/results.csv")
  mix=${best##*_}
  case $best in
  gpt*) lengths="--trace $mix.txt" ;;
  *) lengths="--trace $mix.csv --framework eager_apex" ;;
  esac
  # shellcheck disable=SC2086
  (cd "$out" && "$dcpsim" simulate $lengths --model "${best%_*}" --cluster h200_8x4 --policy bucket,dcp_inter,dcp --drop-last \
    --memory-cap-frac 0.7 --explain >explain.txt 2>>warnings.txt)
  for type in svg png; do
    for plot in speedup whatif; do
      gnuplot -e "results='$out/results.csv'; plot_file='$out/$plot.$type'; terminal_type='$type'" $here/$plot.gp
    done
  done
fi
experiment_end
