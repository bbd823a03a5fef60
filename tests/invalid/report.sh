#!/bin/sh
# report.sh: every kind of wrong input to report and to the plots of runs: exit 1 or 2, one line on stderr that names the place,
# nothing on stdout, no file left or changed.
. tests/common.sh
cd "$work" || exit 1

"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=20000 -n 500 -o t.txt &&
  "$dcpsim" simulate --trace t.txt --model tiny-1d --cluster h200_8x1 --policy bucket,dcp --steps 3 --draws 0 \
    --result good.json --schedule 's-{policy}.jsonl' >/dev/null 2>&1 || exit 1
mkdir folder
: >empty.json
printf '  \n' >blank.json
printf '1\n2\n' >text.json
printf '{"schema": "dcpsim.plan/1"}\n' >plan.json
printf '{"schema": "dcpsim.result/1"}\n' >bare.json
head -c 2000 good.json >torn.json
grep -v '"gpu_hours"' good.json >field.json
sed 's/"sha256"/"md5"/' good.json >sha.json
sed 's/"tokens_per_s": [0-9.]*/"tokens_per_s": "fast"/' good.json >type.json
printf 'point,spec,a\n' >table.csv

# What is given.
refuse 2 'expected at least one RESULT' report -o x.html
refuse 2 '-o FILE is missing' report good.json
refuse 2 "a value is missing after '-o'" report good.json -o
refuse 2 "no such option '--to'" report good.json --to x.html
refuse 2 'RESULT cannot be -' report - -o x.html
# shellcheck disable=SC2046
refuse 2 'up to 64 RESULTs, got 65' report $(yes good.json | head -n 65) -o x.html

# What is in it.
for command in 'report good.json' 'plot speedup' 'plot sp_histogram' 'plot imbalance_gpus good.json'; do
  # shellcheck disable=SC2086
  {
    refuse 1 "cannot open .*'nosuch.json'" $command nosuch.json -o x.svg
    refuse 1 "'plan.json'.*dcpsim.result/1" $command plan.json -o x.svg
    refuse 1 "'bare.json' line 1: 'trace' is missing" $command bare.json -o x.svg
    refuse 1 "'torn.json' line" $command torn.json -o x.svg
    refuse 1 "'type.json' line [0-9]*: 'tokens_per_s' must be a number" $command type.json -o x.svg
  }
done
refuse 1 "cannot read 'folder'" report folder -o x.html
refuse 1 "'empty.json' is empty" report empty.json -o x.html
refuse 1 "'blank.json' is empty" report blank.json -o x.html
refuse 1 "'text.json' is neither a result" report text.json -o x.html
refuse 1 "'field.json' line [0-9]*: 'gpu_hours' is missing" report field.json -o x.html
refuse 1 "'sha.json' line [0-9]*: 'sha256' is missing" report sha.json -o x.html
refuse 1 "'table.csv' is not the table of a sweep" report table.csv -o x.html
refuse 1 "'text.json' is neither a result" report good.json text.json -o x.html

# Where it goes.
refuse 1 "cannot write 'folder'" report good.json -o folder
refuse 1 "cannot write 'no/such.html'" report good.json -o no/such.html
[ ! -e /dev/full ] || refuse 1 "cannot write '/dev/full'" report good.json -o /dev/full
echo old >x.html
refuse 1 "'gpu_hours' is missing" report field.json -o x.html
PATH=/nonexistent "$dcpsim" report good.json -o x.html 2>err </dev/null
[ $? -eq 1 ] && grep -q 'gnuplot is not installed' err && [ "$(cat x.html)" = old ] ||
  fail "without gnuplot: $(cat err)"
rm -f x.html err

# Published values.
published() {
  word=$1
  printf "$2" >p.csv
  refuse 1 "$word" plot speedup good.json --published p.csv -o x.svg
}
published "'p.csv': it holds none" ''
published "'p.csv': it holds none" 'case,value\n'
published "'p.csv': no column 'case'" 'policy,value\ndcp,2\n'
published "'p.csv': no column 'value'" 'case,metric,published\ndcp,a,2\n'
published "'p.csv' line 2: 1 fields, the header has 2" 'case,value\ndcp\n'
published "'p.csv' line 3: 'value' must be a number above 0, got 'x'" 'case,value\ndcp,2\ndcp,x\n'
published "'p.csv' line 2: 'value' must be a number above 0, got '0'" 'case,value\ndcp,0\n'
published "'p.csv' line 2: 'value' must be a number above 0, got 'nan'" 'case,value\ndcp,nan\n'
published "'p.csv' line 2: 'value' must be a number above 0, got ''" 'case,value\ndcp,\n'
published "'p.csv' line 2: the result has no policy 'dpc', did you mean 'dcp'" 'case,value\ndpc,2\n'
refuse 1 "cannot open published values 'nosuch.csv'" plot speedup good.json --published nosuch.csv -o x.svg
refuse 2 '--published is for speedup, not for imbalance' plot imbalance good.json --published p.csv -o x.svg
refuse 2 'expected KIND and INPUT, got 3' plot speedup good.json good.json -o x.svg

# Plots of several files.
refuse 1 "all runs are of 8 GPUs" plot imbalance_gpus good.json good.json -o x.svg
refuse 1 "'empty.json' is empty" plot imbalance_gpus empty.json -o x.svg
refuse 1 "'text.json' is neither a result" plot imbalance_gpus good.json text.json -o x.svg
printf 'point,spec,swept_a,policy,speedup,tokens_per_s,steps\n0,x,1,dcp,1,5,2\n' >few.csv
refuse 1 "'few.csv': no column 'imbalance_frac'" plot imbalance_gpus few.csv -o x.svg
python3 - <<'END'
import json
r = json.load(open("good.json"))
for p in r["policies"]:
    p["sp_histogram"] = {}
json.dump(r, open("none.json", "w"))
r["policies"][0]["sp_histogram"] = {"3": 1}
json.dump(r, open("three.json", "w"))
END
refuse 1 "'none.json': no policy has an 'sp_histogram'" plot sp_histogram none.json -o x.svg
refuse 1 "an SP degree is a power of two, got '3'" plot sp_histogram three.json -o x.svg
refuse 1 "schedule 'nosuch.jsonl'" plot step_times nosuch.jsonl -o x.svg
refuse 1 'good.json' plot step_times good.json -o x.svg
refuse 1 'empty.json' plot step_times empty.json -o x.svg
head -n 1 s-dcp.jsonl >head.jsonl
refuse 1 "'head.jsonl': no iteration has a 'predicted_time_s'" plot step_times head.jsonl -o x.svg
sed '2s/"predicted_time_s"/"predicted"/' s-dcp.jsonl >key.jsonl
refuse 1 "'key.jsonl': line 2" plot step_times key.jsonl -o x.svg
exit "$failed"
