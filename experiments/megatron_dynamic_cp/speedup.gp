# Speedup of dynamic CP over dp_balanced, published and simulated. Wants: results, plot_file, terminal_type.
if (terminal_type eq "png") {
  set terminal pngcairo size 900,500 noenhanced font "sans,11"
} else {
  set terminal svg size 900,500 noenhanced font "sans,11" background "white"
}
set output plot_file
set datafile separator ","
set key outside bottom center horizontal maxrows 3 spacing 1.2
set logscale x 2
set xrange [3:90]
set xtics (4, 8, 16, 32, 64)
set yrange [0.95:1.55]
set xlabel "GPUs (4 per node)"
set ylabel "speedup over dp_balanced"
set grid ytics lc rgb "#dddddd"
rows(host, metric) = sprintf("< awk -F, -v c='_gpus_%s' -v m='%s' 'index($1, c) && $2 == m { print $1 + 0 \",\" $3 \",\" $4 }' %s", host, metric, results)
bars(metric) = sprintf("< awk -F, -v m='%s' '$1 ~ /as_calibrated/ { if ($2 == \"speedup.\" m) v = $4; if ($2 == \"speedup_min.\" m) low = $4; if ($2 == \"speedup_max.\" m) print $1 + 0 \",\" v \",\" low \",\" $4 }' %s", metric, results)
early = "megatron_dynamic_cp_early"
late = "megatron_dynamic_cp"
blue = "#0072b2"
orange = "#d55e00"
plot rows("as_calibrated", "speedup.".early) using 1:2 with linespoints lw 2 pt 7 ps 1.4 lc rgb "black" title "published (one run)", \
  bars(early) using ($1*0.98):2:3:4 with yerrorlines lw 2 pt 5 lc rgb blue title "simulated, rule to June 2026", \
  bars(late) using ($1*1.02):2:3:4 with yerrorlines lw 2 pt 9 lc rgb orange title "simulated, rule since", \
  rows("host_200us", "speedup.".early) using 1:3 with linespoints dt 2 pt 4 lc rgb blue title "rule to June, if host 200 us per op", \
  rows("host_200us", "speedup.".late) using 1:3 with linespoints dt 2 pt 8 lc rgb orange title "rule since, if host 200 us per op"
