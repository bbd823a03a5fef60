# Which policy wins where, and by how much over bucket. Wants: results, plot_file, terminal_type.
if (terminal_type eq "png") {
  set terminal pngcairo size 1000,520 noenhanced font "sans,11"
} else {
  set terminal svg size 1000,520 noenhanced font "sans,11" background "white"
}
set output plot_file
cells(policy) = sprintf("< awk -F, -v m='speedup.%s' '$1 !~ /:/ && $2 == m { n = split($1, f, \"_\"); name = f[1] \"_\" f[2]; if (!(name in y)) y[name] = rows++; x = log(f[3]) / log(2) - 3; if (x > 0) x--; print x, y[name], $4, name }' %s", policy, results)
set palette defined (0.4 "#b2182b", 0.8 "#f4a582", 1 "#ffffff", 1.3 "#92c5de", 1.7 "#2166ac")
set cbrange [0.4:1.7]
set multiplot layout 1,4 margins 0.18,0.99,0.12,0.92 spacing 0.01,0.02
set xrange [-0.5:4.5]
set yrange [11.5:-0.5]
set xtics ("8" 0, "32" 1, "64" 2, "128" 3, "256" 4) scale 0
set xlabel "GPUs"
unset key
unset colorbox
set ytics scale 0
do for [i = 1:4] {
  policy = word("packed dcp_rebalance dcp_inter dcp", i)
  set title policy." over bucket"
  if (i == 1) {
    plot cells(policy) using 1:2:3:ytic(4) with image, cells(policy) using 1:2:(sprintf("%.2f", $3)) with labels font ",9"
    set ytics format "" scale 0
  } else {
    plot cells(policy) using 1:2:3 with image, cells(policy) using 1:2:(sprintf("%.2f", $3)) with labels font ",9"
  }
}
unset multiplot
