#include "calib/import_nccl_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/nccl_line.h"
#include "calib/text_file.h"
#include "sim/base/json.h"
#include "sim/base/units.h"

#define MAX_RANKS (1 << 20)
#define MAX_WARNINGS 20

/* Bus bandwidth over algorithm bandwidth of n ranks, as nccl-tests defines it (doc/PERFORMANCE.md there). */
enum bus_factor { BUS_ONE, BUS_PART, BUS_TWICE_PART }; /* 1, (n-1)/n, 2(n-1)/n */

/* `name` is searched in words: longer names that contain shorter ones come first. */
static const struct known_op {
  const char *name, *op;
  enum bus_factor factor;
} known_ops[] = {
    {"all_reduce", "all_reduce", BUS_TWICE_PART},
    {"allreduce", "all_reduce", BUS_TWICE_PART},
    {"all_gather", "all_gather", BUS_PART},
    {"allgather", "all_gather", BUS_PART},
    {"reduce_scatter", "reduce_scatter", BUS_PART},
    {"reducescatter", "reduce_scatter", BUS_PART},
    {"all_to_all", "all_to_all", BUS_PART},
    {"alltoall", "all_to_all", BUS_PART},
    {"send_recv", "send_recv", BUS_ONE},
    {"sendrecv", "send_recv", BUS_ONE},
    {"broadcast", "broadcast", BUS_ONE},
    {"scatter", "scatter", BUS_PART},
    {"gather", "gather", BUS_PART},
    {"reduce", "reduce", BUS_ONE},
};
enum { KNOWN_OPS = sizeof known_ops / sizeof *known_ops };

const char *import_nccl_op(const char *name) {
  size_t n = strlen(name);
  if (n > 5 && strcmp(name + n - 5, "_perf") == 0)
    n -= 5;
  for (int i = 0; i < KNOWN_OPS; i++)
    if (strlen(known_ops[i].name) == n && strncmp(known_ops[i].name, name, n) == 0)
      return known_ops[i].op;
  return NULL;
}

void import_nccl_list_ops(char *buf, size_t size) {
  size_t n = 0;
  buf[0] = '\0';
  for (int i = 0; i < KNOWN_OPS && n < size; i++)
    if (strcmp(known_ops[i].name, known_ops[i].op) == 0)
      n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", known_ops[i].op);
}

static enum bus_factor factor_of(const char *op) {
  int i = 0;
  while (strcmp(known_ops[i].op, op) != 0)
    i++;
  return known_ops[i].factor;
}

/* The operation whose name occurs in s; longest first, so that "all_gather" is not "gather". */
static const char *op_within(const char *s) {
  for (int i = 0; i < KNOWN_OPS; i++)
    if (strstr(s, known_ops[i].name))
      return known_ops[i].op;
  return NULL;
}

/* ---- What is known about one run: the lines from one header to the next ---- */

struct run {
  const char *op, *stated_op;                 /* of "# @op" */
  const char *dtype;                          /* of the command line */
  int stated_ranks, stated_nodes, told_nodes; /* "# @ranks", "# @nodes", "# @conditions" */
  int threads_gpus;                           /* nThread x nGpus of the header */
  int command_ranks;                          /* processes x threads x GPUs of the command line */
  int devices, max_rank;                      /* lines of the device list, its largest rank */
  char **hosts;                               /* [n_hosts], owned */
  size_t n_hosts, hosts_cap;
  bool single_process;
  size_t first_row;
};

struct reader {
  const char *name; /* of the file */
  const struct nccl_options *options;
  struct nccl_rows *rows;
  struct run run;
  struct nccl_layout layout;
  bool in_table, has_header; /* a header of a table was seen */
  int64_t line, empty_rows, warnings;
};

static void run_clear(struct run *run, size_t first_row) {
  for (size_t i = 0; i < run->n_hosts; i++)
    free(run->hosts[i]);
  free(run->hosts);
  *run = (struct run){.max_rank = -1, .first_row = first_row};
}

