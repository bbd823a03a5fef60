/* player.h: what the actions of a model share: where the player is in its program, the operators as short calls, and
 * the memory of a micro-batch. Private to sim/execute. */
#ifndef SIM_EXECUTE_PLAYER_H
#define SIM_EXECUTE_PLAYER_H
#include "sim/execute/execute.h"
#include "sim/execute/weights.h"

/* Device memory of one micro-batch: laid out twice by the same function, first to count, then to place. */
struct arena {
  void *memory;
  size_t capacity, used;
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
  const struct op *op; /* being played */
  enum section_place place;
  int layer;     /* of the loop over the layers; 2D: the pair */
  int gathered;  /* zero 3: ranges, in this micro-batch */
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
  /* A micro-batch begins with these: its sizes, for which no memory is needed; its memory; its inputs. */
  int (*measure)(struct player *p, struct err *err);
  void (*lay_out)(struct player *p); /* by arena_take */
  int (*fill)(struct player *p, struct err *err);
  void (*release)(struct player *p);
  /* Ranges of weights.h: whose gradients grow at this place, until a post completes them (a held range's at the end
   * only); and which the next gather at this place makes whole. */
  int (*range)(const struct player *p);
  int (*gather_range)(const struct player *p);
  const struct action *const *actions; /* tables, each ends with name NULL; after the last one NULL */
};

extern const struct model_actions model_1d, model_2d;

/* Lays a micro-batch out, as its model does; the arena grows where it must. */
int arena_fit(struct player *p, void (*lay_out)(struct player *p), struct err *err);
/* Bytes that arena_fit would need; afterwards the micro-batch has no memory. */
size_t arena_needs(struct player *p, void (*lay_out)(struct player *p));

/* Operators on the player's device. */
int run_operator(struct player *p, struct operator_call call, struct err *err);

/* A linear layer and its three products. */
struct linear {
  int64_t in, out;
  int weight, bias; /* tensors (out, in), (out); bias -1: none */
};
struct linear linear_add(struct weights *w, int64_t in, int64_t out, bool bias, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
int linear_forward(struct player *p, int64_t rows, const struct linear *l, const void *x, void *y, struct err *err);
int linear_dgrad(struct player *p, int64_t rows, const struct linear *l, const void *dy, void *dx, struct err *err);
int linear_wgrad(struct player *p, int64_t rows, const struct linear *l, const void *x, const void *dy,
                 struct err *err);

/* RMSNorm with weight, or LayerNorm with or without weight and bias. */
struct norm {
  bool layer;
  int64_t width;
  int weight, bias; /* tensors (width); -1: none */
};
/* What its forward leaves for its backward: fp32 (rows) each; mean of LayerNorm only. */
struct norm_rows {
  void *mean, *rstd;
};
struct norm norm_add(struct weights *w, int64_t width, bool layer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int norm_forward(struct player *p, int64_t rows, const struct norm *n, const void *x, void *y,
                 const struct norm_rows *left, struct err *err);
/* dx may be dy. */
int norm_backward(struct player *p, int64_t rows, const struct norm *n, const void *x, const struct norm_rows *left,
                  const void *dy, void *dx, struct err *err);

/* The activation of an MLP: gated where it has three matrices. x (rows, ffn * (matrices - 1)), y (rows, ffn). */
int activation_forward(struct player *p, int64_t rows, const void *x, void *y, struct err *err);
int activation_backward(struct player *p, int64_t rows, const void *x, const void *dy, void *dx, struct err *err);

/* A strided copy of `width` elements at extent[0] * extent[1] * extent[2] places (0 counts as 1). */
int run_copy(struct player *p, struct copy_call call, struct err *err);
/* n elements side by side. */
int copy_whole(struct player *p, const void *src, void *dst, int64_t n, struct err *err);
int run_exchange(struct player *p, struct communicator *among, const void *send, void *recv, int64_t count,
                 struct err *err);
/* y = a + b of n elements. */
int run_residual(struct player *p, int64_t n, const void *a, const void *b, void *y, struct err *err);
/* y (rows, width) = x + a vector. */
int add_vector(struct player *p, int64_t rows, int64_t width, const void *x, int tensor, void *y, struct err *err);
/* into fp32 (width) += the sum of rows of dy. */
int add_rows(struct player *p, int64_t rows, int64_t width, const void *dy, void *into, struct err *err);
int to_elements(struct player *p, int64_t n, const void *fp32, void *elements, struct err *err);
int clear_elements(struct player *p, void *x, int64_t n, struct err *err);
int clear_fp32(struct player *p, void *x, int64_t n, struct err *err);

/* The next place for rows of elements, and for fp32 numbers. */
void *take(struct player *p, int64_t rows, int64_t width);
void *take_fp32(struct player *p, int64_t n);

/* Pointer to element `i` of an array of elements. */
void *element_at(const struct player *p, const void *elements, int64_t i);

/* Sum of n fp32 losses on the device; not a number: an error. */
int sum_losses(struct player *p, const void *loss, int64_t n, double *sum, struct err *err);

/* Token and target of position `at` of a sample, from the seed: uniform in 0 .. vocab - 1. */
int32_t data_token(uint64_t seed, uint32_t id, int64_t at, int64_t vocab);

/* A number of a sample's latents, captions, ...: uniform in -1 .. 1. `what` tells the arrays apart. */
float data_number(uint64_t seed, uint32_t id, int what, int64_t at);

#endif
