/* The JSON recogniser against Jansson, and lengths of objects, on fixed and on random texts. */
#include "sim/base/json.h"
#include "sim/base/rng.h"
#include "tests/unit/test_trace_files.h"
#include "traces/json_scan.h"

static bool ours(const char *text, size_t n, int64_t *elements) {
  struct json_cursor c = {text, text + n};
  struct json_span value;
  json_scan_space(&c);
  bool ok = json_scan_value(&c, &value);
  json_scan_space(&c);
  *elements = value.kind == JSON_SCAN_ARRAY ? value.elements : -1;
  return ok && c.p == c.end;
}

static bool theirs(const char *text, size_t n, int64_t *elements) {
  json_error_t error;
  json_t *root = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
  *elements = root && json_is_array(root) ? (int64_t)json_array_size(root) : -1;
  json_decref(root);
  return root != NULL;
}

static void compare(const char *text, size_t n) {
  int64_t a = -1, b = -1;
  bool x = ours(text, n, &a), y = theirs(text, n, &b);
  cr_expect(x == y && (!x || a == b), "we say %d (%lld), Jansson %d (%lld): %.*s", x, (long long)a, y, (long long)b,
            (int)n, text);
}

Test(trace_json, fixed) {
  static const char *const texts[] = {
      "1",
      "-1",
      "01",
      "-",
      "1.",
      ".5",
      "1.5e3",
      "1e",
      "1e+",
      "1E-2",
      "+1",
      "[]",
      "[ ]",
      "[1,]",
      "[,1]",
      "[1 2]",
      "[1,[2]]",
      "{}",
      "{ }",
      "{\"a\"}",
      "",
      " ",
      "{\"a\":1,}",
      "{\"a\":1 \"b\":2}",
      "{a:1}",
      "\"a",
      "\"\\x\"",
      "\"\\u12\"",
      "\"\\u0041\"",
      "\"\\\"\"",
      "\"\\",
      "nul",
      "true",
      "falsey",
      "null",
      "[true,null,false]",
      "[1]]",
      "{\"a\":[1,2,{\"b\":[]}]}",
      "\"a\tb\"",
      "[\"]\"]",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    compare(texts[i], strlen(texts[i]));
  char deep[400];
  memset(deep, '[', 200);
  memset(deep + 200, ']', 200);
  int64_t n;
  cr_expect_not(ours(deep, 400, &n)); /* deeper than our limit; must not overflow the stack */
  cr_expect(ours(deep + 150, 100, &n) && n == 1);
}

/* Random walks over pieces of JSON, mostly broken, some whole. Texts of up to 12 pieces. */
Test(trace_json, random) {
  static const char *const pieces[] = {"{", "}",    "[", "]",    ",",       ":", "\"a\"",
                                       "1", "-2.5", " ", "null", "\"\\n\"", "0", "e1"};
  static const char *const wholes[] = {"[1,2]",        "{\"a\":1}",           "[[],{}]", "3", "\"x\"",
                                       "[1 , [2, 3]]", "{\"a\":[1],\"b\":{}}"};
  struct rng rng;
  char text[400];
  int valid = 0;
  rng_init(&rng, 1, "json texts");
  for (int round = 0; round < 60000; round++) {
    int64_t elements;
    text[0] = 0;
    int n = 1 + (int)rng_below(&rng, 12);
    if (round % 2)
      for (int i = 0; i < n; i++)
        strcat(text, pieces[rng_below(&rng, sizeof pieces / sizeof *pieces)]);
    else { /* an array or object of whole values, one piece of it perhaps replaced */
      for (int i = 0; i < n; i++)
        sprintf(text + strlen(text), "%s%s", i ? "," : "[", wholes[rng_below(&rng, sizeof wholes / sizeof *wholes)]);
      strcat(text, "]");
      if (round % 4)
        text[rng_below(&rng, strlen(text))] = "[]{},:\"1 "[rng_below(&rng, 9)];
    }
    compare(text, strlen(text));
    valid += ours(text, strlen(text), &elements);
  }
  cr_expect(valid > 15000 && valid < 45000, "%d valid", valid);
  rng_release(&rng);
}
