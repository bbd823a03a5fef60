/* Collectives measured while one rank gets wrong results: check_calibration DIR OP RANK, under mpirun, two ranks a
 * node. The first rank prints warnings, and how many shapes were measured and refused. */
#include <stdio.h>
#include <stdlib.h>

#include "calib/calibration.h"

static int world_rank, wrong_rank;

/* The wrong rank gets one number wrong. No rank waits at a barrier. */
static int run_wrong(struct communicator *c, const struct communicator_call *call, struct err *err) {
  if (call->op == COMMUNICATOR_BARRIER)
    return 0;
  int rc = communicator_run(c, call, err);
  if (world_rank == wrong_rank)
    ((float *)call->recv)[0] += 1;
  return rc;
}

static void print_warning(void *to, const char *message) {
  (void)to;
  printf("%s\n", message);
}

static int fail(const struct err *err) {
  fprintf(stderr, "%s\n", err->msg);
  return 1;
}

int main(int argc, char **argv) {
  struct err err = {0};
  struct device *device;
  struct communicator *world;
  struct calibration result;
  const struct warning_sink warnings = {print_warning, NULL};
  if (argc != 4)
    return 2;
  const struct calibration_options options = {.out = argv[1],
                                              .ops = argv[2],
                                              .ranks_per_node = 2,
                                              .measure = {.confidence_frac = 1, .shape_limit_s = 1e-3},
                                              .collective = run_wrong,
                                              .warnings = &warnings};
  if (device_open(&device, "cpu", 0, &err) || communicator_open(&world, NULL, device, &err))
    return fail(&err);
  world_rank = world->rank;
  wrong_rank = atoi(argv[3]);
  if (calibration_run(&result, device, world, &options, &err))
    return fail(&err);
  if (world_rank == 0)
    printf("%zu measured, %zu refused\n", result.measured, result.refused);
  communicator_close(world);
  device_close(device);
  return 0;
}
