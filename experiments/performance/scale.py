"""scale.py PROGRAM SHORT: runs the cases of scale.sh in the present folder, several times in turn, and writes results.csv,
the points, and scale.txt, a line per curve: what it costs at its largest x, and the exponents fitted over its upper x.
Fails if memory grows faster than it may; seconds are never judged."""
import csv
import json
import math
import os
import subprocess
import sys
import time

PROGRAM, SHORT = sys.argv[1], sys.argv[2] == "yes"
RUNS = 1 if SHORT else 2
LONG_S = 4  # a case that takes longer runs once
MAX_EXPONENT = 1.1  # of peak memory
MAX_SAMPLES_MIB = 1024  # of 10,000,000 samples


class Run:
    """A command: the least CPU seconds and the most memory of its runs."""

    def __init__(self, command):
        self.command, self.cpu_s, self.peak_mib = command, math.inf, 0

    def again(self):
        if LONG_S < self.cpu_s < math.inf:
            return
        cpu_s, peak_mib = measure(self.command)
        self.cpu_s = min(self.cpu_s, cpu_s)
        self.peak_mib = max(self.peak_mib, peak_mib)


runs = {}  # by command, in the order of the cases


def run_of(command):
    return runs.setdefault(tuple(command), Run(command))


class Case:
    """One point: CPU seconds of `command`, less those of `base` where there is one, divided by `steps`."""

    def __init__(self, curve, x, command, base=None, steps=1):
        self.curve, self.x, self.steps = curve, x, steps
        self.run, self.base = run_of(command), run_of(base) if base else None

    @property
    def cpu_s(self):
        return max(0, self.run.cpu_s - (self.base.cpu_s if self.base else 0)) / self.steps

    @property
    def peak_mib(self):
        return self.run.peak_mib


