/* Files made from bytes, for the tests of traces/. Included by one test program at a time. */
#ifndef TESTS_UNIT_TEST_TRACE_FILES_H
#define TESTS_UNIT_TEST_TRACE_FILES_H
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traces/trace.h"

static char made_path[64];

static inline void make_file(const void *bytes, size_t n) {
  strcpy(made_path, "/tmp/dcpsim_trace_XXXXXX");
  int fd = mkstemp(made_path);
  cr_assert(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
}

/* What trace_load says of a file of these bytes. */
static inline int load_bytes(struct trace *t, const void *bytes, size_t n, const struct trace_options *options,
                             struct err *err) {
  make_file(bytes, n);
  *err = (struct err){.set = false};
  int rc = trace_load(t, made_path, options, err);
  unlink(made_path);
  return rc;
}

static inline int load_text(struct trace *t, const char *text, const struct trace_options *options, struct err *err) {
  return load_bytes(t, text, strlen(text), options, err);
}

/* Checks that the file holds exactly these lengths ("5 7 9") and is read as this format. */
static inline void expect_lengths(const void *bytes, size_t n, const struct trace_options *options, const char *format,
                                  const char *lengths, int line) {
  struct trace t = {0};
  struct err err;
  char got[4096] = "";
  int rc = load_bytes(&t, bytes, n, options, &err);
  cr_assert_eq(rc, 0, "line %d: refused: %s", line, err.msg);
  cr_assert_not(err.set);
  cr_expect_str_eq(t.format, format, "line %d: read as %s", line, t.format);
  for (int64_t i = 0; i < t.n && strlen(got) < sizeof got - 32; i++)
    sprintf(got + strlen(got), t.is_2d ? "%s%ux%u" : "%s%u", i ? " " : "", t.samples[i].a, t.samples[i].b);
  cr_expect_str_eq(got, lengths, "line %d: %s", line, got);
  trace_release(&t);
}

#define EXPECT_TEXT(text, format, lengths) expect_lengths((text), strlen(text), NULL, (format), (lengths), __LINE__)

/* Checks that the file is refused, with all of these words (separated by |) in the message. */
static inline void expect_refused(const void *bytes, size_t n, const struct trace_options *options, const char *words,
                                  int line) {
  struct trace t = {.n = -7};
  struct err err;
  char copy[512];
  int rc = load_bytes(&t, bytes, n, options, &err);
  cr_expect_eq(rc, -1, "line %d: accepted", line);
  if (rc == 0) {
    trace_release(&t);
    return;
  }
  cr_expect(err.set && t.n == -7, "line %d: the trace was touched", line);
  cr_expect(strstr(err.msg, made_path) != NULL, "line %d: no file name: %s", line, err.msg);
  cr_expect(strchr(err.msg, '\n') == NULL, "line %d: more than one line", line);
  snprintf(copy, sizeof copy, "%s", words);
  for (char *rest = copy, *word; (word = strsep(&rest, "|")) != NULL;)
    cr_expect(strstr(err.msg, word) != NULL, "line %d: no '%s' in: %s", line, word, err.msg);
}

#define EXPECT_REFUSED(text, words) expect_refused((text), strlen(text), NULL, (words), __LINE__)

#endif
