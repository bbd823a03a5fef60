# A profile (dcpsim.profile/1) to lines "NAME bucket best_sp sp batch seconds", one per SP degree of each bucket.
function value(text, key,    rest) {
  rest = substr(text, index(text, "\"" key "\":") + length(key) + 3)
  sub(/[,}].*/, "", rest)
  gsub(/"/, "", rest)
  return rest
}
{
  buckets = split($0, bucket, /\{"name":/)
  for (i = 2; i <= buckets; i++) {
    bucket[i] = "\"name\":" bucket[i]
    rows = split(bucket[i], row, /\{"sp":/)
    for (j = 2; j <= rows; j++) {
      row[j] = "\"sp\":" row[j]
      print name, value(bucket[i], "name"), value(row[1], "sp"), value(row[j], "sp"), value(row[j], "batch"), \
        value(row[j], "time_s")
    }
  }
}
