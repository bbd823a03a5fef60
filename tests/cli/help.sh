#!/bin/sh
# help.sh: the program and its commands explain themselves; unknown words are met with the nearest known one.
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
failed=0

# says WORD ARGUMENTS...: exit 0, the word on stdout, nothing on stderr.
says() {
  word=$1
  shift
  if ! out=$("$dcpsim" "$@" 2>&1) || ! printf '%s\n' "$out" | grep -q -e "$word"; then
    echo "dcpsim $*: no '$word' in:"
    printf '%s\n' "$out" | head -n 5
    failed=1
  fi
}

# refuses WORD ARGUMENTS...: exit 2, the word in one line on stderr, nothing on stdout.
refuses() {
  word=$1
  shift
  err=$("$dcpsim" "$@" 2>&1 >/dev/null)
  status=$?
  if [ "$status" -ne 2 ] || [ "$(printf '%s\n' "$err" | wc -l)" -ne 1 ] || ! printf '%s\n' "$err" | grep -q -e "$word"; then
    echo "dcpsim $*: exit $status, '$err'"
    failed=1
  fi
}

says 'usage: dcpsim COMMAND' --help
says 'dcpsim [0-9]' --version
for command in simulate plan check trace plot report list calibrate; do
  says "usage: dcpsim $command" "$command" --help
done
says '--tokens-per-step N' simulate --help
says 'default: 0.9' simulate --help
says 'bucket,packed,dcp_inter,dcp)' simulate --help
says '--profile FILE' plan --help
for kind in policies models clusters traces params formats plots; do
  says '[a-z]' list "$kind"
done
says '--published CSV' plot --help
says step_times list plots
says 'RESULT\.\.\. -o FILE.html' report --help
says dcp_rebalance list policies
says llama2-7b list models
says h200_8x4 list clusters
says wikipedia list traces
says h200_sxm list params
says 'dcpsim.sweep/1' sweep --help
refuses "did you mean 'simulate'" simulat
refuses 'valid: simulate' 'nosuch!'
refuses "did you mean 'models'" list model
refuses "did you mean '--policy'" simulate --polcy=x
refuses "did you mean '--tokens-per-step'" simulate --token-per-step 5
refuses "unknown option '--schedule'" plan --schedule x
[ "$("$dcpsim" simulate --help | awk 'length($0) > 120 || / $/' | wc -l)" -eq 0 ] || {
  echo "simulate --help has lines over 120 columns or trailing blanks"
  failed=1
}
exit "$failed"
