/* schedule_read.h: reads a schedule file one line at a time. Whatever is malformed is told to a callback, with its
 * place, and reading goes on: the checker lists every finding, a player stops at the first. */
#ifndef SIM_PLAN_SCHEDULE_READ_H
#define SIM_PLAN_SCHEDULE_READ_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/plan/json_lines.h"
#include "sim/plan/schedule.h"

#define SCHEDULE_MAX_WORLD (1 << 20)
#define SCHEDULE_WHOLE UINT32_MAX /* offset of a sample that was not split */

/* A list of samples in reading order. */
struct schedule_id_list {
  uint32_t *ids, *offsets; /* offsets: SCHEDULE_WHOLE, or the first token of a piece */
  size_t n, cap;
};

/* One line: the iteration and its samples. */
struct schedule_step {
  int64_t iteration; /* -1 when the line does not say */
  double predicted_time_s;
  struct plan_iteration plan; /* micro-batches name their samples by index into `samples` */
  struct sample_set samples;  /* of this step only; ids and offsets are set (offsets as in schedule_id_list) */
  int64_t samples_cap;
  double *weights; /* one per micro-batch */
  double *group_time_s;
  size_t weights_cap, group_times_cap;
  bool complete; /* nothing of the line was unreadable */
};

struct schedule_reader {
  struct json_lines lines;
  void (*finding)(void *context, const struct schedule_finding *f);
  void *context;
  int64_t findings;              /* told so far */
  struct schedule_header header; /* numbers that are missing or malformed: -1; strings: "" */
  bool has_sp_kind, has_weighting;
  struct schedule_id_list dropped, infeasible, overlong;
  char modules[2][32];
  int n_modules; /* 0 when malformed */
  bool is_2d;    /* two modules: shapes are [frames, positions] */
  int64_t unreadable_lines;
};

/* Opens and reads the header line. -1 only when the file cannot be read or is no schedule at all. */
int schedule_reader_open(struct schedule_reader *r, const char *path,
                         void (*finding)(void *context, const struct schedule_finding *f), void *context,
                         struct err *err);
/* The same of an open file, which is the reader's from now on; `path` is only for messages. */
int schedule_reader_open_file(struct schedule_reader *r, FILE *file, const char *path,
                              void (*finding)(void *context, const struct schedule_finding *f), void *context,
                              struct err *err);
/* 1: a step (partly empty where the line was malformed); 0: the end; -1: read error. Unparsable lines are told and
 * skipped. `step` is zeroed by the caller before the first call and reused. */
int schedule_reader_next(struct schedule_reader *r, struct schedule_step *step, struct err *err);
void schedule_reader_close(struct schedule_reader *r);
void schedule_step_release(struct schedule_step *step);

/* Tells a finding; iteration or group -1: not of one. */
void schedule_reader_tell(struct schedule_reader *r, int64_t iteration, int64_t group, const char *rule,
                          const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
