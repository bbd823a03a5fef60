#include "sim/report/sweep_view.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/report/csv_line.h"

#define MAX_CELLS 256
#define MAX_VALUES 4096 /* of one field: more cannot be drawn */
#define MAX_GPUS 1e9

/* Where the columns are. */
struct columns {
  int policy, speedup, tokens_per_s, tokens_per_s_per_gpu, imbalance_frac, steps, n;
};

/* ---- Header ---- */

static int read_header(struct sweep_view *v, const char *path, char *const *cells, int n, struct columns *c,
                       struct err *err) {
  static const char prefix[] = "swept_";
  int i = 2;
  if (n < 4 || strcmp(cells[0], "point") != 0 || strcmp(cells[1], "spec") != 0)
    return err_set(err, "'%s' is not the table of a sweep: its first line does not begin with point,spec", path);
  for (; i < n && strncmp(cells[i], prefix, sizeof prefix - 1) == 0 && v->n_fields < SWEEP_VIEW_FIELDS; i++)
    v->fields[v->n_fields++].name = xstrdup(cells[i] + sizeof prefix - 1);
  *c = (struct columns){.policy = i,
                        .speedup = csv_column(cells, n, "speedup"),
                        .tokens_per_s = csv_column(cells, n, "tokens_per_s"),
                        .tokens_per_s_per_gpu = csv_column(cells, n, "tokens_per_s_per_gpu"),
                        .imbalance_frac = csv_column(cells, n, "imbalance_frac"),
                        .steps = csv_column(cells, n, "steps"),
                        .n = n};
  if (i >= n || strcmp(cells[i], "policy") != 0 || c->speedup < 0 || c->tokens_per_s < 0 || c->steps < 0)
    return err_set(err, "'%s' is not the table of a sweep: columns are missing in its first line", path);
  return 0;
}

/* ---- Rows ---- */

/* -1: there are too many. */
static int value_index(struct swept_field *f, const char *value) {
  for (size_t i = 0; i < f->n; i++)
    if (strcmp(f->values[i], value) == 0)
      return (int)i;
  if (f->n == MAX_VALUES)
    return -1;
  VEC_PUSH(f->values, f->n, f->cap, xstrdup(value));
  return (int)f->n - 1;
}

static int policy_index(struct sweep_view *v, const char *name) {
  for (int i = 0; i < v->n_policies; i++)
    if (strcmp(v->policies[i], name) == 0)
      return i;
  if (v->n_policies == SWEEP_VIEW_POLICIES)
    return -1;
  v->policies[v->n_policies] = xstrdup(name);
  return v->n_policies++;
}

static int read_row(struct sweep_view *v, const char *path, long line, char *const *cells, int n,
                    const struct columns *c, struct err *err) {
  struct sweep_row row = {0};
  double steps = 0, per_gpu = 0;
  if (n != c->n || !csv_count(cells[0], &row.point))
    return err_set(err, "'%s' line %ld: not a row of the table", path, line);
  if (*cells[c->policy] == '\0') {
    v->failed++;
    return 0;
  }
  row.line = v->n_rows;
  row.policy = policy_index(v, cells[c->policy]);
  if (row.policy < 0)
    return err_set(err, "'%s' line %ld: more than %d policies", path, line, SWEEP_VIEW_POLICIES);
  if (!csv_number(cells[c->speedup], &row.speedup) || !csv_number(cells[c->tokens_per_s], &row.tokens_per_s) ||
      !csv_number(cells[c->steps], &steps))
    return err_set(err, "'%s' line %ld: 'speedup', 'tokens_per_s' and 'steps' must be numbers", path, line);
  row.imbalance_frac = -1;
  if (c->imbalance_frac >= 0 && !csv_number(cells[c->imbalance_frac], &row.imbalance_frac))
    return err_set(err, "'%s' line %ld: 'imbalance_frac' must be a number", path, line);
  if (c->tokens_per_s_per_gpu >= 0 && csv_number(cells[c->tokens_per_s_per_gpu], &per_gpu) && per_gpu > 0 &&
      row.tokens_per_s / per_gpu < MAX_GPUS)
    row.gpus = llround(row.tokens_per_s / per_gpu);
  for (int i = 0; i < v->n_fields; i++) {
    row.value[i] = value_index(&v->fields[i], cells[2 + i]);
    if (row.value[i] < 0)
      return err_set(err, "'%s': field '%s' has more than %d values, too many to draw", path, v->fields[i].name,
                     MAX_VALUES);
  }
  if (steps > 0)
    VEC_PUSH(v->rows, v->n_rows, v->cap, row);
  return 0;
}

