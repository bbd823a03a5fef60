# published.csv and runs.txt to results.csv: means over seeds, and of speedups the spread that single runs have.
function row(name, metric, published, simulated) {
  printf "%s,%s,%s,%.4g,", name, metric, published, simulated
  if (published != "") printf "%.3f", simulated / published - 1
  printf "\n"
}
FILENAME ~ /published/ {
  split($0, f, ",")
  if (f[1] + 0 > 0) { published[f[1], base] = f[2]; published[f[1], early] = f[3] }
  next
}
{
  if (!(($1, $2) in seen)) { seen[$1, $2] = 1; cases[++n_cases] = $1 " " $2 }
  key = $1 SUBSEP $2 SUBSEP $4
  runs[key]++
  ms[key] += $5; micro_batches[key] += $6; tokens[key] += $7; work[key] += $8
  ms_of[key, $3] = $5
}
function speedups(name, gpus, policy, published_speedup,    b, p, i, x, sum, sum_sq, n, low, high, sd) {
  b = name SUBSEP gpus SUBSEP base; p = name SUBSEP gpus SUBSEP policy
  n = runs[p]; low = 1e9; high = 0
  for (i = 1; i <= n; i++) {
    x = ms_of[b, i] / ms_of[p, i]
    sum += x; sum_sq += x * x
    if (x < low) low = x
    if (x > high) high = x
  }
  sd = sqrt((sum_sq - sum * sum / n) / (n - 1))
  row(label, "speedup." policy, published_speedup, sum / n)
  row(label, "speedup_sd." policy, "", sd)
  row(label, "speedup_min." policy, "", low)
  row(label, "speedup_max." policy, "", high)
}
BEGIN {
  base = "megatron_dp_balanced"; early = "megatron_dynamic_cp_early"; late = "megatron_dynamic_cp"
  policies[1] = base; policies[2] = early; policies[3] = late
  print "case,metric,published,simulated,rel_error"
}
END {
  for (c = 1; c <= n_cases; c++) {
    split(cases[c], f, " ")
    label = f[2] "_gpus_" f[1]
    for (i = 1; i <= 3; i++) {
      key = f[1] SUBSEP f[2] SUBSEP policies[i]
      row(label, "step_time_ms." policies[i], published[f[2], policies[i]], ms[key] / runs[key])
      if (f[1] == "as_calibrated") {
        row(label, "micro_batches." policies[i], "", micro_batches[key] / runs[key])
        row(label, "critical_tokens." policies[i], "", tokens[key] / runs[key])
        row(label, "critical_work." policies[i], "", work[key] / runs[key])
      }
    }
    speedups(f[1], f[2], early, published[f[2], base] / published[f[2], early])
    speedups(f[1], f[2], late, "")
  }
}
