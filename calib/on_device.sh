#!/bin/sh
# on_device.sh: everything that needs a GPU, in under 8 minutes: builds, checks every CUDA kernel against its reference on
# the device, measures (calibrate run), compares attention with cuDNN and FlashAttention 3 and all rows with the shipped
# parameters, plays one rank of a 32-GPU schedule, and leaves the rows to commit in calib/data/measured_GPU/ with
# versions.txt and summary.txt; in its folders wgmma/ and cudnn/ those of the other attention kernel and of cuDNN. Run
# again, it goes on where it ended.
#   sh calib/on_device.sh              the first GPU of this machine; collectives over all of them
#   DEVICE=cpu sh calib/on_device.sh   the same steps on the CPU, into out/on_device
# A machine with a GPU may have no network, and so none of the libraries that a build needs. For such a one:
#   sh calib/on_device.sh pack                    here: builds without MPI, and puts program, libraries, data and this
#                                                 script into out/on_device_kit (below 64 MiB, for x86-64 as for here)
#   sh out/on_device_kit/calib/on_device.sh       there: the same steps, nothing is built or installed
# The kit needs a glibc as new as pack prints, a shell with coreutils, the NVIDIA driver, and cuBLASLt 12 or 13: beside
# the CUDA compiler, or in the Python packages that PyTorch brings. Without MPI no collectives are measured.
# BUDGET_S: seconds of measuring kernels (cuda 130, cpu 60). OUT: another folder. MODEL: shapes of this model (cuda: the
# usual grid; cpu: tiny-1d). PYTHON: one with PyTorch, for cuDNN (python3). DCPSIM: a program that is built already, with
# its tests beside it; nothing is built then.
set -eu
cd "$(dirname "$0")/.."
device=${DEVICE:-cuda}
quick=
python=${PYTHON:-python3}
started=$(date +%s)

# The program and all that it needs, in one folder that can be carried to another machine.
pack() {
  kit=out/on_device_kit build=build/on_device_kit
  . tests/packages.sh
  packages_install core
  # RPATH, not RUNPATH: it holds for what the libraries need, too.
  # shellcheck disable=SC2016 # $ORIGIN is the loader's
  cmake -S . -B $build -DCMAKE_BUILD_TYPE=Release -DDCPSIM_WERROR=OFF -DDCPSIM_MPI=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib;$ORIGIN/../../lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags >/dev/null
  cmake --build $build -j "$(nproc)" --target dcpsim verify
  case $($build/dcpsim --version) in
  *'cuda: none'*)
    echo 'dcpsim has no CUDA kernels: install a CUDA toolkit (nvcc) and pack again' >&2
    return 1
    ;;
  esac
  rm -rf $kit
  mkdir -p $kit/bin/tests $kit/lib $kit/calib $kit/models $kit/traces
  cp $build/dcpsim $kit/bin/
  cp $build/tests/verify $kit/bin/tests/
  ldd $kit/bin/dcpsim $kit/bin/tests/verify | awk '$3 ~ "^/" {print $3}' | sort -u |
    grep -v '/\(libc\|libm\|libdl\|librt\|libpthread\)\.so' | xargs -I{} cp -L {} $kit/lib/
  cp -R calib/on_device.sh calib/attention_peers.py calib/data calib/params $kit/calib/
  cp -R models/presets $kit/models/
  cp -R traces/data $kit/traces/
  cp LICENSE NOTICE $kit/
  glibc=$(objdump -T $kit/bin/dcpsim $kit/bin/tests/verify $kit/lib/* | grep -o 'GLIBC_2[.0-9]*' | sort -uV | tail -n 1)
  echo "$kit: $(du -sm $kit | cut -f 1) MiB, $(uname -m), needs $glibc; $(ls $kit/lib | tr '\n' ' ')"
}

if [ "${1-}" = pack ]; then
  pack
  exit
elif [ $# -gt 0 ]; then
  echo 'usage: sh calib/on_device.sh [pack]' >&2
  exit 2
fi

# cuBLASLt, NCCL and the driver may be where the loader does not look: beside the CUDA compiler, in Python's packages, in
# a folder that a container mounts. PyTorch finds its own, and keeps the path that it was given.
given_library_path=${LD_LIBRARY_PATH-}
add_libraries() {
  for folder in $("$python" -c 'import glob, sys
for path in sys.path:
    print(*glob.glob(path + "/nvidia/*/lib"), sep="\n")' 2>/dev/null) /usr/local/cuda/lib64 /usr/local/nvidia/lib64; do
    for library in "$folder"/libcublasLt.so.1[23] "$folder"/libnccl.so.2 "$folder"/libcuda.so.1; do
      [ -e "$library" ] || continue
      LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
      break
    done
  done
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}"
}