def measure(command):
    """CPU seconds (user and system) and peak resident MiB of one process."""
    child = subprocess.Popen([PROGRAM, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read().decode()
    _, status, use = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"scale.py: dcpsim {' '.join(command)}: exit status {status}\n{said}")
    return use.ru_utime + use.ru_stime, use.ru_maxrss / 1024


def powers(first, last, factor=2):
    return [round(first * factor**i) for i in range(round(math.log(last / first, factor)) + 1)]


def generate(name, spec, n):
    if not os.path.exists(name):
        subprocess.run([PROGRAM, "trace", "generate", spec, "-n", str(n), "-o", name], check=True, stdout=subprocess.DEVNULL)


def simulate(trace, gpus, *options, model="llama2-7b"):
    command = ["simulate", "--trace", trace, "--model", model, "--cluster", f"h200_8x{gpus // 8}", "--json", "-j", "1"]
    return command + [str(option) for option in options]


# ---- one step, from the difference of many steps and one: packs never repeat, so every step is played ----

PACK_TOKENS = 8192


def steps_case(curve, x, trace, gpus, sp, packs, micro_batches=1, model="llama2-7b"):
    """`packs`: how many the steps beyond the first have in all, at least; three steps at least."""
    groups = gpus // sp
    steps = max(3, packs // (groups * micro_batches))
    options = ["--policy", "packed", "--sp", sp, "--pack-tokens", PACK_TOKENS]
    if micro_batches > 1:
        options += ["--tokens-per-step", PACK_TOKENS * groups * micro_batches]
    return Case(curve, x, simulate(trace, gpus, *options, "--steps", steps + 1, model=model),
                simulate(trace, gpus, *options, "--steps", 1, model=model), steps)


def write_model(layers):
    """Narrow, so that 512 layers fit a GPU."""
    name = f"layers_{layers}.json"
    with open(name, "w") as file:
        json.dump({"schema": "dcpsim.model/1", "name": f"layers_{layers}", "source": "experiments/performance/scale.py",
                   "layers": layers, "hidden": 1024, "heads": 16, "kv_heads": 16, "head_dim": 64, "ffn": 4096,
                   "mlp_matrices": 3, "vocab": 32000}, file)
    return name


def step_cases():
    packs = 512 if SHORT else 4096
    generate("even.txt", f"constant:length={PACK_TOKENS // 2}", 10 * packs + (10000 if SHORT else 50000))
    generate("uneven.txt", f"lognormal:mean=2000,sigma=1,max={PACK_TOKENS}", 10 * packs + (10000 if SHORT else 200000))
    most = 1024 if SHORT else 16384
    for gpus in powers(8, most):
        yield steps_case("gpus_even", gpus, "even.txt", gpus, 8, packs)
        yield steps_case("gpus_uneven", gpus, "uneven.txt", gpus, 8, packs)
    for sp in powers(1, 8 if SHORT else 64):
        yield steps_case("groups", most // sp, "uneven.txt", most, sp, packs)
    for layers in powers(8, 64 if SHORT else 512):
        yield steps_case("layers", layers, "uneven.txt", most // 16, 8, packs // 4, model=write_model(layers))
    for n in powers(1, 8 if SHORT else 64):
        yield steps_case("micro_batches", n, "even.txt", most // 16, 8, packs, micro_batches=n)


# ---- whole runs ----

SAMPLES = [1000, 10000, 100000] + ([] if SHORT else [1000000, 3000000, 10000000])
POLICIES = ["static", "bucket", "packed", "dcp_rebalance", "dcp_inter", "dcp", "megatron_dp_balanced", "megatron_dynamic_cp",
            "megatron_dynamic_cp_early"]


def generate_samples():
    for n in SAMPLES:
        generate(f"samples_{n}.txt", "lognormal:mean=1000,sigma=1.2,max=60000", n)


def policy_cases():
    """One step of each policy, as many tokens per GPU at every x; less the same on one node: start and reading."""
    trace = "samples_10000.txt" if SHORT else "wikipedia"

    def command(policy, gpus):
        return simulate(trace, gpus, "--policy", policy, "--sp", 8, "--steps", 1, "--tokens-per-step", 16384 * gpus)
    for policy in POLICIES:
        for gpus in powers(16, 64) if SHORT else powers(64, 16384, 4):
            yield Case(policy, gpus, command(policy, gpus), command(policy, 8))


def sample_cases():
    for n in SAMPLES:
        name = f"samples_{n}.txt"
        yield Case("samples_read", n, ["trace", "info", name])
        yield Case("samples_four", n, simulate(name, 32, "--policy", "bucket,packed,dcp_inter,dcp", "--sp", 8, "--draws", 0))


# ---- curves ----

CURVES = {  # what is said of it, first x of the fits
    "gpus_even": ("a step, even groups of SP 8, by GPUs", 512),
    "gpus_uneven": ("a step, uneven groups of SP 8, by GPUs", 512),
    "groups": ("a step by groups: SP 64 to 1", 512),
    "layers": ("a step by layers", 64),
    "micro_batches": ("a step by micro-batches of a group", 8),
    "samples_read": ("trace info by samples", 100000),
    "samples_four": ("an epoch, four policies, by samples", 100000),
    **{policy: (f"first step of {policy}, by GPUs", 1024) for policy in POLICIES},
}


def exponent(points):
    """Slope of the least-squares line through (log x, log y)."""
    logs = [(math.log(x), math.log(y)) for x, y in points if y > 0]
    if len(logs) < 2:
        return math.nan
    mean_x, mean_y = (sum(v) / len(logs) for v in zip(*logs))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


class Fit:
    """A curve's cases by x, and the exponents of seconds and of memory over those from first_x on."""

    def __init__(self, curve, cases):
        self.curve, (self.title, self.first_x) = curve, CURVES[curve]
        self.cases = sorted((case for case in cases if case.curve == curve), key=lambda case: case.x)
        if SHORT:
            self.first_x = self.cases[max(0, len(self.cases) - 3)].x
        upper = [case for case in self.cases if case.x >= self.first_x]
        self.cpu = exponent([(case.x, case.cpu_s) for case in upper])
        self.memory = exponent([(case.x, case.peak_mib) for case in upper])
        self.last = self.cases[-1]


def write_points(cases):
    with open("results.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["curve", "x", "cpu_s", "peak_mib"])
        for case in cases:
            out.writerow([case.curve, case.x, f"{case.cpu_s:.6f}", f"{case.peak_mib:.2f}"])


def text(value):
    return "-" if math.isnan(value) else f"{value:.2f}"


def write_fits(fits):
    with open("fits.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["curve", "from_x", "to_x", "cpu_exponent", "memory_exponent"])
        for fit in fits:
            out.writerow([fit.curve, fit.first_x, fit.last.x, text(fit.cpu), text(fit.memory)])
    with open("scale.txt", "w") as file:
        print(f"{'':52s} {'x':>9s} {'CPU s':>9s} {'MiB':>7s} {'fit from x':>10s} {'CPU ~ x^':>8s} {'MiB ~ x^':>8s}", file=file)
        for fit in fits:
            print(f"{fit.title:52s} {fit.last.x:9d} {fit.last.cpu_s:9.4f} {fit.last.peak_mib:7.1f} {fit.first_x:10d}"
                  f" {text(fit.cpu):>8s} {text(fit.memory):>8s}", file=file)


def check_memory(fits):
    for fit in fits:
        if fit.memory > MAX_EXPONENT:
            sys.exit(f"scale.py: {fit.title}: peak memory grows with the power {fit.memory:.2f}, at most {MAX_EXPONENT} is allowed")
        if fit.curve.startswith("samples") and fit.last.peak_mib > MAX_SAMPLES_MIB:
            sys.exit(f"scale.py: {fit.title}: {fit.last.peak_mib:.0f} MiB of {fit.last.x} samples, at most {MAX_SAMPLES_MIB} are allowed")


def main():
    generate_samples()
    cases = list(step_cases()) + list(policy_cases()) + list(sample_cases())
    for _ in range(RUNS):
        for run in runs.values():
            run.again()
    fits = [Fit(curve, cases) for curve in CURVES]
    write_points(cases)
    write_fits(fits)
    check_memory(fits)


if __name__ == "__main__":
    main()
