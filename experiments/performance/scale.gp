# Processor time (points and solid lines, left) and peak memory (dashed, right) by what grows; results.csv and fits.csv of the
# present folder. Exponents are of the points that fits.csv names. Wants: plot_file, terminal_type.
if (terminal_type eq "png") {
  set terminal pngcairo size 1280,860 noenhanced font "sans,11"
} else {
  set terminal svg size 1280,860 noenhanced font "sans,11" background "white"
}
set output plot_file
points(curve) = sprintf("< awk -F, -v c=%s '$1 == c { print $2, ($3 > 0 ? $3 : \"NaN\"), $4 }' results.csv | sort -n", curve)
fit(curve, field) = system(sprintf("awk -F, -v c=%s '$1 == c { printf \"%%s\", $%d }' fits.csv", curve, field))
name(curve, words) = sprintf("%s ~ x^%s", words, fit(curve, 4))
set multiplot layout 2,2 margins 0.07,0.94,0.07,0.95 spacing 0.14,0.13
set datafile separator " "
set logscale xy
set logscale y2
set format x "10^%T"
set format y "10^%T"
set format y2 "%g"
set ytics nomirror
set y2tics
set y2range [10:2000]
set grid xtics ytics lt 1 lc rgb "#dddddd"
set key top left Left reverse samplen 2
memory = "axes x1y2 with lines dt 2 lc rgb"

set title "GPUs: one step, groups of SP 8 (fit from ".fit("gpus_even", 2).")" offset 0,-0.6
set format x "%g"
set xtics 4
set ylabel "CPU seconds"
set xrange [4:32768]
set yrange [1e-5:1e4]
plot points("gpus_even") using 1:2 with linespoints pt 7 lc rgb "#0072b2" title name("gpus_even", "even groups"), \
  points("gpus_uneven") using 1:2 with linespoints pt 5 lc rgb "#d55e00" title name("gpus_uneven", "uneven groups"), \
  points("dcp") using 1:2 with linespoints pt 6 lc rgb "#009e73" title name("dcp", "dcp, planned and played"), \
  points("megatron_dynamic_cp") using 1:2 with linespoints pt 4 lc rgb "#cc79a7" title name("megatron_dynamic_cp", "megatron_dynamic_cp, planned and played"), \
  points("gpus_uneven") using 1:3 @memory "#d55e00" title "memory, uneven groups", \
  points("dcp") using 1:3 @memory "#009e73" title "memory, dcp (a trace of 1,000,000 samples)"

set xrange [128:32768]
set title "SP groups: one step of ".fit("groups", 3)." GPUs, SP 64 to 1 (fit from ".fit("groups", 2).")"
set ylabel ""
set y2label "peak MiB"
set yrange [1e-3:100]
plot points("groups") using 1:2 with linespoints pt 5 lc rgb "#d55e00" title name("groups", "uneven groups"), \
  points("groups") using 1:3 @memory "#d55e00" title "memory"

set xrange [1:1024]
set title "Layers, micro-batches of a group: one step of 128 groups (fit from ".fit("layers", 2)." and ".fit("micro_batches", 2).")"
set ylabel "CPU seconds"
set y2label ""
set xtics 4
set yrange [1e-4:10]
plot points("layers") using 1:2 with linespoints pt 5 lc rgb "#d55e00" title name("layers", "layers"), \
  points("micro_batches") using 1:2 with linespoints pt 7 lc rgb "#0072b2" title name("micro_batches", "micro-batches"), \
  points("layers") using 1:3 @memory "#d55e00" title "memory, layers", \
  points("micro_batches") using 1:3 @memory "#0072b2" title "memory, micro-batches"

set xrange [100:1e7]
set title "Samples of the trace, 32 GPUs: whole commands (fit from ".fit("samples_four", 2).")"
set ylabel ""
set y2label "peak MiB"
set format x "10^%T"
set xtics 10
set yrange [1e-3:1e4]
plot points("samples_read") using 1:2 with linespoints pt 7 lc rgb "#0072b2" title name("samples_read", "trace info"), \
  points("samples_four") using 1:2 with linespoints pt 5 lc rgb "#d55e00" title name("samples_four", "simulate: bucket, packed, dcp_inter, dcp"), \
  points("samples_read") using 1:3 @memory "#0072b2" title "memory ~ x^".fit("samples_read", 5), \
  points("samples_four") using 1:3 @memory "#d55e00" title "memory ~ x^".fit("samples_four", 5)
unset multiplot