case $device in
cuda)
  if ! command -v nvidia-smi >/dev/null 2>&1; then
    echo 'no nvidia-smi: is there a GPU? DEVICE=cpu runs the same steps without one' >&2
    exit 1
  fi
  name=$(nvidia-smi -i 0 --query-gpu=name --format=csv,noheader | sed 's/^NVIDIA //' | tr 'A-Z' 'a-z' | tr -c 'a-z0-9\n' '_')
  ranks=$(nvidia-smi -L | wc -l)
  budget=${BUDGET_S:-130}
  execute_s=25
  add_libraries
  out=${OUT:-calib/data/measured_$name}
  case $name in
  h100*) params=h100_sxm ;;
  *) params=h200_sxm ;;
  esac
  ;;
cpu)
  name=cpu
  ranks=2
  budget=${BUDGET_S:-60}
  execute_s=60
  MODEL=${MODEL:-tiny-1d}
  quick='--max-tokens 256 --shape-limit-s 0.03 --confidence 0.2'
  out=${OUT:-out/on_device}
  params=
  ;;
*)
  echo "DEVICE is cuda or cpu, not '$device'" >&2
  exit 2
  ;;
esac
mkdir -p "$out"

failed=
# step NAME SECONDS COMMAND...: its output in NAME.txt beside the rows and, at the end, on the screen. What fails is named
# at the end: rows that are measured are worth keeping. Limits add up to 490 s on a GPU, and the last steps
# are cut at 470 s: verify takes half of its 90 s, unless the CPU is slow.
step() {
  title=$1
  limit=$2
  shift 2
  spent=$(($(date +%s) - started))
  left=$((spent < 470 ? 470 - spent : 1))
  echo "== $title ($spent s)"
  status=0
  timeout $((limit < left ? limit : left)) "$@" >"$out/$title.txt" 2>&1 || status=$?
  cat "$out/$title.txt"
  if [ "$status" -ne 0 ]; then
    echo "$title failed with exit status $status" | tee -a "$out/$title.txt"
    failed="$failed $title"
  fi
}

build() {
  cmake -S . -B build/release -DCMAKE_BUILD_TYPE=Release -DDCPSIM_WERROR=OFF &&
    cmake --build build/release -j "$(nproc)" --target dcpsim verify
}

if [ -x bin/dcpsim ]; then # a kit
  DCPSIM=${DCPSIM:-bin/dcpsim}
  export DCPSIM_SHARE="$PWD"
elif [ -z "${DCPSIM-}" ]; then
  . tests/packages.sh
  packages_install core || {
    echo "without a network: 'sh calib/on_device.sh pack' elsewhere, and bring out/on_device_kit" >&2
    exit 1
  }
  mkdir -p build
  echo '== build'
  build >build/on_device.log 2>&1 || {
    tail -n 20 build/on_device.log >&2
    exit 1
  }
  DCPSIM=build/release/dcpsim
fi
"$DCPSIM" --version >/dev/null # a program that does not start ends it all here, with the loader's words

{
  date -u +%Y-%m-%dT%H:%M:%SZ
  "$DCPSIM" --version
  uname -srm
  if [ "$device" = cuda ]; then
    nvidia-smi --query-gpu=index,name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem --format=csv || true
    nvidia-smi topo -m || true
    (nvcc --version || true) 2>&1 | tail -n 2
    echo "libraries: $LD_LIBRARY_PATH"
  fi
} >"$out/versions.txt"

# Every operator on the GPU against its double reference; the CPU's are compared by the unit tests.
if [ "$device" = cuda ]; then
  step verify 90 "$(dirname "$DCPSIM")/tests/verify" large
fi

