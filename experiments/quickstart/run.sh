#!/bin/sh
# From nothing to answers: installs what is missing, builds, and compares six ways of training on sequences of very
# different lengths, on 32 H200 GPUs: real Wikipedia document lengths with a 7B text model, then a video mix with the 1.2B
# video DiT. Tables to the terminal; results (JSON), plots, a Perfetto timeline and a schedule to experiments/quickstart/out.
set -eu
cd "$(dirname "$0")/../.."
. tests/packages.sh
packages_install core

if command -v ninja >/dev/null 2>&1; then
  export CMAKE_GENERATOR=Ninja
fi
echo "building build/release/dcpsim"
mkdir -p build
if ! { cmake --preset release -DDCPSIM_WERROR=OFF -DBUILD_TESTING=OFF &&
  cmake --build --preset release -j "$(nproc)"; } >build/quickstart.log 2>&1; then
  tail -n 20 build/quickstart.log >&2
  echo "the build failed; all of it is in build/quickstart.log" >&2
  exit 1
fi
dcpsim=build/release/dcpsim
out=experiments/quickstart/out
rm -rf "$out"
mkdir -p "$out"
$dcpsim --version

# study NAME TITLE ARGUMENTS...: the table, its JSON and its two plots.
study() {
  name=$1
  printf '\n=== %s\n\n' "$2"
  shift 2
  echo "\$ dcpsim simulate $*" | sed "s|$out/||g"
  $dcpsim simulate "$@" --result "$out/$name.json"
  for kind in speedup imbalance; do
    for type in svg png; do
      $dcpsim plot $kind "$out/$name.json" -o "$out/$name.$kind.$type"
    done
  done
}

all=static,bucket,packed,dcp_rebalance,dcp_inter,dcp
published=bucket,dcp_rebalance,dcp_inter,dcp
text="--trace wikipedia --model llama2-7b --cluster h200_8x4"
# Word lists, to be split:
# shellcheck disable=SC2086
{
  study text 'Wikipedia lengths to 131,072 tokens: each policy at its own batch sizes' \
    $text --max-length 131072 --policy $all
  study text_equal 'The same with comparable optimizer steps: at most 8M tokens each' \
    $text --max-length 131072 --policy $all --tokens-per-step 8388608
  study text_no_recompute 'The same, but nobody recomputes: how much of the gain was recomputation' \
    $text --max-length 131072 --policy bucket,packed,dcp_rebalance,dcp_inter --recompute none --tokens-per-step 8388608
  study text_published 'The same under the published rules: drop_last, 70 % of memory, SP 8 for bucket' \
    $text --max-length 131072 --policy $published --drop-last --memory-cap-frac 0.7 --sp 8
  study text_full 'The whole trace, to 1,823,777 tokens: one sample in a million decides a fixed SP' \
    $text --policy $all
}

$dcpsim trace generate zipf_video:offset=15,size=20000,image_frac=5 --seed 1 -o "$out/video_mix.csv"
video="--trace $out/video_mix.csv --model stdit3-xl-2 --cluster h200_8x4"
# shellcheck disable=SC2086
{
  study video 'Video mix (20,000 videos of 51 to 408 frames, 100,000 images): each policy at its own batch sizes' \
    $video --policy $all
  study video_equal 'The same with comparable optimizer steps: at most 16M tokens each' \
    $video --policy $all --tokens-per-step 16777216
  study video_published 'The same under the published rules: drop_last, 70 % of memory, SP 4 for bucket' \
    $video --policy $published --drop-last --memory-cap-frac 0.7 --sp 4
}

printf '\n=== A schedule to run and a timeline to look at: DCP on the Wikipedia lengths\n\n'
# shellcheck disable=SC2086
$dcpsim simulate $text --max-length 131072 --policy dcp --tokens-per-step 8388608 \
  --schedule "$out/dcp.schedule.jsonl" --timeline "$out/dcp.timeline.json" >"$out/dcp.txt"
$dcpsim check "$out/dcp.schedule.jsonl"
for type in svg png; do
  $dcpsim plot timeline "$out/dcp.timeline.json" -o "$out/dcp.timeline.$type"
  $dcpsim plot lengths wikipedia -o "$out/wikipedia.lengths.$type"
done

printf '\nin %s:\n' "$out"
cat <<'END'
  *.json             results of each comparison (dcpsim.result/1)
  *.speedup.svg      throughput and where the time goes; *.imbalance.svg, wikipedia.lengths.svg, and all as .png
  dcp.timeline.json  opens in https://ui.perfetto.dev; dcp.timeline.svg is its first steps
  dcp.schedule.jsonl a checked schedule, one line per optimizer step
END
