#include "sim/execute/watchdog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sim/base/launcher.h"
#include "sim/base/units.h"

#define POLL_NS 50000000

struct watchdog {
  const struct executor *x;
  int rank;
  double timeout_s;
  atomic_bool stop;
  pthread_t thread;
};

static void complain(const struct watchdog *w, struct execute_position at) {
  fprintf(
      stderr,
      "dcpsim: execute: rank %d, iteration %lld, %s: not finished within %.6g s (--timeout-s): another rank ended or "
      "an exchange hangs\n",
      w->rank, (long long)at.iteration, at.op, w->timeout_s);
}

static void *watch(void *argument) {
  struct watchdog *w = argument;
  int64_t serial = -1;
  double still_s = 0;
  while (!atomic_load(&w->stop)) {
    struct timespec pause = {0, POLL_NS};
    nanosleep(&pause, NULL);
    struct execute_position at = executor_position(w->x);
    still_s = at.serial == serial ? still_s + s_from_ns(POLL_NS) : 0;
    serial = at.serial;
    if (still_s < w->timeout_s || atomic_load(&w->stop))
      continue;
    if (launcher_speaks()) /* ranks that stand still together would all complain */
      complain(w, at);
    launcher_leave(1);
  }
  return NULL;
}

struct watchdog *watchdog_start(const struct executor *x, int rank, double timeout_s) {
  struct watchdog *w = xcalloc(1, sizeof *w);
  w->x = x;
  w->rank = rank;
  w->timeout_s = timeout_s;
  if (pthread_create(&w->thread, NULL, watch, w) != 0) {
    free(w);
    return NULL;
  }
  return w;
}

void watchdog_stop(struct watchdog *w) {
  if (!w)
    return;
  atomic_store(&w->stop, true);
  pthread_join(w->thread, NULL);
  free(w);
}
