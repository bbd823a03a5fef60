#!/bin/sh
# resources.sh: reads what ptxas reported on each CUDA kernel when the program was built: no kernel may spill registers
# or have a stack frame, and the compiled kernels must be those that the launch headers name. (That registers and threads
# fit a multiprocessor is the compiler's duty, by __launch_bounds__; shared memory is checked in the CPU tests.) Skipped
# where nvcc did not compile the kernels.
set -eu
cd "$(dirname "$0")/../.."
reports=$(dirname "${DCPSIM:-$PWD/build/release/dcpsim}")/kernels
if ! ls "$reports"/*.ptxas >/dev/null 2>&1; then
  echo "skipped: the CUDA kernels were not compiled (no nvcc)"
  exit 0
fi
named=$(mktemp)
trap 'rm -f "$named"' EXIT
grep -oh '"[a-z][a-z_0-9]*"' kernels/*_launch.h | tr -d '"' | sort -u >"$named"
cat "$reports"/*.ptxas | awk -v named="$named" '
  function bad(text) { print "FAIL: " kernel ": " text; failures++ }
  /Compiling entry function/ { kernel = $0; sub(/^[^\047]*\047/, "", kernel); sub(/\047.*/, "", kernel); seen[kernel] = 1 }
  /Function properties for/ { mine = index($0, kernel) > 0 }
  /bytes stack frame/ && mine {
    if ($1 != 0) bad($1 " bytes of stack frame")
    if ($5 != 0 || $9 != 0) bad("spills " $5 " bytes, loads " $9)
    frames++
  }
  /Used [0-9]+ registers/ {
    for (i = 1; i < NF; i++) if ($i == "Used") registers[kernel] = $(i + 1)
    if (registers[kernel] > 255) bad(registers[kernel] " registers")
  }
  END {
    while ((getline name < named) > 0) {
      names[name] = 1
      if (!(name in seen)) { kernel = name; bad("named by a launch header, not compiled") }
    }
    for (kernel in seen) {
      compiled++
      if (!(kernel in names)) bad("compiled, but no launch header names it")
      if (!(kernel in registers)) bad("no register count")
      printf "%-34s %3d registers\n", kernel, registers[kernel] | "sort"
    }
    close("sort")
    if (frames < compiled) { kernel = "reports"; bad("of " compiled " kernels, only " frames " with a stack frame line") }
    if (compiled == 0) { kernel = "reports"; bad("no kernel in them") }
    printf "%d kernels, %d failures\n", compiled, failures
    exit (failures > 0)
  }'
