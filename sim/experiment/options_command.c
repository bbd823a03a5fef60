#include "sim/experiment/options_command.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/text_stream.h"
#include "sim/base/units.h"

/* The options object; the caller's reference. */
static json_t *json_of(const struct experiment_options *o) {
  char *text = NULL;
  size_t size;
  FILE *file = text_stream_begin(&text, &size);
  struct json_writer w = {.file = file};
  options_write_json(&w, o);
  text_stream_end(file);
  json_t *options = json_loads(text, 0, NULL);
  ASSERT(options);
  free(text);
  return options;
}

json_t *options_default_json(void) {
  struct experiment_options plain;
  options_init(&plain);
  json_t *options = json_of(&plain);
  options_release(&plain);
  return options;
}

void options_value_text(const json_t *value, char *buf, size_t size) {
  size_t at = 0, i;
  const json_t *element;
  buf[0] = '\0';
  if (json_is_string(value)) {
    snprintf(buf, size, "%s", json_string_value(value));
  } else if (json_is_integer(value)) {
    snprintf(buf, size, "%lld", (long long)json_integer_value(value));
  } else if (json_is_real(value)) {
    char number[32];
    double_text(json_real_value(value), number);
    snprintf(buf, size, "%s", number);
  } else if (json_is_boolean(value)) {
    snprintf(buf, size, "%s", json_is_true(value) ? "true" : "false");
  }
  json_array_foreach((json_t *)value, i, element) {
    char one[512];
    options_value_text(element, one, sizeof one);
    at += (size_t)snprintf(buf + at, at < size ? size - at : 0, "%s%s", i ? "," : "", one);
    if (at >= size)
      break;
  }
}

/* One word for sh; plain where nothing in it is special. */
static void write_word(FILE *out, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
  if (*text && text[strspn(text, plain)] == '\0') {
    fputs(text, out);
    return;
  }
  fputc('\'', out);
  for (const char *s = text; *s; s++) {
    if (*s == '\'')
      fputs("'\\''", out);
    else
      fputc(*s, out);
  }
  fputc('\'', out);
}

static void write_option(FILE *out, const char *key, const json_t *value, const char *separator) {
  char text[8192];
  fprintf(out, "%s--", separator);
  for (const char *s = key; *s; s++)
    fputc(*s == '_' ? '-' : *s, out);
  if (json_is_true(value))
    return;
  options_value_text(value, text, sizeof text);
  fputc(' ', out);
  write_word(out, text);
}

void options_command_write(FILE *out, const json_t *options, const char *separator) {
  json_t *value, *plain = options_default_json();
  const char *key;
  fputs("dcpsim simulate", out);
  json_object_foreach((json_t *)options, key, value) {
    const json_t *initial = json_object_get(plain, key);
    if (initial && !options_is_output(key) && !json_equal(value, (json_t *)initial) && !json_is_null(value) &&
        !json_is_false(value))
      write_option(out, key, value, separator);
  }
  json_decref(plain);
}

char *options_command(const struct experiment_options *o) {
  char *command = NULL;
  size_t size;
  json_t *options = json_of(o);
  FILE *file = text_stream_begin(&command, &size);
  options_command_write(file, options, " ");
  text_stream_end(file);
  json_decref(options);
  return command;
}
