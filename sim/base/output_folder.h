/* output_folder.h: a folder of result files that is either complete or absent: written beside its name, renamed when
 * committed. The name must be free, or an empty folder. */
#ifndef SIM_BASE_OUTPUT_FOLDER_H
#define SIM_BASE_OUTPUT_FOLDER_H
#include <stdatomic.h>
#include <stdio.h>

#include "sim/base/err.h"

struct output_folder {
  char *path, *temp_path;
  char **files; /* paths in temp_path, owned */
  atomic_int n_files;
  int max_files;
};

/* Creates the temporary folder; at most max_files will be in it. `f` must not move from then on. */
int output_folder_open(struct output_folder *f, const char *path, int max_files, struct err *err);

/* A new file in it; end it with output_folder_end_file. NULL: err is set. */
FILE *output_folder_begin_file(struct output_folder *f, const char *name, struct err *err);
/* Closes the file; reports any error of writing it. */
int output_folder_end_file(struct output_folder *f, FILE *file, struct err *err);

/* Renames. On failure removes everything and returns -1. */
int output_folder_commit(struct output_folder *f, struct err *err);
/* Removes what was written; harmless after commit and on a zeroed struct. */
void output_folder_discard(struct output_folder *f);

/* For the signal handler of output.h alone: removes the folders that are being written. */
void output_folder_remove_all(void);

#endif
