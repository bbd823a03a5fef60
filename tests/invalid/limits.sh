#!/bin/sh
# limits.sh: the table of limits in docs/FORMATS.md, row by row: an input one step beyond each gets exit code 1 (2 on the
# command line) and one line that says where and what. What takes gigabytes to reach is refused before, by what a header says.
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
dcpsim=$(cd "$(dirname "$dcpsim")" && pwd)/$(basename "$dcpsim")
root=$PWD
corpus=$root/tests/fuzz/corpus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

# beyond STATUS MESSAGE ARGUMENTS...: the message's words, `|` between them, in this order in the one line on stderr.
beyond() {
  status=$1
  words=$(printf '%s' "$2" | sed 's/[].*^$[]/\\&/g; s/|/.*/g')
  shift 2
  "$dcpsim" "$@" >out 2>err </dev/null
  got=$?
  if [ $got -ne "$status" ] || [ "$(wc -l <err)" -ne 1 ] || ! grep -q "^dcpsim: .*$words" err; then
    echo "$*: exit $got instead of $status, stderr without '$words': $(head -c 500 err)"
    failed=1
  fi
}

CORPUS=$corpus python3 - <<'END' || exit 1
import json, os, struct
corpus = os.environ["CORPUS"]

def put(name, text):
    with open(name, "wb" if isinstance(text, bytes) else "w") as file:
        file.write(text)

def read(name):
    return json.load(open(f"{corpus}/{name}"))

# Traces
put("length.txt", "5\n1000000001\n")
put("nested.jsonl", '{"length": 5}\n{"length": 5, "more": ' + "[" * 65 + "]" * 65 + "}\n")
put("line.txt", "5\n" + "1" * (64 << 20) + "\n")
put("line.csv", "length\n" + "1" * (64 << 20) + "\n")
put("value.json", "[5,\n" + "1" * (64 << 20) + "]")
os.mkdir("mds")
put("mds/index.json", '{"version": 2, "shards": [' + " " * (64 << 20) + "]}")
put("histogram.csv", "length,weight\n" + "1,1\n" * 10000001)
put("video.csv", "num_frames,height,width\n1,64,64\n1,100001,64\n")

def npy(header, size=None):
    size = len(header) if size is None else size
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + header

put("header.npy", npy(b" " * 65537))
put("samples.npy", npy(b"{'descr': '<u8', 'fortran_order': False, 'shape': (4000000001,), }\n"))
put("product.npy", npy(b"{'descr': '<u8', 'fortran_order': False, 'shape': (9223372036854775807,), }\n"))
put("samples.idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 4000000001, 4000000002))
put("product.idx", b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2**64 - 1, 2**64 - 1))

# JSON documents
put("deep.json", '{\n"schema": "dcpsim.experiment/1", "trace": ' + "[" * 64 + "]" * 64 + "}")
profile = read("profile/a")
for key, values in {"world": [16777217], "batch": [2**30 + 1], "time_s": [1e9 * 1.01], "buckets": [65536]}.items():
    p = json.loads(json.dumps(profile))
    text = None
    if key == "world":
        p["world"] = values[0]
    elif key == "buckets":
        p["buckets"] = [p["buckets"][0]] * values[0]
    else:
        def change(node):
            if isinstance(node, dict):
                return {k: values[0] if k == key else change(v) for k, v in node.items()}
            return [change(v) for v in node] if isinstance(node, list) else node
        p = change(p)
    put(f"profile_{key}.json", json.dumps(p, indent=1))
model = read("model/llama2-7b.json")
for key in "layers", "hidden", "heads", "vocab", "ffn", "head_dim", "kv_heads":
    put(f"model_{key}.json", json.dumps({**model, key: 16777217}, indent=1))
cluster = read("cluster/a")
put("cluster_gpus.json", json.dumps({**cluster, "gpus_per_node": 9}, indent=1))
put("cluster_nodes.json", json.dumps({**cluster, "nodes": 2049}, indent=1))
params = read("params/a")

def put_params(name, change):
    p = json.loads(json.dumps(params))
    change(p)
    put(name, json.dumps(p, indent=1))