static void warn(struct reader *r, int64_t line, const char *problem) {
  if (++r->warnings <= MAX_WARNINGS)
    warning_put(r->options->warnings, "log '%s' line %lld: %s", r->name, (long long)line, problem);
}

/* ---- Header lines ---- */

/* The integer after `key` in s, or 0. */
static int number_after(const char *s, const char *key) {
  const char *at = strstr(s, key);
  long v = at ? strtol(at + strlen(key), NULL, 10) : 0;
  return v > 0 && v <= MAX_RANKS ? (int)v : 0;
}

static void add_host(struct run *run, const char *host, size_t n) {
  for (size_t i = run->n_hosts; i-- > 0;)
    if (strlen(run->hosts[i]) == n && strncmp(run->hosts[i], host, n) == 0)
      return;
  char *copy = xmalloc(n + 1);
  memcpy(copy, host, n);
  copy[n] = '\0';
  VEC_PUSH(run->hosts, run->n_hosts, run->hosts_cap, copy);
}

/* "  Rank  0 Group  0 Pid   1000 on    node0 device  0 [0x18] NVIDIA H100 80GB HBM3" */
static bool read_device(struct run *run, const char *s) {
  int rank, used = 0;
  if (sscanf(s, " Rank %d %n", &rank, &used) < 1 || used == 0 || rank < 0 || rank >= MAX_RANKS)
    return false;
  const char *on = strstr(s, " on ");
  if (!on)
    return false;
  on += 4;
  on += strspn(on, " ");
  size_t n = strcspn(on, " ");
  if (n == 0)
    return false;
  add_host(run, on, n);
  run->devices++;
  run->max_rank = rank > run->max_rank ? rank : run->max_rank;
  return true;
}

/* "2 x DGX H200 ...", "2 nodes, ...", "2 GCP H200 nodes, ...", "single node ...": nodes, or 0. */
static int told_nodes(const char *s) {
  char *end;
  size_t clause = strcspn(s, ",;(");
  if (strncmp(s, "single ", 7) == 0)
    return 1;
  long v = strtol(s, &end, 10);
  if (end == s || *end != ' ' || v < 1 || v > MAX_RANKS)
    return 0;
  const char *node = strstr(s, " node");
  bool says_nodes = (node && node < s + clause) || strncmp(end, " x ", 3) == 0;
  return says_nodes ? (int)v : 0;
}

/* "# @KEY: VALUE" lines that someone put before a log. */
static void read_annotation(struct run *run, const char *s) {
  char key[32], value[64];
  int used = 0;
  if (sscanf(s, "@%31[a-z]: %n", key, &used) < 1 || used == 0)
    return;
  if (strcmp(key, "conditions") == 0)
    run->told_nodes = told_nodes(s + used);
  if (sscanf(s + used, "%63s", value) < 1)
    return;
  if (strcmp(key, "op") == 0)
    run->stated_op = import_nccl_op(value);
  else if (strcmp(key, "ranks") == 0)
    run->stated_ranks = number_after(value, "");
  else if (strcmp(key, "nodes") == 0)
    run->stated_nodes = number_after(value, "");
}

static int option_number(const struct nccl_tokens *t, int from, int to, const char *option, int otherwise) {
  for (int i = from; i + 1 < to; i++)
    if (strcmp(t->v[i], option) == 0)
      return number_after(t->v[i + 1], "");
  return otherwise;
}

