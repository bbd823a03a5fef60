#!/usr/bin/env python3
"""attention_peers.py: the attention kernels of `calibrate run` beside cuDNN's and FlashAttention 3's.

  python3 calib/attention_peers.py ATTENTION.csv... [--write FILE | --peer FILE] [--budget-s N] [--device cuda|cpu]

ATTENTION.csv: rows of `calibrate run`; more than one file: of several kernels (DCPSIM_ATTENTION). Of each operation, mask,
head dim (64, 128), grouping of heads and sequence length from 1024 to 32768 the row of most tokens, then most heads, is
taken. Beside it stand, for exactly the same shape:
  cuDNN  PyTorch's scaled_dot_product_attention, held to cuDNN, timed here and now; its outputs and gradients are first
         compared with a reference on a small shape. --write keeps these rows, --peer FILE reads such rows instead.
  FA3    the shipped rows of calib/data (a serving build, forward only: the time includes writing K and V to a cache)
FLOPs: 4 batch seqlen^2 heads head_dim, half of it causal; backward 2.5 times as much. Without PyTorch, a GPU or cuDNN it
says what is missing, and that column is '-': exit 0. A file that cannot be read: one line, exit 1.
--device cpu runs the same code on the CPU, where PyTorch takes a kernel of its own in cuDNN's place."""

import argparse
import csv
import datetime
import math
import os
import statistics
import subprocess
import sys
import time

SHAPE = ["causal", "batch", "seqlen", "heads", "kv_heads", "head_dim"]
ROW = ["op", "dtype"] + SHAPE + ["time_s"]
PEER = ROW + ["spread_frac", "repeats", "device", "driver", "torch", "cudnn", "date", "check"]
FORWARD, BACKWARD = "attention_forward", "attention_backward"
HEAD_DIMS, SEQLEN_LEAST, SEQLEN_MOST = (64, 128), 1024, 32768
# What the kernels are to reach, in % of cuDNN, at AIM_SHAPE.
AIMS = {("mma.sync", FORWARD): 45, ("mma.sync", BACKWARD): 50, ("wgmma", FORWARD): 70, ("wgmma", BACKWARD): 60}
AIM_SHAPE = {"seqlen": 8192, "head_dim": 128}
TOLERANCE = {"bf16": 2e-2, "fp32": 1e-4}  # as calibrate run's: of the largest value
SHAPE_LIMIT_S, REPEATS_LEAST, REPEATS_MOST, REPETITION_S = 0.2, 5, 50, 2e-3
COPIES_MOST = 16


class Failure(Exception):
    """One line for the user; exit 1."""


class Missing(Exception):
    """Why there are no times of cuDNN."""


# ---- Rows ----


def read_rows(path, needed):
    """The attention rows of a CSV as dicts with whole-number shapes."""
    rows = []
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [column for column in needed if column not in (reader.fieldnames or [])]
            if missing:
                raise Failure(f"rows '{path}' line 1: no column '{missing[0]}'")
            for row in reader:
                where = f"rows '{path}' line {reader.line_num}"
                if None in row or None in row.values():
                    raise Failure(f"{where}: not as many fields as the header has")
                if row["op"] in (FORWARD, BACKWARD):
                    rows.append(read_row(row, where))
    except OSError as error:
        raise Failure(f"cannot open rows '{path}': {error.strerror}") from None
    except csv.Error as error:
        raise Failure(f"rows '{path}' line {reader.reader.line_num}: {error}") from None
    except UnicodeDecodeError:
        raise Failure(f"rows '{path}': not UTF-8") from None
    return rows


def read_row(row, where):
    row = dict(row)
    for column in SHAPE:
        least, text = 0 if column == "causal" else 1, row[column]
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= least):
            raise Failure(f"{where}: '{column}' must be a whole number from {least}, got '{text}'")
        row[column] = int(text)
    if row["heads"] % row["kv_heads"]:
        raise Failure(f"{where}: heads ({row['heads']}) must be a multiple of kv_heads ({row['kv_heads']})")
    try:
        time_s = float(row["time_s"])
    except ValueError:
        time_s = 0
    if not 0 < time_s < math.inf:
        raise Failure(f"{where}: 'time_s' must be a number of seconds above 0, got '{row['time_s']}'")
    row["time_s"] = time_s
    return row


def key_of(row):
    return (row["op"], row["dtype"]) + tuple(row[column] for column in SHAPE)


