/* program.h: what one rank of an SP group does in one micro-batch, in order: the one description of a step's work that
 * the simulator plays in virtual time, the executor in real time, and the writers write out.
 *
 * Ops are processed in program order, each by the rules below; `repeat` makes a section a loop (layers are loops, not
 * copies). A rank has a compute stream, an exchange stream and a host that issues `kernels` per op, `host_op_ns` each.
 *   issue     = host time after issuing the op's kernels
 *   OP_COMPUTE  starts at max(compute free, issue, exchanges it waits for), runs ns, then compute is free
 *   OP_EXCHANGE arrives at max(compute free, issue, exchange stream free), starts when the whole group has arrived,
 * runs ns uncontended; holds the exchange stream only: a later compute op waits for it, or with `skip_last_exchange`
 *               for all exchanges but the last (a ring hop beside the attention of the block before)
 *   OP_HOST     the host waits for both streams, then works ns; nothing is issued meanwhile
 *   OP_POST     this rank is ready for the next collective over all ranks (a gradient bucket, a parameter gather)
 *   OP_WAIT     compute is not free before all collectives posted so far, but the last `lag`, are done
 */
#ifndef SIM_PLAN_PROGRAM_H
#define SIM_PLAN_PROGRAM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/collective.h"
#include "models/system.h"
#include "sim/plan/timeline.h"

enum op_kind { OP_COMPUTE, OP_EXCHANGE, OP_HOST, OP_POST, OP_WAIT };

/* What an op's time is proportional to, so that padding can be told from work: real work / padded work is one number
 * per class and micro-batch. */
enum work_class {
  WORK_EXACT,             /* never padded */
  WORK_TOKENS,            /* 1D and 2D: token rows */
  WORK_ATTENTION,         /* 1D attention; 2D temporal attention */
  WORK_SPATIAL_TOKENS,    /* 2D: rows inside the spatial exchange, where frames are padded to the SP degree */
  WORK_SPATIAL_ATTENTION, /* 2D spatial attention */
  WORK_CLASSES
};

struct op {
  const char *name;   /* static */
  int64_t ns;         /* alone, uncontended */
  double bytes;       /* OP_POST: parameters' worth of gradient or weight; OP_EXCHANGE: as collective.h counts */
  double last_bytes;  /* OP_POST: the same in the last repeat of its section; < 0: not posted there */
  uint8_t kind;       /* enum op_kind */
  uint8_t category;   /* enum timeline_category: compute, recompute or optimizer (OP_COMPUTE) */
  uint8_t work;       /* enum work_class */
  uint8_t collective; /* enum collective */
  uint8_t load;       /* OP_EXCHANGE: index into program.loads */
  uint8_t lag;        /* OP_WAIT */
  uint8_t module;     /* of the block that it belongs to (2D: 0 spatial, 1 temporal) */
  bool skip_last_exchange;
  uint16_t kernels;
};

/* Where in the step a section is. */
enum section_place {
  SECTION_BEFORE,   /* inputs */
  SECTION_FORWARD,  /* a loop over the layers, first to last */
  SECTION_TURN,     /* head and loss, there and back */
  SECTION_BACKWARD, /* loops over the layers, last to first, with what is recomputed */
  SECTION_AFTER     /* the inputs' gradients; the step's tail */
};

struct section {
  int first_op, n_ops, repeat;
  uint8_t place; /* enum section_place */
};

#define PROGRAM_MAX_LOADS 4

/* What the clock can hold with room to spare; parameters, models and lengths that lead beyond are refused. */
#define OP_MAX_NS INT64_C(3600000000000)     /* one op: an hour */
#define PROGRAM_MAX_NS (OP_MAX_NS * 24 * 30) /* all ops of a program: a month */

/* Where a rank's nanoseconds go (models.md section 7); `work_ns` is compute before padding is told from work. */
struct account {
  int64_t work_ns[WORK_CLASSES];
  int64_t recompute_ns, optimizer_ns, exchange_ns, sync_ns, host_ns, idle_ns;
};

/* A program played alone from time 0 (program_time.h). */
struct program_fold {
  int64_t time_ns; /* both streams are free again */
  int64_t host_ns; /* host time at the end */
  int64_t lead_ns; /* warm only: by how much the host must be ahead at the start */
  struct account account;
};

struct program {
  struct op *ops;
  size_t n_ops, ops_cap;
  struct section *sections;
  size_t n_sections, sections_cap;
  double loads[PROGRAM_MAX_LOADS][PORT_KINDS];
  int n_loads;
  int64_t host_op_ns;
  int sp;
  bool host_sync_first;             /* begins with OP_HOST: its time does not depend on the host's lead */
  double padded_work[WORK_CLASSES]; /* what the whole group processes, in the class's unit, to compare real work with */
  int64_t unmeasured_ns;            /* of a rank's compute: GEMMs smaller than any measured, whose times are a guess */
  bool has_host_ops;
  const char *overlong; /* NULL, or the first op over OP_MAX_NS, which took overlong_s and is cut to OP_MAX_NS; "" where
                           all ops together are over PROGRAM_MAX_NS and no op takes any time: not to be played */
  double overlong_s;
  size_t longest; /* the op with the largest ns; set with the folds */
  /* Cached: `cold` starts with the host just as far as the streams; `warm` (valid without OP_HOST) with a host so far
   * ahead that it never holds up. */
  struct program_fold cold, warm;
};

void program_release(struct program *p);

/* Building. The op returned is valid until the next append. */
void program_begin_section(struct program *p, enum section_place place, int repeat);
struct op *program_add(struct program *p, enum op_kind kind, const char *name);

/* Sets the op's time: to the nearest nanosecond, below a microsecond to the next, so that rounding takes nothing away
 * that counts; at most OP_MAX_NS, more is noted in p->overlong. */
void program_set_time(struct program *p, struct op *op, double seconds);
/* 0, or -1 with the reason why the program takes too long to be played under these parameters. */
int program_check(const struct program *p, const char *params_name, struct err *err);
/* Ops with their repeats: how many times op i runs. */
int64_t program_op_count(const struct program *p);

#endif