put_params("params_axis.json", lambda p: p["gemm"].update(m=list(range(1, 130))))
put_params("params_tables.json", lambda p: p["attention"].update(tables=p["attention"]["tables"][:1] * 17))
put_params("params_in_step.json", lambda p: p["in_step"].update({f"f{i}": p["in_step"]["fused"] for i in range(9)}))
put_params("params_curves.json", lambda p: p["network"].update(curves=p["network"]["curves"][:1] * 513))

# Sweeps
def spec(name, **more):
    put(name, json.dumps({"schema": "dcpsim.sweep/1", "base": {"trace": "t", "model": "tiny-1d", "cluster": "h200_8x1"}, **more}))

spec("points.json", grid={"seed": {"from": 1, "to": 1001, "step": 1}, "samples": {"from": 1, "to": 1000, "step": 1}})
spec("values.json", grid={"seed": {"from": 1, "to": 1000001, "step": 1}})
numbers = """seed seeds draws steps max_length samples tokens_per_step max_sp batch buckets_per_octave pack_tokens rank_tokens
    global_batch max_gas min_gas head_chunk zero"""
flags = "no_shuffle skip_bad epoch drop_last round_gib"
words = dict(params="p", baseline="bucket", format="text", column="c", overlong="drop", sp="auto", shard="world", sp_kind="ulysses",
             framework="fused", pick="published", weighting="published", memory_rule="published", grad_dtype="fp32")
fields = {**{n: 1 for n in numbers.split()}, **{n: True for n in flags.split()}, **words}
spec("fields.json", grid={name: [value] for name, value in list(fields.items())[:33]})

# Timelines
events = read("timeline/tl2.json")["traceEvents"]
span = next(e for e in events if e["ph"] == "X")
with open("names.json", "w") as file:
    others = [json.dumps(e) for e in events if e["ph"] == "M"]
    ops = [json.dumps({**span, "name": f"op{i}", "ts": 10 * i, "dur": 1}) for i in range(1001)]
    file.write('{"traceEvents":[\n' + ",\n".join(others + ops) + "\n]}\n")

# Schedules
lines = open(f"{corpus}/schedule/s-dcp.jsonl").read().split("\n")
header = json.loads(lines[0])
put("world.jsonl", json.dumps({**header, "world": 1048577}) + "\n" + "\n".join(lines[1:]))
one = json.loads(lines[1])
batch = one["groups"][0]["micro_batches"][0]
batch.update(samples=list(range(11)), shapes=[[1000000000]] * 11, layout="packed")
batch.pop("padded_shape", None)
put("tokens.jsonl", lines[0] + "\n" + json.dumps(one) + "\n")

# Rows and logs
gemm = "op,dtype,m,n,k,time_s\ngemm,bf16,8,8,8,1e-5\n"
put("row_time.csv", gemm + "gemm,bf16,8,8,8,1000001\n")
for at, key in enumerate("mnk"):
    shape = ["8"] * 3
    shape[at] = str(2**31)
    put(f"row_{key}.csv", gemm + f"gemm,bf16,{','.join(shape)},1e-5\n")
put("row_seqlen.csv", f"op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,time_s\nattention_forward,bf16,1,1,{2**28 + 1},8,8,128,1\n")
put("row_bytes.csv", f"op,dtype,ranks,nodes,bytes,time_s\nall_reduce,bf16,8,1,{2**50 + 1},1\n")
log = open(f"{corpus}/nccl/a").read().split("\n")
row = next(i for i, line in enumerate(log) if " float " in line)
put("fields.log", "\n".join(log[:row + 1] + [log[row + 1] + " 5" * 48] + log[row + 2:]))
put("ranks.log", "\n".join(log).replace("#  Rank  1 ", "#  Rank 1048576 "))

# Plots
result = read("result/r.json")
result["policies"] = [result["policies"][0]] * 33
put("policies.json", json.dumps(result))
put("residuals.csv", ",".join(["op"] + ["x"] * 64) + "\n")
put("published_fields.csv", ",".join(["case"] + ["x"] * 64) + "\n")
put("published_rows.csv", "case,value\n" + f"{read('result/r.json')['policies'][0]['name']},1\n" * 257)
table = open(f"{corpus}/sweep_table/sweep.csv").read().split("\n")
put("table_fields.csv", "point,spec," + ",".join(["x"] * 256) + "\n")
rows = [row.split(",") for row in table if row]
at = {name: i for i, name in enumerate(rows[0])}

