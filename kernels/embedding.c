#include "kernels/embedding.h"

void embedding_forward_reference(const struct embedding_call *call) {
  const double *table = call->table, *position_table = call->position_table;
  double *out = call->out;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++)
      out[i * call->width + j] = table[call->tokens[i] * call->width + j] +
                                 (position_table ? position_table[call->positions[i] * call->width + j] : 0);
}

void embedding_backward_reference(const struct embedding_call *call) {
  const double *dout = call->dout;
  double *dtable = call->dtable, *dposition_table = call->dposition_table;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++) {
      dtable[call->tokens[i] * call->width + j] += dout[i * call->width + j];
      if (dposition_table)
        dposition_table[call->positions[i] * call->width + j] += dout[i * call->width + j];
    }
}

void embedding_forward_cpu(const struct embedding_call *call) {
  const float *table = call->table, *position_table = call->position_table;
  float *out = call->out;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++)
      out[i * call->width + j] = table[call->tokens[i] * call->width + j] +
                                 (position_table ? position_table[call->positions[i] * call->width + j] : 0);
}

void embedding_backward_cpu(const struct embedding_call *call) {
  const float *dout = call->dout;
  float *dtable = call->dtable, *dposition_table = call->dposition_table;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++) {
      dtable[call->tokens[i] * call->width + j] += dout[i * call->width + j];
      if (dposition_table)
        dposition_table[call->positions[i] * call->width + j] += dout[i * call->width + j];
    }
}
