#!/usr/bin/env python3
"""Makes calib/params/GPU.json from the rows in calib/data. Run by developers; its output is committed.

usage: make_params.py [--hold-out N] [--out FOLDER] [GPU...]

Standard library only and deterministic: the same rows give the same bytes. --hold-out N leaves every N-th row of the
GEMM and attention tables out, so that a table can be scored on rows it has not seen.

What is made of the rows:
- gemm: log time on the grid of the rows (m, n, k); cells without a row are filled (h200: from a roofline, h100: from the
  h200 table) by the average of the neighbours' log ratios to that base; then made to rise along every axis.
- attention: per head dim and mask, for each measured length a piecewise linear curve of log time over log query tiles
  (least squares), made to rise. The causal rows include writing K and V into a paged cache; its seconds per byte are
  fitted alongside and taken out (key_write_s_per_byte), because training does not do it.
- network: one node by rows (the faster of data types); between nodes from rows and published figures.
- everything else: constants with their sources.
"""
import csv
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SEED_SOURCE = ("NVIDIA ai-dynamo/aiconfigurator @ 095f58a5, systems/data, collected on %s; Apache-2.0")
GPU_NAMES = {"h200_sxm": "NVIDIA H200 SXM", "h100_sxm": "NVIDIA H100 SXM"}


def read_rows(path):
    with open(os.path.join(HERE, "data", path), newline="") as f:
        return list(csv.DictReader(f))


def kept(rows, hold_out):
    return [r for i, r in enumerate(rows) if not hold_out or i % hold_out != 0]


