#include "sim/report/csv_line.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int csv_split(char *line, char **cells, int max) {
  int n = 0;
  char *p = line;
  line[strcspn(line, "\r\n")] = '\0';
  while (n < max) {
    char *to = p;
    bool quoted = false;
    cells[n++] = p;
    for (; *p && (quoted || *p != ','); p++) {
      if (*p == '"' && quoted && p[1] == '"')
        *to++ = *p++;
      else if (*p == '"')
        quoted = !quoted;
      else
        *to++ = *p;
    }
    bool last = *p == '\0';
    *to = '\0';
    if (last)
      return n;
    p++;
  }
  return max + 1;
}

int csv_column(char *const *cells, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(cells[i], name) == 0)
      return i;
  return -1;
}

bool csv_number(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && *end == '\0' && isfinite(*out);
}

bool csv_count(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return end != text && *end == '\0' && errno == 0 && *out >= 0;
}