def kernel_of(row):
    if row["dtype"] != "bf16":
        return "cpu"
    return "wgmma" if f"{row['op']} by wgmma" in row["library"] else "mma.sync"


def choose(rows):
    """The row of most tokens, then most heads, of each kind; in the order of the table."""
    best = {}
    for row in rows:
        if row["head_dim"] not in HEAD_DIMS or not SEQLEN_LEAST <= row["seqlen"] <= SEQLEN_MOST:
            continue
        kind = (kernel_of(row), row["op"], row["causal"], row["head_dim"], row["heads"] > row["kv_heads"], row["seqlen"])
        size = (row["batch"] * row["seqlen"], row["heads"])
        if kind not in best or size > best[kind][0]:
            best[kind] = (size, row)
    order = [FORWARD, BACKWARD]
    return [best[kind][1] for kind in sorted(best, key=lambda k: (k[0], order.index(k[1]), -k[2]) + k[3:])]


def shipped(rows, folder):
    """FlashAttention 3's times on the GPU of the rows, by key."""
    device = rows[0]["device"] if rows else ""
    name = next((name for name in ("h200", "h100") if name in device.lower()), None)
    times = {}
    for mask in ("causal", "full") if name else ():
        for row in read_rows(os.path.join(folder, name + "_sxm", f"attention_{mask}_fwd_bf16.csv"), ROW):
            times[key_of(row)] = row["time_s"]
    return times


# ---- The peer ----