# shellcheck disable=SC2086
step kernels $((budget + 15)) "$DCPSIM" calibrate run --device "$device" -o "$out" --budget-s "$budget" ${MODEL:+--model $MODEL} \
  $quick

if [ "$ranks" -gt 1 ] && command -v mpirun >/dev/null 2>&1; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  step collectives 50 mpirun -np "$ranks" --oversubscribe --mca mpi_yield_when_idle 1 "$DCPSIM" calibrate run \
    --device "$device" -o "$out" --budget-s $((budget < 35 ? budget : 35))
else
  echo "collectives are not measured: $ranks GPU, or no mpirun"
fi

# Attention beside cuDNN and FlashAttention 3: the heads of llama2-7b, which the run above may not have reached, and the
# kernel that is not chosen yet, in a folder of its own.
if [ "$device" = cuda ]; then
  mkdir -p "$out/wgmma" "$out/cudnn"
  llama2='--device cuda --model llama2-7b --shape-limit-s 0.1 --budget-s 20'
  # shellcheck disable=SC2086
  step attention 25 "$DCPSIM" calibrate run $llama2 -o "$out" --ops attention_forward,attention_backward
  # shellcheck disable=SC2086
  step wgmma 30 env DCPSIM_ATTENTION=wgmma "$DCPSIM" calibrate run $llama2 -o "$out/wgmma" --ops attention_forward
fi
set -- "$out/attention.csv"
[ ! -s "$out/wgmma/attention.csv" ] || set -- "$@" "$out/wgmma/attention.csv"
[ "$device" = cpu ] || set -- "$@" --write "$out/cudnn/attention.csv"
if command -v "$python" >/dev/null 2>&1; then
  step peers 60 env LD_LIBRARY_PATH="$given_library_path" "$python" calib/attention_peers.py "$@" --device "$device"
else
  echo "attention is not compared: no $python"
fi

# What the shipped parameters say of these rows (their kernels are others' libraries), and what a fit to the rows does.
# A file of a header alone, as wrong results leave it, is no reason to go without the others.
set --
for rows in "$out"/*.csv; do
  [ "$(wc -l <"$rows")" -lt 2 ] || set -- "$@" "$rows"
done
if [ -n "$params" ]; then
  step shipped 10 "$DCPSIM" calibrate check --params "$params" "$@"
fi
step fit 20 "$DCPSIM" calibrate fit "$@" --device "${params:-cpu}" --params "${params:-h200_sxm}" -o "$out/fitted.json"
[ ! -f "$out/fitted.json" ] || step fitted 10 "$DCPSIM" calibrate check --params "$out/fitted.json" "$@"

# One rank's part of a larger schedule, measured beside its prediction: what other ranks would send is waited for.
model=tiny-1d
[ "$device" = cpu ] || model=gpt-1.2b
"$DCPSIM" simulate --trace sharegpt --model $model --cluster h200_8x4 --policy packed,dcp --steps 2 --draws 0 \
  --tokens-per-step 524288 --pack-tokens 16384 --schedule "$out/{policy}.jsonl" >/dev/null 2>&1 || failed="$failed simulate"
for policy in packed dcp; do
  step "execute_$policy" "$execute_s" "$DCPSIM" execute "$out/$policy.jsonl" --device "$device" --as-rank 0 --world 32 --steps 1
done

{
  echo "$name, $(cat "$out/versions.txt" | sed -n 1p), $(sed -n 2p "$out/versions.txt")"
  for part in verify kernels collectives attention wgmma peers shipped fit fitted execute_packed execute_dcp; do
    [ -s "$out/$part.txt" ] || continue
    echo
    echo "== $part"
    cat "$out/$part.txt"
  done
} >"$out/summary.txt"
rm -f "$out/fitted.json" "$out"/verify.txt "$out"/kernels.txt "$out"/collectives.txt "$out"/attention.txt "$out"/wgmma.txt "$out"/peers.txt \
  "$out"/shipped.txt "$out"/fit.txt \
  "$out"/fitted.txt "$out"/execute_*.txt "$out"/packed.jsonl "$out"/dcp.jsonl
echo "== done in $(($(date +%s) - started)) s; commit $out: rows, versions.txt, summary.txt"
if [ -n "$failed" ]; then
  echo "failed:$failed" >&2
  exit 1
fi
