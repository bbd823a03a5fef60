#!/usr/bin/env python3
"""Checks every #include of the tree against the folder table of docs/ARCHITECTURE.md.

usage: check_includes.py [ROOT] | --self-test
Prints FILE:LINE: MESSAGE for each violation; exit 1 if there is any.
"""
import os
import re
import sys
import tempfile

BASE = ("sim/base",)
PLAN = ("models", "traces") + BASE
POLICY = ("sim/plan",) + PLAN
ENGINE = ("sim/plan", "models") + BASE
EXPERIMENT = ("sim/policy", "sim/engine") + POLICY
CALIB = ("kernels", "sim/experiment", "sim/policy", "sim/engine", "sim/plan", "models") + BASE
ALL = ("traces", "models", "sim/plan", "sim/policy", "sim/engine", "kernels", "sim/experiment", "sim/execute", "calib",
       "sim/sweep", "sim/report", "sim") + BASE

# folder: (our folders or single headers it may include, other libraries). A folder may always include itself. The longest
# matching folder counts; a folder that is not here may hold no C.
RULES = {
    "sim/base": ((), ("jansson", "gsl")),
    "traces": (BASE, ("zlib", "zstd", "gsl")),
    "models": (BASE, ()),
    "sim/plan": (PLAN, ()),
    "sim/policy": (POLICY, ()),
    "sim/engine": (ENGINE, ()),
    "kernels": (BASE, ("cuda", "mpi", "blas")),
    "sim/experiment": (EXPERIMENT, ()),
    "sim/execute": (("kernels", "sim/plan", "models/transformer.h") + BASE, ("mpi",)),
    "calib": (CALIB, ("gsl",)),
    "sim/sweep": (("sim/experiment",) + BASE, ("mpi",)),
    "sim/report": (("sim/experiment", "sim/engine", "sim/plan") + BASE, ()),
    "sim/cli": (ALL, ()),
    "sim": (("sim/experiment", "sim/plan", "traces") + BASE, ()),  # libdcpsim
    "examples": ((), ("dcpsim",)),
    "tests": (ALL, ("criterion", "mpi", "dcpsim")),
}

LIBRARIES = {
    "jansson": r"jansson\.h",
    "gsl": r"gsl/.*\.h",
    "zlib": r"zlib\.h",
    "zstd": r"zstd(_errors)?\.h",
    "mpi": r"mpi\.h",
    "blas": r"(cblas|openblas.*)\.h",
    "cuda": r"(cuda.*|cublas.*|cudnn.*|nccl|nvrtc|nvml|mma|cooperative_groups.*|cute/.*|cutlass/.*)(\.h|\.hpp|\.cuh)?",
    "criterion": r"criterion/.*\.h",
    "dcpsim": r"dcpsim\.h",  # libdcpsim as it is installed
}

SYSTEM = set("""assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
byteswap dirent dlfcn endian execinfo fcntl fnmatch ftw getopt glob libgen link malloc netdb omp poll pthread pwd
sched semaphore spawn strings termios ucontext unistd immintrin x86intrin cpuid
arpa/inet linux/filter linux/seccomp netinet/in sys/file sys/ioctl sys/mman sys/prctl sys/random sys/resource
sys/select sys/socket sys/stat sys/syscall sys/sysinfo sys/time sys/types sys/uio sys/un sys/utsname sys/wait sanitizer/lsan_interface sanitizer/asan_interface
functional type_traits vector""".split())

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = (".c", ".h", ".cu", ".cuh", ".cc")
SKIP = {"build", "out", ".git"}


