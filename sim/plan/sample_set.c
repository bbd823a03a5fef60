#include "sim/plan/sample_set.h"

#include <stdlib.h>

void sample_set_release(struct sample_set *s) {
  free(s->samples);
  free(s->ids);
  free(s->offsets);
  free(s->order);
  free(s->bucket);
  free(s->batch);
  *s = (struct sample_set){0};
}
