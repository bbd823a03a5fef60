#!/bin/sh
# collectives.sh: exact results of every collective alone and under mpirun, and the errors of a wrong choice.
set -eu
check=$(dirname "$DCPSIM")/tests/check_communicator
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1
ranks() {
  n=$1
  shift
  timeout 60 mpirun -np "$n" --oversubscribe --mca mpi_yield_when_idle 1 "$@"
}

"$check" >"$dir/out"
grep '^self: 1 ranks, [1-9][0-9]* numbers' "$dir/out"
"$check" mpi >"$dir/out" # MPI without mpirun
grep '^mpi: 1 ranks, [1-9][0-9]* numbers' "$dir/out"
for n in 1 2 3 4; do
  ranks "$n" "$check" >"$dir/out"
  grep "^mpi: $n ranks, [1-9][0-9]* numbers" "$dir/out"
  [ "$(wc -l <"$dir/out")" -eq 1 ]
done

# NCCL's calls, on a library that gives them to MPI, and a driver without GPU
for n in 1 2 3 4; do
  LD_LIBRARY_PATH=$(dirname "$check")/fake ranks "$n" "$check" nccl cuda >"$dir/out"
  grep "^nccl: $n ranks, [1-9][0-9]* numbers" "$dir/out"
  [ "$(wc -l <"$dir/out")" -eq 1 ]
done

# refuse MESSAGE COMMAND...: exit status 1 and that line on stderr
refuse() {
  wanted=$1
  shift
  status=0
  "$@" >"$dir/out" 2>"$dir/err" || status=$?
  [ "$status" -eq 1 ] || { echo "exit status $status: $*"; exit 1; }
  grep -qxF "$wanted" "$dir/err" || { echo "wanted: $wanted"; cat "$dir/err"; exit 1; }
}
refuse "no communicator 'gloo'; there are: mpi, nccl, self" "$check" gloo
refuse 'communicator nccl: it needs device cuda, not cpu' "$check" nccl
refuse 'communicator self: mpirun or srun started several processes; use mpi or nccl' ranks 2 "$check" self
export LD_LIBRARY_PATH="$(dirname "$check")/fake"
refuse 'communicator mpi, rank 0 of 1: all_reduce of 1 fp32 numbers: MPI moves host memory only; use nccl with device cuda' \
  "$check" mpi cuda
FAKE_NCCL_FAIL=ncclCommInitRank refuse 'communicator nccl, fake GPU 0: ncclCommInitRank: internal error' \
  ranks 2 "$check" nccl cuda
FAKE_NCCL_FAIL=ncclGetUniqueId refuse 'communicator nccl, fake GPU 0: ncclGetUniqueId: internal error' \
  ranks 2 "$check" nccl cuda
FAKE_NCCL_FAIL=ncclAllReduce refuse \
  'communicator nccl, rank 0 of 1: all_reduce of 1 fp32 numbers: ncclAllReduce: internal error' ranks 2 "$check" nccl cuda
