#!/usr/bin/env python3
"""coverage.py EXPORT TARGET FILE...: from what llvm-cov export wrote, how many lines of these files were reached; then the
functions of theirs that never were, one a line."""
import json
import os
import sys

export, target, files = sys.argv[1], sys.argv[2], set(sys.argv[3:])
data = json.load(open(export))["data"][0]


def wanted(path):
    """The name in `files` of a path of the compiler's, or None."""
    return next((f for f in files if os.path.normpath(path).endswith("/" + f)), None)


lines = [f["summary"]["lines"] for f in data["files"] if wanted(f["filename"])]
if len(lines) != len(files):
    sys.exit(f"{target}: {len(lines)} of {len(files)} files are in the program: {' '.join(sorted(files))}")
functions = [(wanted(f["filenames"][0]), f["name"].split(":")[-1], f["count"]) for f in data["functions"]]
functions = [f for f in functions if f[0]]
never = sorted({(f, name) for f, name, count in functions if count == 0})
reached, there = sum(n["covered"] for n in lines), sum(n["count"] for n in lines)
print(f"{target:<12} {100 * reached / there:5.1f} % of {there} lines, {len(never)} of {len(functions)} functions never")
for f, name in never:
    print(f, name)
