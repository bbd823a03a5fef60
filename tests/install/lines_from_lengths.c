/* lines_from_lengths.c: plans with the installed libdcpsim and prints the lines of the schedule, to be compared with a
 * file of `dcpsim simulate --schedule`. usage: lines_from_lengths EXPERIMENT.json < LENGTHS.txt */
#include <dcpsim.h>
#include <stdio.h>
#include <stdlib.h>

static char *read_file(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = calloc(1, 1 << 16);
  if (!file || !text || fread(text, 1, (1 << 16) - 1, file) == 0)
    exit(2);
  fclose(file);
  return text;
}

int main(int argc, char **argv) {
  static uint32_t lengths[100000];
  size_t n = 0;
  char error[1024];
  const struct dcpsim_step *step;
  int status;
  while (n < sizeof lengths / sizeof lengths[0] && scanf("%u", &lengths[n]) == 1)
    n++;
  char *experiment = read_file(argc > 1 ? argv[1] : "");
  struct dcpsim_schedule *s = dcpsim_plan_tokens(experiment, lengths, n, error, sizeof error);
  free(experiment);
  if (!s) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  puts(dcpsim_schedule_header(s)->line);
  while ((status = dcpsim_schedule_next(s, &step, error, sizeof error)) == DCPSIM_OK)
    puts(step->line);
  dcpsim_schedule_close(s);
  return status != DCPSIM_END;
}
