# What dcp's speedup over bucket depends on. Wants: results, plot_file, terminal_type.
if (terminal_type eq "png") {
  set terminal pngcairo size 1100,520 noenhanced font "sans,11"
} else {
  set terminal svg size 1100,520 noenhanced font "sans,11" background "white"
}
set output plot_file
set key at screen 0.5,0.02 center bottom horizontal spacing 1.2
set bmargin 8
set yrange [0.7:*]
set xrange [-0.6:11.6]
set grid ytics lc rgb "#dddddd"
set ylabel "speedup of dcp over bucket"
set xtics scale 0
rows(variant) = sprintf("< awk -F, -v v='%s' '$2 == \"speedup.dcp\" { split($1, f, \":\"); if (f[2] == v) { name = f[1]; sub(/_/, \"\\\\n\", name); print n++, $4, \"\\\"\" name \"\\\"\" } }' %s", variant, results)
set arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb "#555555"
plot rows("") using ($1):2:xtic(3) with points pt 7 ps 1.6 lc rgb "#d55e00" title "published rules", \
  rows("keep_last") using ($1-0.2):2 with points pt 5 ps 1.1 lc rgb "#0072b2" title "nothing dropped", \
  rows("cap_0.9") using ($1-0.1):2 with points pt 9 ps 1.3 lc rgb "#009e73" title "90 % of memory", \
  rows("recompute_none") using ($1+0.1):2 with points pt 4 ps 1.2 lc rgb "black" title "nobody recomputes", \
  rows("recompute_full") using ($1+0.2):2 with points pt 6 ps 1.2 lc rgb "#cc79a7" title "everybody recomputes", \
  rows("sp_4") using ($1+0.3):2 with points pt 1 ps 1.2 lc rgb "#555555" title "bucket at SP 4", \
  rows("sp_8") using ($1-0.3):2 with points pt 2 ps 1.2 lc rgb "#555555" title "bucket at SP 8"