class Peer:
    """scaled_dot_product_attention on one device: cuDNN's on a GPU."""

    def __init__(self, device):
        try:
            import torch
        except (ImportError, OSError) as error:
            raise Missing(f"PyTorch cannot be imported: {first_line(error)}") from None
        self.torch, self.device, self.is_gpu = torch, device, device == "cuda"
        self.backends, self.checks = [], {}
        if self.is_gpu:
            if not torch.cuda.is_available():
                raise Missing(f"PyTorch {torch.__version__} finds no CUDA device")
            if not torch.backends.cudnn.is_available():
                raise Missing(f"PyTorch {torch.__version__} comes without cuDNN")
            try:
                self.backends = [torch.nn.attention.SDPBackend.CUDNN_ATTENTION]
            except AttributeError:
                raise Missing(f"PyTorch {torch.__version__} knows no SDPBackend.CUDNN_ATTENTION") from None
        self.cache_bytes = (64 if self.is_gpu else 8) << 20  # as calibrate run's
        self.flush = torch.empty(2 * self.cache_bytes, dtype=torch.uint8, device=device)
        self.columns = {  # the same in all its rows
            "device": torch.cuda.get_device_name() if self.is_gpu else "cpu",
            "driver": driver_version() if self.is_gpu else "unknown",
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version() if self.is_gpu else "not used",
        }
        torch.manual_seed(1)

    def tensors(self, row):
        """q, k, v and the output's gradient, laid out as ours are: tokens, heads, head_dim; in [-1, 1)."""

        def one(heads):
            shape = (row["batch"], row["seqlen"], heads, row["head_dim"])
            dtype = self.torch.bfloat16 if row["dtype"] == "bf16" else self.torch.float32
            return self.torch.empty(shape, device=self.device, dtype=dtype).uniform_(-1, 1).transpose(1, 2)

        q, dout = one(row["heads"]), one(row["heads"])
        k, v = one(row["kv_heads"]), one(row["kv_heads"])
        return [x.requires_grad_() for x in (q, k, v)], dout

    def attention(self, q, k, v, causal, grouped):
        sdpa = self.torch.nn.functional.scaled_dot_product_attention
        options = {"is_causal": bool(causal)} | ({"enable_gqa": True} if grouped else {})
        if not self.backends:
            return sdpa(q, k, v, **options)
        with self.torch.nn.attention.sdpa_kernel(self.backends):
            return sdpa(q, k, v, **options)

    def reference(self, inputs, causal):
        """In double, and from the definition."""
        torch = self.torch
        q, k, v = inputs
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        return scores.softmax(-1) @ v

    def check(self, row):
        """(error, whether K and V must be repeated for every head), of a small shape like the row's."""
        group = row["heads"] // row["kv_heads"]
        kind = (row["dtype"], row["causal"], row["head_dim"], group)
        if kind not in self.checks:
            small = dict(row, batch=2, seqlen=128, heads=2 * group, kv_heads=2)
            try:
                self.checks[kind] = (self.error(small, group > 1), False)
            except (RuntimeError, TypeError):  # this kernel or this PyTorch has no grouped heads
                if group == 1:
                    raise
                self.checks[kind] = (self.error(dict(small, kv_heads=2 * group), False), True)
        return self.checks[kind]

    def error(self, row, grouped):
        torch = self.torch
        inputs, dout = self.tensors(row)
        out = self.attention(*inputs, row["causal"], grouped)
        exact_inputs = [x.detach().double().requires_grad_() for x in inputs]
        exact_out = self.reference(exact_inputs, row["causal"])
        got = [out, *torch.autograd.grad(out, inputs, dout)]
        exact = [exact_out, *torch.autograd.grad(exact_out, exact_inputs, dout.double())]
        return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(got, exact))

    def calls(self, row, repeated):
        """Functions to call in turn, each on arrays of its own, so that none finds its own in the cache."""
        size = row["batch"] * row["seqlen"] * row["head_dim"] * (2 if row["dtype"] == "bf16" else 4)
        bytes_each = size * (2 * row["heads"] + 2 * row["kv_heads"])
        n = min(COPIES_MOST, 1 + math.ceil(2 * self.cache_bytes / bytes_each))
        grouped = row["heads"] > row["kv_heads"] and not repeated
        shape = dict(row, kv_heads=row["heads"]) if repeated else row
        return [self.call(shape, grouped) for _ in range(n)]

    def call(self, row, grouped):
        inputs, dout = self.tensors(row)
        if row["op"] == FORWARD:  # as in training: what a backward needs is kept
            return lambda: self.attention(*inputs, row["causal"], grouped)
        out = self.attention(*inputs, row["causal"], grouped)
        return lambda: self.torch.autograd.grad(out, inputs, dout, retain_graph=True)

    def seconds(self, calls, first, n):
        """Of n calls that follow each other. The cache is overwritten before, which also lets the GPU fall behind this
        process: what it costs to issue the calls is not in the time."""
        if self.is_gpu:
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.torch.cuda.synchronize()
            for _ in range(4):
                self.flush.zero_()
            begin.record()
        else:
            self.flush.zero_()
            begin = time.perf_counter()
        for i in range(n):
            calls[(first + i) % len(calls)]()
        if not self.is_gpu:
            return (time.perf_counter() - begin) / n
        end.record()
        self.torch.cuda.synchronize()
        return 1e-3 * begin.elapsed_time(end) / n

    def measure(self, row):
        """A row of the peer at the shape of one of ours."""
        error, repeated = self.check(row)
        if not error <= TOLERANCE[row["dtype"]]:
            raise RuntimeError(f"differs from its reference by {error:.2g} of the largest value")
        calls = self.calls(row, repeated)
        for warm in range(3):
            time_s = self.seconds(calls, warm, 1)
        n = min(len(calls), max(1, math.ceil(REPETITION_S / time_s)))
        times, begin = [], time.perf_counter()
        while len(times) < REPEATS_LEAST or (
            len(times) < REPEATS_MOST and time.perf_counter() - begin < SHAPE_LIMIT_S
        ):
            times.append(self.seconds(calls, len(times) * n, n))
        low, median, high = statistics.quantiles(times, n=4)
        values = {"time_s": f"{median:.6g}", "spread_frac": f"{(high - low) / median:.3g}", "repeats": len(times)}
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        check = f"{error:.2g}" + (", key heads repeated" if repeated else "")
        return row | values | self.columns | {"date": now, "check": check}


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]


def driver_version():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def is_aim(row):
    return all(row[column] == value for column, value in AIM_SHAPE.items())


