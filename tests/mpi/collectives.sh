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
  mpirun -np "$n" --oversubscribe --mca mpi_yield_when_idle 1 "$@"
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
