#!/bin/sh
# device.sh: the CUDA device from operator calls to results. Without a GPU: its host code on the driver and cuBLASLt of
# tests/fake, its kernels on the CPU by tests/cuda_shim. With a GPU: the same program on the real driver. Then calibrate
# run on the fakes: rows of everything, wrong results, too little memory, and drivers and GPUs that will not do.
set -eu
cd "$(dirname "$0")/../.."
tests=$(dirname "$DCPSIM")/tests
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export dir flags="-std=c++17 -O2 -fPIC -I. -include tests/cuda_shim/shim.h -Wno-unknown-pragmas"
# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\n' kernels/*.cu tests/cuda_shim/shim.cc tests/fake/shim_kernels.cc |
  xargs -P "$(nproc 2>/dev/null || echo 2)" -I{} sh -c '${CXX:-g++} $flags -x c++ -c {} -o "$dir/$(basename {}).o"'
${CXX:-g++} -shared "$dir"/*.o -o "$dir/kernels.so"
fake() {
  env LD_LIBRARY_PATH="$tests/fake" FAKE_CUDA_KERNELS="$dir/kernels.so" "$@"
}
fake "$tests/verify"
# Kernels that do nothing must be found out: all but the two operators that have none.
echo 'const char *fake_cuda_run(void); const char *fake_cuda_run(void) { return 0; }' |
  ${CC:-cc} -x c -shared -fPIC -o "$dir/nothing.so" -
if fake FAKE_CUDA_KERNELS="$dir/nothing.so" "$tests/verify" >"$dir/nothing" || grep ': right$' "$dir/nothing" |
  grep -v '^gemm \|^clear '; then
  echo "kernels that do nothing were not found out"
  exit 1
fi
tail -1 "$dir/nothing"
rc=0
"$tests/verify" || rc=$?
[ "$rc" -eq 0 ] || [ "$rc" -eq 77 ]

case $("$DCPSIM" --version) in
*'cuda: none'*)
  echo 'dcpsim has no CUDA kernels: calibrate run is not tried'
  exit 0
  ;;
esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir "$dir/bin"
cat >"$dir/bin/nvidia-smi" <<'EOF'
#!/bin/sh
case $* in
*driver_version*) echo 580.95.05 ;;
*) echo '1980 MHz, 2619 MHz, 1980 MHz, 700.00 W' ;;
esac
EOF
chmod +x "$dir/bin/nvidia-smi"
PATH=$dir/bin:$PATH

# run FOLDER ARGUMENTS...: exit status in $status, output in $dir/out and $dir/err
run() {
  folder=$1
  shift
  status=0
  fake ${kernels:+"FAKE_CUDA_KERNELS=$kernels"} timeout -k 5 120 ${launcher-} "$DCPSIM" calibrate run --device cuda -o "$dir/$folder" --confidence 1 \
    --shape-limit-s 0.001 "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}
# works / refuses MESSAGE: exit status 0 and no message; or 1 and that line
works() {
  [ "$status" -eq 0 ] && [ ! -s "$dir/err" ] && return
  echo "calibrate run: exit status $status"
  cat "$dir/out" "$dir/err"
  exit 1
}
refuses() {
  [ "$status" -eq 1 ] && grep -qxF "dcpsim: calibrate run: $1" "$dir/err" && return
  echo "calibrate run: exit status $status, not '$1':"
  cat "$dir/err"
  exit 1
}

run rows --model tiny-1d --max-tokens 64 --budget-s 100
works
run rows --model tiny-1d --max-tokens 256 --budget-s 100 --ops attention_varlen_forward,attention_varlen_backward
works
wanted='7 collectives are not run: no mpirun, or no NCCL to stand in'
if [ -f "$tests/fake/libnccl.so.2" ] && mpirun -np 2 --oversubscribe true >/dev/null 2>&1; then
  launcher='mpirun -np 2 --oversubscribe --mca mpi_yield_when_idle 1'
  export FAKE_CUDA_GPUS=2
  run rows --max-bytes 4096
  works
  FAKE_NCCL_WRONG=1 run wrong --max-bytes 64
  refuses 'wrong results: 8 shapes have no row'
  grep -q '^dcpsim: warning: all_reduce of 2 ranks on 1 node: rank [01] got a wrong result; no rows of it are written$' "$dir/err"
  grep -q '^all_gather,' "$dir/wrong/collective.csv"
  if grep '^all_reduce,' "$dir/wrong/collective.csv"; then exit 1; fi
  # the first rank that runs out of memory ends all
  FAKE_CUDA_BYTES=40000000 run memory --max-bytes 4194304 --ops all_reduce
  grep -q '^dcpsim: calibrate run: rank [01] of 2: all_reduce of 4194304 bytes: device cuda [01] (fake GPU [01]): 4194304 bytes do not fit: [0-9]* of 40000000 bytes are free$' "$dir/err"
  [ "$status" -eq 1 ]
  unset launcher FAKE_CUDA_GPUS
  wanted=7
fi
python3 - "$wanted" "$dir"/rows/*.csv <<'EOF'
import csv, sys
rows = [row for path in sys.argv[2:] for row in csv.DictReader(open(path))]
ops = {}
for row in rows:
    ops[row["op"]] = ops.get(row["op"], 0) + 1
    collective = "bytes" in row
    assert row["dtype"] == "bf16" and float(row["time_s"]) > 0 and int(row["repeats"]) >= 3, row
    assert row["device"] == "fake GPU 0" and row["driver"] == "580.95.05", row
    assert row["clocks"] == "1980 MHz; 2619 MHz; 1980 MHz; 700.00 W", row
    assert row["library"].startswith("NCCL 22703" if collective else "cuBLASLt 130001; kernels of dcpsim "), row
    assert row["check"] == "exact" if collective else float(row["check"]) < 2e-2, row
collectives = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_uneven", "send_recv", "barrier"}
kernels = set(ops) - collectives
assert len(kernels) == 31, sorted(kernels)
assert len(set(ops) & collectives) == (7 if sys.argv[1] == "7" else 0), sorted(ops)
print(f"calibrate run: {len(rows)} rows of {len(ops)} operations" + ("" if sys.argv[1] == "7" else "; " + sys.argv[1]))
EOF
run rows --model tiny-1d --max-tokens 64
works
grep -q '^attention_forward  *8  *0  *8  *0 ' "$dir/out" # all had
DCPSIM_ATTENTION=wgmma run rows --ops attention_forward --max-tokens 64
library=$(sed -n '2s/.*,\(cuBLASLt [^,]*\),.*/\1/p' "$dir/rows/attention.csv")
refuses "rows '$dir/rows/attention.csv' line 2: measured with '$library', and this is '$library; attention_forward by wgmma'; name another folder"

