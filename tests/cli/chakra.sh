#!/bin/sh
# chakra.sh: Chakra execution traces read back by a reader of their own: well-formed, ordered, alike on all ranks of a
# group, as long as the simulated step when replayed; and nothing half-written.
. tests/common.sh

cat >"$work/check.py" <<'END'
import json, os, sys
COMP, SEND, RECV, COLL = 4, 5, 6, 7

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at

def fields(data):
    """(field, value) of a protobuf message: integers and byte strings."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            assert at + size <= len(data)
            value, at = data[at:at + size], at + size
        yield key >> 3, value

def packed(data):
    at, out = 0, []
    while at < len(data):
        value, at = varint(data, at)
        out.append(value)
    return out

def read(path):
    data, at, messages = open(path, "rb").read(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        assert at + size <= len(data), "cut off"
        messages.append(data[at:at + size])
        at += size
    assert dict(fields(messages[0])) == {1: b"0.0.4"}
    nodes = []
    for message in messages[1:]:
        node = {"deps": [], "us": 0}
        for field, value in fields(message):
            if field == 10:
                parts = dict(fields(value))
                name = parts.pop(1).decode()
                (node[name],) = parts.values()
            elif field == 5:
                node["deps"] = packed(value)
            else:
                node[{1: "id", 2: "name", 3: "type", 7: "us"}[field]] = value
        nodes.append(node)
    return nodes

def replay(ranks, groups):
    """Microseconds of the step: every node starts when what it depends on has ended and, a collective, when all its
    members have come to it. Sends take their time, receives end with their send."""
    ends = [dict() for _ in ranks]
    arrived, sent, at = {}, {}, [0] * len(ranks)
    counts = [{} for _ in ranks]
    progress = True
    while progress:
        progress = False
        for r, nodes in enumerate(ranks):
            while at[r] < len(nodes):
                n = nodes[at[r]]
                ready = max([ends[r][d] for d in n["deps"]], default=0)
                if n["type"] == COLL:
                    members = groups[n["pg_name"].decode()]
                    key = (n["pg_name"], counts[r].get(n["pg_name"], 0))
                    meeting = arrived.setdefault(key, {})
                    meeting[r] = ready
                    if len(meeting) < len(members):
                        break
                    ready = max(meeting.values())
                    counts[r][n["pg_name"]] = key[1] + 1
                elif n["type"] in (SEND, RECV):
                    key = (n["comm_src"], n["comm_dst"], n["comm_tag"], n["type"])
                    number = counts[r].get(key, 0)
                    if n["type"] == SEND:
                        sent[key[:3] + (number,)] = ready + n["us"]
                    elif key[:3] + (number,) not in sent:
                        break
                    else:
                        ready = max(ready, sent[key[:3] + (number,)])
                    counts[r][key] = number + 1
                ends[r][n["id"]] = ready + n["us"]
                at[r] += 1
                progress = True
    assert all(at[r] == len(ranks[r]) for r in range(len(ranks))), "deadlock: %s" % at
    return max(max(e.values()) for e in ends)

def main(folder, result, exact):
    result = json.load(open(result))
    (policy,) = result["policies"]
    world = result["gpus"]
    assert sorted(os.listdir(folder)) == sorted(["groups.json"] + [f"step.{r}.et" for r in range(world)])
    groups = json.load(open(folder + "/groups.json"))
    ranks = [read(f"{folder}/step.{r}.et") for r in range(world)]
    assert sum(map(len, ranks)) == policy["chakra"]["nodes"] and policy["chakra"]["ranks"] == world
    orders = {name: set() for name in groups}
    compute_us = 0
    for r, nodes in enumerate(ranks):
        own = {name: [] for name in groups if r in groups[name]}
        for i, n in enumerate(nodes):
            assert n["id"] == i + 1 and all(0 < d < n["id"] for d in n["deps"]), n
            assert len(set(n["deps"])) == len(n["deps"])
            if n["type"] == COLL:
                assert n["comm_type"] in (0, 2, 6, 7) and n["comm_size"] > 0
                own[n["pg_name"].decode()].append((n["name"], n["comm_type"], n["comm_size"], n["us"]))
            elif n["type"] in (SEND, RECV):
                assert n["comm_src" if n["type"] == SEND else "comm_dst"] == r and n["comm_size"] > 0
            else:
                assert n["type"] == COMP, n
                compute_us += n["us"] if not n["is_cpu_op"] else 0
        for name, order in own.items():
            orders[name].add(tuple(order))
    assert all(len(o) == 1 for o in orders.values()), "ranks of a group issue different collectives"
    def messages(kind):
        return sorted((n["comm_src"], n["comm_dst"], n["comm_tag"], n["comm_size"])
                      for nodes in ranks for n in nodes if n["type"] == kind)
    assert messages(SEND) == messages(RECV)
    rounding = policy["chakra"]["rounding_s"]
    assert 0 <= rounding <= 0.5e-6 + 1e-12
    assert abs(compute_us * 1e-6 - policy["chakra"]["compute_s"]) <= world * rounding + 1e-9
    share = policy["share"]
    busy = sum(share[k] for k in ("compute", "padding", "recompute", "optimizer")) * policy["time_s"] * world
    step = replay(ranks, groups) * 1e-6
    if exact:  # no slowdown beside collectives, no host time: what is simulated is what is written
        assert abs(busy - compute_us * 1e-6) <= world * rounding + 1e-6 * busy, (busy, compute_us)
        assert abs(step / policy["time_s"] - 1) < exact, (step, policy["time_s"])
    else:
        assert compute_us * 1e-6 <= busy + world * rounding + 1e-9, (compute_us * 1e-6, busy)
        assert step <= policy["time_s"] * 1.001, (step, policy["time_s"])

main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
END

# Parameters without the two things that a trace leaves to its reader.
python3 - "$work/alone.json" <<'END' || exit 1
import json, sys
p = json.load(open("calib/params/h200_sxm.json"))
p["overlap"]["slowdown_frac"] = 0
for scalars in [p["host"]] + list(p["in_step"].values() if isinstance(p["in_step"], dict) else p["in_step"]):
    if isinstance(scalars, dict):
        for key in scalars:
            if key == "host_op_s":
                scalars[key] = 0
json.dump(p, open(sys.argv[1], "w"))
END

# written EXACT ARGUMENTS...: one step of one policy is written and stands the check
number=0
written() {
  exact=$1
  shift
  number=$((number + 1))
  if ! "$dcpsim" simulate --steps 1 --draws 0 "$@" --chakra "$work/$number" --result "$work/$number.json" \
    >"$work/out" 2>"$work/err"; then
    echo "simulate $*: failed: $(head -n 1 "$work/err")"
    failed=1
  elif ! grep -q 'Chakra nodes' "$work/err"; then
    echo "simulate $*: the rounding is not reported"
    failed=1
  elif ! python3 "$work/check.py" "$work/$number" "$work/$number.json" "$exact"; then
    echo "simulate $*: see above"
    failed=1
  fi
}

"$dcpsim" trace generate lognormal:mean=2000,sigma=1.2,max=60000 -n 3000 -o "$work/t.txt" || exit 1
"$dcpsim" trace generate zipf_video:offset=5,size=2000,image_frac=0.5 -n 300 --seed 3 -o "$work/v.csv" || exit 1
tiny="--trace $work/t.txt --model tiny-1d"
# shellcheck disable=SC2086
{
  written 0.002 $tiny --cluster h200_8x1 --params "$work/alone.json" --policy bucket --sp 1
  written 0.002 $tiny --cluster h200_8x1 --params "$work/alone.json" --policy static --sp 8
  written 0.002 $tiny --cluster h200_8x1 --params "$work/alone.json" --policy bucket --sp 1 --jitter 0.2 --straggler 3:2
  written 0.002 $tiny --cluster h200_8x1 --params "$work/alone.json" --policy packed --sp 1 --zero 3
  written 0 $tiny --cluster h200_8x2 --policy dcp
  written 0 $tiny --cluster h200_8x2 --policy dcp --zero 3
  written 0 $tiny --cluster h200_8x2 --policy dcp_inter --zero 2 --shard node
  written 0 $tiny --cluster h200_8x2 --policy dcp_rebalance --tokens-per-step 2000000
  written 0 $tiny --cluster h200_8x2 --policy dcp_rebalance --zero 3 --tokens-per-step 2000000
  written 0 $tiny --cluster h200_8x2 --policy packed --sp 16
  written 0 $tiny --cluster h200_8x2 --policy bucket --sp 8 --sp-kind ring
  written 0 --trace "$work/v.csv" --model tiny-2d --cluster h200_8x1 --policy dcp
}

# Nothing half-written, nothing overwritten; an empty folder will do; several policies, a folder each.
# shellcheck disable=SC2086
{
  set -- simulate $tiny --cluster h200_8x1 --steps 1 --draws 0
  mkdir "$work/full" "$work/empty" && : >"$work/full/kept"
  "$dcpsim" "$@" --policy bucket --chakra "$work/full" 2>"$work/err" >"$work/out"
  status=$?
  [ "$status" -eq 1 ] && grep -q 'not an empty folder' "$work/err" && [ ! -s "$work/out" ] &&
    [ "$(ls "$work/full")" = kept ] || { echo "a folder in use: exit $status, $(cat "$work/err")"; failed=1; }
  "$dcpsim" "$@" --policy bucket --chakra "$work/empty" >/dev/null 2>&1 && [ -s "$work/empty/step.7.et" ] ||
    fail 'an empty folder is refused'
  "$dcpsim" "$@" --policy bucket,dcp --chakra "$work/of.{policy}/" >/dev/null 2>&1 && [ -s "$work/of.dcp/step.0.et" ] &&
    [ -s "$work/of.bucket/groups.json" ] || fail 'no folder per policy'
  "$dcpsim" "$@" --policy bucket,dcp --chakra "$work/again.{policy}" -j 1 >/dev/null 2>&1
  diff -r "$work/of.dcp" "$work/again.dcp" >/dev/null || fail 'one thread and two: different traces'
  "$dcpsim" "$@" --policy bucket --chakra "$work/lost" --csv /dev/full >/dev/null 2>&1
  ls -a "$work" | grep -q '\.tmp$' && { echo "a temporary folder is left: $(ls -a "$work")"; failed=1; }
}
exit "$failed"
