# Published and simulated: throughput, imbalance, recomputation gain, throughput against SP. Wants: out (where plots.awk
# put its tables), type (svg or png).
if (type eq "png") {
  set terminal pngcairo size 1000,480 noenhanced font "sans,11"
} else {
  set terminal svg size 1000,480 noenhanced font "sans,11" background "white"
}
grey = "#888888"
blue = "#0072b2"
orange = "#d55e00"
colors = "#000000 #d55e00 #0072b2 #009e73"
policies = "bucket dcp_rebalance dcp_inter dcp"
set grid ytics lc rgb "#dddddd"
set key outside bottom center horizontal
set style fill solid 0.9 noborder
set bars small

set output out."/throughput.".type
data = out."/throughput.dat"
set xrange [0.3:14.7]
set yrange [0:*]
set xtics scale 0
set ylabel "1e6 latent elements/s, 32 H100"
set boxwidth 0.27
plot data using ($1-0.28):3:xtic(2) with boxes lc rgb grey title "published", \
  data using 1:4 with boxes lc rgb blue title "simulated, Apex norms", \
  data using ($1+0.28):6 with boxes lc rgb orange title "simulated, fp32 RMSNorm", \
  data using 1:4:5 with yerrorbars lc rgb "black" pt 0 title "standard deviation over 8 seeds", \
  data using ($1+0.28):6:7 with yerrorbars lc rgb "black" pt 0 notitle

set output out."/recompute.".type
data = out."/recompute.dat"
set xrange [0.2:29.8]
set ylabel "gain of adaptive recomputation, %"
set xtics font ",8"
set boxwidth 0.4
plot data using ($1-0.2):3:xtic(2) with boxes lc rgb grey title "published", \
  data using ($1+0.2):4 with boxes lc rgb blue title "simulated, Apex norms"

set output out."/imbalance.".type
data = out."/imbalance.dat"
unset xtics
set xtics (8, 16, 32) scale 1 font ",11"
set logscale x 2
set xrange [7:37]
set xlabel "GPUs"
set ylabel "imbalance, % of the step"
set key outside bottom center horizontal maxrows 2
plot for [p = 1:4] data index p-1 using 1:2 with linespoints lw 2 pt 7 lc rgb word(colors, p) \
  title word(policies, p)." published", \
  for [p = 1:4] data index p-1 using ($1*(1+0.015*(p-2))):3:4 with yerrorlines lw 1.5 dt 2 pt 4 lc rgb word(colors, p) \
  title "simulated"

set output out."/sp.".type
data = out."/sp.dat"
unset xtics
set xtics (1, 2, 4, 8) scale 1 font ",11"
set xrange [0.9:9]
set yrange [0.65:1.3]
set xlabel "SP degree"
set ylabel "throughput per GPU, SP 1 = 1"
plot for [c = 1:3] data index c-1 using 1:2 with linespoints lw 2 pt 7 lc rgb word(colors, c+1) \
  title sprintf("best SP %d, published", 2**(c-1)), \
  for [c = 1:3] data index c-1 using 1:3 with linespoints lw 1.5 dt 2 pt 4 lc rgb word(colors, c+1) \
  title "simulated, same buckets"
