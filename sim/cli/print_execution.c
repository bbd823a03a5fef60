#include "sim/cli/print_execution.h"

#include <math.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/number_text.h"
#include "sim/base/units.h"

/* An operation's line: runs of one name that differ in category or direction are told apart. */
static const char *op_label(const struct execute_op *op, char *buf, size_t size) {
  static const char mark[] = " (waited)";
  bool named = strstr(op->name, "backward") || strstr(op->name, "grad");
  int length = (int)(strlen(op->name) - (op->waited ? strlen(mark) : 0));
  snprintf(buf, size, "%.*s%s%s", length, op->name,
           op->category == TIMELINE_CAT_RECOMPUTE ? "_recompute"
           : op->backward && !named               ? "_backward"
                                                  : "",
           op->waited ? mark : "");
  return buf;
}

/* The virtual device has no memory to measure. */
static void write_memory(struct json_writer *w, const struct execution *x) {
  json_key(w, "memory");
  json_begin_object(w);
  json_key_int(w, "predicted_bytes", x->plan.predicted_peak_bytes);
  if (!x->request->options.is_virtual)
    json_key_int(w, "measured_bytes", executor_peak_bytes(x->executor));
  json_end_object(w);
}

void print_execution_json(FILE *out, const struct execution *x) {
  struct json_writer w = {.file = out, .indent = true};
  int n;
  char label[96];
  const struct execute_op *ops = executor_ops(x->executor, &n);
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.execution/1");
  json_key_str(&w, "device", x->request->options.is_virtual ? "virtual" : x->device->name);
  json_key_int(&w, "ranks", x->world->ranks);
  if (x->request->as_rank >= 0)
    json_key_int(&w, "as_rank", x->world->rank);
  json_key(&w, "iterations");
  json_begin_array(&w);
  for (size_t i = 0; i < x->n_rows; i++) {
    json_begin_object(&w);
    json_key_double(&w, "predicted_time_s", x->rows[i].predicted_s);
    json_key_double(&w, "measured_time_s", x->rows[i].measured_s);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_key(&w, "ops");
  json_begin_array(&w);
  for (int i = 0; i < n; i++) {
    json_begin_object(&w);
    json_key_str(&w, "op", op_label(&ops[i], label, sizeof label));
    json_key_int(&w, "count", ops[i].count);
    json_key_double(&w, "predicted_s", ops[i].predicted_s);
    json_key_double(&w, "measured_s", ops[i].measured_s);
    if (ops[i].waited)
      json_key_bool(&w, "waited", true);
    json_end_object(&w);
  }
  json_end_array(&w);
  write_memory(&w, x);
  json_key(&w, "verify");
  json_begin_object(&w);
  json_key_int(&w, "checked", x->verified.checked);
  json_key_double(&w, "max_rel_error", x->verified.max_rel_error);
  json_end_object(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static void print_memory(FILE *out, const struct execution *x) {
  fprintf(out, "\npeak memory: predicted %.4g GiB", (double)x->plan.predicted_peak_bytes / GIB_BYTES);
  if (x->plan.system.parallel.memory_rule != MEMORY_PUBLISHED)
    fprintf(out, " (%.3g of it reserve for context, communicators and allocator)",
            (double)params_reserve_bytes(x->plan.params) / GIB_BYTES);
  if (!x->request->options.is_virtual)
    fprintf(out, ", measured %.4g GiB (weights, gradients, optimizer and activations%s)",
            (double)executor_peak_bytes(x->executor) / GIB_BYTES,
            x->device->kind->element == ELEMENT_FP32 ? ", in fp32 where the prediction has bf16" : "");
  fputc('\n', out);
}

/* Collectives that run beside computation have no prediction of their own. */
static void print_op(FILE *out, const struct execute_op *op) {
  char label[96];
  op_label(op, label, sizeof label);
  if (op->predicted_s > 0)
    fprintf(out, "%-34s %10lld %14.4f %14.4f %8.4g\n", label, (long long)op->count, 1e3 * op->predicted_s,
            1e3 * op->measured_s, op->measured_s / op->predicted_s);
  else
    fprintf(out, "%-34s %10lld %14s %14.4f %8s\n", label, (long long)op->count, "-", 1e3 * op->measured_s, "-");
}

void print_execution(FILE *out, const struct execution *x) {
  double predicted = 0, measured = 0, apart = 0;
  int n;
  char label[96];
  const struct execute_op *ops = executor_ops(x->executor, &n);
  for (size_t i = 0; i < x->n_rows; i++) {
    predicted += x->rows[i].predicted_s;
    measured += x->rows[i].measured_s;
    apart += fabs(x->rows[i].measured_s / x->rows[i].predicted_s - 1);
  }
  const struct schedule_header *h = &x->plan.reader.header;
  fprintf(out, "%zu iteration%s of %s on %d rank%s (%s)\n", x->n_rows, x->n_rows == 1 ? "" : "s", h->policy,
          x->world->ranks, x->world->ranks == 1 ? "" : "s",
          x->request->options.is_virtual ? "virtual" : x->device->name);
  fprintf(out, "predicted %s (parameters %s), measured %s, an iteration is off by %.1f %% on average\n",
          duration_text(predicted).text, h->params, duration_text(measured).text,
          x->n_rows ? 100 * apart / (double)x->n_rows : 0);
  const char *measured_on = params_gpu(x->plan.params);
  if (strcmp(x->request->device, "cpu") == 0 && strcmp(measured_on, "cpu") != 0)
    fprintf(out, "the prediction is for %s, not for this machine: calibrate run and fit make its parameters\n",
            measured_on);
  fputc('\n', out);
  snprintf(label, sizeof label, "operation (rank %d)", x->world->rank);
  fprintf(out, "%-34s %10s %14s %14s %8s\n", label, "runs", "predicted ms", "measured ms", "ratio");
  for (int i = 0; i < n; i++)
    print_op(out, &ops[i]);
  print_memory(out, x);
  if (x->request->verify)
    fprintf(out, "verified: %lld tensors and losses, largest relative error %.2e (%s)\n",
            (long long)x->verified.checked, x->verified.max_rel_error, x->verified.worst);
}
