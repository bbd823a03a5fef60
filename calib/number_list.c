#include "calib/number_list.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define WIDTH 118

static int put_word(FILE *out, const char *word, int column, int indent) {
  int length = (int)strlen(word);
  if (column > indent && column + length > WIDTH) {
    fprintf(out, "\n%*s", indent, "");
    column = indent;
  }
  fputs(word, out);
  return column + length;
}

void number_list(FILE *out, const double *v, size_t n, int digits, int indent) {
  char word[40];
  int column = indent;
  fputc('[', out);
  for (size_t i = 0; i < n; i++) {
    snprintf(word, sizeof word, "%.*g%s", digits, v[i], i + 1 < n ? "," : "");
    column = put_word(out, word, column, indent);
  }
  fputc(']', out);
}

void number_list_ns(FILE *out, const double *log_s, size_t n, int indent) {
  char word[40];
  int column = indent;
  fputc('[', out);
  for (size_t i = 0; i < n; i++) {
    double ns = fmax(1, floor(exp(log_s[i]) * 1e9 + 0.5));
    snprintf(word, sizeof word, "%lld%s", (long long)ns, i + 1 < n ? "," : "");
    column = put_word(out, word, column, indent);
  }
  fputc(']', out);
}

void number_list_indent(FILE *out, const char *json, int indent) {
  for (; *json; json++) {
    fputc(*json, out);
    if (*json == '\n')
      fprintf(out, "%*s", indent, "");
  }
}
