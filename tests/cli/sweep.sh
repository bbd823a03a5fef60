#!/bin/sh
# sweep.sh: a sweep's rows are those of simulate; the same on any number of threads and ranks; killed at random and resumed,
# it ends with every row once; failed points are rows; plots of its table. KILLS=N: how often it is killed.
. tests/common.sh
cd "$work" || exit 1

"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=30000 -n 3000 -o t.txt || exit 1
"$dcpsim" trace generate lognormal:mean=500,sigma=0.5,max=9000 -n 2000 -o short.txt --seed 1 || exit 1
cat >s.json <<'END'
{"schema": "dcpsim.sweep/1",
 "base": {"model": "gpt-1.2b", "policy": ["bucket", "packed", "dcp"], "steps": 20},
 "grid": {"cluster": ["h200_8x1", "h200_8x2"], "trace": ["t.txt", "short.txt"], "seed": {"from": 0, "to": 2, "step": 1}},
 "zip": {"max_length": [8192, 32768, 100], "overlong": ["truncate", "drop", "drop"], "sp": ["auto", 16, 2]}}
END
"$dcpsim" sweep s.json -o one.csv -j 1 2>err || fail "sweep: exit $?"
grep -q "^36 points in 'one.csv', [0-9]* failed" err || fail "summary: $(cat err)"
sort one.csv >wanted

# The rows of a point are those of simulate: point 5 is h200_8x1, t.txt, seed 1, drop over 100.
"$dcpsim" simulate --model gpt-1.2b --policy bucket,packed,dcp --steps 20 --cluster h200_8x1 --trace t.txt --seed 1 \
  --max-length 100 --sp 2 --draws 0 --csv - | sed '1d; s/,[^,]*$//' >point || fail 'simulate'
grep '^5,' one.csv | cut -d, -f9- | sed 's/,$//' | cmp - point || fail 'a point and simulate differ'
[ "$(grep -c '^5,' one.csv)" -eq 3 ] || fail 'point 5: three rows wanted'
# A failed point is a row with its error: SP 16 on 8 GPUs.
grep -q "^1,[0-9a-f]*,h200_8x1,t.txt,0,32768,drop,16,,.*,--sp 16 on the 8 GPUs" one.csv || fail 'no row for a failed point'

# A sweep leaves out SP degrees that cannot be best or second; simulate plays them all: the same rows, runner-up included.
cat >auto.json <<'END'
{"schema": "dcpsim.sweep/1",
 "base": {"model": "gpt-1.2b", "policy": ["static", "bucket", "packed"], "steps": 12, "trace": "t.txt", "sp": "auto"},
 "grid": {"zero": [0, 1, 2, 3], "cluster": ["h200_8x1", "h200_8x4"]}}
END
"$dcpsim" sweep auto.json -o auto.csv -j 1 2>/dev/null || fail 'sweep of zero'
n=0
for zero in 0 1 2 3; do
  for cluster in h200_8x1 h200_8x4; do
    "$dcpsim" simulate --model gpt-1.2b --policy static,bucket,packed --steps 12 --cluster $cluster --trace t.txt \
      --zero $zero --draws 0 --csv - 2>/dev/null | sed '1d; s/,[^,]*$//' >point || fail "simulate --zero $zero"
    grep "^$n," auto.csv | cut -d, -f5- | sed 's/,$//' | cmp - point || fail "zero $zero, $cluster: sweep and simulate differ"
    n=$((n + 1))
  done
done
[ "$(wc -l <auto.csv)" -eq 25 ] || fail 'auto.csv: 24 rows wanted'

# Any number of threads and ranks.
"$dcpsim" sweep s.json -o two.csv -j 2 2>/dev/null && sort two.csv | cmp - wanted || fail '-j 2 differs'
"$dcpsim" sweep - -o - -j 7 2>/dev/null <s.json | sort | cmp - wanted || fail '-j 7 to stdout differs'
if command -v mpirun >/dev/null 2>&1 && ldd "$dcpsim" | grep -q libmpi; then
  ranks() {
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
      OMPI_MCA_mpi_yield_when_idle=1 mpirun "$@" 2>err </dev/null || fail "mpirun $*: exit $? $(cat err)"
  }
  ranks -np 2 "$dcpsim" sweep s.json -o ranks2.csv -j 1
  ranks -np 3 "$dcpsim" sweep s.json -o ranks3.csv -j 2
  sort ranks2.csv | cmp - wanted || fail '2 ranks differ'
  sort ranks3.csv | cmp - wanted || fail '3 ranks differ'
else
  echo 'skipped: ranks (no MPI)'
fi

# Killed again and again, then finished.
kill_and_resume() {
  rm -f killed.csv
  kills=0
  while [ "$kills" -lt "${KILLS:-8}" ]; do
    "$@" >/dev/null 2>&1 </dev/null &
    pid=$!
    sleep "0.$(od -An -N1 -tu1 /dev/urandom | awk '{ printf "%03d", 40 + $1 }')"
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    kills=$((kills + 1))
    # The table of a finished sweep starts over, so that every kill has something to hit.
    if [ "$(wc -l <killed.csv)" -ge "$(wc -l <wanted)" ]; then
      sort killed.csv | cmp - wanted || fail "after $kills kills the finished table differs"
      rm -f killed.csv
    fi
  done
  "$@" >/dev/null 2>&1 </dev/null || fail "the last resume: exit $?"
  sort killed.csv | cmp - wanted || fail "after $kills kills the table differs"
}
kill_and_resume "$dcpsim" sweep s.json -o killed.csv -j 1
kill_and_resume "$dcpsim" sweep s.json -o killed.csv -j 2
# One that is asked to stop says where its rows are.
sed 's/"seed": {"from": 0, "to": 2/"seed": {"from": 0, "to": 20000/' s.json >long.json
timeout -s TERM 1 "$dcpsim" sweep long.json -o long.csv -j 1 2>err
grep -q "^dcpsim: sweep: stopped; the points so far are in 'long.csv', and the same command goes on" err ||
  fail "stopped: $(cat err)"
# A finished sweep runs nothing and changes nothing.
cp killed.csv before.csv
"$dcpsim" sweep s.json -o killed.csv 2>err && cmp killed.csv before.csv || fail 'a finished table was touched'
grep -q "36 of them were there already" err || fail "summary of a finished sweep: $(cat err)"
# A row deleted by hand is run again.
grep -v '^5,' before.csv >killed.csv
"$dcpsim" sweep s.json -o killed.csv 2>/dev/null && sort killed.csv | cmp - wanted || fail 'a deleted point did not come back'

# Plots.
if command -v gnuplot >/dev/null 2>&1; then
  for kind in sweep_curves sweep_heatmap; do
    "$dcpsim" plot $kind one.csv -o "$kind.svg" && grep -q '</svg>' "$kind.svg" || fail "plot $kind"
  done
  grep -q 'max_length' sweep_curves.svg || fail 'the curves do not name their field'
  # The order of points in the table does not matter.
  { sed 1q one.csv && sed 1d one.csv | sort -s -t, -k1,1nr; } >turned.csv
  for kind in sweep_curves sweep_heatmap; do
    "$dcpsim" plot $kind turned.csv -o turned.svg && cmp "$kind.svg" turned.svg ||
      fail "plot $kind depends on the order of points"
  done
else
  echo 'skipped: plots (no gnuplot)'
fi
exit "$failed"