def rising(values, weights=None):
    """Least-squares rising sequence (pool adjacent violators)."""
    pools = []
    for i, v in enumerate(values):
        w = weights[i] if weights else 1.0
        pools.append([v * w, w, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            s, w, n = pools.pop()
            pools[-1][0] += s
            pools[-1][1] += w
            pools[-1][2] += n
    return [s / w for s, w, n in pools for _ in range(n)]


def ns(log_seconds):
    return max(1, round(math.exp(log_seconds) * 1e9))


# ---- GEMM ---------------------------------------------------------------------------------------------------------


def gemm_base(m, n, k):
    """Roofline in log seconds, for cells without rows: floor, HBM traffic, tiles of 128 x 256 on 132 SMs."""
    tiles = math.ceil(m / 128) * math.ceil(n / 256)
    waves = tiles / 132 if tiles >= 132 else 1
    flops = 2.0 * 128 * 256 * 132 * waves * k / 700e12 if tiles >= 132 else 2.0 * m * n * k / 250e12
    return math.log(2.5e-6 + max(flops, 2.0 * (m * k + k * n + m * n) / 3e12))


def fill(known, shape, base):
    """Log ratios to base at every cell: a known cell keeps its own, others relax to the average of their neighbours."""
    nm, nn, nk = shape
    ratio = [0.0] * (nm * nn * nk)
    fixed = [False] * len(ratio)
    for i, v in known.items():
        ratio[i] = v - base[i]
        fixed[i] = True
    unknown = [i for i in range(len(ratio)) if not fixed[i]]
    for _ in range(60):
        for i in unknown:
            a, b, c = i // (nn * nk), i // nk % nn, i % nk
            total = count = 0.0
            for ok, j in ((a > 0, i - nn * nk), (a + 1 < nm, i + nn * nk), (b > 0, i - nk), (b + 1 < nn, i + nk),
                          (c > 0, i - 1), (c + 1 < nk, i + 1)):
                if ok:
                    total += ratio[j]
                    count += 1
            ratio[i] = total / count
    return [base[i] + ratio[i] for i in range(len(ratio))]


def make_rise(v, shape):
    """Alternates least-squares rising fits along the three axes until all hold."""
    nm, nn, nk = shape
    lines = [[i * nk + c for c in range(nk)] for i in range(nm * nn)]
    lines += [[a * nn * nk + b * nk + c for b in range(nn)] for a in range(nm) for c in range(nk)]
    lines += [[a * nn * nk + i for a in range(nm)] for i in range(nn * nk)]
    for _ in range(12):
        worst = 0.0
        for line in lines:
            old = [v[i] for i in line]
            new = rising(old)
            for i, x in zip(line, new):
                worst = max(worst, abs(v[i] - x))
                v[i] = x
        if worst < 1e-4:
            break
    return v


def gemm_axes(rows):
    return [sorted({int(r[c]) for r in rows}) for c in ("m", "n", "k")]


def gemm_known(rows, axes):
    index = [{x: i for i, x in enumerate(a)} for a in axes]
    known = {}
    for r in rows:
        i = (index[0][int(r["m"])] * len(axes[1]) + index[1][int(r["n"])]) * len(axes[2]) + index[2][int(r["k"])]
        known.setdefault(i, []).append(math.log(float(r["time_s"])))
    return {i: sum(v) / len(v) for i, v in known.items()}


def grid_value(table, axes, point):
    """Log-linear interpolation, clamped, with the saturated rate above: the C side's rule."""
    places = []
    beyond = 0.0
    for a, x in zip(axes, point):
        lx = math.log(x)
        if x >= a[-1]:
            places.append((len(a) - 1, 0.0))
            beyond += lx - math.log(a[-1])
        elif x <= a[0]:
            places.append((0, 0.0))
        else:
            i = max(j for j in range(len(a)) if a[j] <= x)
            places.append((i, (lx - math.log(a[i])) / (math.log(a[i + 1]) - math.log(a[i]))))
    total = 0.0
    for corner in range(8):
        w = 1.0
        i = 0
        for d in range(3):
            up = corner >> d & 1
            w *= places[d][1] if up else 1 - places[d][1]
            if w == 0:
                break
            i = i * len(axes[d]) + places[d][0] + up
        if w:
            total += w * table[i]
    return total + beyond


def make_gemm(gpu, hold_out, cache={}):
    rows = read_rows(gpu + "/gemm_bf16.csv")
    axes = gemm_axes(rows)
    shape = [len(a) for a in axes]
    points = [(m, n, k) for m in axes[0] for n in axes[1] for k in axes[2]]
    known = gemm_known(kept(rows, hold_out), axes)
    if gpu == "h200_sxm":
        base = [gemm_base(*p) for p in points]
    else:
        if "h200" not in cache:
            make_gemm("h200_sxm", 0)
        base = [grid_value(cache["h200"][0], cache["h200"][1], p) for p in points]
    # Nothing filled or smoothed may beat the fastest row.
    best = max(math.log(2.0 * points[i][0] * points[i][1] * points[i][2]) - v for i, v in known.items())
    table = fill(known, shape, base)
    table = [max(v, math.log(2.0 * m * n * k) - best) for v, (m, n, k) in zip(table, points)]
    table = make_rise(table, shape)
    table = [max(v, math.log(2.0 * m * n * k) - best) for v, (m, n, k) in zip(table, points)]
    if gpu == "h200_sxm":
        cache["h200"] = (table, axes)
    filled = "" if gpu == "h200_sxm" else " by the h200_sxm table and the log ratios of neighbouring rows"
    return {
        "source": "%d rows of torch linear (cuBLASLt) bf16; %s; %d of %d cells without a row filled%s" %
                  (len(rows), SEED_SOURCE % GPU_NAMES[gpu], len(points) - len(known), len(points), filled),
        "m": axes[0], "n": axes[1], "k": axes[2],
        "wgrad_factor": 1.11,
        "wgrad_source": "weight gradients at 0.9 of a forward GEMM's rate: constant of the counted STDiT3 set-up, fixed "
                        "before comparing",
        "time_ns": [ns(v) for v in table],
    }


# ---- attention ----------------------------------------------------------------------------------------------------

TILE_KNOTS = [1, 4, 16, 33, 66, 99, 132, 150, 198, 264, 300, 396, 528, 660, 792, 1056, 1584, 2112, 3168, 4224, 8448,
              16896, 67584, 270336]
ONE_WAVE = math.log(132) + 1e-9  # tiles that run at once, one per SM
TILE_ROWS = {64: 192, 72: 192, 80: 192, 128: 128, 256: 128}  # rows of queries per tile that miss the rows least


def tiles_of(row, tile_rows):
    """Query tiles: a group's query heads share tiles (packed GQA)."""
    kv = int(row["kv_heads"])
    group = int(row["heads"]) // kv
    return int(row["batch"]) * kv * -(-int(row["seqlen"]) * group // tile_rows)


def key_bytes(row):
    return 4.0 * int(row["batch"]) * int(row["seqlen"]) * int(row["kv_heads"]) * int(row["head_dim"])


def solve(a, b):
    """Gaussian elimination of a symmetric positive system."""
    n = len(b)
    for i in range(n):
        for j in range(i + 1, n):
            f = a[j][i] / a[i][i]
            if f == 0.0:
                continue
            for k in range(i, n):
                a[j][k] -= f * a[i][k]
            b[j] -= f * b[i]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (b[i] - sum(a[i][k] * x[k] for k in range(i + 1, n))) / a[i][i]
    return x


def fit_curve(points, knots):
    """Piecewise linear least squares through (log tiles, log time), second differences of slope held small; beyond the
    rows the slope is held to 0 within one wave of tiles (latency) and to 1 above (saturated)."""
    n = len(knots)
    a = [[0.0] * n for _ in range(n)]
    b = [0.0] * n
    for x, y in points:
        i = 0
        while i + 2 < n and x >= knots[i + 1]:
            i += 1
        w = min(1.0, max(0.0, (x - knots[i]) / (knots[i + 1] - knots[i])))
        for p, wp in ((i, 1 - w), (i + 1, w)):
            b[p] += wp * y
            for q, wq in ((i, 1 - w), (i + 1, w)):
                a[p][q] += wp * wq
    for i in range(n - 2):  # slope change between neighbouring segments
        h0, h1 = knots[i + 1] - knots[i], knots[i + 2] - knots[i + 1]
        c = (1 / h0, -1 / h0 - 1 / h1, 1 / h1)
        for p in range(3):
            for q in range(3):
                a[i + p][i + q] += 0.002 * c[p] * c[q]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    for i in range(n - 1):
        if low < knots[i + 1] and knots[i] < high:
            continue
        slope = 0.0 if knots[i + 1] <= ONE_WAVE else 1.0
        h = knots[i + 1] - knots[i]
        for p, sp in ((i, -1), (i + 1, 1)):
            b[p] += 0.05 * sp * slope * h
            for q, sq in ((i, -1), (i + 1, 1)):
                a[p][q] += 0.05 * sp * sq
    for i in range(n):
        a[i][i] += 1e-9
    return solve(a, b)


def attention_curves(rows, tile_rows, write_s_per_byte):
    knots = [math.log(t) for t in TILE_KNOTS]
    by_length = {}
    for r in rows:
        t = float(r["time_s"])
        t = max(0.25 * t, t - write_s_per_byte * key_bytes(r))
        by_length.setdefault(int(r["seqlen"]), []).append((math.log(tiles_of(r, tile_rows)), math.log(t)))
    lengths = sorted(by_length)
    table = [fit_curve(by_length[s], knots) for s in lengths]
    for _ in range(6):
        table = [rising(row) for row in table]
        columns = [rising([row[j] for row in table]) for j in range(len(knots))]
        table = [[columns[j][i] for j in range(len(knots))] for i in range(len(lengths))]
    return lengths, table


def curve_at(lengths, table, length, tiles):
    knots = [math.log(t) for t in TILE_KNOTS]
    return grid_value([v for row in table for v in row], [[1], lengths, TILE_KNOTS], (1, length, tiles))


def median(v):
    v = sorted(v)
    return v[len(v) // 2] if len(v) % 2 else 0.5 * (v[len(v) // 2 - 1] + v[len(v) // 2])


def fit_attention(rows, causal, head_dim):
    """The cache write's seconds per byte is the one whose curves miss the rows least."""
    rows = [r for r in rows if int(r["head_dim"]) == head_dim]
    best = None
    for write in ([0.0] if not causal else [i * 1e-13 for i in range(0, 26, 1)]):
        lengths, table = attention_curves(rows, TILE_ROWS[head_dim], write)
        misses = []
        for r in rows[::7]:
            t = math.exp(curve_at(lengths, table, int(r["seqlen"]), tiles_of(r, TILE_ROWS[head_dim])))
            misses.append(abs((t + write * key_bytes(r)) / float(r["time_s"]) - 1))
        miss = sum(misses) / len(misses)
        if best is None or miss < best[0]:
            best = (miss, write, lengths, table)
    return best[1:]


def attention_table(causal, head_dim, lengths, table, source, write=None):
    out = {"source": source, "causal": causal, "head_dim": head_dim, "tile_rows": TILE_ROWS[head_dim], "keys": lengths,
           "tiles": TILE_KNOTS}
    if write:
        out["key_write_s_per_byte"] = float("%.3g" % write)
    out["time_ns"] = [ns(v) for row in table for v in row]
    return out


def best_rate(rows, causal, head_dim):
    """FLOP/s of the fastest row."""
    return max((2.0 if causal else 4.0) * int(r["batch"]) * int(r["heads"]) * int(r["seqlen"]) ** 2 * head_dim /
               float(r["time_s"]) for r in rows if int(r["head_dim"]) == head_dim)


def no_faster(lengths, table, causal, head_dim, best):
    """Full tiles at no more than the fastest row's rate."""
    return [[max(v, math.log((2.0 if causal else 4.0) * s * t * TILE_ROWS[head_dim] * head_dim / best))
             for v, t in zip(row, TILE_KNOTS)] for s, row in zip(lengths, table)]


def make_attention(gpu, hold_out):
    tables = []
    full_rows = read_rows(gpu + "/attention_full_fwd_bf16.csv")
    causal_rows = read_rows(gpu + "/attention_causal_fwd_bf16.csv")
    full, causal = {}, {}
    for d in (64, 72, 80):
        _, lengths, table = fit_attention(kept(full_rows, hold_out), False, d)
        table = no_faster(lengths, table, False, d, best_rate(full_rows, False, d))
        full[d] = (lengths, table)
        tables.append(attention_table(False, d, lengths, table, "FlashAttention 3 rows, full; " +
                                      SEED_SOURCE % GPU_NAMES[gpu]))
    for d in (64, 128, 256):
        write, lengths, table = fit_attention(kept(causal_rows, hold_out), True, d)
        table = no_faster(lengths, table, True, d, best_rate(causal_rows, True, d))
        causal[d] = (write, lengths, table)
    for d in (128, 256):
        # No rows: the causal table times full over causal at head dim 64, both in query tiles.
        lengths = full[64][0]
        scale = TILE_ROWS[d] / TILE_ROWS[64]
        table = [[curve_at(causal[d][1], causal[d][2], s, t) +
                  curve_at(*full[64], s, max(1, t * scale)) - curve_at(*causal[64][1:], s, max(1, t * scale))
                  for t in TILE_KNOTS] for s in lengths]
        for _ in range(6):
            table = [rising(row) for row in table]
            columns = [rising([row[j] for row in table]) for j in range(len(TILE_KNOTS))]
            table = [[columns[j][i] for j in range(len(TILE_KNOTS))] for i in range(len(lengths))]
        best = (best_rate(causal_rows, True, d) * best_rate(full_rows, False, 64) / best_rate(causal_rows, True, 64))
        table = no_faster(lengths, table, False, d, best)
        tables.append(attention_table(False, d, lengths, table,
                                      "derived: causal rows at this head dim, times full over causal at 64"))
    for d in (64, 128, 256):
        write, lengths, table = causal[d]
        tables.append(attention_table(True, d, lengths, table, "FlashAttention 3 rows, causal, K and V write into the "
                                      "cache taken out; " + SEED_SOURCE % GPU_NAMES[gpu], write))
    return {"source": "FlashAttention 3 forward, vLLM 0.24 build", "backward_ratio": backward_ratio(), "tables": tables}


def backward_ratio():
    """Backward over forward time by sequence length: medians over head dims and masks of the pairs on one device and
    library; the lengths 512 and 1024 only from the figures of FlashAttention 3's paper (cuDNN on H100)."""
    rows = read_rows("attention_fwd_bwd.csv")
    pairs = {}
    for r in rows:
        if not r["library"].startswith("cuDNN") or r["head_dim_qk"] not in ("64", "128") or not r["tflops_as_reported"]:
            continue
        if r["head_dim_qk"] != r["head_dim_vo"]:
            continue
        # The figure's backward panel shows full attention.
        causal = "0" if r["causal"] == "unknown" else r["causal"]
        key = (r["device"], r["library"], causal, r["batch"], r["seqlen"], r["heads"], r["head_dim_qk"])
        pairs.setdefault(key, {})[r["op"]] = r
    ratios = {}
    for key, p in pairs.items():
        if "attention_forward" not in p or "attention_backward" not in p:
            continue
        f, b = p["attention_forward"], p["attention_backward"]
        if f["time_s"] and b["time_s"]:
            ratio = float(b["time_s"]) / float(f["time_s"])
        else:
            ratio = 2.5 * float(f["tflops_as_reported"]) / float(b["tflops_as_reported"])
        ratios.setdefault(int(key[4]), []).append(ratio)
    keys = sorted(ratios)
    return {"source": "median of cuDNN forward and backward pairs by sequence length, head dims 64 and 128: H200 by file "
                      "(NVIDIA/cudnn-frontend, MIT), H100 by figure (Dao-AILab/flash-attention, BSD-3)",
            "keys": keys, "ratio": [round(median(ratios[k]), 4) for k in keys]}


# ---- network ------------------------------------------------------------------------------------------------------


def intra_curves(gpu):
    groups = {}
    for r in read_rows(gpu + "/nccl_intranode.csv"):
        groups.setdefault((r["op"], int(r["ranks"])), {}).setdefault(int(r["bytes"]), []).append(float(r["time_s"]))
    source = "nccl-tests rows, the faster of data types; " + SEED_SOURCE % GPU_NAMES[gpu]
    return [{"source": source, "op": op, "ranks": ranks, "nodes": 1, "bytes": sorted(v),
             "time_s": [min(v[b]) for b in sorted(v)]} for (op, ranks), v in sorted(groups.items())]


def inter_curves(gpu):
    """Logs of whole clusters: faster of in place and out of place, made to rise."""
    curves = []
    groups = {}
    for r in read_rows("nccl_internode.csv"):
        if gpu in r["used_for"].split("+"):
            groups.setdefault((r["op"], int(r["ranks"]), int(r["nodes"]), r["source"]), []).append(r)
    for (op, ranks, nodes, source), rows in sorted(groups.items()):
        times = {}
        for r in rows:
            times.setdefault(int(r["bytes"]), []).append(float(r["time_s"]))
        sizes = sorted(times)
        logs = rising([math.log(min(times[b])) for b in sizes])
        curves.append({"source": source, "op": op, "ranks": ranks, "nodes": nodes, "bytes": sizes,
                       "time_s": [float("%.6g" % math.exp(v)) for v in logs]})
    return curves


NODES = [2, 4, 8, 16, 32, 64, 128]
RING = [386e9, 360e9, 345e9, 320e9, 300e9, 280e9, 260e9]  # reduce_scatter, user figures; 2 nodes from the ring row


def inter_table():
    reduce = [393e9, 366e9, 320e9] + [320e9 * x / 345e9 for x in RING[3:]]
    gather = [324e9 * x / 360e9 for x in RING]
    linear = [25e-6 + 4.75e-6 * (n - 2) for n in NODES]
    tree = [25e-6 + 9.5e-6 * math.log2(n / 2) for n in NODES]

    def column(busbw, floor, source):
        return {"source": source, "nic_bytes_per_s": [float("%.5g" % (b / 8)) for b in busbw],
                "floor_s": [float("%.4g" % f) for f in floor]}

    floors = "; latency floor 25 us at 16 and 34.5 us at 32 GPUs, "
    return {
        "source": "bus bandwidth over 8 GPUs a node divided by 8 NICs of 400 Gb/s",
        "nodes": NODES,
        "all_reduce": column(reduce, tree, "ring 393 GB/s on 2 nodes (not the NVLS tree's 487), 366 on 4, 320 on 8 (nccl "
                             "logs of H100 with InfiniBand NDR); beyond 8 as reduce_scatter falls" + floors +
                             "growing by its difference per doubling (tree)"),
        "all_gather": column(gather, linear, "324 GB/s at 32 GPUs, other sizes as reduce_scatter" + floors +
                             "growing in proportion to nodes (ring)"),
        "reduce_scatter": column(RING, linear, "360, 345, 320, 300, 280, 260 GB/s at 4 to 128 nodes (user figures)" +
                                 floors + "growing in proportion to nodes (ring)"),
        "all_to_all": column([8 * 47.5e9] * len(NODES), linear, "bounded by the NIC, 46 to 49 GB/s effective at every "
                             "node count" + floors + "growing in proportion to nodes"),
        "send_recv": column([8 * 45.8e9] * len(NODES), [12e-6] * len(NODES), "one NIC at the all_reduce rate of 4 nodes; "
                            "floor: guess from two latency hops"),
    }


def ramp_table(curves):
    """How far below its plateau a NIC stays when few bytes pass: from the 32-GPU all_reduce log."""
    log = [c for c in curves if c["op"] == "all_reduce" and c["nodes"] == 4][0]
    sizes, efficiency = [], []
    for size, t in zip(log["bytes"], log["time_s"]):
        per_nic = 2 * 31 / 32 * size / 8
        e = per_nic / (366e9 / 8) / max(t - 34.5e-6, 1e-7)
        if size >= 65536:
            sizes.append(float("%.6g" % per_nic))
            efficiency.append(min(1.0, e))
    return {"source": "share of its plateau that a NIC reaches, from the 4-node all_reduce log: transfer time over (time "
                      "less the latency floor)",
            "nic_bytes": sizes, "efficiency_frac": [float("%.4g" % e) for e in rising(efficiency)]}


def make_network(gpu):
    outer = inter_curves(gpu)
    curves = sorted(intra_curves(gpu) + outer, key=lambda c: (c["op"], c["nodes"], c["ranks"]))
    gather = [c for c in curves if c["op"] == "all_gather" and c["ranks"] == 8 and c["nodes"] == 1][0]
    nvlink = 7 / 8 * gather["bytes"][-1] / gather["time_s"][-1]
    return {
        "source": "one node: measured rows; several nodes: logs where the placement was measured, else latency floor + "
                  "bytes through the slower of NIC and NVLink",
        "reference_nic_bytes_per_s": 50e9, "reference_nvlink_bytes_per_s": 450e9,
        "nvlink_bytes_per_s": float("%.4g" % nvlink),
        "curves": curves, "inter": inter_table(), "ramp": ramp_table(outer),
    }


# ---- constants ----------------------------------------------------------------------------------------------------

STREAM_RATIO = 2.9 / 4.0  # BabelStream copy, H100 over H200


def memory_bound(gpu):
    h200 = gpu == "h200_sxm"

    def by_h200(value, source):
        scaled = value if h200 else value * STREAM_RATIO
        return {"bytes_per_s": float("%.4g" % scaled),
                "source": source + ("" if h200 else "; scaled by the BabelStream copy ratio 2.9/4.0 from H200")}

    def by_h100(value, source):
        scaled = value / STREAM_RATIO if h200 else value
        return {"bytes_per_s": float("%.4g" % scaled),
                "source": source + ("; scaled by the BabelStream copy ratio 4.0/2.9 from H100" if h200 else "")}

    eager = "constant of the counted STDiT3 set-up on H100, fixed in advance"
    return {
        "floor_s": 2.5e-6, "floor_source": "smallest measured kernels take 2.5 us (gemm rows); 2 to 3 us is usual",
        "classes": {
            "contiguous": by_h200(3.7e12, "RMSNorm forward and backward, cuDNN on H200, 3.3-3.85 TB/s in 8192 rows and "
                                  "more (NVIDIA/cudnn-frontend benchmark/norms)"),
            "broadcast": by_h100(1.4e12, eager + " (broadcast kernels are not vectorised)"),
            "permute": by_h100(1.2e12, eager + " (permuting copies)"),
            "reduction": by_h100(1.4e12, eager + " (column sums)"),
            "mixed": by_h100(0.6e12, eager + " (operands of different layout)"),
            "optimizer": by_h200(3.4e12, "guess: multi-tensor AdamW at 0.85 of BabelStream copy; to be measured"),
        },
    }


def in_step():
    later = "; to be fitted on measured training steps"
    return {
        "fused": {"compute_derate": 1.10, "host_op_s": 4e-6,
                  "source": "guess: kernels inside a step run about 10 % below isolated ones (power limit, cache); a "
                            "launch costs a busy CPU thread about 4 us" + later},
        "eager": {"compute_derate": 1.10, "host_op_s": 7e-6,
                  "source": "guess for the derate as for fused; 7 us per kernel: host constant of the counted STDiT3 "
                            "set-up" + later},
        "eager_apex": {"compute_derate": 1.10, "host_op_s": 7e-6, "source": "as eager"},
    }


def make_params(gpu, hold_out):
    return {
        "schema": "dcpsim.params/1", "gpu": gpu,
        "source": "%s: piecewise tables of measured rows (aiconfigurator, cudnn-frontend, nccl-tests logs) and sourced "
                  "constants; made by calib/make_params.py" % GPU_NAMES[gpu],
        "memory_bound": memory_bound(gpu),
        "host": {"copy_bytes_per_s": 3.28e9, "copy_floor_s": 20e-6,
                 "source": "caption of 300 x 4096 fp32 cast by one CPU thread and copied from pageable memory in 1.5 ms: "
                           "constant of the counted STDiT3 set-up; floor: guess for one blocking copy"},
        "in_step": in_step(),
        "overlap": {"slowdown_frac": 0.10, "source": "guess: 16 of 132 SMs and a share of HBM go to a collective beside "
                                                     "compute; to be fitted"},
        "reserve": {"bytes": 3 * 2**30, "source": "CUDA context 0.5-0.9 GiB, NCCL 0.4 GiB for 4 to 8 ranks and more with "
                                                  "more communicators, allocator fragmentation"},
        "gemm": make_gemm(gpu, hold_out),
        "attention": make_attention(gpu, hold_out),
        "network": make_network(gpu),
    }


# ---- writing ------------------------------------------------------------------------------------------------------


def write_json(value, indent=0, width=118):
    """Lists of numbers wrapped to the line width, everything else one entry per line."""
    pad = " " * indent
    if isinstance(value, dict):
        body = ",\n".join('%s  %s: %s' % (pad, json.dumps(k), write_json(v, indent + 2)) for k, v in value.items())
        return "{\n%s\n%s}" % (body, pad)
    if isinstance(value, list) and value and isinstance(value[0], (int, float)):
        lines, line = [], ""
        for i, v in enumerate(value):
            word = json.dumps(v) + ("," if i + 1 < len(value) else "")
            if line and len(line) + len(word) + indent + 2 > width:
                lines.append(line)
                line = ""
            line += word
        lines.append(line)
        return "[" + ("\n  " + pad).join(lines) + "]"
    if isinstance(value, list):
        return "[\n%s\n%s]" % (",\n".join(pad + "  " + write_json(v, indent + 2) for v in value), pad)
    return json.dumps(value)


def main(args):
    hold_out, out, gpus = 0, os.path.join(HERE, "params"), []
    while args:
        a = args.pop(0)
        if a == "--hold-out":
            hold_out = int(args.pop(0))
        elif a == "--out":
            out = args.pop(0)
        else:
            gpus.append(a)
    for gpu in gpus or ["h200_sxm", "h100_sxm"]:
        with open(os.path.join(out, gpu + ".json"), "w") as f:
            f.write(write_json(make_params(gpu, hold_out)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
