/* sweep_spec.h: what a sweep goes through (dcpsim.sweep/1): a base experiment and fields that take several values.
 *
 * {"schema": "dcpsim.sweep/1", "base": {"trace": "wikipedia", "model": "llama2-7b", "cluster": "h200_8x4"},
 *  "grid": {"seed": {"from": 0, "to": 9, "step": 1}, "max_length": [32768, 131072]},
 *  "zip": {"zero": [1, 3], "shard": ["world", "node"]}}
 *
 * A field is any experiment field but those that name outputs. Its values are a list, or a range by a step or a factor
 * with both ends. Fields of "grid" are combined each with each; those of "zip" have equally many values and go
 * together. Points are numbered from 0: the first field of the grid varies slowest, the zipped ones quickest. */
#ifndef SIM_SWEEP_SWEEP_SPEC_H
#define SIM_SWEEP_SWEEP_SPEC_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/json.h"
#include "sim/experiment/options.h"

#define SWEEP_MAX_POINTS 1000000
#define SWEEP_MAX_FIELDS 32

struct sweep_field {
  const char *name;
  const json_t *node; /* the list or the range in the document */
  json_t *values;     /* an array; owned where the node is a range, else the node */
  int64_t n, stride;  /* point p has value p / stride % n */
};

struct sweep_spec {
  struct json_doc doc;
  struct experiment_options base;
  struct sweep_field fields[SWEEP_MAX_FIELDS];
  int n_fields;
  int64_t n_points;
  char hash[17]; /* of the spec and the program's version: tables with another one do not belong to it */
};

/* Reads and checks all: keys, types, ranges and values, each by itself. On failure nothing is left allocated. */
int sweep_spec_read(struct sweep_spec *s, const char *path, struct err *err);
/* The same from text; `path` is only for messages. */
int sweep_spec_parse(struct sweep_spec *s, const char *path, const char *text, struct err *err);
void sweep_spec_release(struct sweep_spec *s);

/* The experiment of one point: *o is the caller's to release, also after a failure. */
int sweep_spec_options(const struct sweep_spec *s, int64_t point, struct experiment_options *o, struct err *err);

/* The value of a swept field at a point. */
const json_t *sweep_spec_value(const struct sweep_spec *s, int field, int64_t point);

/* How many policies a point compares, as its list says. */
int sweep_spec_policies(const struct sweep_spec *s, int64_t point);

#endif
