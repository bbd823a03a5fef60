#!/bin/sh
# simulate.sh: every kind of wrong input to simulate and plan: exit 1 or 2, one line on stderr that names the place, nothing
# on stdout, no file left.
. tests/common.sh
cd "$work" || exit 1

# refuse simulate on a good trace, model and cluster
wrong() {
  status=$1
  word=$2
  shift 2
  refuse "$status" "$word" simulate --trace good.txt --model tiny-1d --cluster h200_8x1 "$@"
}

# experiment WORD JSON_FIELDS: a file with these fields is refused with exit 1
experiment() {
  word=$1
  printf '{"schema": "dcpsim.experiment/1",\n%s}\n' "$2" >e.json
  refuse 1 "experiment 'e.json'.*$word" simulate e.json
  rm -f e.json
}

printf '100\n2000\n300\n' >good.txt
printf '\211PNG\r\n\032\n\001\002\003\000\377' >junk.bin
: >empty
mkdir folder

# Files: the trace, the model, the cluster, the parameters, the experiment.
refuse 2 'nosuch' simulate --trace nosuch --model tiny-1d --cluster h200_8x1
refuse 1 'folder' simulate --trace folder --model tiny-1d --cluster h200_8x1
refuse 1 'junk.bin' simulate --trace junk.bin --model tiny-1d --cluster h200_8x1
refuse 1 'empty' simulate --trace empty --model tiny-1d --cluster h200_8x1
printf '5\n99999999999999999999\n' >huge.txt
refuse 1 "huge.txt' line 2" simulate --trace huge.txt --model tiny-1d --cluster h200_8x1
printf '5\nnan\n' >nan.txt
refuse 1 "nan.txt' line 2" simulate --trace nan.txt --model tiny-1d --cluster h200_8x1
printf '5\n-7\n' >neg.txt
refuse 1 "neg.txt' line 2" simulate --trace neg.txt --model tiny-1d --cluster h200_8x1
for what in model cluster params; do
  good='--model tiny-1d --cluster h200_8x1'
  # shellcheck disable=SC2086
  {
    refuse 2 'nosuch' simulate --trace good.txt $good --$what nosuch
    refuse 1 'nosuch/x.json' simulate --trace good.txt $good --$what nosuch/x.json
    refuse 1 'junk' simulate --trace good.txt $good --$what ./junk.bin
    refuse 1 'empty' simulate --trace good.txt $good --$what ./empty
    refuse 1 'folder' simulate --trace good.txt $good --$what ./folder
  }
done
wrong 2 'must contain {policy}' --policy bucket,dcp --chakra out
wrong 2 'cannot go to stdout' --policy bucket --chakra -
wrong 1 "folder 'good.txt'" --policy bucket --chakra good.txt
wrong 1 "folder 'nosuch/out'" --policy bucket --chakra nosuch/out
refuse 1 'nosuch.json' simulate nosuch.json
refuse 1 "experiment 'folder'" simulate folder
refuse 1 "experiment 'junk.bin'" simulate junk.bin
refuse 1 "experiment 'empty'" simulate empty
refuse 1 "experiment 'good.txt'" simulate good.txt
experiment "line 2: unknown key 'polcy', did you mean 'policy'" '"polcy": "bucket"'
experiment "line 3: 'seed' must be an integer" '"zero": 1,
"seed": "x"'
experiment "line 2: 'seed' must be an integer >= 0, got '-1'" '"seed": -1'
experiment "line 2: 'steps' must be an integer >= 1, got '1.5'" '"steps": 1.5'
experiment "line 2: 'zero' must be an integer from 0 to 3, got '4'" '"zero": 4'
experiment "line 2: 'zero' must be an integer" '"zero": null'
experiment "line 2: 'memory_cap_frac' must be a number from" '"memory_cap_frac": 1e300'
experiment "line 2" '"memory_cap_frac": 1e999'
experiment "line 2" '"memory_cap_frac": NaN'
experiment "line 2: 'json' must be true or false" '"json": 1'
experiment "line 2: 'trace' must be a string" '"trace": ["a"]'
experiment "line 2: 'policy' must be a string or an array of strings" '"policy": [1]'
experiment "line 2: 'bucket_bounds' must ascend" '"bucket_bounds": [512, 512]'
experiment "line 2: 'overlong' 'cut' is not valid (valid: drop, truncate, split)" '"overlong": "cut"'
experiment "line 2: 'straggler' must be RANK:FACTOR" '"straggler": "3"'
experiment "line 3" '"seed": 1,
"seed": 2'
printf '{"schema": "dcpsim.result/1"}\n' >other.json
refuse 1 'dcpsim.experiment/1' simulate other.json
printf '{"seed": 1}\n' >none.json
refuse 1 "'schema' is missing" simulate none.json
printf '{"schema": "dcpsim.experiment/1", "seed": 1' >cut.json
refuse 1 'cut.json' simulate cut.json
refuse 2 'at most one experiment file' simulate cut.json none.json
refuse 2 '--trace is missing' simulate
refuse 2 '--trace is missing' simulate --advise
refuse 2 '--model is missing' simulate --trace good.txt
refuse 2 '--cluster is missing' simulate --trace good.txt --model tiny-1d

