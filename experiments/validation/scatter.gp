# Predicted against measured tokens/s/GPU, one colour per source: the identity, a band of 10 %, and below it the ratio.
# Variables: type ("svg" or "png"), data (blocks of measured, predicted; each block's first line is its name).
if (type eq "svg") {
  set terminal svg size 900,860 font "DejaVu Sans,13" background "#ffffff"
} else {
  set terminal pngcairo size 1350,1290 font "DejaVu Sans,14" background "#ffffff"
}
stats data using 1:2 nooutput
blocks = STATS_blocks
array colour[8] = [0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7, 0xE69F00, 0x56B4E9, 0x222222, 0x8B5A2B]
array point[8] = [7, 5, 9, 11, 13, 15, 4, 6]

set border 3 lc rgb "#666666"
set tics nomirror out textcolor rgb "#222222"
set grid lc rgb "#e4e4e4" lw 1
set logscale xy
low = 700
high = 130000
set xrange [low:high]
set format x "%.0s%c"
set format y "%.0s%c"
set multiplot

set origin 0, 0.34
set size 1, 0.66
set lmargin 11
set rmargin 3
set yrange [low:high]
set title "Training throughput: predicted against published" font ",17"
set ylabel "predicted, tokens/s per GPU"
set xtics format ""
set key top left Left reverse samplen 1 spacing 1.15
set samples 200
plot '+' using 1:($1*0.9):($1*1.1) with filledcurves fc rgb "#dcdcdc" title "within 10 %", \
  x with lines lc rgb "#666666" lw 1.5 title "equal", \
  for [i = 1:blocks] data index i-1 using 1:2 with points pt point[i] ps 0.9 lc rgb colour[i] title columnheader(1)

set origin 0, 0
set size 1, 0.34
unset title
unset key
unset logscale y
set xtics format "%.0s%c"
set yrange [0.78:1.22]
set ytics 0.1
set format y "%.1f"
set xlabel "measured, tokens/s per GPU"
set ylabel "predicted / measured"
plot '+' using 1:(0.9):(1.1) with filledcurves fc rgb "#dcdcdc" notitle, \
  1 with lines lc rgb "#666666" lw 1.5 notitle, \
  for [i = 1:blocks] data index i-1 using 1:($2/$1) with points pt point[i] ps 0.9 lc rgb colour[i] notitle
unset multiplot
