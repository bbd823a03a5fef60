# Speedups over bucket by model and mix, and the published values. Wants: results, plot_file, terminal_type.
if (terminal_type eq "png") {
  set terminal pngcairo size 1100,520 noenhanced font "sans,11"
} else {
  set terminal svg size 1100,520 noenhanced font "sans,11" background "white"
}
set output plot_file
set key at screen 0.5,0.02 center bottom horizontal spacing 1.2
set bmargin 8
set style data histogram
set style histogram clustered gap 1.5
set style fill solid border lc rgb "white"
set boxwidth 1
set yrange [0.7:3.1]
set xrange [-0.6:11.6]
set grid ytics lc rgb "#dddddd"
set ylabel "speedup over bucket"
set xtics scale 0
bars(policy) = sprintf("< awk -F, -v m='speedup.%s' '$1 !~ /:/ && $2 == m { name = $1; sub(/_/, \"\\\\n\", name); print \"\\\"\" name \"\\\"\", $4 }' %s", policy, results)
published(case, policy) = system(sprintf("awk -F, '$1 == \"grid\" && $2 == \"%s.%s\" { print $3 }' %s", case, policy, results)) + 0
best = published("max_speedup", "dcp")
high = published("max_speedup", "dcp_inter")
low = published("min_speedup", "dcp_inter")
set object rectangle from graph 0, first low to graph 1, first high fc rgb "#e69f00" fs transparent solid 0.12 noborder behind
set arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb "#555555"
plot bars("packed") using 2:xtic(1) lc rgb "#999999" title "packed", \
  bars("dcp_rebalance") using 2 lc rgb "#56b4e9" title "dcp_rebalance", \
  bars("dcp_inter") using 2 lc rgb "#e69f00" title "dcp_inter", \
  bars("dcp") using 2 lc rgb "#d55e00" title "dcp", \
  best with lines lw 2 dt 2 lc rgb "#d55e00" title sprintf("published: best of dcp, %.2f", best), \
  high with lines lw 1 dt 2 lc rgb "#e69f00" title sprintf("published: dcp_inter, %.2f to %.2f", low, high), \
  low with lines lw 1 dt 2 lc rgb "#e69f00" notitle
