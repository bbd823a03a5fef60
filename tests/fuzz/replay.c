/* Runs a fuzz target over files and folders of files: what libFuzzer's main does with files, where there is none. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "tests/fuzz/fuzz.h"

static int replay_file(const char *path) {
  enum { MAX_BYTES = 1 << 20 };
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    return 1;
  }
  uint8_t *data = xmalloc(MAX_BYTES);
  size_t size = fread(data, 1, MAX_BYTES, file);
  fclose(file);
  printf("%s\n", path);
  fflush(stdout); /* the last name printed is the one that crashed */
  LLVMFuzzerTestOneInput(data, size);
  free(data);
  return 0;
}

static int replay_folder(DIR *folder, const char *name) {
  int failed = 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
    if (entry->d_name[0] != '.')
      failed |= replay_file(path);
  }
  closedir(folder);
  return failed;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++) {
    DIR *folder = argv[i][0] == '-' ? NULL : opendir(argv[i]);
    if (folder)
      failed |= replay_folder(folder, argv[i]);
    else if (argv[i][0] != '-') /* an option of libFuzzer's */
      failed |= replay_file(argv[i]);
  }
  return failed;
}
