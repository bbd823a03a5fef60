#!/bin/sh
# trace.sh: what `dcpsim trace` prints for shipped traces and fixed seeds, byte for byte. UPDATE=1 rewrites the files.
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
here=$(dirname "$0")/trace
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# golden NAME ARGUMENTS...
golden() {
  name=$1
  shift
  "$dcpsim" trace "$@" >"$work/$name" 2>&1 || { echo "$name: exit $?"; failed=1; }
  if [ "${UPDATE:-0}" = 1 ]; then
    cp "$work/$name" "$here/$name"
  fi
  diff -u "$here/$name" "$work/$name" || failed=1
}

golden info_wikipedia.txt info wikipedia
golden info_sharegpt.json info sharegpt --json
"$dcpsim" trace generate zipf_video:offset=5,size=2000,image_frac=1 --seed 3 -o "$work/video.csv" || failed=1
golden info_video.txt info "$work/video.csv"
golden info_batches.txt info "$here/batches.json"
golden batches_as.json convert "$here/batches.json" -o - --to batches
golden lognormal.txt generate lognormal:mean=2000,sigma=1 -n 20 --seed 1 -o -
golden mixture.jsonl generate mixture:0.9*sharegpt+0.1*constant:length=7 -n 20 --seed 1 -o - --to jsonl
golden video.csv generate zipf_video:offset=5,size=10,image_frac=1 --seed 1 -o -
[ "$failed" -eq 0 ]
