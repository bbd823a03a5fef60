#!/bin/sh
# names.sh: names of files that mean something to a shell, to gnuplot, to HTML or to a terminal are only names: in plots, pages and
# messages.
. tests/common.sh
cd "$work" || exit 1
command -v gnuplot >/dev/null 2>&1 || { echo 'skipped: no gnuplot'; exit 0; }
"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=20000 -n 40 -o t.txt || exit 1

n=0
# try NAME: everything that shows the name of a trace.
try() {
  n=$((n + 1))
  mkdir "$n" && cd "$n" || exit 1
  cp ../t.txt "./$1"
  {
    "$dcpsim" plot lengths "./$1" -o lengths.svg &&
      "$dcpsim" simulate --trace "./$1" --model tiny-1d --cluster h200_8x1 --policy dcp --steps 1 --draws 0 --result r.json \
        --schedule s.jsonl --timeline tl.json &&
      "$dcpsim" plot timeline tl.json -o timeline.svg &&
      "$dcpsim" plot step_times s.jsonl -o steps.svg &&
      "$dcpsim" plot speedup r.json -o "./$1.svg" &&
      "$dcpsim" report r.json -o "./$1.html"
  } >out 2>err || { printf "%s\n" "$1: exit $?, $(cat err)"; failed=1; }
  ! grep -q '<b>pwned' ./*.html || { printf "%s\n" "$1: HTML of the name's"; failed=1; }
  "$dcpsim" trace info "./no$1" 2>err
  [ "$(tr -d '\033\007' <err | wc -c)" -eq "$(wc -c <err)" ] && [ "$(wc -l <err)" -eq 1 ] || { printf "%s\n" "$1: the message is not one plain line"; failed=1; }
  [ -z "$(find .. -name 'pwned*')" ] || { printf "%s\n" "$1: was run"; failed=1; }
  cd .. || exit 1
}
try 'a"; system("touch pwned").csv'
try "a'; system('touch pwned'); '.csv"
try 'a`touch pwned`.csv'
try 'a$(touch pwned).csv'
try "a' . system(\"touch pwned\") . '.csv"
try '<b>pwned-html.txt'
try 'a|touch pwned;.csv'
try '@a %s %n {Symbol a} \n_^.csv'
try "$(printf 'a\nset print "pwned"\nprint 1\n.csv')"
try "$(printf 'a\033[31m\007red.txt')"
try "$(printf 'broken \377\376 utf8.txt')"
try '-o.txt'

# Swept values and errors stand in plots, too.
cat >spec.json <<'END2'
{"schema": "dcpsim.sweep/1", "base": {"model": "tiny-1d", "cluster": "h200_8x1", "policy": "dcp", "steps": 1, "draws": 0},
 "grid": {"trace": ["1/a\"; system(\"touch pwned\").csv", "3/a`touch pwned`.csv", "2/a'; system('touch pwned'); '.csv"],
 "seed": [0, 1]}}
END2
"$dcpsim" sweep spec.json -o 'table`touch pwned`.csv' 2>/dev/null || fail 'sweep failed'
for kind in sweep_curves sweep_heatmap; do
  "$dcpsim" plot $kind 'table`touch pwned`.csv' -o "$kind.svg" || fail "plot $kind: exit $?"
done
"$dcpsim" report 'table`touch pwned`.csv' -o page.html || fail 'report of a sweep failed'
[ -z "$(find . -name 'pwned')" ] || fail 'a swept name was run'
exit "$failed"
