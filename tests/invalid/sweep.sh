#!/bin/sh
# sweep.sh: every kind of wrong input to sweep and its plots: exit 1 or 2, one line on stderr that names the place, nothing on
# stdout, no file left or changed.
. tests/common.sh
cd "$work" || exit 1

# spec WORD LINES: a spec of schema, base and these lines is refused with exit 1. The lines begin at line 3.
spec() {
  word=$1
  printf '{"schema": "dcpsim.sweep/1",\n"base": {"trace": "good.txt", "model": "tiny-1d", "cluster": "h200_8x1"},\n%s}\n' \
    "$2" >s.json
  refuse 1 "sweep 's.json'.*$word" sweep s.json -o out.csv
}

# base WORD FIELDS: the same with these fields as base, at line 2, and one swept field.
base() {
  word=$1
  printf '{"schema": "dcpsim.sweep/1",\n"base": {%s},\n"grid": {"seed": [1, 2]}}\n' "$2" >s.json
  refuse 1 "sweep 's.json'.*$word" sweep s.json -o out.csv
}

printf '100\n2000\n300\n' >good.txt
mkdir folder
good='"trace": "good.txt", "model": "tiny-1d", "cluster": "h200_8x1"'

# The command line.
refuse 2 'expected one SPEC.json, got 0' sweep -o out.csv
refuse 2 'expected one SPEC.json, got 2' sweep a b -o out.csv
refuse 2 'o FILE is missing' sweep a.json
refuse 2 "no such option '--nosuch'" sweep a.json --nosuch
refuse 2 'a value is missing after' sweep a.json -o
for bad in 0 -1 x 1.5 '' 257; do
  refuse 2 "must be an integer from 1 to 256, got '$bad'" sweep a.json -o out.csv -j "$bad"
done
refuse 1 "cannot open sweep 'nosuch.json'" sweep nosuch.json -o out.csv
refuse 1 "sweep 'folder'" sweep folder -o out.csv
refuse 1 "sweep 'good.txt'" sweep good.txt -o out.csv

# Keys and values.
printf '{"schema": "dcpsim.experiment/1"}\n' >s.json
refuse 1 "dcpsim.sweep/1" sweep s.json -o out.csv
printf '{"schema": "dcpsim.sweep/1"}\n' >s.json
refuse 1 "'base' is missing" sweep s.json -o out.csv
spec "nothing to sweep" '"grid": {}'
spec "line 3: unknown key 'gird', did you mean 'grid'" '"gird": {}'
spec "line 4: unknown key 'sed', did you mean 'seed'" '"grid": {"zero": [1],
"sed": [1]}'
spec "line 3: unknown key 'max_lenght', did you mean 'max_length'" '"zip": {"max_lenght": [1]}'
spec "line 3: 'grid' must be an object" '"grid": [1]'
spec "line 3: 'seed' must be a list of values, or a range" '"grid": {"seed": 1}'
spec "line 3: 'seed' has no values" '"grid": {"seed": []}'
spec "line 4: 'seed' must be an integer" '"grid": {"seed": [1,
"x"]}'
spec "line 3: 'seed' must be an integer >= 0, got '-1'" '"grid": {"seed": [-1]}'
spec "line 3: 'zero' must be an integer from 0 to 3, got '4'" '"grid": {"zero": {"from": 0, "to": 4, "step": 1}}'
spec "line 3: 'overlong' 'cut' is not valid (valid: drop" '"grid": {"overlong": ["cut"]}'
spec "line 3: 'overlong' must be a string" '"grid": {"overlong": {"from": 0, "to": 4, "step": 1}}'
spec "line 3: 'max_gas' must be an integer" '"grid": {"max_gas": {"from": 1, "to": 2, "step": 0.5}}'
spec "line 3: 'policy' must be a string or an array" '"grid": {"policy": [1]}'
spec "line 3: 'drop_last' must be true or false" '"grid": {"drop_last": [1]}'
spec "line 3: 'csv' does not belong into a sweep" '"grid": {"csv": ["a"]}'
spec "line 3: 'profile' is for plan" '"zip": {"profile": ["a"]}'
spec "line 3: 'trace' is swept, but 'base' has it" '"grid": {"trace": ["a"]}'
spec "line 4: 'seed' is in 'grid' and in 'zip'" '"grid": {"seed": [1, 2]},
"zip": {"seed": [1, 2]}'
spec "line 4: fields of 'zip' need equally many values: 'seed' has 2, 'zero' 1" '"zip": {"seed": [1, 2],
"zero": [1]}'
base "line 2: 'model' is missing" '"trace": "good.txt", "cluster": "h200_8x1"'
base "line 2: unknown key 'polcy', did you mean 'policy'" "$good, \"polcy\": \"dcp\""
base "line 2: 'advise' does not belong into a sweep" "$good, \"advise\": true"
base "line 2: 'timeline' does not belong into a sweep" "$good, \"timeline\": \"x\""
base "line 2: 'offload' is for plan" "$good, \"offload\": \"optimizer\""
base "line 2: 'steps' must be an integer" "$good, \"steps\": 0"
base "line 2: 'trace' cannot be -" '"trace": "-", "model": "tiny-1d", "cluster": "h200_8x1"'

