/* json.h: reading with errors that name file, line and key (over Jansson), and a streaming writer.
 *
 * Reading: json_doc owns the text and the Jansson tree. The getters check type and range, and complain as
 * `experiment 'a.json' line 7: 'seed' must be an integer >= 0, got "x"`.
 * Writing: numbers in the shortest form that reads back to the same double, so equal results are equal bytes. */
#ifndef SIM_BASE_JSON_H
#define SIM_BASE_JSON_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

#define JSON_MAX_BYTES (256u << 20) /* largest document read whole */
#define JSON_MAX_DEPTH 64

struct json_doc {
  const char *kind; /* what the file is, for messages: "experiment", "profile", ... (not owned) */
  char *path;
  char *text;
  json_t *root;
};

/* Reads and parses a file ("-" is stdin); the root must be an object whose "schema" equals `schema` (if not NULL). */
int json_doc_read(struct json_doc *doc, const char *kind, const char *path, const char *schema, struct err *err);
/* The same from text in memory; `path` is only for messages. */
int json_doc_parse(struct json_doc *doc, const char *kind, const char *path, const char *text, const char *schema,
                   struct err *err);
void json_doc_release(struct json_doc *doc);

/* 1-based line on which `value` (a node of this document's tree) begins; 0 if not found. */
int json_doc_line(const struct json_doc *doc, const json_t *value);

/* Refuses keys of `object` that are not in `valid` (NULL-terminated), naming line and nearest valid key. */
int json_check_keys(const struct json_doc *doc, const json_t *object, const char *const *valid, struct err *err);

/* Getters: value of object[key]. A missing key is an error when `required`, else leaves *out as it is. */
int json_get_int(const struct json_doc *doc, const json_t *object, const char *key, bool required, int64_t min,
                 int64_t max, int64_t *out, struct err *err);
int json_get_double(const struct json_doc *doc, const json_t *object, const char *key, bool required, double min,
                    double max, double *out, struct err *err);
int json_get_bool(const struct json_doc *doc, const json_t *object, const char *key, bool required, bool *out,
                  struct err *err);
/* *out points into the document. */
int json_get_string(const struct json_doc *doc, const json_t *object, const char *key, bool required, const char **out,
                    struct err *err);
int json_get_array(const struct json_doc *doc, const json_t *object, const char *key, bool required, json_t **out,
                   struct err *err);
int json_get_object(const struct json_doc *doc, const json_t *object, const char *key, bool required, json_t **out,
                    struct err *err);
/* An error about `value`: "<kind> '<path>' line N: <message>". */
int json_error(const struct json_doc *doc, const json_t *value, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The candidate nearest to `word` by edit distance, or NULL if none is near; `candidates` is NULL-terminated. */
const char *nearest_word(const char *word, const char *const *candidates);

/* Streaming writer. Compact (one line) unless `indent`. Ends no line after the last bracket: the caller does. Write
 * errors stay in `file`, where output_commit finds them. */
struct json_writer {
  FILE *file;
  bool indent;
  int depth;
  bool comma[JSON_MAX_DEPTH];
  bool after_key;
};

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_int(struct json_writer *w, int64_t v);
void json_double(struct json_writer *w, double v); /* 11 is written 11.0; non-finite: null */
void json_bool(struct json_writer *w, bool v);
void json_put_null(struct json_writer *w);
void json_str(struct json_writer *w, const char *s); /* escaped; invalid UTF-8 replaced */
/* key and value at once */
void json_key_int(struct json_writer *w, const char *key, int64_t v);
void json_key_double(struct json_writer *w, const char *key, double v);
void json_key_bool(struct json_writer *w, const char *key, bool v);
void json_key_str(struct json_writer *w, const char *key, const char *s);

/* The shortest decimal text that reads back as v ("%.15g" to "%.17g"); buf of at least 32 bytes. */
void double_text(double v, char *buf);

#endif
