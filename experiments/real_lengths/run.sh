#!/bin/sh
# Which policy wins on real lengths, and why: Wikipedia, ProLong, ShareGPT and a mixture of short and long, models of 1.2 B to
# 13 B, 8 to 256 H200; and seven questions, a command each. Writes results.csv, tables and plots to
# experiments/real_lengths/out. --short: llama2-7b on 8 and 32 GPUs only. --continue goes on with an interrupted run.
set -eu
cd "$(dirname "$0")/../.."
. experiments/common.sh
experiment_begin real_lengths "$@"
root=$PWD
specs=$root/$here
cd "$out"

# About 1e9 tokens each, as many as Wikipedia has, so that 256 GPUs have 15 steps. Draws from the lengths of the source.
draw() { "$dcpsim" trace generate "mixture:$2" -n "$3" --seed 1 -o "$1" >/dev/null; }
"$dcpsim" trace convert prolong -o prolong_all.txt >/dev/null
awk '$1 >= 32768 && $1 <= 131072' prolong_all.txt >prolong_long.txt
draw prolong.txt '1*prolong' 330000
draw sharegpt.txt '1*sharegpt' 360000
draw mixed.txt '0.9*sharegpt+0.1*prolong_long.txt' 130000

# sweep NAME: the rows of NAME.json, in order of points, to NAME.csv
sweep() {
  "$dcpsim" sweep "$specs/$1.json" -o "$1.table.csv" 2>"$1.log" || {
    cat "$1.log" >&2
    exit 1
  }
  { grep '^point,' "$1.table.csv" && grep -v '^point,' "$1.table.csv" | sort -s -t, -k1,1n; } >"$1.csv"
}
if [ $short = yes ]; then
  sweeps=gpus_short
else
  sweeps="gpus no_recompute q2_sp q3_padding q4_gains q6_tail"
fi
for spec in $sweeps; do
  sweep "$spec"
done

if [ $short = no ]; then
  # Questions that a table of a sweep does not answer.
  seven_b="--trace wikipedia --model llama2-7b --cluster h200_8x4 --max-length 131072"
  # shellcheck disable=SC2086
  {
    "$dcpsim" simulate $seven_b --tokens-per-step 8388608 --policy static,bucket,packed,dcp_rebalance,dcp_inter,dcp --explain \
      --draws 0 >q1.txt 2>>questions.log
    for sp in 1 2 4 8 16 32; do # asking for too long a pack, and so too long a sample, names the longest that fits
      "$dcpsim" simulate $seven_b --policy packed --sp $sp --pack-tokens 1000000000 2>&1 |
        sed -n "s/.*the largest that does is \([0-9]*\).*/$sp \1/p"
    done >q2.txt
    "$dcpsim" trace info wikipedia >q6.txt
    for gpu in h100 h200; do # largest micro-batch of each bucket: "1 x BUCKET SP n: KxBATCH ..."
      "$dcpsim" plan --trace wikipedia --model llama2-7b --cluster ${gpu}_8x4 --max-length 131072 --policy bucket --sp 8 2>>questions.log |
        awk -v gpu=$gpu -F'groups: ' '/^ +[0-9]+ / { sub(/^.*%?  [0-9]+ x /, "1 x "); n = split($0, g, "; ")
          for (i = 1; i <= n; i++) { split(g[i], f, " "); m = split(g[i], c, ": "); k = split(c[m], b, " ")
            for (j = 1; j <= k; j++) { split(b[j], x, "x"); if (x[2] + 0 > best[f[3]]) best[f[3]] = x[2] + 0 } } }
          END { for (l in best) print gpu, l, best[l] }' | sort -k2,2n
    done >q7.txt
  }
fi
tables=
for spec in $sweeps; do
  tables="$tables table=$spec $spec.csv"
done
[ $short = yes ] || tables="$tables table=q2 q2.txt table=q7 q7.txt"
# shellcheck disable=SC2086
awk -f "$specs/results.awk" $tables >results.csv
for table in winners why; do
  awk -v table=$table -f "$specs/tables.awk" results.csv >$table.txt
done
if [ $short = no ]; then
  for table in no_recompute q2 q3 q4 q6 q7; do
    awk -v table=$table -f "$specs/tables.awk" results.csv >table_$table.txt
  done
  for type in svg png; do
    for plot in heatmap curves; do
      gnuplot -e "results='results.csv'; plot_file='$plot.$type'; terminal_type='$type'" "$specs/$plot.gp"
    done
  done
fi
for table in winners.txt why.txt table_*.txt; do
  [ ! -f $table ] || { cat $table && echo; }
done
cd "$root"
experiment_end