# Options: names and numbers.
wrong 2 "unknown policy 'nosuch' (valid: given, static, bucket" --policy nosuch
wrong 2 "unknown policy '' " --policy bucket,,dcp
wrong 2 "unknown policy 'bukcet', did you mean 'bucket'?" --policy bukcet
wrong 2 "got '128k': write all digits" --max-length 128k
wrong 2 "did you mean 'wikipedia'?" --trace wikipdia
wrong 2 "cluster 'cpu_2x1' has no parameters of its own" --cluster cpu_2x1
wrong 2 "'bucket' is named twice" --policy bucket,bucket
wrong 2 "'packed' is not one of the policies" --policy bucket,dcp --baseline packed
wrong 2 "unknown policy 'nosuch'" --baseline nosuch
wrong 2 "unknown cluster '9x9'; valid: h200" --cluster 9x9
wrong 2 "gpt-1.2b" --model nosuch
wrong 2 "h200_sxm" --params nosuch
wrong 2 "'fst' is not valid (valid: fused, eager, eager_apex)" --framework fst
wrong 2 "simulate: unknown option '--nosuch'" --nosuch
wrong 2 "a value is missing after --seed" --seed
wrong 2 "takes no value" --json=yes
wrong 2 "takes no value" --advise=yes
refuse 2 "unknown option '--advise'" plan --trace good.txt --model tiny-1d --cluster h200_8x1 --policy bucket --advise
wrong 2 "must not be empty" --model=
for bad in -1 0 1.5 x '' ' 1' 1e3 99999999999999999999 nan 0x10; do
  wrong 2 "--steps must be an integer >= 1 *, got '$bad'" --steps "$bad"
done
for bad in 0 -0.5 1.01 7 nan inf x ''; do
  wrong 2 "--memory-cap-frac must be a number from 0.01 to 1, got '$bad'" --memory-cap-frac "$bad"
done
wrong 2 "--seed must be" --seed x
wrong 2 "--seed must be" --seed -1
wrong 2 "--zero must be an integer from 0 to 3, got '4'" --zero 4
wrong 2 "-j must be" -j 0
wrong 2 "--sp must be an integer from 1 to 1000000 or auto, got 'many'" --sp many
wrong 2 "--jitter" --jitter -1
wrong 2 "--straggler must be RANK:FACTOR" --straggler 3
wrong 2 "--straggler must be RANK:FACTOR" --straggler 3:0
wrong 2 "ranks 0 to 7" --straggler 8:2
wrong 2 "--bucket-bounds must ascend, got 5 after 9" --bucket-bounds 9,5
wrong 2 "--bucket-bounds must be an integer" --bucket-bounds 9,,5
wrong 2 "the last bucket bound is 512" --bucket-bounds 256,512
wrong 2 "exclude each other" --epoch --steps 3
wrong 2 "not modelled" --offload optimizer
wrong 2 "only one of" --json --csv -
wrong 2 "{policy}" --policy bucket,dcp --schedule out.jsonl
wrong 2 "{policy}" --policy bucket,dcp --timeline out.json
wrong 2 "power of two" --sp 3
wrong 2 "--sp 16 on the 8 GPUs" --sp 16
wrong 2 "--max-sp 64 is more than the 8 GPUs" --max-sp 64
wrong 2 "--sp 4 is more than --max-sp 2" --sp 4 --max-sp 2
wrong 2 "does not fit model" --sp-kind dsp
refuse 2 "does not divide the 12 GPUs" simulate --trace good.txt --model tiny-1d --cluster h200_4x3 --sp 8