def put_table(name, n, column, value):
    lines = [rows[0]]
    for i in range(n):
        row = list(rows[3])
        row[0], row[at[column]] = value(i)
        lines.append(row)
    put(name, "".join(",".join(row) + "\n" for row in lines))

put_table("table_values.csv", 4097, "swept_seed", lambda i: (str(i), str(i)))
put_table("table_policies.csv", 17, "policy", lambda i: ("0", f"p{i}"))
END

beyond 1 "trace 'length.txt' line 2: |must be at most 1000000000" trace info length.txt
beyond 1 "trace 'nested.jsonl' line 2" trace info nested.jsonl
beyond 1 "trace 'line.txt' line 2: longer than 64 MiB" trace info line.txt --format text
beyond 1 "trace 'line.csv' line 2: longer than 64 MiB" trace info line.csv --format csv
beyond 1 "trace 'value.json'|64 MiB" trace info value.json --format json
beyond 1 "trace 'mds/index.json' line 1: longer than 64 MiB" trace info mds/index.json --format mds
beyond 1 "trace 'histogram.csv' line 10000002: a histogram of more than 10000000 rows" trace info histogram.csv
beyond 1 "trace 'video.csv' line 3: 'height' must be at most 100000 pixels, got 100001" trace info video.csv
beyond 1 "trace 'header.npy'|header" trace info header.npy
beyond 1 "trace 'samples.npy': more than 4000000000 samples" trace info samples.npy
beyond 1 "trace 'product.npy': " trace info product.npy
beyond 1 "trace 'samples.idx': " trace info samples.idx
beyond 1 "trace 'product.idx': " trace info product.idx
beyond 2 'from 1 to 4000000000' trace generate constant:length=5 -n 4000000001 -o big.txt
beyond 2 'mixture: at most 32 parts' trace generate "mixture:$(yes '0.5*wikipedia' | head -n 33 | paste -sd+)" -n 5 -o big.txt

truncate -s 257M large
simulate="simulate --trace wikipedia --model tiny-1d --cluster h200_8x1"
# $simulate is a word list
# shellcheck disable=SC2086
{
  beyond 1 "experiment 'deep.json' line 2: nested deeper than 64 levels" simulate deep.json
  beyond 1 "experiment 'large' is larger than 256 MiB" simulate large
  beyond 1 "model './large' is larger than 256 MiB" simulate --trace wikipedia --model ./large --cluster h200_8x1
  beyond 1 "parameters './large' is larger than 256 MiB" $simulate --params ./large
  beyond 1 "'large' is larger than 256 MiB" sweep large -o t.csv
  beyond 2 'more than 256 bounds' $simulate --bucket-bounds "$(seq -s, 1 257)"
  beyond 2 '--seeds must be an integer from 1 to 1000' $simulate --seeds 1001
  beyond 2 '--threads must be an integer from 1 to 256' $simulate --threads 257
}
beyond 1 "sweep 'points.json' line 1: the sweep has more than 1000000 points" sweep points.json -o t.csv
beyond 1 "sweep 'fields.json' line 1: more than 32 swept fields" sweep fields.json -o t.csv
beyond 1 "sweep 'values.json' line 1: the range of 'seed' has more than 1000000 values" sweep values.json -o t.csv
for key in "axis 128" "tables 16" "in_step 8" "curves 512"; do
  # shellcheck disable=SC2086
  beyond 1 "parameters './params_${key% *}.json' line |${key#* }" $simulate --params "./params_${key% *}.json"
done
for key in world batch time_s buckets; do
  beyond 1 "profile 'profile_$key.json' line |$(echo "$key" | sed "s/world/'world' must|16777216/; s/batch/'batch' must|1073741824/
    s/time_s/'time_s' must|1000000000/; s/buckets/at most 65535 buckets, got 65536/")" plan --policy dcp --profile profile_$key.json
done
beyond 1 "model './model_layers.json' line |'layers' must be|1024, got 16777217" simulate --trace wikipedia --cluster h200_8x1 \
  --model ./model_layers.json
