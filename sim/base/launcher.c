#include "sim/base/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* mpirun takes a second from a process that fails to the end of the others: whoever speaks stays longer, so that they
 * know. */
#define RANK_PAUSE_S 0.05
#define STAY_S 1.5
#define MACHINE_PAUSE_S 3
enum { MAX_PAUSES = 3 }; /* of machines */

/* The number in the first of these variables that is set; `otherwise` without. */
static int number(const char *const *names, int otherwise) {
  for (; *names; names++)
    if (getenv(*names))
      return atoi(getenv(*names));
  return otherwise;
}

bool launcher_started(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", NULL};
  return number(names, -1) >= 0;
}

int launcher_local_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
  return number(names, 0);
}

int launcher_local_ranks(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_TASKS_PER_NODE", NULL};
  int n = number(names, 1);
  return n > 0 ? n : 1;
}

static void pause_s(double seconds) {
  struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&t, NULL);
}

static bool stays;

/* A name that one process at a time can have, and that goes with it. All ranks here are children of one launcher. */
static bool take_name(void) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "dcpsim-%ld", (long)getppid());
  int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return s < 0 || bind(s, (struct sockaddr *)&name, (socklen_t)(sizeof name.sun_family + 1 + (size_t)n)) == 0;
}

bool launcher_speaks(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", NULL};
  int rank = number(names, -1), machine = rank / launcher_local_ranks();
  if (rank < 0)
    return true;
  pause_s(RANK_PAUSE_S * launcher_local_rank() + MACHINE_PAUSE_S * (machine < MAX_PAUSES ? machine : MAX_PAUSES));
  stays = take_name();
  return stays;
}

_Noreturn void launcher_leave(int code) {
  if (stays)
    pause_s(STAY_S);
  _exit(code);
}
