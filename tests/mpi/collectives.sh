#!/bin/sh
# collectives.sh: exact results of every collective alone and under mpirun, in groups of equally distant ranks, the errors of
# a wrong choice, and calibration while a rank gets wrong results.
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

# Rank 3 of 2 nodes of 2 ranks gets wrong results: placements in which it takes part give no row, the others all.
# wrong OP MEASURED LINE...
wrong() {
  op=$1
  measured=$2
  shift 2
  ranks 4 "$(dirname "$check")/check_calibration" "$dir/$op" "$op" 3 >"$dir/out"
  for line; do
    grep -qxF "$op of $line; no rows of it are written" "$dir/out" || { echo "wanted: $op of $line"; cat "$dir/out"; exit 1; }
  done
  [ "$(wc -l <"$dir/out")" -eq $(($# + 1)) ] || { cat "$dir/out"; exit 1; }
  grep "^$measured measured, [1-9][0-9]* refused" "$dir/out"
  [ "$(wc -l <"$dir/$op/collective.csv")" -eq $((measured + 1)) ] || { cat "$dir/$op/collective.csv"; exit 1; }
  if cut -d, -f3,6 "$dir/$op/collective.csv" | sed 1d | grep -v '^2,1$'; then
    echo "$op: a row of a placement with a wrong result"
    exit 1
  fi
}
for op in all_reduce all_gather reduce_scatter all_to_all send_recv; do
  wrong $op 44 '2 ranks on 1 node, several groups at once: rank 3 got a wrong result' \
    '2 ranks on 2 nodes, several groups at once: rank 3 got a wrong result' '4 ranks on 2 nodes: rank 3 got a wrong result'
done
wrong all_to_all_uneven 42 '2 ranks on 1 node, several groups at once: rank 3 got a wrong result' \
  '2 ranks on 2 nodes, several groups at once: rank 3 got a wrong result' '4 ranks on 2 nodes: rank 3 got a wrong result'
wrong barrier 0 '2 ranks on 1 node: rank 0 got a wrong result' '2 ranks on 2 nodes: rank 0 got a wrong result' \
  '2 ranks on 1 node, several groups at once: rank 0 got a wrong result' \
  '2 ranks on 2 nodes, several groups at once: rank 0 got a wrong result' '4 ranks on 2 nodes: rank 0 got a wrong result'

# A rank that fails does not leave the others waiting: mpirun ends them. A GPU per rank is needed: all take the only one.
# shellcheck disable=SC2016 # for the inner shell
LD_LIBRARY_PATH=$(dirname "$check")/fake ranks 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export FAKE_NCCL_FAIL=ncclAllReduce
  OMPI_COMM_WORLD_LOCAL_RANK=0 exec "$0" calibrate run -o "$1" --device cuda --ops all_reduce' "$DCPSIM" "$dir/fails" \
  >"$dir/out" 2>"$dir/err" && { echo 'a rank failed, and all was well'; exit 1; }
if grep -q 'built without CUDA kernels' "$dir/err"; then
  echo 'skipped: a rank that fails (no CUDA kernels)'
else
  grep -q 'calibrate run: communicator nccl, rank 1 of 2: all_reduce of .*: ncclAllReduce: internal error' "$dir/err" ||
    { cat "$dir/err"; exit 1; }
fi

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
