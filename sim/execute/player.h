/* player.h: what the actions of a model share: where the player is in its program, the operators as short calls, and
 * the memory of a micro-batch. Private to sim/execute. */
#ifndef SIM_EXECUTE_PLAYER_H
#define SIM_EXECUTE_PLAYER_H
#include "sim/execute/execute.h"
#include "sim/execute/weights.h"

/* Device memory of one micro-batch: laid out twice by the same function, first to count, then to place. */
struct arena {
  void *memory;
  size_t capacity, used, peak;
};
/* The next `bytes`, aligned; NULL while counting (memory too small). */
void *arena_take(struct arena *a, size_t bytes);

struct player {
  const struct transformer *model;
  const struct execute_options *options;
  struct device *device;
  struct communicator *world, *group; /* group: of the micro-batch */
  struct weights weights;
  struct arena arena;
  void *state; /* of the model's actions */
  const struct execute_micro_batch *mb;
  enum section_place place;
  int layer;     /* of the loop over the layers */
  bool backward; /* else forward or recomputation */
  double loss;   /* weighted, of this rank's rows, of the step so far */
};

/* What an operation of a program does. */
struct action {
  const char *name;
  int (*run)(struct player *p, struct err *err);
};

/* The actions of one kind of model. */
struct model_actions {
  int (*build)(struct player *p, struct err *err); /* tensors; refuses what it cannot play */
  int (*begin)(struct player *p, struct err *err); /* a micro-batch: memory, inputs */
  void (*release)(struct player *p);
  int (*range)(const struct player *p); /* of the gradients that a post at this place completes */
  const struct action *actions;         /* ends with name NULL */
};

extern const struct model_actions model_1d;

/* Operators on the player's device. */
int run_operator(struct player *p, struct operator_call call, struct err *err);
/* A linear layer's three products; `weight` is a tensor (out, in). */
int linear_forward(struct player *p, int64_t rows, int64_t in, int64_t out, const void *x, int weight, void *y,
                   struct err *err);
int linear_dgrad(struct player *p, int64_t rows, int64_t in, int64_t out, const void *dy, int weight, void *dx,
                 struct err *err);
int linear_wgrad(struct player *p, int64_t rows, int64_t in, int64_t out, const void *x, const void *dy, int weight,
                 struct err *err);
/* A strided copy of `width` elements at extent[0] * extent[1] * extent[2] places. */
int run_copy(struct player *p, struct copy_call call, struct err *err);
int run_exchange(struct player *p, const void *send, void *recv, int64_t count, struct err *err);
/* y = a + b of n elements. */
int run_residual(struct player *p, int64_t n, const void *a, const void *b, void *y, struct err *err);

/* Pointer to element `i` of an array of elements. */
void *element_at(const struct player *p, const void *elements, int64_t i);

/* Token and target of position `at` of a sample, from the seed: uniform in 0 .. vocab - 1. */
int32_t data_token(uint64_t seed, uint32_t id, int64_t at, int64_t vocab);

#endif
