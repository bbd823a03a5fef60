/* json_lines.h: a file read one line at a time, with a limit on a line's length. */
#ifndef SIM_PLAN_JSON_LINES_H
#define SIM_PLAN_JSON_LINES_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

#define JSON_LINES_MAX_BYTES (256u << 20) /* longest line: a header that names 20 million samples fits */
#define JSON_LINES_BLOCK_BYTES 65536

struct json_lines {
  const char *kind, *path; /* for messages: "schedule", "timeline"; not owned */
  FILE *file;
  char *text; /* the current line, NUL-terminated, without its newline; valid until the next read */
  size_t size, cap;
  int64_t line; /* 1-based */
  size_t limit; /* JSON_LINES_MAX_BYTES; tests lower it */
  size_t block_at, block_size;
  char block[JSON_LINES_BLOCK_BYTES];
};

/* "-" is stdin. */
int json_lines_open(struct json_lines *l, const char *kind, const char *path, struct err *err);
/* Reads an open file, which is closed by json_lines_release; `path` is only for messages. */
void json_lines_open_file(struct json_lines *l, const char *kind, const char *path, FILE *file);
/* 1: the next line that is not blank; 0: the end; -1: a read error, or a line over the limit. */
int json_lines_next(struct json_lines *l, struct err *err);
void json_lines_release(struct json_lines *l);

#endif