def measure_peer(rows, device, budget_s, path):
    """Times of the peer by key, of the shapes that aims are about first; its rows go to `path` as they come."""
    begin, times, why_not = time.perf_counter(), {}, {}
    try:
        peer = Peer(device)
    except RuntimeError as error:  # a cuDNN or a driver that does not go with this PyTorch
        raise Missing(first_line(error)) from None
    with open(path or os.devnull, "w", newline="", encoding="utf-8", buffering=1) as file:
        writer = csv.DictWriter(file, PEER, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in sorted(rows, key=lambda row: not is_aim(row)):
            if key_of(row) in times:
                continue
            if time.perf_counter() - begin > budget_s:
                why_not.setdefault(f"{budget_s:g} s were spent", row)
                break
            try:
                measured = peer.measure(row)
            except (RuntimeError, TypeError) as error:  # a shape that it does not take, or no memory for it
                why_not.setdefault(first_line(error), row)
                continue
            times[key_of(row)] = float(measured["time_s"])
            writer.writerow(measured)
    for why, row in why_not.items():
        print(f"no time of {name_of(row)}: {why}")
    return times


# ---- The table ----


def name_of(row):
    mask = "causal" if row["causal"] else "full"
    return f"{row['op']} {mask} {row['batch']} x {row['seqlen']}, heads {row['heads']}/{row['kv_heads']}, dim {row['head_dim']}"


def tflops_per_s(row):
    flops = 4 * row["batch"] * row["seqlen"] ** 2 * row["heads"] * row["head_dim"]
    return flops * (0.5 if row["causal"] else 1) * (2.5 if row["op"] == BACKWARD else 1) / row["time_s"] / 1e12


def milliseconds(time_s):
    return f"{1e3 * time_s:.3f}" if time_s else "-"


def percent(row, time_s):
    return f"{100 * time_s / row['time_s']:.1f}" if time_s else "-"


def print_table(rows, peer, cudnn, fa3):
    line = "{:<9} {:<18} {:<6} {:>10} {:>7} {:>4} {:>9} {:>9} {:>9} {:>9} {:>8} {:>6}"
    print(line.format("kernel", "operation", "mask", "b x s", "heads", "dim", "ms", "TFLOP/s", peer + " ms", "% of it",
                      "FA3 ms", "% of it"))
    for row in rows:
        peers = cudnn.get(key_of(row)), fa3.get(key_of(row))
        print(line.format(
            kernel_of(row), row["op"], "causal" if row["causal"] else "full", f"{row['batch']} x {row['seqlen']}",
            f"{row['heads']}/{row['kv_heads']}", row["head_dim"], milliseconds(row["time_s"]),
            f"{tflops_per_s(row):.1f}", milliseconds(peers[0]), percent(row, peers[0]), milliseconds(peers[1]),
            percent(row, peers[1])))


def print_aims(rows, cudnn):
    """How far the kernels are from what they are to reach: ungrouped heads first, both masks."""
    present = {kernel_of(row) for row in rows}
    for (kernel, op), aim in AIMS.items():
        if kernel not in present:
            continue
        parts = []
        for causal in (1, 0):
            of = [row for row in rows if is_aim(row) and kernel_of(row) == kernel and row["op"] == op
                  and row["causal"] == causal and cudnn.get(key_of(row))]
            row = min(of, key=lambda row: row["heads"] > row["kv_heads"], default=None)
            share = f"{percent(row, cudnn[key_of(row)])} %" if row else "not measured"
            parts.append(f"{'causal' if causal else 'full'} {share}")
        print(f"{kernel} {op.split('_')[1]} at 8k, d 128: {', '.join(parts)} of cuDNN (aim {aim} %)")


def main():
    parser = argparse.ArgumentParser(description="attention rows of calibrate run beside cuDNN and FlashAttention 3")
    parser.add_argument("files", nargs="+", metavar="ATTENTION.csv", help="rows of calibrate run")
    parser.add_argument("--write", metavar="FILE", help="keep the rows of cuDNN that are timed")
    parser.add_argument("--peer", metavar="FILE", help="rows of cuDNN to read instead of timing it")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where PyTorch runs (default cuda)")
    parser.add_argument("--budget-s", type=float, default=40, help="time no shape of cuDNN after so long (default 40)")
    parser.add_argument("--shipped", metavar="DIR", default=os.path.join(os.path.dirname(__file__), "data"),
                        help="folder of the shipped rows (default calib/data)")
    a = parser.parse_args()
    if a.write and a.peer:
        parser.error("--write keeps what is timed, and with --peer nothing is")
    rows = choose([row for path in a.files for row in read_rows(path, ROW + ["device", "library"])])
    if not rows:
        print(f"nothing to compare: no attention row at head dim 64 or 128, sequences of {SEQLEN_LEAST} to {SEQLEN_MOST}")
        return
    cudnn = {}
    if a.peer:
        cudnn = {key_of(row): row["time_s"] for row in read_rows(a.peer, ROW)}
    else:
        try:
            cudnn = measure_peer(rows, a.device, a.budget_s, a.write)
        except Missing as why:
            print(f"cuDNN skipped: {why}")
    print_table(rows, "torch" if a.device == "cpu" else "cuDNN", cudnn, shipped(rows, a.shipped))
    if a.device == "cuda":
        print()
        print_aims(rows, cudnn)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"attention_peers: {failure}")
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        sys.exit(f"attention_peers: cannot write '{error.filename}': {error.strerror}")