static int read_rows(struct sweep_view *v, const char *path, FILE *file, struct err *err) {
  char *line = NULL, *cells[MAX_CELLS];
  size_t cap = 0;
  long number = 0;
  struct columns c = {0};
  ssize_t size;
  int rc = 0;
  while (rc == 0 && (size = getline(&line, &cap, file)) > 0) {
    if (line[size - 1] != '\n') /* torn: its point is not finished */
      break;
    int n = csv_split(line, cells, MAX_CELLS);
    number++;
    rc = n > MAX_CELLS ? err_set(err, "'%s' line %ld: more than %d fields", path, number, MAX_CELLS)
         : number == 1 ? read_header(v, path, cells, n, &c, err)
                       : read_row(v, path, number, cells, n, &c, err);
  }
  free(line);
  if (rc == 0 && !feof(file)) /* getline ends so without memory, too */
    return err_set(err, "cannot read '%s': %s", path, strerror(errno));
  if (rc == 0 && number == 0)
    return err_set(err, "'%s' is not the table of a sweep: it is empty", path);
  if (rc == 0 && v->n_rows == 0)
    return err_set(err, "'%s': no point of the sweep has a result", path);
  return rc;
}

/* ---- Order ---- */

static int by_point(const void *a, const void *b) {
  const struct sweep_row *x = a, *y = b;
  if (x->point != y->point)
    return x->point < y->point ? -1 : 1;
  return x->line < y->line ? -1 : x->line > y->line;
}

/* Numbers the policies as they appear in the sorted rows. */
static void sort_policies(struct sweep_view *v) {
  int place[SWEEP_VIEW_POLICIES], n = 0;
  char *sorted[SWEEP_VIEW_POLICIES];
  for (int i = 0; i < v->n_policies; i++)
    place[i] = -1;
  for (size_t r = 0; r < v->n_rows; r++) {
    int old = v->rows[r].policy;
    if (place[old] < 0) {
      place[old] = n;
      sorted[n++] = v->policies[old];
    }
    v->rows[r].policy = place[old];
  }
  for (int i = 0; i < v->n_policies; i++)
    if (place[i] < 0) /* ran no step anywhere */
      free(v->policies[i]);
  v->n_policies = n;
  for (int i = 0; i < n; i++)
    v->policies[i] = sorted[i];
}

/* Sorts the values of a field, by number or by first point; `place`: of each old index. */
static void sort_values(struct sweep_view *v, int field, int *place) {
  struct swept_field *f = &v->fields[field];
  double *keys = xmalloc(size_mul(f->n, sizeof *keys)), number;
  bool numbers = true;
  for (size_t i = 0; i < f->n; i++)
    numbers = numbers && csv_number(f->values[i], &number);
  for (size_t i = 0; i < f->n; i++)
    keys[i] = numbers ? strtod(f->values[i], NULL) : (double)v->n_rows;
  for (size_t r = v->n_rows; r-- > 0 && !numbers;)
    keys[v->rows[r].value[field]] = (double)r;
  char **sorted = xmalloc(size_mul(f->n, sizeof *sorted));
  for (size_t i = 0; i < f->n; i++) { /* few values: by counting the smaller ones */
    place[i] = 0;
    for (size_t k = 0; k < f->n; k++)
      place[i] += keys[k] < keys[i] || (keys[k] == keys[i] && k < i);
    sorted[place[i]] = f->values[i];
  }
  free(f->values);
  f->values = sorted;
  if (numbers) {
    f->numbers = xmalloc(size_mul(f->n, sizeof *f->numbers));
    for (size_t i = 0; i < f->n; i++)
      f->numbers[i] = strtod(f->values[i], NULL);
  }
  free(keys);
}

static void sort(struct sweep_view *v) {
  qsort(v->rows, v->n_rows, sizeof *v->rows, by_point);
  sort_policies(v);
  for (int i = 0; i < v->n_fields; i++) {
    int *place = xmalloc(size_mul(v->fields[i].n + 1, sizeof *place));
    sort_values(v, i, place);
    for (size_t r = 0; r < v->n_rows; r++)
      v->rows[r].value[i] = place[v->rows[r].value[i]];
    free(place);
  }
}

int sweep_view_read(struct sweep_view *v, const char *path, struct err *err) {
  *v = (struct sweep_view){0};
  FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (!file)
    return err_set(err, "cannot open '%s': %s", path, strerror(errno));
  int rc = read_rows(v, path, file, err);
  if (file != stdin)
    fclose(file);
  if (rc == 0)
    sort(v);
  else
    sweep_view_release(v);
  return rc;
}

void sweep_view_release(struct sweep_view *v) {
  for (int i = 0; i < v->n_fields; i++) {
    for (size_t k = 0; k < v->fields[i].n; k++)
      free(v->fields[i].values[k]);
    free(v->fields[i].values);
    free(v->fields[i].numbers);
    free(v->fields[i].name);
  }
  for (int i = 0; i < v->n_policies; i++)
    free(v->policies[i]);
  free(v->rows);
  *v = (struct sweep_view){0};
}

void sweep_view_axes(const struct sweep_view *v, int which[2]) {
  which[0] = which[1] = -1;
  for (int i = 0; i < v->n_fields; i++) {
    if (v->fields[i].n < 2)
      continue;
    if (which[0] < 0 || v->fields[i].n > v->fields[which[0]].n) {
      which[1] = which[0];
      which[0] = i;
    } else if (which[1] < 0 || v->fields[i].n > v->fields[which[1]].n) {
      which[1] = i;
    }
  }
}
