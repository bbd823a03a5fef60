# published.csv, tokens of the mixes and the rows of the sweeps to results.csv. Means over seeds; case MODEL_MIX, or MODEL_MIX:VARIANT for a what-if.
function row(name, metric, published, simulated) {
  printf "%s,%s,%s,%.5g,", name, metric, published, simulated
  if (published != "") printf "%.3f", simulated / published - 1
  printf "\n"
}
function variant() {
  if (!("swept_sp" in column)) return ""
  if ($column["swept_drop_last"] == "false") return ":keep_last"
  if ($column["swept_memory_cap_frac"] == 0.9) return ":cap_0.9"
  if ($column["swept_recompute"] != "") return ":recompute_" $column["swept_recompute"]
  return ":sp_" $column["swept_sp"]
}
function share(part) { return $column["share_" part] }
FILENAME ~ /published/ {
  split($0, f, ",")
  published_min[f[1]] = f[2]
  published_max[f[1]] = f[3]
  next
}
$1 == "tokens" { trace_tokens[$2] = $3; next }
/^point,/ {
  delete column
  for (i = 1; i <= NF; i++) column[$i] = i
  next
}
{
  if ($column["policy"] == "") {
    print "a point failed: " $0 >"/dev/stderr"
    failed = 1
    exit 1
  }
  mix = $column["swept_trace"]
  left = 1 - $column["tokens"] / trace_tokens[mix]
  sub(/\..*/, "", mix)
  name = $column["swept_model"] "_" mix variant()
  if (!(name in seen)) { seen[name] = 1; names[++n_names] = name }
  key = name SUBSEP $column["policy"]
  n = ++runs[key]
  rate[key, n] = $column["tokens_per_s"]
  sum_rate[key] += rate[key, n]
  left_out[key] += left
  step_tokens[key] += $column["tokens_per_step"]
  # seconds of all GPUs per token, in parts
  part[key, "compute"] += (share("compute") + share("host") + share("optimizer")) / rate[key, n]
  part[key, "padding"] += share("padding") / rate[key, n]
  part[key, "recompute"] += share("recompute") / rate[key, n]
  part[key, "communication"] += (share("sp_exchange") + share("grad_sync")) / rate[key, n]
  part[key, "idle"] += share("idle") / rate[key, n]
  sp[key] += $column["sp"]
}
BEGIN {
  FS = ","
  n_policies = split("bucket packed dcp_rebalance dcp_inter dcp", policies, " ")
  n_parts = split("compute padding recompute communication idle", parts, " ")
  print "case,metric,published,simulated,rel_error"
}
function speedups(name, policy,    b, p, i, x, sum, low, high) {
  b = name SUBSEP "bucket"; p = name SUBSEP policy
  low = 1e9; high = 0
  for (i = 1; i <= runs[p]; i++) {
    x = rate[p, i] / rate[b, i]
    sum += x
    if (x < low) low = x
    if (x > high) high = x
  }
  row(name, "speedup." policy, "", sum / runs[p])
  if (name ~ /:/) return
  row(name, "speedup_min." policy, "", low)
  row(name, "speedup_max." policy, "", high)
  x = sum / runs[p]
  if (!(policy in grid_max) || x > grid_max[policy]) grid_max[policy] = x
  if (!(policy in grid_min) || x < grid_min[policy]) grid_min[policy] = x
}
END {
  if (failed) exit 1
  for (c = 1; c <= n_names; c++) {
    name = names[c]
    for (i = 1; i <= n_policies; i++) {
      key = name SUBSEP policies[i]
      n = runs[key]
      row(name, "tokens_per_s." policies[i], "", sum_rate[key] / n)
      if (policies[i] != "bucket") speedups(name, policies[i])
      if (name ~ /:/) continue
      row(name, "tokens_per_step." policies[i], "", step_tokens[key] / n)
      row(name, "tokens_left_out_frac." policies[i], "", left_out[key] / n)
      if (policies[i] ~ /bucket|packed/) row(name, "sp." policies[i], "", sp[key] / n)
      for (j = 1; j <= n_parts; j++)
        row(name, "time_" parts[j] "." policies[i], "", part[key, parts[j]] / n * sum_rate[name, "bucket"] / runs[name, "bucket"])
    }
  }
  row("grid", "max_speedup.dcp", published_max["dcp"], grid_max["dcp"])
  row("grid", "min_speedup.dcp", "", grid_min["dcp"])
  row("grid", "max_speedup.dcp_inter", published_max["dcp_inter"], grid_max["dcp_inter"])
  row("grid", "min_speedup.dcp_inter", published_min["dcp_inter"], grid_min["dcp_inter"])
}
