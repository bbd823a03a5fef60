/* launcher.h: what mpirun or srun told this process about itself, and how the processes of a run fail together: one of
 * them says why, then the launcher ends the others. Needs no MPI, so that it works where MPI hangs. */
#ifndef SIM_BASE_LAUNCHER_H
#define SIM_BASE_LAUNCHER_H
#include <stdbool.h>

/* Whether mpirun of Open MPI, MPICH or Intel MPI, or srun, started this process. */
bool launcher_started(void);

/* Among this machine's processes of the run: 0 without a launcher. */
int launcher_local_rank(void);

/* The run's processes on this machine: 1 without a launcher. */
int launcher_local_ranks(void);

/* Of a process that has failed, on the way to launcher_leave: whether it is the one to say why. Ranks that fail at once
 * wait for each other, the lowest goes first; a machine's ranks hear of each other at once, other machines' after
 * seconds. */
bool launcher_speaks(void);

/* Ends the process, without ending MPI or flushing files. */
_Noreturn void launcher_leave(int code);

#endif