# Ranges.
range() {
  spec "$1" "\"grid\": {\"max_length\": {$2}}"
}
range "line 3: unknown key 'form', did you mean 'from'" '"form": 1, "to": 2, "step": 1'
range "line 3: 'to' is missing" '"from": 1, "step": 1'
range "line 3: the range of 'max_length' needs either 'step' or 'factor'" '"from": 1, "to": 2'
range "line 3: the range of 'max_length' needs either" '"from": 1, "to": 2, "step": 1, "factor": 2'
range "line 3: 'from' must be a number" '"from": "a", "to": 2, "step": 1'
range "line 3: the range of 'max_length' never gets from 1 to 2" '"from": 1, "to": 2, "step": 0'
range "line 3: the range of 'max_length' never gets from 1 to 2" '"from": 1, "to": 2, "step": -1'
range "line 3: the range of 'max_length' never gets from 1 to 8" '"from": 1, "to": 8, "factor": 1'
range "line 3: the range of 'max_length': 'from', 'to' and 'factor' must be positive" '"from": 0, "to": 8, "factor": 2'
range "line 3: the range of 'max_length' has more than 1000000 values" '"from": 1, "to": 9000000, "step": 1'
range "line 3: the range of 'max_length' has more than 1000000 values" '"from": 1, "to": 9, "step": 1e-9'
spec "more than 1000000 points" '"grid": {"seed": {"from": 1, "to": 1001, "step": 1}, "samples": {"from": 1, "to": 1000, "step": 1}}'

# The table.
printf '{"schema": "dcpsim.sweep/1", "base": {%s}, "grid": {"seed": [1, 2]}}\n' "$good" >s.json
refuse 1 "cannot write 'folder'" sweep s.json -o folder
refuse 1 "cannot write 'no/such'" sweep s.json -o no/such
[ ! -e /dev/full ] || refuse 1 "cannot write '/dev/full'" sweep s.json -o /dev/full
refuse 1 "'good.txt' line 1: not the table of this sweep" sweep s.json -o good.txt
"$dcpsim" sweep s.json -o table.csv 2>/dev/null || fail 'a good sweep failed'
printf '{"schema": "dcpsim.sweep/1", "base": {%s}, "grid": {"seed": [1, 3]}}\n' "$good" >s.json
refuse 1 "'table.csv' line 2: it was written from another spec" sweep s.json -o table.csv
sed 's/"seed"/"zero"/' s.json >z.json
refuse 1 "'table.csv' line 1: not the table of this sweep" sweep z.json -o table.csv
printf '{"schema": "dcpsim.sweep/1", "base": {"trace": "nosuch", "model": "tiny-1d", "cluster": "h200_8x1"},\n"grid": {"seed": [1]}}\n' >n.json
"$dcpsim" sweep n.json -o none.csv 2>err
[ $? -eq 1 ] && grep -q 'every point failed' err && grep -q "trace 'nosuch': no such file" none.csv ||
  fail "a sweep without any result: $(cat err)"
rm -f err

# Plots of tables.
for kind in sweep_curves sweep_heatmap; do
  refuse 1 "cannot open 'nosuch.csv'" plot $kind nosuch.csv -o x.svg
  refuse 1 "'good.txt' is not the table of a sweep" plot $kind good.txt -o x.svg
  refuse 1 "'none.csv': no point of the sweep has a result" plot $kind none.csv -o x.svg
  sed '2s/,bucket,/,/' table.csv >short.csv
  refuse 1 "'short.csv' line 2: not a row of the table" plot $kind short.csv -o x.svg
  : >empty.csv
  refuse 1 "'empty.csv' is not the table of a sweep: it is empty" plot $kind empty.csv -o x.svg
done
refuse 1 'a heat map needs two swept fields' plot sweep_heatmap table.csv -o x.svg
exit "$failed"