/* A line that starts a benchmark: "$ mpirun -np 16 ... ./build/all_reduce_perf -b 8 -e 8G -d half -g 1". */
static bool read_command(struct run *run, const struct nccl_tokens *t) {
  int at = 0, processes = 1;
  while (at < t->n && !strstr(t->v[at], "_perf") && !strstr(t->v[at], "_bench"))
    at++;
  if (at == t->n || !op_within(t->v[at]))
    return false;
  run->op = op_within(t->v[at]);
  run->single_process = true;
  for (int i = 0; i < at; i++) {
    const char *word = t->v[i];
    if (strstr(word, "mpirun") || strstr(word, "mpiexec") || strstr(word, "srun") || strstr(word, "torch"))
      run->single_process = false;
    if (strncmp(word, "--nproc_per_node=", 17) == 0)
      processes = number_after(word, "=");
  }
  if (!run->single_process)
    processes = option_number(t, 0, at, "-np", option_number(t, 0, at, "-n", processes > 1 ? processes : 0));
  run->command_ranks = processes * option_number(t, at, t->n, "-t", 1) * option_number(t, at, t->n, "-g", 1);
  if (run->command_ranks > MAX_RANKS)
    run->command_ranks = 0;
  if (strstr(t->v[at], "_perf")) {
    run->dtype = "fp32"; /* what nccl-tests takes without -d */
    for (int i = at; i + 1 < t->n; i++)
      if (strcmp(t->v[i], "-d") == 0)
        run->dtype = nccl_dtype(t->v[i + 1]);
  }
  return true;
}

static void finish_run(struct reader *r, struct err *err);

/* Lines that open a run: after rows they begin the next one. */
static void open_run(struct reader *r, struct err *err) {
  if (r->rows->n > r->run.first_row)
    finish_run(r, err);
  r->in_table = false;
}

static bool contains(const char *s, const char *word) { return strstr(s, word) != NULL; }

/* `hash`: the first '#' of a line, or NULL. After the '#' of a prompt ("[user@node0 ~]# mpirun ...") comes a command.
 */
static bool is_comment(const char *hash) {
  if (!hash)
    return false;
  hash += strspn(hash, " #");
  return *hash == '@' || contains(hash, "Collective test") || contains(hash, "nThread");
}

/* What follows the first '#'. */
static void read_comment(struct reader *r, const char *s, struct err *err) {
  s += strspn(s, " #");
  const char *starting = strstr(s, "Collective test starting:");
  if (*s == '@') {
    open_run(r, err);
    read_annotation(&r->run, s);
  } else if (starting) {
    char name[64];
    open_run(r, err);
    if (sscanf(starting, "Collective test starting: %63s", name) == 1)
      r->run.op = import_nccl_op(name);
  } else if (contains(s, "nThread") && contains(s, "nGpus")) {
    open_run(r, err);
    long ranks = (long)number_after(s, "nThread") * number_after(s, "nGpus");
    r->run.threads_gpus = ranks <= MAX_RANKS ? (int)ranks : 0;
  } else if (strncmp(s, "Rank", 4) == 0) {
    if (!read_device(&r->run, s))
      warn(r, r->line, "a line of the device list could not be read");
  } else if (contains(s, "Out of bounds") || contains(s, "Avg bus") || contains(s, "test concluded")) {
    r->in_table = false;
  }
}

/* ---- Rows ---- */

static void take_half(struct reader *r, const struct nccl_line *line, int h) {
  const struct nccl_half *half = &line->half[h];
  char message[160];
  if (half->problem) {
    snprintf(message, sizeof message, "%s half left out: %s", h ? "in-place" : "out-of-place", half->problem);
    warn(r, r->line, message);
    return;
  }
  struct nccl_row row = {.dtype = line->dtype,
                         .bytes = line->bytes,
                         .time_s = half->time_s,
                         .busbw_bytes_per_s = half->busbw_bytes_per_s,
                         .algbw_bytes_per_s = half->algbw_bytes_per_s,
                         .in_place = h == 1,
                         .line = r->line};
  VEC_PUSH(r->rows->v, r->rows->n, r->rows->cap, row);
}

static void take_row(struct reader *r, const struct nccl_line *line) {
  if (line->is_long)
    warn(r, r->line, "there is more on the line than the columns of the table");
  if (line->bytes == 0) {
    r->empty_rows++;
    return;
  }
  for (int h = 0; h < 2; h++)
    if (line->half[h].present)
      take_half(r, line, h);
}

