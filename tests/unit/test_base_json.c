/* Reading JSON with messages that name file, line and key; writing it so that it reads back the same. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/json.h"

#define assert_message(err, expected)                                                                                  \
  do {                                                                                                                 \
    cr_assert((err).set, "no error was set, expected: %s", (expected));                                                \
    cr_assert_str_eq((err).msg, (expected));                                                                           \
  } while (0)

/* The message that parsing `text` gives. */
static struct err parse_error(const char *text, const char *schema) {
  struct json_doc doc;
  struct err err = {0};
  cr_assert_eq(json_doc_parse(&doc, "experiment", "a.json", text, schema, &err), -1, "accepted: %s", text);
  return err;
}

Test(base_json, parse_errors) {
  static const struct {
    const char *text, *schema, *message;
  } cases[] = {
      {"{\n  \"a\": 1,\n  \"b\": }\n", NULL, "experiment 'a.json' line 3: unexpected token near '}'"},
      {"", NULL, "experiment 'a.json' line 1: unexpected token near end of file"},
      {"{\"a\": 1,\n \"a\": 2}", NULL, "experiment 'a.json' line 2: duplicate object key near '\"a\"'"},
      {"\n[1]", NULL, "experiment 'a.json' line 2: must be a JSON object"},
      {"3", NULL, "experiment 'a.json' line 1: must be a JSON object"},
      {"{}", "dcpsim.x/1", "experiment 'a.json' line 1: 'schema' is missing, expected \"schema\": \"dcpsim.x/1\""},
      {"{\n\"schema\": \"dcpsim.y/1\"}", "dcpsim.x/1",
       "experiment 'a.json' line 2: 'schema' must be \"dcpsim.x/1\", got \"dcpsim.y/1\""},
      {"{\n\n\"schema\": 3}", "dcpsim.x/1", "experiment 'a.json' line 3: 'schema' must be a string, got 3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct err err = parse_error(cases[i].text, cases[i].schema);
    assert_message(err, cases[i].message);
    cr_assert(!err.usage);
  }
}

Test(base_json, nesting_is_limited) {
  char text[400] = "{\"a\":\n";
  for (int i = 0; i < JSON_MAX_DEPTH; i++)
    strcat(text, "[");
  struct err err = parse_error(text, NULL);
  assert_message(err, "experiment 'a.json' line 2: nested deeper than 64 levels");
  char ok[400] = "{\"a\":";
  for (int i = 1; i < JSON_MAX_DEPTH; i++)
    strcat(ok, "[");
  for (int i = 1; i < JSON_MAX_DEPTH; i++)
    strcat(ok, "]");
  strcat(ok, "}");
  struct json_doc doc;
  cr_assert_eq(json_doc_parse(&doc, "experiment", "a.json", ok, NULL, NULL), 0);
  json_doc_release(&doc);
}

static const char sample_text[] = "{\n"                                                                /* 1 */
                                  "  \"schema\": \"dcpsim.experiment/1\",\n"                           /* 2 */
                                  "  \"seed\": -3, \"steps\": 1e3,\n"                                  /* 3 */
                                  "  \"frac\": \"0.9\",\n"                                             /* 4 */
                                  "  \"on\": true,\n"                                                  /* 5 */
                                  "  \"list\": [1, {\"x\": 1},\n"                                      /* 6 */
                                  "     \"a \\\"quoted\\\" [text, {\",\n"                              /* 7 */
                                  "     {\"off\":\n"                                                   /* 8 */
                                  "        false, \"k\\u0065y\": 2.5}],\n"                             /* 9 */
                                  "  \"big\": 123456789012, \"name\": \"n\", \"object\": {\"y\": 0}\n" /* 10 */
                                  "}\n";

static struct json_doc sample_doc(void) {
  struct json_doc doc;
  struct err err = {0};
  cr_assert_eq(json_doc_parse(&doc, "experiment", "a.json", sample_text, "dcpsim.experiment/1", &err), 0, "%s",
               err.msg);
  return doc;
}

Test(base_json, lines_of_nodes) {
  struct json_doc doc = sample_doc();
  json_t *list = json_object_get(doc.root, "list");
  json_t *last = json_array_get(list, 3);
  cr_assert_eq(json_doc_line(&doc, doc.root), 1);
  cr_assert_eq(json_doc_line(&doc, json_object_get(doc.root, "frac")), 4);
  cr_assert_eq(json_doc_line(&doc, list), 6);
  cr_assert_eq(json_doc_line(&doc, json_array_get(list, 2)), 7);
  cr_assert_eq(json_doc_line(&doc, last), 8);
  cr_assert_eq(json_doc_line(&doc, json_object_get(last, "key")), 9);
  cr_assert_eq(json_doc_line(&doc, json_object_get(doc.root, "object")), 10);
  json_t *stranger = json_integer(5);
  cr_assert_eq(json_doc_line(&doc, stranger), 0);
  cr_assert_eq(json_doc_line(&doc, NULL), 0);
  struct err err = {0};
  cr_assert_eq(json_error(&doc, json_array_get(list, 2), &err, "entry %d\nis odd", 2), -1);
  assert_message(err, "experiment 'a.json' line 7: entry 2 is odd");
  json_decref(stranger);
  json_doc_release(&doc);
}

Test(base_json, getters_accept) {
  struct json_doc doc = sample_doc();
  int64_t i = 7;
  double d = 7;
  bool b = false;
  const char *s = NULL;
  json_t *node = NULL;
  struct err err = {0};
  cr_assert_eq(json_get_int(&doc, doc.root, "seed", true, INT64_MIN, INT64_MAX, &i, &err), 0);
  cr_assert_eq(i, -3);
  cr_assert_eq(json_get_int(&doc, doc.root, "steps", true, 1000, 1000, &i, &err), 0);
  cr_assert_eq(i, 1000, "1e3 is an integer");
  cr_assert_eq(json_get_int(&doc, doc.root, "absent", false, 0, 1, &i, &err), 0);
  cr_assert_eq(i, 1000, "an absent key must leave the value");
  cr_assert_eq(json_get_double(&doc, doc.root, "seed", true, -3, 1, &d, &err), 0);
  cr_assert_eq(d, -3.0);
  cr_assert_eq(json_get_bool(&doc, doc.root, "on", true, &b, &err), 0);
  cr_assert(b);
  cr_assert_eq(json_get_string(&doc, doc.root, "name", true, &s, &err), 0);
  cr_assert_str_eq(s, "n");
  cr_assert_eq(json_get_array(&doc, doc.root, "list", true, &node, &err), 0);
  cr_assert_eq(json_array_size(node), 4);
  cr_assert_eq(json_get_object(&doc, doc.root, "object", true, &node, &err), 0);
  cr_assert(!err.set, "untouched on success");
  json_doc_release(&doc);
}

Test(base_json, getters_complain) {
  struct json_doc doc = sample_doc();
  int64_t i = 7;
  double d = 7;
  bool b = true;
  const char *s = NULL;
  json_t *node = NULL;
  struct err e = {0};
  json_t *last = json_array_get(json_object_get(doc.root, "list"), 3);
  cr_assert_eq(json_get_int(&doc, doc.root, "seed", true, 0, INT64_MAX, &i, &e), -1);
  assert_message(e, "experiment 'a.json' line 3: 'seed' must be an integer >= 0, got -3");
  json_get_int(&doc, doc.root, "big", true, 1, 2048, &i, &e);
  assert_message(e, "experiment 'a.json' line 10: 'big' must be an integer from 1 to 2048, got 123456789012");
  json_get_int(&doc, last, "key", true, 0, 9, &i, &e);
  assert_message(e, "experiment 'a.json' line 9: 'key' must be an integer from 0 to 9, got 2.5");
  json_get_int(&doc, last, "none", true, 0, 9, &i, &e);
  assert_message(e, "experiment 'a.json' line 8: 'none' is missing");
  json_get_double(&doc, doc.root, "frac", true, 0, 1, &d, &e);
  assert_message(e, "experiment 'a.json' line 4: 'frac' must be a number from 0 to 1, got \"0.9\"");
  json_get_double(&doc, doc.root, "seed", true, 0, INFINITY, &d, &e);
  assert_message(e, "experiment 'a.json' line 3: 'seed' must be a number >= 0, got -3");
  json_get_double(&doc, doc.root, "list", true, -INFINITY, INFINITY, &d, &e);
  assert_message(e, "experiment 'a.json' line 6: 'list' must be a number, got an array");
  json_get_bool(&doc, doc.root, "frac", true, &b, &e);
  assert_message(e, "experiment 'a.json' line 4: 'frac' must be true or false, got \"0.9\"");
  json_get_string(&doc, last, "off", true, &s, &e);
  assert_message(e, "experiment 'a.json' line 8: 'off' must be a string, got false");
  json_get_array(&doc, doc.root, "object", true, &node, &e);
  assert_message(e, "experiment 'a.json' line 10: 'object' must be an array, got an object");
  json_get_object(&doc, doc.root, "on", true, &node, &e);
  assert_message(e, "experiment 'a.json' line 5: 'on' must be an object, got true");
  cr_assert_eq(json_get_object(&doc, doc.root, "on", true, &node, NULL), -1, "err may be NULL");
  cr_assert(i == 7 && d == 7 && b && !s && !node, "values are untouched on failure");
  json_doc_release(&doc);
}

Test(base_json, unknown_keys) {
  struct json_doc doc = sample_doc();
  struct err err = {0};
  static const char *const all[] = {"schema", "seed", "steps", "frac", "on", "list", "big", "name", "object", NULL};
  cr_assert_eq(json_check_keys(&doc, doc.root, all, &err), 0);
  static const char *const some[] = {"schema", "seed", "step_s", "frac", NULL};
  cr_assert_eq(json_check_keys(&doc, doc.root, some, &err), -1);
  assert_message(err, "experiment 'a.json' line 3: unknown key 'steps', did you mean 'step_s'?");
  static const char *const few[] = {"schema", "seed", "steps", NULL};
  cr_assert_eq(json_check_keys(&doc, doc.root, few, &err), -1);
  assert_message(err, "experiment 'a.json' line 4: unknown key 'frac' (valid: schema, seed, steps)");
  json_doc_release(&doc);
}

Test(base_json, nearest_words) {
  static const char *const words[] = {"tokens_per_step", "policy", "max_gas", "min_gas", "sp", NULL};
  cr_assert_str_eq(nearest_word("tokens-per-steps", words), "tokens_per_step");
  cr_assert_str_eq(nearest_word("plicy", words), "policy");
  cr_assert_str_eq(nearest_word("poilcy", words), "policy");
  cr_assert_str_eq(nearest_word("max-gas", words), "max_gas");
  cr_assert_null(nearest_word("trace", words));
  cr_assert_null(nearest_word("", words));
  cr_assert_null(nearest_word("xy", words));
}

Test(base_json, files) {
  struct json_doc doc;
  struct err err = {0};
  cr_assert_eq(json_doc_read(&doc, "profile", "/nonexistent/p.json", NULL, &err), -1);
  assert_message(err, "cannot open profile '/nonexistent/p.json': No such file or directory");
  cr_assert_eq(json_doc_read(&doc, "profile", "/tmp", NULL, &err), -1);
  assert_message(err, "cannot read profile '/tmp': Is a directory");
  char path[] = "/tmp/dcpsim_json_XXXXXX";
  FILE *file = fdopen(mkstemp(path), "w");
  fputs("\xef\xbb\xbf{\"schema\": \"s/1\",\n\"a\": \"", file);
  for (int i = 0; i < 200000; i++)
    fputc('x', file);
  fputs("\", \"b\": 4}\n", file);
  fclose(file);
  cr_assert_eq(json_doc_read(&doc, "profile", path, "s/1", &err), 0, "%s", err.msg);
  cr_assert_eq(json_string_length(json_object_get(doc.root, "a")), 200000);
  cr_assert_eq(json_doc_line(&doc, json_object_get(doc.root, "b")), 2);
  json_doc_release(&doc);
  file = fopen(path, "w");
  fwrite("{\n\"a\": \0 1}", 1, 11, file);
  fclose(file);
  cr_assert_eq(json_doc_read(&doc, "profile", path, NULL, &err), -1);
  cr_assert(strstr(err.msg, "line 2: a NUL byte: not a JSON text"), "%s", err.msg);
  unlink(path);
}

/* What `write` makes, as text. Caller frees. */
static char *written(void (*write)(struct json_writer *), bool indent) {
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  struct json_writer w = {.file = file, .indent = indent};
  write(&w);
  cr_assert_eq(w.depth, 0);
  fclose(file);
  return text;
}

static void write_sample(struct json_writer *w) {
  json_begin_object(w);
  json_key_int(w, "i", INT64_MIN);
  json_key_double(w, "d", 0.1);
  json_key_double(w, "whole", 11);
  json_key_double(w, "none", NAN);
  json_key_bool(w, "b", true);
  json_key_str(w, "s", "a\"\\\n\x01\t/\xc3\xa9\xff\xed\xa0\x80");
  json_key(w, "list");
  json_begin_array(w);
  json_int(w, 1);
  json_begin_array(w);
  json_end_array(w);
  json_begin_object(w);
  json_end_object(w);
  json_put_null(w);
  json_bool(w, false);
  json_str(w, "");
  json_end_array(w);
  json_end_object(w);
}

Test(base_json, writer) {
  char *compact = written(write_sample, false), *indented = written(write_sample, true);
  cr_assert_str_eq(compact, "{\"i\":-9223372036854775808,\"d\":0.1,\"whole\":11.0,\"none\":null,\"b\":true,"
                            "\"s\":\"a\\\"\\\\\\n\\u0001\\t/\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
                            "\"list\":[1,[],{},null,false,\"\"]}");
  json_t *a = json_loads(compact, 0, NULL), *b = json_loads(indented, 0, NULL);
  cr_assert(a && b && json_equal(a, b), "%s", indented);
  cr_assert(strstr(indented, "{\n  \"i\": -9223372036854775808,\n  \"d\": 0.1,\n"), "%s", indented);
  cr_assert(strstr(indented, "  \"list\": [\n    1,\n    [],\n    {},\n"), "%s", indented);
  json_decref(a);
  json_decref(b);
  free(compact);
  free(indented);
}

static void write_lines(struct json_writer *w) {
  for (int i = 0; i < 2; i++) {
    json_begin_object(w);
    json_key_int(w, "i", i);
    json_end_object(w);
    fputc('\n', w->file);
  }
}

Test(base_json, writer_of_several_documents) {
  char *text = written(write_lines, false);
  cr_assert_str_eq(text, "{\"i\":0}\n{\"i\":1}\n");
  free(text);
}

Test(base_json, doubles_read_back) {
  static const struct {
    double v;
    const char *text;
  } known[] = {{0, "0"},
               {-0.0, "-0"},
               {1, "1"},
               {0.1, "0.1"},
               {1e15, "1e+15"},
               {0.1 + 0.2, "0.30000000000000004"},
               {1.0 / 3, "0.3333333333333333"},
               {123456789.5, "123456789.5"},
               {1e-7, "1e-07"}};
  char buf[32];
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    double_text(known[i].v, buf);
    cr_assert_str_eq(buf, known[i].text);
  }
  uint64_t bits = 88172645463325252u;
  for (int i = 0; i < 100000; i++) {
    bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
    double v;
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v))
      continue;
    double_text(v, buf);
    cr_assert_eq(strtod(buf, NULL), v);
    cr_assert_lt(strlen(buf), 32);
  }
}
