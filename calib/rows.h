/* rows.h: measured rows: what one operation of one shape took on a device. The input of calibrate check and fit.
 *
 * CSV with a header, base units. `op` and `time_s` are always needed, `dtype` too, and the shape columns of the row's
 * operation:
 *   attention_forward, attention_backward, attention_forward_backward: causal,batch,seqlen,heads,kv_heads,head_dim
 *   attention_varlen_forward, attention_varlen_backward: the same, one pack of `batch` sequences without padding, the
 *     i-th (from 1) of ceil(seqlen * i / batch) tokens
 *   gemm, gemm_wgrad (added in fp32 to what is there; k are tokens): m,n,k
 *   rmsnorm, rmsnorm_backward, layernorm, layernorm_backward, residual, swiglu, swiglu_backward, gelu, gelu_backward,
 *     modulate, permute, bias_backward, permute_add, adamw, rope, silu, silu_backward, bias, modulate_backward, gate,
 *     gate_backward, embedding, embedding_backward: m,n (rows, width of the output); cross_entropy,
 *     cross_entropy_backward: m,n (rows, vocabulary)
 *   all_reduce, all_gather, reduce_scatter, all_to_all, all_to_all_uneven (bytes: what the busiest rank receives),
 *   send_recv, barrier (bytes 0), broadcast, reduce, gather, scatter: ranks,nodes,bytes and, if there is such a column,
 *     groups: how many disjoint groups of so many ranks ran the collective at once (1 where it is empty)
 * Further columns (device, library, source, check, ...) are kept as text. A file may mix operations;
 * the columns that an operation does not use stay empty in its rows. */
#ifndef CALIB_ROWS_H
#define CALIB_ROWS_H
#include <stdint.h>

#include "calib/table.h"

/* ROW_MEMORY: what memory bounds. */
enum row_class { ROW_ATTENTION, ROW_GEMM, ROW_MEMORY, ROW_COLLECTIVE };
#define ROW_CLASSES 4

enum row_op {
  ROW_OP_ATTENTION_FORWARD,
  ROW_OP_ATTENTION_BACKWARD,
  ROW_OP_ATTENTION_FORWARD_BACKWARD,
  ROW_OP_ATTENTION_VARLEN_FORWARD,
  ROW_OP_ATTENTION_VARLEN_BACKWARD,
  ROW_OP_GEMM,
  ROW_OP_GEMM_WGRAD,
  ROW_OP_RMSNORM,
  ROW_OP_RMSNORM_BACKWARD,
  ROW_OP_LAYERNORM,
  ROW_OP_LAYERNORM_BACKWARD,
  ROW_OP_RESIDUAL,
  ROW_OP_SWIGLU,
  ROW_OP_SWIGLU_BACKWARD,
  ROW_OP_GELU,
  ROW_OP_GELU_BACKWARD,
  ROW_OP_MODULATE,
  ROW_OP_PERMUTE,
  ROW_OP_BIAS_BACKWARD,
  ROW_OP_PERMUTE_ADD,
  ROW_OP_ADAMW,
  ROW_OP_ROPE,
  ROW_OP_SILU,
  ROW_OP_SILU_BACKWARD,
  ROW_OP_BIAS,
  ROW_OP_MODULATE_BACKWARD,
  ROW_OP_GATE,
  ROW_OP_GATE_BACKWARD,
  ROW_OP_EMBEDDING,
  ROW_OP_EMBEDDING_BACKWARD,
  ROW_OP_CROSS_ENTROPY,
  ROW_OP_CROSS_ENTROPY_BACKWARD,
  ROW_OP_ALL_REDUCE,
  ROW_OP_ALL_GATHER,
  ROW_OP_REDUCE_SCATTER,
  ROW_OP_ALL_TO_ALL,
  ROW_OP_SEND_RECV,
  ROW_OP_ALL_TO_ALL_UNEVEN,
  ROW_OP_BARRIER,
  ROW_OP_BROADCAST,
  ROW_OP_REDUCE,
  ROW_OP_GATHER,
  ROW_OP_SCATTER,
  ROW_OPS
};

/* Places of a row's numbers in row.shape, by class: the order of the shape columns. */
enum { SHAPE_CAUSAL, SHAPE_BATCH, SHAPE_SEQLEN, SHAPE_HEADS, SHAPE_KV_HEADS, SHAPE_HEAD_DIM };
enum { SHAPE_M, SHAPE_N, SHAPE_K };
enum { SHAPE_ROWS, SHAPE_HIDDEN };
enum { SHAPE_RANKS, SHAPE_NODES, SHAPE_BYTES, SHAPE_GROUPS };
#define ROW_SHAPE_MAX 6

struct row {
  enum row_op op;
  const char *dtype; /* into the table: "bf16", "fp16", "fp32", "int8", ... */
  int64_t shape[ROW_SHAPE_MAX];
  double time_s;
};

struct rows {
  struct table table;
  struct row *v; /* [table.n_rows] */
};

/* Reads a file ("-" is stdin). Errors name file, line and column. On failure nothing is left to release. */
int rows_read(struct rows *rows, const char *path, struct err *err);
/* The same from text in memory; `path` is only for messages. */
int rows_parse(struct rows *rows, const char *path, const char *text, struct err *err);
void rows_release(struct rows *rows);

/* Whether several groups ran the row's collective at once. */
bool row_is_at_once(const struct row *row);

/* Length of the i-th (from 0) of the `batch` sequences of a varlen row. */
int64_t row_varlen_length(int64_t seqlen, int64_t batch, int64_t i);

const char *row_op_name(enum row_op op);
enum row_class row_op_class(enum row_op op);
const char *row_class_name(enum row_class class); /* "attention", "gemm", "memory", "collective" */
/* ROW_OPS when there is no such operation. */
enum row_op row_op_find(const char *name);
/* NULL-terminated names of the shape columns of a class, in the order of row.shape. */
const char *const *row_shape_columns(enum row_class class);
/* Whether rows may lack the k-th of them, which then is 1. */
bool row_shape_is_optional(enum row_class class, int k);
/* Writes name and shape, as messages show them: "gemm m 2048, n 4096, k 128". Returns buf. */
const char *row_describe(enum row_op op, const int64_t *shape, char *buf, size_t size);
/* "a, b, c": all operations. */
void row_op_list(char *buf, size_t size);

/* A decimal integer 0..2^53 without anything after it; -1 if `s` is not one. */
int64_t row_integer(const char *s);
/* A finite decimal number > 0 without anything after it; 0 if `s` is not one. */
double row_positive(const char *s);

#endif