/* Lines between rows that are no loss: separators, units, what NCCL and launchers say. */
static bool is_noise(const struct nccl_tokens *t, const char *line) {
  if (contains(line, "NCCL ") || contains(line, "WARN") || contains(line, "(B)"))
    return true;
  for (int i = 0; i < t->n; i++)
    if (t->v[i][strspn(t->v[i], "-:=")])
      return i == 0 && t->n == 1 && t->v[i][strlen(t->v[i]) - 1] == ':'; /* a prefix alone */
  return true;
}

static bool is_usable(const struct nccl_line *row) {
  return (row->half[0].present && !row->half[0].problem) || (row->half[1].present && !row->half[1].problem);
}

/* Without a header a row that the usual layout makes no sense of may be of an older nccl-tests. */
static bool read_row(const struct reader *r, struct nccl_line *row, const struct nccl_tokens *tokens) {
  const struct nccl_layout rootless = nccl_layout_rootless();
  struct nccl_line older;
  if (!nccl_line_read(row, tokens, &r->layout))
    return false;
  if (!r->has_header && !is_usable(row) && nccl_line_read(&older, tokens, &rootless) && is_usable(&older))
    *row = older;
  return true;
}

static void read_line(struct reader *r, const char *line, size_t n, struct err *err) {
  struct nccl_tokens tokens;
  struct nccl_line row;
  char text[sizeof tokens.text];
  snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), line);
  nccl_tokens_split(&tokens, line, n);
  if (nccl_layout_read(&r->layout, &tokens)) {
    r->in_table = r->has_header = true;
    return;
  }
  const char *hash = strchr(text, '#');
  if (read_row(r, &row, &tokens)) {
    take_row(r, &row);
    return;
  }
  struct run command = {.op = NULL};
  if (!is_comment(hash) && read_command(&command, &tokens)) {
    open_run(r, err);
    r->run.op = command.op;
    r->run.dtype = command.dtype;
    r->run.single_process = command.single_process;
    r->run.command_ranks = command.command_ranks;
  } else if (hash) {
    read_comment(r, hash, err);
  } else if (r->in_table && !is_noise(&tokens, text)) {
    warn(r, r->line, "not a row of the table");
  }
}

/* ---- The end of a run: what its rows are of ---- */

static double bus_factor(enum bus_factor f, double ranks) {
  return f == BUS_ONE ? 1 : (f == BUS_PART ? 1 : 2) * (ranks - 1) / ranks;
}

/* The printed bus bandwidth fits this many ranks: both bandwidths are rounded to 10 MB/s. */
static bool fits(const struct nccl_row *row, enum bus_factor f, int ranks) {
  double expected = row->algbw_bytes_per_s * bus_factor(f, ranks);
  return fabs(row->busbw_bytes_per_s - expected) <= 0.0151e9 + 1e-6 * expected;
}

/* The fastest row of a run, whose bandwidths have the most digits; NULL if none has both. */
static const struct nccl_row *fastest(const struct nccl_rows *rows, size_t first) {
  const struct nccl_row *best = NULL;
  for (size_t i = first; i < rows->n; i++) {
    const struct nccl_row *row = &rows->v[i];
    if (row->busbw_bytes_per_s > 0 && row->algbw_bytes_per_s > 0 &&
        (!best || row->algbw_bytes_per_s > best->algbw_bytes_per_s))
      best = row;
  }
  return best;
}

