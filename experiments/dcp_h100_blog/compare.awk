# Every row of the second file against the row of the same case and metric in the first, to 1e-6. Rows of counts over
# all of a table (summary) are compared like any other.
BEGIN { FS = "," }
FNR == 1 { file++; next }
file == 1 { expected[$1, $2] = $4; next }
{
  rows++
  if (!(($1, $2) in expected)) { print "no row " $1 "," $2 " in results.csv"; bad++; next }
  x = expected[$1, $2]
  d = $4 - x; if (d < 0) d = -d
  size = x < 0 ? -x : x
  if (d > 1e-6 * size) { print $1 "," $2 ": " $4 ", results.csv says " x; bad++ }
}
END {
  if (rows == 0) { print "nothing to compare"; bad++ }
  print rows " rows compared with results.csv, " bad + 0 " differ"
  exit bad > 0
}
