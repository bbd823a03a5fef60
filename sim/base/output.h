/* output.h: a result file that is either complete or absent. Written beside its name, renamed when committed; "-" is
 * stdout. A write error (disk full, closed pipe) is kept and reported once, by output_commit. Devices and pipes
 * (/dev/null, /dev/full, a named pipe) are written in place. */
#ifndef SIM_BASE_OUTPUT_H
#define SIM_BASE_OUTPUT_H
#include <stdio.h>

#include "sim/base/err.h"

struct output {
  FILE *file;
  char *path, *temp_path;
};

int output_open(struct output *out, const char *path, struct err *err);
/* Flushes, syncs, renames. On any failure removes the temporary file and returns -1. */
int output_commit(struct output *out, struct err *err);
/* Removes the temporary file; harmless after commit and on a zeroed struct. */
void output_discard(struct output *out);

/* Called once by a program: SIGINT, SIGTERM, SIGHUP and SIGABRT remove the temporary files and folders
 * (output_folder.h) before they end it. */
void output_remove_on_signal(void);

/* For the ends of a program that skip output_discard (out of memory, a signal). */
void output_remove_temporaries(void);

#endif
