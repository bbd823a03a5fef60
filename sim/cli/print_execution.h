/* print_execution.h: an execution, and what came out of it for people and for programs. */
#ifndef SIM_CLI_PRINT_EXECUTION_H
#define SIM_CLI_PRINT_EXECUTION_H
#include <stdio.h>

#include "sim/cli/execute_plan.h"
#include "sim/execute/watchdog.h"

struct execution_request {
  const char *schedule, *device, *timeline, *csv;
  long steps; /* 0: all */
  bool json, verify;
  long as_rank; /* -1: every rank is a process */
  long world;
  double timeout_s;
  int64_t memory_bytes; /* 0: what the device has */
  struct execute_options options;
};

/* What was measured of each iteration. */
struct execution_row {
  double predicted_s, measured_s;
};

struct execution_verification {
  int64_t checked; /* tensors compared */
  double max_rel_error;
  char worst[64];
};

struct execution {
  const struct execution_request *request;
  struct device *device;
  struct communicator *world;
  struct execute_plan plan;
  struct executor *executor;
  struct executor *single; /* --verify, on rank 0 */
  struct watchdog *watchdog;
  struct timeline timeline;
  struct execution_row *rows;
  size_t n_rows, rows_cap;
  struct execution_verification verified;
  FILE *csv;
};

/* Iterations, operations beside their predictions, memory, verification: a table, or dcpsim.execution/1. */
void print_execution(FILE *out, const struct execution *x);
void print_execution_json(FILE *out, const struct execution *x);

#endif
