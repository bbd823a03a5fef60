# Tables of the sweeps (table=NAME before each file) to results.csv. Case: TABLE:..., or LENGTHS_MODEL_GPUS of the main grid.
function row(name, metric, simulated) { printf "%s,%s,,%.5g,\n", name, metric, simulated }
function col(name) { return $column[name] }
function rows(name, policy,    n, i) {
  row(name, "tokens_per_s." policy, col("tokens_per_s"))
  row(name, "speedup." policy, col("tokens_per_s") / base)
}
function parts(name, policy) { # seconds of all GPUs for the same tokens, in parts; bucket's sum is 1
  scale = base / col("tokens_per_s")
  row(name, "time_compute." policy, scale * (col("share_compute") + col("share_host") + col("share_optimizer")))
  row(name, "time_padding." policy, scale * col("share_padding"))
  row(name, "time_recompute." policy, scale * col("share_recompute"))
  row(name, "time_communication." policy, scale * (col("share_sp_exchange") + col("share_grad_sync")))
  row(name, "time_idle." policy, scale * col("share_idle"))
}
BEGIN {
  FS = ","
  print "case,metric,published,simulated,rel_error"
}
table == "q2" { split($0, f, " "); printf "q2:sp_%d,longest_sample_tokens,,%d,\n", f[1], f[2]; next }
table == "q7" { split($0, f, " "); row("q7:" f[1] "_" f[2], "batch.bucket", f[3]); next }
/^point,/ {
  delete column
  for (i = 1; i <= NF; i++) column[$i] = i
  point = ""
  next
}
# Speedups are over the bucket rows of a point, which follow static's: hold a point's rows until it is whole.
{
  if (col("policy") == "") {
    if (table == "q2_sp") next # an SP degree that holds not enough
    print "a point failed: " $0 >"/dev/stderr"
    exit 1
  }
  lengths = "swept_trace" in column ? col("swept_trace") : "wikipedia"
  sub(/\..*/, "", lengths)
  policy = col("policy")
  base = ""
  if (table ~ /^gpus/) {
    gpus = col("swept_cluster")
    sub(/.*x/, "", gpus)
    name = lengths "_" col("swept_model") "_" 8 * gpus
  } else if (table == "no_recompute")
    name = table ":" lengths "_" col("swept_model")
  else if (table == "q2_sp")
    name = "q2:sp_" col("swept_sp")
  else if (table == "q3_padding")
    name = "q3:" lengths "_" col("swept_buckets_per_octave")
  else if (table == "q4_gains") {
    name = "q4:" lengths
    if (policy == "packed") policy = policy "_" col("swept_packing")
    if (col("swept_max_gas") == 1) policy = policy "_no_accumulation"
    if (col("swept_tokens_per_step") == "") policy = policy "_uncapped"
    if (policy == "dcp" && col("swept_recompute") == "full") policy = policy "_recompute_full"
  } else if (table == "q6_tail")
    name = "q6:" col("swept_max_length")
  base = table == "q4_gains" && policy != "bucket" ? bucket[name] : col("tokens_per_s") / col("speedup")
  if (policy == "bucket") bucket[name] = base
  if (table == "q2_sp") {
    row(name, "tokens_per_s." policy, col("tokens_per_s"))
    row(name, "tokens_left_out_samples." policy, col("samples_infeasible"))
    next
  }
  rows(name, policy)
  if (table ~ /^gpus/ || table == "q4_gains") parts(name, policy)
  if (table ~ /^gpus/) {
    row(name, "tokens_per_step." policy, col("tokens_per_step"))
    if (col("sp") != "") row(name, "sp." policy, col("sp"))
  }
  if (table == "q3_padding") row(name, "padding_frac." policy, col("padding_frac"))
  if (table == "q6_tail") row(name, "tokens." policy, col("tokens"))
}
