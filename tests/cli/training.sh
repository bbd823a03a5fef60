#!/bin/sh
# training.sh: published training runs: table, JSON, CSV, one row by operation, the fit and what it writes, wrong usage.
. tests/common.sh
rows=calib/data/training_throughput.csv

"$dcpsim" calibrate check --training $rows calib/data/training_memory.csv >"$work/table" || fail "check fails"
grep -q 'mosaicml/llm-foundry H100 80GB BF16 ' "$work/table" || fail "no group in the table"
grep -q 'float8' "$work/table" || fail "no reason in the table"
"$dcpsim" calibrate check --training $rows --json --csv "$work/rows.csv" >"$work/json" || fail "check --json fails"
grep -q '"schema": "dcpsim.check_training/1"' "$work/json" || fail "wrong schema"
[ "$(wc -l <"$work/rows.csv")" -eq "$(wc -l <$rows)" ] || fail "not one CSV line a row"
awk -F, 'NR == 1 { n = NF } NF != n { exit 1 }' "$work/rows.csv" || fail "CSV lines of different width"
"$dcpsim" calibrate check --training $rows --ops e039 | grep -q '^attention_backward' || fail "no operations of e039"

cp calib/params/h100_sxm.json "$work/p.json"
"$dcpsim" calibrate fit-training $rows --write "$work/p.json" >"$work/fit" || fail "fit-training fails"
grep -q 'calibrate fit-training: .* H100 rows' "$work/p.json" || fail "the fit was not written"
cp "$work/p.json" "$work/q.json"
"$dcpsim" calibrate fit-training $rows --write "$work/q.json" >/dev/null || fail "fit-training fails again"
cmp -s "$work/p.json" "$work/q.json" || fail "the second fit differs"

# refuses STATUS WORD ARGUMENTS...: that exit code, one line with the word on stderr, nothing on stdout.
refuses() {
  want=$1
  word=$2
  shift 2
  "$dcpsim" calibrate "$@" >"$work/out" 2>"$work/err"
  status=$?
  if [ "$status" -ne "$want" ] || [ -s "$work/out" ] || [ "$(wc -l <"$work/err")" -ne 1 ] ||
    ! grep -q -e "$word" "$work/err"; then
    fail "calibrate $*: exit $status, $(cat "$work/err")"
  fi
}
refuses 2 'no file of rows' check --training
refuses 2 'no such option' check --training $rows --bogus
refuses 2 'both write to stdout' check --training $rows --json --csv -
refuses 2 "no row has the id 'zz'" check --training $rows --ops zz
refuses 1 'is not predicted: the optimizer runs on the CPU' check --training $rows --ops e179
refuses 2 'unknown parameters' check --training $rows --params nope
refuses 2 'rows must be files' fit-training -
refuses 1 'cannot open' fit-training $rows --write "$work/none/p.json"
printf 'id,source\na,b\n' >"$work/short.csv"
refuses 1 "line 2: column 'model' is missing" check --training "$work/short.csv"
exit $failed