/* Ranks that make the run's bus bandwidth of its algorithm bandwidth; 0 when that is not certain. */
static int ranks_of_bandwidths(const struct nccl_rows *rows, size_t first, const char *op) {
  const struct nccl_row *row = fastest(rows, first);
  enum bus_factor f = factor_of(op);
  if (!row || f == BUS_ONE)
    return 0;
  double part = row->busbw_bytes_per_s / row->algbw_bytes_per_s / (f == BUS_PART ? 1 : 2); /* (n-1)/n */
  double ranks = part < 1 ? 1 / (1 - part) : 0;
  if (!(ranks > 1.5 && ranks < 4096))
    return 0;
  int n = (int)(ranks + 0.5);
  bool is_certain = fits(row, f, n) && !fits(row, f, n + 1) && (n == 2 || !fits(row, f, n - 1));
  return is_certain ? n : 0;
}

/* "..._2n16g_..." in a file's name: both numbers; "..._4n_...": nodes only. */
static void numbers_of_name(const char *path, int *nodes, int *ranks) {
  const char *name = strrchr(path, '/');
  *nodes = *ranks = 0;
  for (const char *s = name ? name + 1 : path; *s; s += strcspn(s, "_-. "), s += strspn(s, "_-. ")) {
    int n = 0, g = 0, used = 0, used_nodes = 0;
    int found = sscanf(s, "%7dn%n%7dg%n", &n, &used_nodes, &g, &used);
    if (found == 2 && used > 0 && strchr("_-. ", s[used])) {
      *nodes = n > 0 ? n : 0;
      *ranks = g > 0 ? g : 0;
      return;
    }
    if (found >= 1 && used_nodes > 0 && strchr("_-. ", s[used_nodes]))
      *nodes = n > 0 ? n : 0;
  }
}

static int first_known(const int *candidates, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (candidates[i] > 0)
      return candidates[i];
  return 0;
}

static const char *find_op(const struct reader *r) {
  const char *base = strrchr(r->name, '/');
  if (r->options->op)
    return r->options->op;
  if (r->run.stated_op)
    return r->run.stated_op;
  return r->run.op ? r->run.op : op_within(base ? base + 1 : r->name);
}

static int find_ranks(struct reader *r, const char *op, int of_name) {
  const struct run *run = &r->run;
  int of_bandwidths = ranks_of_bandwidths(r->rows, run->first_row, op);
  int candidates[] = {r->options->ranks,
                      run->max_rank + 1,
                      run->stated_ranks,
                      of_bandwidths,
                      run->command_ranks,
                      run->single_process ? run->threads_gpus : 0,
                      of_name};
  int ranks = first_known(candidates, sizeof candidates / sizeof *candidates);
  char message[160];
  if (!r->options->ranks && run->devices > 0 && run->devices <= run->max_rank) {
    snprintf(message, sizeof message, "the device list above names %d of %d ranks", run->devices, run->max_rank + 1);
    warn(r, r->rows->v[run->first_row].line, message);
  }
  if (of_bandwidths && ranks != of_bandwidths) {
    snprintf(message, sizeof message, "busbw / algbw of %s is that of %d ranks, not of %d", op, of_bandwidths, ranks);
    warn(r, fastest(r->rows, run->first_row)->line, message);
  }
  return ranks;
}

static int find_nodes(const struct reader *r, int ranks, int of_name) {
  const struct run *run = &r->run;
  bool is_one_process = run->single_process || (run->threads_gpus == ranks && ranks > 0);
  int candidates[] = {r->options->nodes, (int)run->n_hosts, run->stated_nodes,
                      is_one_process,    run->told_nodes,   of_name};
  return first_known(candidates, sizeof candidates / sizeof *candidates);
}

