# Throughput per GPU against GPUs, by lengths; llama2-7b. Wants: results, plot_file, terminal_type.
if (terminal_type eq "png") {
  set terminal pngcairo size 1000,620 noenhanced font "sans,11"
} else {
  set terminal svg size 1000,620 noenhanced font "sans,11" background "white"
}
set output plot_file
line(lengths, policy) = sprintf("< awk -F, -v c='%s_llama2-7b_' -v m='tokens_per_s.%s' 'index($1, c) == 1 && $2 == m { n = split($1, f, \"_\"); print f[3], $4 / f[3] / 1e3 }' %s", lengths, policy, results)
set multiplot layout 2,2 margins 0.08,0.98,0.17,0.95 spacing 0.06,0.10
set logscale x 2
set xrange [7:290]
set xtics (8, 32, 64, 128, 256)
set yrange [0:*]
set grid ytics lc rgb "#dddddd"
unset key
do for [i = 1:4] {
  lengths = word("wikipedia prolong sharegpt mixed", i)
  set title lengths offset 0,-0.6
  set xlabel (i > 2 ? "GPUs" : "")
  set ylabel (i % 2 ? "k tokens/s per GPU" : "")
  if (i == 3) {
    set key at screen 0.5,0.03 center bottom horizontal maxrows 1 width 1
  } else {
    unset key
  }
  plot line(lengths, "static") using 1:2 with linespoints pt 1 lc rgb "#aaaaaa" title "static", \
    line(lengths, "bucket") using 1:2 with linespoints pt 5 lc rgb "#0072b2" title "bucket", \
    line(lengths, "packed") using 1:2 with linespoints pt 9 lc rgb "#009e73" title "packed", \
    line(lengths, "dcp_rebalance") using 1:2 with linespoints pt 6 lc rgb "#56b4e9" title "dcp_rebalance", \
    line(lengths, "dcp_inter") using 1:2 with linespoints pt 4 lc rgb "#e69f00" title "dcp_inter", \
    line(lengths, "dcp") using 1:2 with linespoints pt 7 lc rgb "#d55e00" title "dcp"
}
unset multiplot
