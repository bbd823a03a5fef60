#!/bin/sh
# Reruns the experiments, their short parts where all takes minutes, and compares with the committed results.csv: every row
# that was written must be there with the same numbers, to 1e-6. Names the case, the metric and both values of a difference.
# The program is $DCPSIM. An argument names the only experiment to run.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${DCPSIM:?the program to test}"
export DCPSIM LC_ALL=C

# compare NAME COMMITTED NEW
compare() {
  awk -F, -v name="$1" -v committed="$2" '
    function near(a, b,    d, s) {
      if (a == b) return 1
      if (a == "" || b == "") return 0
      d = a - b; if (d < 0) d = -d
      s = a < 0 ? -a : a + 0
      return d <= 1e-6 * s
    }
    FILENAME == committed { for (i = 3; i <= 5; i++) value[$1, $2, i] = $i; known[$1, $2] = 1; if (FNR == 1) header = $0; next }
    FNR == 1 { if ($0 != header) { print name ": header is " $0 ", committed " header; bad++ } title_3 = $3; title_4 = $4; title_5 = $5; next }
    {
      rows++
      if (!(($1, $2) in known)) { print name ": " $1 ", " $2 ": not in the committed results.csv"; bad++; next }
      for (i = 3; i <= 5; i++)
        if (!near(value[$1, $2, i], $i)) {
          print name ": " $1 ", " $2 ": " (i == 3 ? title_3 : i == 4 ? title_4 : title_5) " is " $i ", committed " value[$1, $2, i]; bad++
        }
    }
    END { if (!rows) { print name ": no rows"; bad++ } print name ": " rows + 0 " rows compared, " bad + 0 " differences"; exit bad > 0 }' "$2" "$3"
}

# run NAME OUTPUT_FOLDER OPTIONS...
run() {
  name=$1
  folder=$2
  shift 2
  [ -z "$only" ] || [ "$only" = "$name" ] || return 0
  begin=$(date +%s)
  ran=$((ran + 1))
  if ! sh "experiments/$name/run.sh" "$@" >"$work/log" 2>&1; then
    tail -n 20 "$work/log"
    echo "experiments/$name/run.sh $*: failed"
    failed=1
  elif ! compare "$name" "experiments/$name/results.csv" "experiments/$name/$folder/results.csv"; then
    failed=1
  fi
  echo "$name: $(($(date +%s) - begin)) s"
}

# run_alone SCRIPT OPTIONS...: seconds, which no two runs share, so nothing to compare: the script's own checks must hold.
run_alone() {
  script=experiments/$1
  shift
  name=$(basename "$(dirname "$script")")
  [ -z "$only" ] || [ "$only" = "$name" ] || return 0
  begin=$(date +%s)
  ran=$((ran + 1))
  if ! sh "$script" "$@" >"$work/log" 2>&1; then
    tail -n 20 "$work/log"
    echo "$script $*: failed"
    failed=1
  fi
  echo "$name: $(($(date +%s) - begin)) s"
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# A comparison that cannot fail would be none: one number changed by 1e-4 must be found, one by 1e-8 must not.
printf 'case,metric,published,simulated,rel_error\na,x,1,2.5,0.1\na,y,,3,\n' >"$work/committed"
printf 'case,metric,published,simulated,rel_error\na,y,,3.0003,\n' >"$work/far"
printf 'case,metric,published,simulated,rel_error\na,x,1,2.500000025,0.1\n' >"$work/near"
printf 'case,metric,published,simulated,rel_error\na,z,,1,\n' >"$work/other"
head -n 1 "$work/committed" >"$work/none"
expected='self-test: a, y: simulated is 3.0003, committed 3'
if [ "$(compare self-test "$work/committed" "$work/far" | head -n 1)" != "$expected" ] ||
  compare self-test "$work/committed" "$work/other" >/dev/null || compare self-test "$work/committed" "$work/none" >/dev/null ||
  ! compare self-test "$work/committed" "$work/near" >/dev/null; then
  echo "tests/experiments.sh: the comparison does not find what it should"
  exit 1
fi

only=${1-}
failed=0
ran=0
run validation out
run megatron_dynamic_cp out/short --short
run dcp_h100_blog out/short --short
run dcp_h200 out/short --short
run real_lengths out/short --short
run_alone performance/scale.sh --short
if [ $ran = 0 ]; then
  echo "tests/experiments.sh: no experiment '$only'"
  exit 2
fi
exit $failed