def sources(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(n for n in names if n not in SKIP)
        for name in sorted(files):
            if name.endswith(SOURCES):
                yield os.path.relpath(os.path.join(folder, name), root)


def rule_of(path):
    """The folder of RULES that holds this file, or None."""
    return max((f for f in RULES if path.startswith(f + "/")), key=len, default=None)


def check_own(root, folder, included):
    """What is wrong with #include "included" from a file of `folder`, or None."""
    if ".." in included.split("/"):
        return f'"{included}": include from the root, not with ../'
    if not os.path.isfile(os.path.join(root, included)):
        return f'"{included}": no such file from the root'
    target = rule_of(included)
    allowed = RULES[folder][0]
    if target == folder or target in allowed or included in allowed:
        return None
    return f"{folder} may not include {included}"


def check_other(folder, included):
    """The same for #include <included>."""
    if re.sub(r"\.h$", "", included) in SYSTEM:
        return None
    for library, pattern in LIBRARIES.items():
        if re.fullmatch(pattern, included):
            return None if library in RULES[folder][1] else f"{folder} may not use {library} (<{included}>)"
    return f"<{included}>: a library or system header that tests/check_includes.py does not know"


def check(root):
    problems, headers = [], {}
    for path in sources(root):
        folder = rule_of(path)
        if folder is None:
            problems.append(f"{path}:1: no folder of the table holds this file")
            continue
        name = os.path.basename(path)
        if name.endswith((".h", ".cuh")):
            if name in headers:
                problems.append(f"{path}:1: header name already taken by {headers[name]}")
            headers.setdefault(name, path)
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                if match:
                    quote, included = match.groups()
                    wrong = check_own(root, folder, included) if quote == '"' else check_other(folder, included)
                    if wrong:
                        problems.append(f"{path}:{number}: {wrong}")
    return problems


def check_table():
    """The table itself must have no cycle."""
    state = {}

    def visit(folder, trail):
        assert state.get(folder) != 1, "cycle in the table: " + " -> ".join(trail + [folder])
        if folder in state:
            return
        state[folder] = 1
        for other in RULES[folder][0]:
            visit(other if other in RULES else rule_of(other), trail + [folder])
        state[folder] = 2

    for folder in RULES:
        visit(folder, [])


def self_test():
    good = {
        "sim/base/err.h": "#include <stdbool.h>\n",
        "sim/base/json.h": "#include <jansson.h>\n",
        "models/cost.h": '#include "sim/base/err.h"\n',
        "models/transformer.h": "",
        "sim/execute/player.c": '#include "models/transformer.h"\n#include <mpi.h>\n',
        "tests/unit/test_a.c": '#include <criterion/criterion.h>\n#include "models/cost.h"\n',
    }
    planted = [  # (file, text, line, part of the message)
        ("models/bad.c", '\n#include "sim/plan/plan.h"\n', 2, "models may not include sim/plan/plan.h"),
        ("models/json.c", "#include <jansson.h>\n", 1, "may not use jansson"),
        ("sim/execute/bad.c", '#include "models/cost.h"\n', 1, "sim/execute may not include models/cost.h"),
        ("sim/base/bad.c", '#include "../base/err.h"\n', 1, "not with ../"),
        ("sim/plan/none.c", '  #  include "sim/plan/none.h"\n', 1, "no such file"),
        ("sim/plan/curl.c", "#include <curl/curl.h>\n", 1, "does not know"),
        ("sim/plan/err.h", "", 1, "already taken by sim/base/err.h"),
        ("tests/unit/test_b.c", '#include "sim/cli/main.h"\n', 1, "tests may not include sim/cli/main.h"),
        ("docs/a.c", "", 1, "no folder of the table"),
    ]
    targets = {"sim/plan/plan.h": "", "sim/cli/main.h": ""}
    with tempfile.TemporaryDirectory() as root:
        def write(files):
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)

        write(good)
        assert check(root) == [], check(root)
        write(targets)
        for path, text, line, message in planted:
            write({path: text})
            found = check(root)
            assert len(found) == 1 and found[0].startswith(f"{path}:{line}: ") and message in found[0], (path, found)
            os.remove(os.path.join(root, path))
    print(f"{len(planted)} planted violations found")


def main():
    check_table()
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
