/* communicator_table.h: the rows of communicator.c, one per file communicator_NAME.c, and what they share. */
#ifndef KERNELS_COMMUNICATOR_TABLE_H
#define KERNELS_COMMUNICATOR_TABLE_H
#include <stdbool.h>

#include "kernels/communicator.h"

extern const struct communicator_kind communicator_mpi;
extern const struct communicator_kind communicator_nccl;
extern const struct communicator_kind communicator_self;

/* Puts collective, kind, rank and count before the message of an error; returns -1. */
int communicator_failed(const struct communicator *c, const struct communicator_call *call, struct err *err);

/* ---- communicator_mpi.c: what NCCL needs of MPI to meet ---- */

/* `bytes` of the group's first rank to all its ranks. `mpi` is a communicator of the kind mpi. */
int communicator_mpi_share(struct communicator *mpi, void *data, size_t bytes, struct err *err);

#endif
