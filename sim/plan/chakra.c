#include "sim/plan/chakra.h"

#include <math.h>
#include <string.h>

#include "sim/base/err.h"

#define VERSION "0.0.4"
#define MAX_MESSAGE 1024 /* bytes: names are short and static, attributes few */

enum node_type { NODE_COMPUTE = 4, NODE_SEND = 5, NODE_RECEIVE = 6, NODE_COLLECTIVE = 7 };
enum node_field {
  NODE_ID = 1,
  NODE_NAME = 2,
  NODE_TYPE = 3,
  NODE_DATA_DEPS = 5,
  NODE_DURATION = 7,
  NODE_ATTRIBUTE = 10
};
enum attribute_field {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_INT32 = 7,
  ATTRIBUTE_INT64 = 9,
  ATTRIBUTE_BOOL = 27,
  ATTRIBUTE_STRING = 29
};

/* ---- Protobuf: varints, and byte strings with their length before them ---- */

struct message {
  uint8_t bytes[MAX_MESSAGE];
  size_t n;
};

static void put_varint(struct message *m, uint64_t v) {
  do {
    ASSERT(m->n < MAX_MESSAGE);
    m->bytes[m->n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
    v >>= 7;
  } while (v > 0);
}

static void put_int(struct message *m, int field, uint64_t v) {
  put_varint(m, (uint64_t)field << 3 | 0);
  put_varint(m, v);
}

static void put_bytes(struct message *m, int field, const void *bytes, size_t n) {
  put_varint(m, (uint64_t)field << 3 | 2);
  put_varint(m, n);
  ASSERT(n <= MAX_MESSAGE - m->n);
  memcpy(m->bytes + m->n, bytes, n);
  m->n += n;
}

static void put_text(struct message *m, int field, const char *text) { put_bytes(m, field, text, strlen(text)); }

static void put_attribute(struct message *m, const char *name, enum attribute_field field, uint64_t v) {
  struct message a = {.n = 0};
  put_text(&a, ATTRIBUTE_NAME, name);
  put_int(&a, (int)field, v);
  put_bytes(m, NODE_ATTRIBUTE, a.bytes, a.n);
}

static void put_text_attribute(struct message *m, const char *name, const char *text) {
  struct message a = {.n = 0};
  put_text(&a, ATTRIBUTE_NAME, name);
  put_text(&a, ATTRIBUTE_STRING, text);
  put_bytes(m, NODE_ATTRIBUTE, a.bytes, a.n);
}

static void write_message(FILE *file, const struct message *m) {
  struct message length = {.n = 0};
  put_varint(&length, m->n);
  fwrite(length.bytes, 1, length.n, file);
  fwrite(m->bytes, 1, m->n, file);
}

/* ---- Nodes ---- */

void chakra_begin(struct chakra_writer *w, FILE *file) {
  struct message m = {.n = 0};
  *w = (struct chakra_writer){.file = file};
  put_text(&m, 1, VERSION);
  write_message(file, &m);
}

static void put_deps(struct message *m, const struct chakra_deps *deps) {
  struct message packed = {.n = 0};
  for (int i = 0; i < CHAKRA_MAX_DEPS; i++) {
    bool seen = deps->ids[i] == 0;
    for (int j = 0; j < i; j++)
      seen = seen || deps->ids[j] == deps->ids[i];
    if (!seen)
      put_varint(&packed, deps->ids[i]);
  }
  if (packed.n > 0)
    put_bytes(m, NODE_DATA_DEPS, packed.bytes, packed.n);
}

static struct message begin_node(struct chakra_writer *w, const char *name, enum node_type type,
                                 const struct chakra_deps *deps, int64_t us, bool on_host) {
  struct message m = {.n = 0};
  put_int(&m, NODE_ID, ++w->nodes);
  put_text(&m, NODE_NAME, name);
  put_int(&m, NODE_TYPE, type);
  put_deps(&m, deps);
  put_int(&m, NODE_DURATION, (uint64_t)us);
  put_attribute(&m, "is_cpu_op", ATTRIBUTE_BOOL, on_host);
  return m;
}

static int64_t rounded_us(int64_t ns) { return (ns + 500) / 1000; }

uint64_t chakra_compute(struct chakra_writer *w, const char *name, int64_t ns, bool on_host, struct chakra_deps deps) {
  int64_t *sum_ns = on_host ? &w->host_ns : &w->compute_ns, *sum_us = on_host ? &w->host_us : &w->compute_us;
  *sum_ns += ns;
  int64_t us = rounded_us(*sum_ns) - *sum_us;
  *sum_us += us;
  struct message m = begin_node(w, name, NODE_COMPUTE, &deps, us, on_host);
  write_message(w->file, &m);
  return w->nodes;
}

/* What one rank puts in. */
static double input_bytes(const struct chakra_collective *c) {
  return c->kind == COLLECTIVE_ALL_GATHER ? c->bytes / c->ranks : c->bytes;
}

uint64_t chakra_collective(struct chakra_writer *w, const struct chakra_collective *c, struct chakra_deps deps) {
  static const int types[COLLECTIVE_KINDS] = {[COLLECTIVE_ALL_REDUCE] = 0,
                                              [COLLECTIVE_ALL_GATHER] = 2,
                                              [COLLECTIVE_ALL_TO_ALL] = 6,
                                              [COLLECTIVE_REDUCE_SCATTER] = 7};
  char group[16];
  ASSERT(c->kind != COLLECTIVE_SEND_RECV);
  struct message m = begin_node(w, c->name, NODE_COLLECTIVE, &deps, rounded_us(c->ns), false);
  put_attribute(&m, "comm_type", ATTRIBUTE_INT64, (uint64_t)types[c->kind]);
  put_attribute(&m, "comm_size", ATTRIBUTE_INT64, (uint64_t)llround(fmax(1, input_bytes(c))));
  snprintf(group, sizeof group, "%d", c->group);
  put_text_attribute(&m, "pg_name", group);
  write_message(w->file, &m);
  return w->nodes;
}

static uint64_t put_message(struct chakra_writer *w, const struct chakra_message *c, enum node_type type, int64_t us,
                            const struct chakra_deps *deps) {
  struct message m = begin_node(w, c->name, type, deps, us, false);
  put_attribute(&m, "comm_size", ATTRIBUTE_INT64, (uint64_t)llround(fmax(1, c->bytes)));
  put_attribute(&m, "comm_src", ATTRIBUTE_INT32, (uint64_t)c->from);
  put_attribute(&m, "comm_dst", ATTRIBUTE_INT32, (uint64_t)c->to);
  put_attribute(&m, "comm_tag", ATTRIBUTE_INT32, (uint64_t)c->tag);
  write_message(w->file, &m);
  return w->nodes;
}

uint64_t chakra_send(struct chakra_writer *w, const struct chakra_message *m, struct chakra_deps deps) {
  return put_message(w, m, NODE_SEND, rounded_us(m->ns), &deps);
}

uint64_t chakra_receive(struct chakra_writer *w, const struct chakra_message *m, struct chakra_deps deps) {
  return put_message(w, m, NODE_RECEIVE, 0, &deps);
}
