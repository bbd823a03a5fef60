/* chakra.h: the Chakra execution trace of one rank (MLCommons; what ASTRA-sim and others read): a file of messages,
 * each a varint length and a protobuf message: GlobalMetadata, then a Node per operation in issue order. The encoding
 * alone; what a step consists of is the caller's (sim/experiment/chakra_step.c).
 *
 * Durations are whole microseconds. What rounding a compute node loses is carried to the next one, so that the sum over
 * a rank stays right to half a microsecond however many nodes there are. */
#ifndef SIM_PLAN_CHAKRA_H
#define SIM_PLAN_CHAKRA_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "models/collective.h"

#define CHAKRA_MAX_DEPS 3

/* Nodes that must have ended; 0: none. Repeated ones are written once. */
struct chakra_deps {
  uint64_t ids[CHAKRA_MAX_DEPS];
};

struct chakra_writer {
  FILE *file; /* not owned; errors stay in it */
  uint64_t nodes;
  int64_t compute_ns, compute_us; /* of compute nodes on the GPU: exact, and as written */
  int64_t host_ns, host_us;       /* of those on the host */
};

/* Writes the metadata. */
void chakra_begin(struct chakra_writer *w, FILE *file);

/* Each appends a node and returns its id: 1, 2, ... */
uint64_t chakra_compute(struct chakra_writer *w, const char *name, int64_t ns, bool on_host, struct chakra_deps deps);

/* `bytes` as collective.h counts them for `ranks` members; written as comm_size, the bytes that one rank puts in.
 * `group`
 * >= 1: of the file of groups. `ns`: uncontended, for readers without a network of their own. */
struct chakra_collective {
  const char *name;
  enum collective kind;
  double bytes;
  int ranks, group;
  int64_t ns;
};
uint64_t chakra_collective(struct chakra_writer *w, const struct chakra_collective *c, struct chakra_deps deps);

/* Half of a send and receive between two ranks. */
struct chakra_message {
  const char *name;
  double bytes;
  int from, to, tag;
  int64_t ns;
};
uint64_t chakra_send(struct chakra_writer *w, const struct chakra_message *m, struct chakra_deps deps);
uint64_t chakra_receive(struct chakra_writer *w, const struct chakra_message *m, struct chakra_deps deps);

#endif