# What cannot run.
printf '51,480,854\n' | { echo num_frames,height,width; cat; } >video.csv
refuse 1 "'video.csv' has videos" simulate --trace video.csv --model tiny-1d --cluster h200_8x1
refuse 1 "'good.txt' has lengths" simulate --trace good.txt --model tiny-2d --cluster h200_8x1
refuse 2 "is for text" simulate --trace video.csv --model tiny-2d --cluster h200_8x1 --max-length 10 --overlong split
refuse 2 "are for text" simulate --trace video.csv --model tiny-2d --cluster h200_8x1 --bucket-bounds 10
refuse 1 "fits no GPU of 'h200_8x1'.*GiB.*cap.*zero 3" simulate --trace good.txt --model llama2-70b --cluster h200_8x1
refuse 1 "fits no GPU.*more GPUs" simulate --trace good.txt --model llama2-70b --cluster h200_1x1 --zero 3
printf '900000\n' >long.txt
refuse 1 "policy 'bucket' can run no sample" simulate --trace long.txt --model llama2-7b --cluster h200_8x1 --sp 1 --policy bucket
refuse 1 "policy 'packed' can run no sample" simulate --trace long.txt --model llama2-7b --cluster h200_8x1 --sp 1 --policy packed
refuse 1 "every sample is longer than --max-length 10" simulate --trace good.txt --model tiny-1d --cluster h200_8x1 --max-length 10
printf '30000\n' >batch.txt
refuse 2 "--batch 64 does not fit.*largest that does is [0-9]" simulate --trace batch.txt --model llama2-7b --cluster h200_8x1 --sp 1 --batch 64 --policy static
refuse 2 "--batch 64 does not fit.*largest that does is [0-9]" simulate --trace batch.txt --model llama2-7b --cluster h200_8x1 --sp 1 --batch 64 --policy bucket
refuse 2 "--batch 9999 does not fit.*'dcp'.*largest that does is [0-9]" simulate --trace batch.txt --model llama2-7b --cluster h200_8x1 --batch 9999 --policy dcp
refuse 2 "--pack-tokens 99999999 does not fit.*largest that does is [0-9]" simulate --trace batch.txt --model llama2-7b --cluster h200_8x1 --pack-tokens 99999999 --policy packed

# What cannot be written.
for option in --csv --schedule --timeline; do
  wrong 1 'folder' --policy bucket $option folder
  wrong 1 'no/such' --policy bucket $option no/such/file
  [ ! -e /dev/full ] || wrong 1 '/dev/full' --policy bucket $option /dev/full
done
if [ -e /dev/full ]; then
  for format in '' --json; do
    # shellcheck disable=SC2086
    "$dcpsim" simulate --trace good.txt --model tiny-1d --cluster h200_8x1 --policy bucket $format >/dev/full 2>err
    if [ $? -ne 1 ] || [ "$(wc -l <err)" -ne 1 ]; then
      fail "a full disk behind stdout ($format) was not reported"
    fi
  done
  rm -f err
fi

# plan
refuse 2 'takes one policy' plan --policy bucket,dcp --trace good.txt --model tiny-1d --cluster h200_8x1
refuse 2 '--trace is missing' plan --policy dcp
refuse 2 'already says' plan --policy dcp --profile nosuch.json --trace good.txt
refuse 1 'nosuch.json' plan --policy dcp --profile nosuch.json
refuse 2 "did you mean '--profile'" plan --policy dcp --profil x
refuse 1 "profile 'other.json'" plan --policy dcp --profile other.json
exit "$failed"
