# Which grid point is which mix, from bucket's throughput alone: "long" is 15/4000/1, a setting committed in the
# published repository, and gives the scale; "short" and "balanced" are the grid points whose throughput relative to
# it is nearest to the published ratio.
FILENAME ~ /published/ {
  split($0, f, ",")
  if (f[2] == "mega_elements_per_s.bucket") published[f[1]] = f[3]
  next
}
{
  # elements over seconds, the first iteration's wait for its loader (results.awk) included
  sum[$1] += $8 / ($4 + 0.009 * $9)
  n[$1]++
}
function distance(point, mix,    x) {
  x = log(sum[point] / n[point] / (sum[long] / n[long]) / (published[mix] / published["long"]))
  return x < 0 ? -x : x
}
function choose(mix,    point, best) {
  for (point in sum)
    if (best == "" || distance(point, mix) < distance(best, mix) || \
        (distance(point, mix) == distance(best, mix) && point < best)) best = point
  gsub(/\//, " ", best)
  print mix, best
}
END {
  long = "15/4000/1"
  choose("short")
  choose("balanced")
  print "long 15 4000 1"
}
