#include "sim/report/published.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/report/csv_line.h"

enum { MAX_CELLS = 64 };

struct columns {
  int name, value, n; /* n 0: the header was not read yet */
};

static int read_header(char *const *cells, int n, struct columns *c, const char *path, struct err *err) {
  *c = (struct columns){csv_column(cells, n, "case"), csv_column(cells, n, "value"), n};
  if (c->name < 0 || c->value < 0)
    return err_set(err, "published values '%s': no column '%s' in its first line", path,
                   c->name < 0 ? "case" : "value");
  return 0;
}

static int unknown_policy(const char *name, const struct result_view *v, const char *path, long line, struct err *err) {
  const char *names[RESULT_MAX_POLICIES + 1] = {NULL};
  for (int i = 0; i < v->n; i++)
    names[i] = v->policies[i].name;
  const char *nearest = nearest_word(name, names);
  return err_set(err, "published values '%s' line %ld: the result has no policy '%.60s'%s%s%s", path, line, name,
                 nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

static int read_row(struct published *p, char *const *cells, int n, const struct columns *c,
                    const struct result_view *v, const char *path, long line, struct err *err) {
  if (n != c->n)
    return err_set(err, "published values '%s' line %ld: %d fields, the header has %d", path, line, n, c->n);
  if (!csv_number(cells[c->value], &p->value) || !(p->value > 0) || p->value > 1e300)
    return err_set(err, "published values '%s' line %ld: 'value' must be a number above 0, got '%.60s'", path, line,
                   cells[c->value]);
  for (p->policy = 0; p->policy < v->n; p->policy++)
    if (strcmp(v->policies[p->policy].name, cells[c->name]) == 0)
      return 0;
  return unknown_policy(cells[c->name], v, path, line, err);
}

static int read_lines(FILE *file, struct published *published, int *n, const char *path, const struct result_view *v,
                      struct err *err) {
  struct columns c = {0};
  char *text = NULL, *cells[MAX_CELLS];
  size_t cap = 0;
  int rc = 0;
  *n = 0;
  for (long line = 1; rc == 0 && getline(&text, &cap, file) > 0; line++) {
    if (*text == '#' || text[strspn(text, " \r\n")] == '\0')
      continue;
    int n_cells = csv_split(text, cells, MAX_CELLS);
    if (n_cells > MAX_CELLS)
      rc = err_set(err, "published values '%s' line %ld: more than %d fields", path, line, MAX_CELLS);
    else if (c.n == 0)
      rc = read_header(cells, n_cells, &c, path, err);
    else if (*n == PUBLISHED_MAX)
      rc = err_set(err, "published values '%s': more than %d", path, PUBLISHED_MAX);
    else
      rc = read_row(&published[(*n)++], cells, n_cells, &c, v, path, line, err);
  }
  free(text);
  if (rc == 0 && !feof(file)) /* getline ends so without memory, too */
    rc = err_set(err, "cannot read published values '%s': %s", path, strerror(errno));
  return rc;
}

int published_read(struct published *published, int *n, const char *path, const struct result_view *v,
                   struct err *err) {
  FILE *file = fopen(path, "r");
  if (!file)
    return err_set(err, "cannot open published values '%s': %s", path, strerror(errno));
  int rc = read_lines(file, published, n, path, v, err);
  fclose(file);
  if (rc == 0 && *n == 0)
    rc = err_set(err, "published values '%s': it holds none", path);
  return rc;
}
