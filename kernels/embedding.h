/* embedding.h: rows of a table by token, plus rows of a learned position table where the model has one.
 *   out_i = table[tokens_i] (+ position_table[positions_i])
 * Backward: dtable[tokens_i] += dout_i (and dposition_table likewise). Tokens and positions are within their tables. */
#ifndef KERNELS_EMBEDDING_H
#define KERNELS_EMBEDDING_H
#include <stdint.h>

struct embedding_call {
  int64_t rows, width;
  const int32_t *tokens;      /* (rows), on the device */
  const int32_t *positions;   /* (rows), on the device; NULL without position table */
  const void *table;          /* elements (vocab, width) */
  const void *position_table; /* elements, or NULL */
  void *out;                  /* elements (rows, width); forward */
  const void *dout;           /* elements (rows, width); backward */
  void *dtable;               /* fp32 (vocab, width), added to; backward */
  void *dposition_table;      /* fp32, added to, or NULL; backward */
};

void embedding_forward_reference(const struct embedding_call *call);
void embedding_backward_reference(const struct embedding_call *call);
void embedding_forward_cpu(const struct embedding_call *call);
void embedding_backward_cpu(const struct embedding_call *call);

#endif