for key in hidden heads vocab ffn head_dim kv_heads; do
  beyond 1 "model './model_$key.json' line |'$key' must be|16777216, got 16777217" simulate --trace wikipedia --cluster h200_8x1 \
    --model ./model_$key.json
done
beyond 1 "cluster './cluster_gpus.json' line |'gpus_per_node' must be|8, got 9" simulate --trace wikipedia --model tiny-1d \
  --cluster ./cluster_gpus.json
beyond 1 "cluster './cluster_nodes.json' line |'nodes' must be|2048, got 2049" simulate --trace wikipedia --model tiny-1d \
  --cluster ./cluster_nodes.json
beyond 2 "unknown cluster 'h200_8x2049'|1..2048" simulate --trace wikipedia --model tiny-1d --cluster h200_8x2049

beyond 1 "schedule 'large' line 1: longer than 268435456 bytes" check large

beyond 1 "timeline 'names.json' line |too many different operation names" plot timeline names.json -o p.svg

beyond 1 "rows 'large' is larger than 256 MiB" calibrate check large --params h200_sxm
beyond 1 "'large' is larger than 256 MiB" calibrate import nccl-tests large --csv rows.csv
beyond 1 "rows 'row_time.csv' line 3: 'time_s' must|at most 1e+06, got '1000001'" calibrate check row_time.csv --params h200_sxm
for key in m n k; do
  beyond 1 "rows 'row_$key.csv' line 3: '$key'|2147483647|2147483648" calibrate check row_$key.csv --params h200_sxm
done
beyond 1 "rows 'row_seqlen.csv' line 2: 'seqlen'|268435456|268435457" calibrate check row_seqlen.csv --params h200_sxm
beyond 1 "rows 'row_bytes.csv' line 2: 'bytes'|1125899906842624|1125899906842625" calibrate check row_bytes.csv --params h200_sxm
# Logs are read leniently: what cannot be is left out, with a warning.
for log in 'fields.log|line 11: there is more on the line' 'ranks.log|line 5: a line of the device list could not be read'; do
  "$dcpsim" calibrate import nccl-tests "${log%|*}" --csv - >out 2>err
  grep -q "^dcpsim: warning: log '${log%|*}' ${log#*|}" err || { echo "$log: $(cat err)"; failed=1; }
done

result=$corpus/result/r.json
beyond 1 "result 'policies.json' line |'policies' must hold 1 to 32 policies, has 33" plot speedup policies.json -o p.svg
beyond 1 "rows 'residuals.csv' line 1: more than 64 fields" plot residuals residuals.csv -o p.svg
beyond 1 "published values 'published_fields.csv' line 1: more than 64 fields" plot speedup "$result" \
  --published published_fields.csv -o p.svg
beyond 1 "published values 'published_rows.csv'|more than 256" plot speedup "$result" --published published_rows.csv -o p.svg
beyond 1 "'table_fields.csv' line 1: more than 256 fields" plot sweep_curves table_fields.csv -o p.svg
beyond 1 "'table_values.csv'|'seed' has more than 4096 values" plot sweep_curves table_values.csv -o p.svg
beyond 1 "'table_policies.csv' line 18: more than 16 policies" plot sweep_curves table_policies.csv -o p.svg
# shellcheck disable=SC2046
beyond 2 'up to 16 schedules, got 17' plot step_times $(yes "$corpus/schedule/s-dcp.jsonl" | head -n 17) -o p.svg
# shellcheck disable=SC2046
beyond 2 '64' report $(yes "$result" | head -n 65) -o page.html

# finding WORDS FILE: a schedule's own mistakes are findings, on stdout.
finding() {
  (cd "$root" && "$dcpsim" check "$work/$2") >out 2>err
  [ $? -eq 1 ] && grep -q "$1" out && return
  echo "check $2: no '$1': $(head -n 3 out err)"
  failed=1
}
finding "header: line 1: 'world' must be an integer from 1 to 1048576" world.jsonl
finding 'more than 10000000000 tokens' tokens.jsonl
[ -z "$(find . -name '*.svg' -o -name '*.html' -o -name 't.csv' -o -name 'big.txt' -o -name rows.csv)" ] || { ls; failed=1; }
exit $failed