kernels=$dir/nothing.so run refused --ops gemm,rmsnorm --model tiny-1d --max-tokens 64
refuses 'wrong results: 2 shapes have no row'
grep -q '^dcpsim: warning: rmsnorm: differs from its reference by inf of the largest value (at most 0.02); no rows' "$dir/err"
grep -q '^gemm,' "$dir/refused/gemm.csv"
[ "$(wc -l <"$dir/refused/memory.csv")" -eq 1 ]

export FAKE_CUDA_BYTES=110000000
run memory --ops gemm --max-tokens 64 --budget-s 100
refuses 'gemm m 64, n 1152, k 1152: device cuda 0 (fake GPU 0): 47185920 bytes do not fit: 9336704 of 110000000 bytes are free'
FAKE_CUDA_BYTES=60000000 run memory --ops gemm --max-tokens 64
refuses 'the array that overwrites the cache: device cuda 0 (fake GPU 0): 67108864 bytes do not fit: 26445568 of 60000000 bytes are free'
unset FAKE_CUDA_BYTES

FAKE_CUDA_GPUS=0 run none
refuses 'device cuda: the NVIDIA driver finds no GPU'
FAKE_CUDA_SM=80 run none
refuses 'device cuda 0 (fake GPU 0): the kernels are for sm_90 (H100, H200), this GPU is sm_80'
FAKE_CUDA_FAIL=cuModuleLoadData:1:200 run none
refuses 'device cuda 0 (fake GPU 0): the kernels do not load; is the driver older than the CUDA toolkit that built dcpsim?: cuModuleLoadData: unknown error (CUDA_ERROR_UNKNOWN)'
mkdir "$dir/old"
echo 'int cuInit(unsigned flags); int cuInit(unsigned flags) { return (int)flags; }' |
  ${CC:-cc} -x c -shared -fPIC -o "$dir/old/libcuda.so.1" -
fake() { env LD_LIBRARY_PATH="$dir/old" "$@"; }
run none
refuses 'device cuda: this NVIDIA driver is too old: it has no cuGetErrorName'
fake() { env "$@"; }
if ! command -v ldconfig >/dev/null || ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
  run none
  refuses 'device cuda: no NVIDIA driver: libcuda.so.1 cannot be loaded'
fi
[ ! -e "$dir/none" ]
echo 'calibrate run: wrong results, too little memory, and 5 drivers and GPUs that will not do are told in one line'