static void finish_run(struct reader *r, struct err *err) {
  struct run *run = &r->run;
  int name_nodes, name_ranks, ranks = 0, nodes = 0;
  const char *op = find_op(r);
  struct err problem = {.set = false};
  char list[300];
  numbers_of_name(r->name, &name_nodes, &name_ranks);
  if (op) {
    ranks = find_ranks(r, op, name_ranks);
    nodes = find_nodes(r, ranks, name_nodes);
  }
  int64_t line = r->rows->v[run->first_row].line;
  if (!op) {
    import_nccl_list_ops(list, sizeof list);
    err_set(&problem, "log '%s' line %lld: which collective is this? --op NAME says it (%s)", r->name, (long long)line,
            list);
  } else if (!ranks) {
    err_set(&problem, "log '%s' line %lld: of how many ranks is this? --ranks N says it", r->name, (long long)line);
  } else if (!nodes) {
    err_set(&problem, "log '%s' line %lld: of how many nodes is this? --nodes N says it", r->name, (long long)line);
  } else if (ranks < nodes) {
    err_set(&problem, "log '%s' line %lld: %d ranks cannot span %d nodes; --ranks and --nodes override the log",
            r->name, (long long)line, ranks, nodes);
  }
  if (problem.set && err && !err->set)
    *err = problem;
  for (size_t i = run->first_row; i < r->rows->n; i++) {
    struct nccl_row *row = &r->rows->v[i];
    row->op = op;
    row->ranks = ranks;
    row->nodes = nodes;
    if (!row->dtype)
      row->dtype = run->dtype ? run->dtype : "unknown";
  }
  run_clear(run, r->rows->n);
}

/* ---- Whole logs ---- */

static void read_lines(struct reader *r, const char *text, struct err *err) {
  while (*text) {
    size_t n = strcspn(text, "\n");
    r->line++;
    read_line(r, text, n, err);
    text += n + (text[n] == '\n');
  }
}

int import_nccl_parse(struct nccl_rows *rows, const char *name, const char *text, const struct nccl_options *options,
                      struct err *err) {
  size_t had = rows->n;
  struct err problem = {.set = false}; /* the first run that could not be told */
  struct reader r = {.name = name, .options = options, .rows = rows, .layout = nccl_layout_usual()};
  run_clear(&r.run, rows->n);
  read_lines(&r, text, &problem);
  if (rows->n > r.run.first_row) {
    if (r.in_table && r.layout.halves == 2)
      warn(&r, r.line, "the log ends inside its table: it may be cut");
    finish_run(&r, &problem);
  }
  if (r.empty_rows > 0)
    warning_put(options->warnings, "log '%s': %lld row%s of 0 bytes left out", name, (long long)r.empty_rows,
                r.empty_rows == 1 ? "" : "s");
  if (r.warnings > MAX_WARNINGS)
    warning_put(options->warnings, "log '%s': %lld more lines like these", name,
                (long long)(r.warnings - MAX_WARNINGS));
  run_clear(&r.run, 0);
  if (rows->n == had && !problem.set)
    err_set(&problem, "log '%s': no row of a nccl-tests table found", name);
  if (!problem.set)
    return 0;
  rows->n = had;
  return err_set(err, "%s", problem.msg);
}

int import_nccl_read(struct nccl_rows *rows, const char *path, const struct nccl_options *options, struct err *err) {
  char *text;
  size_t n;
  if (text_file_read("log", path, &text, &n, err))
    return -1;
  int rc = import_nccl_parse(rows, text_file_name(path), text, options, err);
  free(text);
  return rc;
}

void nccl_rows_release(struct nccl_rows *rows) {
  free(rows->v);
  *rows = (struct nccl_rows){.v = NULL};
}

void import_nccl_write(FILE *out, const struct nccl_rows *rows) {
  char number[32];
  fputs("op,dtype,ranks,nodes,bytes,time_s,busbw_bytes_per_s,in_place\n", out);
  for (size_t i = 0; i < rows->n; i++) {
    const struct nccl_row *row = &rows->v[i];
    double_text(row->time_s, number);
    fprintf(out, "%s,%s,%d,%d,%lld,%s,", row->op, row->dtype, row->ranks, row->nodes, (long long)row->bytes, number);
    double busbw = row->busbw_bytes_per_s;
    if (busbw < 0)
      busbw = (double)row->bytes / row->time_s * bus_factor(factor_of(row->op), row->ranks);
    double_text(busbw, number);
    fprintf(out, "%s,%d\n", number, row->in_place);
  }
}
