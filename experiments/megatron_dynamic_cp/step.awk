# A schedule (dcpsim.schedule/1) to one line: tokens and L^2 work on the critical path and micro-batches of a step, as
# means over steps, and the 10 % trimmed mean of the predicted step times in ms. Critical path: micro-batch by
# micro-batch, the most that any rank has.
/"groups":/ {
  split("", at); split("", tokens); split("", work)
  n = 0
  parts = split($0, group, /"ranks":\[/)
  match($0, /"predicted_time_s":[^,]*/)
  ms[++steps] = 1000 * substr($0, RSTART + 19, RLENGTH - 19)
  for (i = 2; i <= parts; i++) {
    split(group[i], ranks, /[^0-9]+/)
    first = ranks[1] + 0
    sp = ranks[2] - first
    k = at[first] + 0
    n_mb = split(group[i], mb, /"shapes":\[/)
    for (j = 2; j <= n_mb; j++) {
      sub(/\]\].*/, "", mb[j])
      gsub(/[^0-9,]/, "", mb[j])
      n_samples = split(mb[j], length_of, ",")
      t = w = 0
      for (x = 1; x <= n_samples; x++) {
        t += length_of[x] / sp
        w += length_of[x] ^ 2 / sp
      }
      if (t > tokens[k]) tokens[k] = t
      if (w > work[k]) work[k] = w
      k++
    }
    for (r = first; r < first + sp; r++) at[r] = k
    if (k > n) n = k
  }
  micro_batches += n
  for (k = 0; k < n; k++) {
    sum_tokens += tokens[k]
    sum_work += work[k]
  }
}
END {
  for (i = 1; i < steps; i++)
    for (j = i + 1; j <= steps; j++)
      if (ms[j] < ms[i]) { x = ms[i]; ms[i] = ms[j]; ms[j] = x }
  cut = int(steps / 10)
  for (i = 1 + cut; i <= steps - cut; i++) trimmed += ms[i]
  printf "%.6g %.6g %.6g %.6g\n", trimmed / (steps - 2 * cut), micro_batches / steps, sum_tokens / steps, sum_work / steps
}
