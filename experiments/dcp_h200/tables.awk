# results.csv to one of the tables that README.md quotes: -v table=speedup|parts|whatif
function cell(name, metric) { return (name, metric) in value ? sprintf("%.2f", value[name, metric]) : "-" }
BEGIN { FS = "," }
NR > 1 {
  value[$1, $2] = $4
  split($1, f, ":")
  if ($1 == "grid") {
    if ($3 != "") grid[++n_grid] = sprintf("%-22s published %.2f, simulated %.2f (%+.0f %%)", $2, $3, $4, 100 * $5)
  } else if (!(f[1] in seen)) { seen[f[1]] = 1; names[++n_names] = f[1] }
}
END {
  if (table == "speedup") {
    print "speedup over bucket, mean of three seeds (smallest-largest)"
    printf "%-22s %9s %14s %18s %18s   bucket: SP, M tokens/s\n", "model_mix", "packed", "dcp_rebalance", "dcp_inter", "dcp"
    for (c = 1; c <= n_names; c++) {
      name = names[c]
      printf "%-22s %9s %14s", name, cell(name, "speedup.packed"), cell(name, "speedup.dcp_rebalance")
      for (i = 1; i <= 2; i++) {
        p = i == 1 ? "dcp_inter" : "dcp"
        printf "   %s (%s-%s)", cell(name, "speedup." p), cell(name, "speedup_min." p), cell(name, "speedup_max." p)
      }
      printf "   %6.3g %8.3f\n", value[name, "sp.bucket"], value[name, "tokens_per_s.bucket"] / 1e6
    }
    print ""
    for (i = 1; i <= n_grid; i++) print grid[i]
  } else if (table == "parts") {
    print "GPU time for the same tokens, bucket's = 1"
    printf "%-22s %-10s %8s %8s %10s %14s %6s %7s %18s\n", "model_mix", "policy", "compute", "padding", "recompute", "communication", "idle", "sum", "tokens left out, %"
    n_parts = split("compute padding recompute communication idle", parts, " ")
    n_policies = split("bucket packed dcp_inter dcp", policies, " ")
    for (c = 1; c <= n_names; c++)
      for (i = 1; i <= n_policies; i++) {
        sum = 0
        for (j = 1; j <= n_parts; j++) sum += t[j] = value[names[c], "time_" parts[j] "." policies[i]]
        printf "%-22s %-10s %8.2f %8.2f %10.2f %14.2f %6.2f %7.2f %18.1f\n", i == 1 ? names[c] : "", policies[i], t[1], t[2], t[3], t[4], t[5], \
          sum, 100 * value[names[c], "tokens_left_out_frac." policies[i]]
      }
  } else {
    n_variants = split("keep_last cap_0.9 recompute_none recompute_full sp_4 sp_8", variants, " ")
    printf "speedup of dcp over bucket; last two columns: of packed\n%-22s %9s", "model_mix", "published"
    for (j = 1; j <= n_variants; j++) printf " %14s", variants[j]
    printf " %10s %14s\n", "published", "recompute_none"
    for (c = 1; c <= n_names; c++) {
      printf "%-22s %9s", names[c], cell(names[c], "speedup.dcp")
      for (j = 1; j <= n_variants; j++) printf " %14s", cell(names[c] ":" variants[j], "speedup.dcp")
      printf " %10s %14s\n", cell(names[c], "speedup.packed"), cell(names[c] ":recompute_none", "speedup.packed")
    }
  }
}
