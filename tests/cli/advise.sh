#!/bin/sh
# advise.sh: --advise: its sentences, its object, equal on any number of threads; every extra run's command line makes the
# listed figures again; pages show it.
. tests/common.sh
cd "$work" || exit 1

# Samples of one length: nothing to cut, and policies that do the same.
yes 512 | head -n 2048 >equal.txt
"$dcpsim" simulate --trace equal.txt --model tiny-1d --cluster h200_8x1 --policy static,bucket --batch 8 --sp 1 --advise \
  >equal.out 2>/dev/null || fail "equal lengths: exit $?"
sed -n '/^Advice/,/^  What to use/p' equal.out | sed '$d' | tr -s ' \n' ' ' | # words do not depend on line breaks, figures on fits
  sed 's/[0-9][0-9.,]*\( [kMG]\)\{0,1\}\([ ,;:)x]\)/#\2/g' >equal.masked
tr -s ' \n' ' ' >equal.wanted <<'TEXT'
Advice
  Use bucket, without recomputation, SP #: # tokens/s, #x bucket as it was run; optimizer steps of # tokens.
  No difference shown: static reaches #x the tokens/s of bucket, a tie within the interval.
  Compared static reaches #x of bucket (no difference shown), in tokens/s.
  Steps Optimizer steps of all policies hold about as many tokens (#), so tokens/s compare.
  Recompute Without it: static #x, bucket #x the tokens/s. None of them overtakes static.
  Longest The longest sample has # tokens. What fits alone, in tokens, by SP degree:
  static, bucket: SP #: #, #: #, #: #, #: #
  Cutting Not tried: the longest # % are no longer than the next.
  More GPUs #: #x the tokens/s (#), #x per GPU; # GPU-hours per billion tokens, now #; steps of # tokens: faster, but dearer per token.
  #: #x the tokens/s (#), #x per GPU; # GPU-hours per billion tokens, now #; steps of # tokens: faster, but dearer per token.
TEXT
cmp -s equal.masked equal.wanted || fail "equal lengths: $(diff equal.wanted equal.masked)"
[ "$(sed -n '/^Advice/,$p' equal.out | wc -l)" -le 40 ] || fail 'more than a screen'
sed '/^  What to use/,$d' equal.out | awk 'length($0) > 160' | grep -q . && fail 'wider than 160 columns'

# Mixed lengths: every command line gives what its run is said to have given.
"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=60000 -n 3000 -o "it's.txt" || exit 1
on="--model tiny-1d --cluster h200_8x1 --policy bucket,packed,dcp --advise --json"
# shellcheck disable=SC2086
{
  "$dcpsim" simulate --trace "it's.txt" $on -j 1 2>/dev/null | grep -v 'plan_time_s\|"result"' >a.json
  "$dcpsim" simulate --trace "it's.txt" $on -j 7 --result r.json 2>/dev/null | grep -v 'plan_time_s\|"result"' >b.json
  "$dcpsim" simulate --trace - $on 2>/dev/null <"it's.txt" >stdin.json || fail "stdin: exit $?"
  "$dcpsim" simulate --trace "it's.txt" --model tiny-1d --cluster h200_8x1 --policy bucket,packed,dcp --json \
    >plain.json 2>/dev/null
}
cmp a.json b.json || fail 'one thread and seven: different advice'
python3 - "$dcpsim" <<'PY' || failed=1
import json, shlex, subprocess, sys
dcpsim = sys.argv[1]
failed = False

def fail(*what):
    global failed
    failed = True
    print(*what)

def rerun(command):
    words = shlex.split(command)
    if words[:2] != ["dcpsim", "simulate"]:
        fail("not a simulate command:", command)
    out = subprocess.run([dcpsim] + words[1:] + ["--json"], capture_output=True, text=True)
    if out.returncode != 0:
        fail(command, "exit", out.returncode, out.stderr)
        return {}
    return {p["name"]: p for p in json.loads(out.stdout)["policies"]}

result, plain = json.load(open("r.json")), json.load(open("plain.json"))
advice = result["advice"]
if "advice" in plain:
    fail("advice without --advise")
if json.load(open("stdin.json"))["advice"]["fastest"] != advice["fastest"]:
    fail("a trace on stdin gives other advice")
runs = advice["extra_runs"]
kinds = ["no_recompute", "adaptive", "equal_steps", "cut", "nodes_x2", "nodes_x4"]
if [r["kind"] for r in runs] != kinds:
    fail("kinds of extra runs:", [r["kind"] for r in runs])
made = 0
for run in runs:
    if ("why_not" in run) == ("command" in run):
        fail("either a command or a reason:", run)
    if "command" not in run:
        continue
    made += 1
    again = rerun(run["command"])
    if set(again) != {p["name"] for p in run["policies"]}:
        fail(run["command"], "runs", list(again))
        continue
    for p in run["policies"]:
        for key in ["tokens_per_s", "tokens_per_s_per_gpu", "tokens_per_step", "gpu_hours", "sp"]:
            if p[key] != again[p["name"]][key]:
                fail(run["kind"], p["name"], key, p[key], "is", again[p["name"]][key], "when run again")
        if run["kind"] == "equal_steps" and p["speedup_interval"] != again[p["name"]]["speedup_interval"]:
            fail("equal steps: another interval when run again")
if made < 5:
    fail("only", made, "extra runs were made")
use = advice["use"]
again = rerun(use["command"])
if list(again) != [use["name"]] or again[use["name"]]["tokens_per_s"] != use["tokens_per_s"]:
    fail("the command to use gives", again)
# What leads, and by how much, is what a run with that baseline says.
fastest = max(result["policies"], key=lambda p: p["tokens_per_s"])
if advice["fastest"]["name"] != fastest["name"]:
    fail("fastest:", advice["fastest"]["name"])
by_name = {p["name"]: p for p in result["policies"]}
for lead in advice["fastest"]["leads"]:
    over = rerun("dcpsim simulate --trace \"it's.txt\" --model tiny-1d --cluster h200_8x1 --policy bucket,packed,dcp "
                 "--baseline " + lead["over"])[fastest["name"]]
    if lead["lead"] != over["speedup"] or lead["interval"] != over["speedup_interval"]:
        fail("lead over", lead["over"], lead["lead"], lead["interval"], "is", over["speedup"], over["speedup_interval"])
sys.exit(failed)
PY

# A cluster from a file has no name to give it more nodes; the rest is advised.
cat >cluster.json <<'TEXT'
{"schema": "dcpsim.cluster/1", "name": "mine", "gpu": "h200_sxm", "gpus_per_node": 8, "nodes": 1,
 "memory_bytes": 150754820096, "peak_flops_per_s": 989e12, "nvlink_bytes_per_s": 450e9, "nic_bytes_per_s": 50e9}
TEXT
"$dcpsim" simulate --trace equal.txt --model tiny-1d --cluster cluster.json --policy bucket --advise 2>err >own.out ||
  fail "a cluster file: $(cat err)"
grep -q 'More GPUs  Not tried: only clusters named' own.out || fail 'a cluster file: nothing said about more GPUs'

# Pages.
"$dcpsim" report r.json -o r.html || fail 'no page'
"$dcpsim" simulate --trace equal.txt --model tiny-1d --cluster h200_8x1 --policy bucket --result plain2.json >/dev/null 2>&1
"$dcpsim" report plain2.json -o plain.html || fail 'no page without advice'
grep -q '<h3>Advice</h3>' r.html || fail 'a page without its advice'
grep -q '<dt>Cutting</dt>' r.html || fail 'a page without all topics'
grep -q 'Advice' plain.html && fail 'advice on a page of a result that has none'
sed 's/"noise_frac"/"noise"/' r.json >broken.json
"$dcpsim" report broken.json -o broken.html 2>err && fail 'broken advice accepted'
grep -q "^dcpsim: .*result 'broken.json'.*'noise_frac' is missing" err || fail "broken advice: $(cat err)"
[ -e broken.html ] && fail 'broken advice left a page'
exit $failed
