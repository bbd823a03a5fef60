#include "sim/base/libraries.h"

#include <gsl/gsl_errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "sim/base/units.h"

static void on_gsl_error(const char *reason, const char *file, int line, int error) {
  (void)reason;
  (void)file;
  (void)line;
  if (error == GSL_ENOMEM)
    out_of_memory(0);
}

void libraries_begin(void) {
  json_set_alloc_funcs(xmalloc, free);
  gsl_set_error_handler(on_gsl_error);
}
