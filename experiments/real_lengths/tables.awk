# results.csv to one of the tables that README.md quotes: -v table=NAME
function cell(name, metric) { return (name, metric) in value ? sprintf("%.2f", value[name, metric]) : "-" }
function number(name, metric) { return (name, metric) in value ? sprintf("%.4g", value[name, metric]) : "-" }
function line(name, label,    i) {
  printf "%-24s", label
  for (i = 1; i <= n_policies; i++) printf " %13s", cell(name, "speedup." policies[i])
}
function head(first,    i) {
  printf "%-24s", first
  for (i = 1; i <= n_policies; i++) printf " %13s", policies[i]
}
BEGIN {
  FS = ","
  n_lengths = split("wikipedia prolong sharegpt mixed", lengths, " ")
  n_models = split("gpt-1.2b llama2-7b llama2-13b", models, " ")
  n_gpus = split("8 32 64 128 256", gpus, " ")
}
NR > 1 { value[$1, $2] = $4; if (!($1 in seen)) { seen[$1] = 1; cases[++n_cases] = $1 } }
END {
  if (table == "winners" || table == "no_recompute") {
    prefix = table == "winners" ? "" : "no_recompute:"
    n_policies = split(table == "winners" ? "static packed dcp_rebalance dcp_inter dcp" : "packed dcp_rebalance dcp_inter dcp", policies, " ")
    print "speedup over bucket" (prefix == "" ? "" : " when nobody recomputes, 32 GPUs")
    head(prefix == "" ? "lengths_model_GPUs" : "lengths_model")
    printf " %20s\n", "bucket, M tokens/s"
    for (c = 1; c <= n_cases; c++) {
      name = cases[c]
      if (prefix == "" ? name ~ /:/ : index(name, prefix) != 1) continue
      line(name, substr(name, length(prefix) + 1))
      printf " %20s\n", sprintf("%.3f", value[name, "tokens_per_s.bucket"] / 1e6)
    }
  } else if (table == "why") {
    print "GPU time for the same tokens, llama2-7b, 32 GPUs; bucket's = 1"
    printf "%-10s %-15s %8s %8s %10s %14s %6s %6s %4s %16s\n", "lengths", "policy", "compute", "padding", "recompute", "communication", "idle", "sum", "SP", "M tokens a step"
    n_policies = split("static bucket packed dcp_rebalance dcp_inter dcp", policies, " ")
    n_parts = split("compute padding recompute communication idle", parts, " ")
    for (l = 1; l <= n_lengths; l++)
      for (i = 1; i <= n_policies; i++) {
        name = lengths[l] "_llama2-7b_32"
        sum = 0
        for (j = 1; j <= n_parts; j++) sum += t[j] = value[name, "time_" parts[j] "." policies[i]]
        printf "%-10s %-15s %8.2f %8.2f %10.2f %14.2f %6.2f %6.2f %4s %16.2f\n", i == 1 ? lengths[l] : "", policies[i], t[1], t[2], t[3], t[4], t[5], sum, \
          (name, "sp." policies[i]) in value ? value[name, "sp." policies[i]] : "-", value[name, "tokens_per_step." policies[i]] / 1e6
      }
  } else if (table == "q2") {
    printf "%4s %20s %20s %18s\n", "SP", "bucket, k tokens/s", "packed, k tokens/s", "longest sample"
    for (sp = 1; sp <= 32; sp *= 2)
      printf "%4d %20.1f %20.1f %18d\n", sp, value["q2:sp_" sp, "tokens_per_s.bucket"] / 1e3, value["q2:sp_" sp, "tokens_per_s.packed"] / 1e3, \
        value["q2:sp_" sp, "longest_sample_tokens"]
  } else if (table == "q3") {
    print "speedup of packed over bucket (tokens that are padding in bucket, %)"
    printf "%-10s", "lengths"
    for (k = 1; k <= 8; k *= 2) printf " %16s", k " an octave"
    print ""
    for (l = 1; l <= n_lengths; l++) {
      printf "%-10s", lengths[l]
      for (k = 1; k <= 8; k *= 2) {
        name = "q3:" lengths[l] "_" k
        printf " %16s", sprintf("%.2f (%.1f)", value[name, "speedup.packed"], 100 * value[name, "padding_frac.bucket"])
      }
      print ""
    }
  } else if (table == "q4") {
    print "speedup over bucket (idle time, bucket's whole time = 1)"
    n = split("bucket packed_next_fit packed_lpt dcp_inter_no_accumulation dcp_inter dcp_inter_uncapped dcp_recompute_full dcp", policies, " ")
    printf "%-28s", "policy"
    for (l = 1; l <= n_lengths; l++) printf " %15s", lengths[l]
    print ""
    for (i = 1; i <= n; i++) {
      printf "%-28s", policies[i]
      for (l = 1; l <= n_lengths; l++)
        printf " %15s", sprintf("%.2f (%.2f)", value["q4:" lengths[l], "speedup." policies[i]], value["q4:" lengths[l], "time_idle." policies[i]])
      print ""
    }
  } else if (table == "q6") {
    printf "%16s %14s %20s %20s %9s %9s %9s\n", "longest accepted", "tokens kept, %", "bucket, k tokens/s", "dcp, k tokens/s", "packed", "dcp_inter", "dcp"
    for (c = 1; c <= n_cases; c++)
      if (cases[c] ~ /^q6:/) {
        name = cases[c]
        printf "%16d %14.2f %20.1f %20.1f %9s %9s %9s\n", substr(name, 4), 100 * value[name, "tokens.dcp"] / 1013648780, \
          value[name, "tokens_per_s.bucket"] / 1e3, value[name, "tokens_per_s.dcp"] / 1e3, cell(name, "speedup.packed"), \
          cell(name, "speedup.dcp_inter"), cell(name, "speedup.dcp")
      }
  } else if (table == "q7") {
    printf "%16s %12s %12s\n", "bucket, tokens", "H100 80 GB", "H200 141 GB"
    n = split("256 512 1024 2048 4096 8192 16384 32768 65536 131072", bounds, " ")
    for (i = 1; i <= n; i++) printf "%16d %12s %12s\n", bounds[i], number("q7:h100_" bounds[i], "batch.bucket"), number("q7:h200_" bounds[i], "batch.bucket")
  }
}
