/* train.c: what one rank of a trainer does with a schedule.
 *
 *   dcpsim simulate --trace lengths.txt --model llama2-7b --cluster h200_8x4 --policy dcp --schedule s.jsonl
 *   cc train.c -o train $(pkg-config --cflags --libs dcpsim)
 *   ./train s.jsonl RANK
 */
#include <dcpsim.h>
#include <stdio.h>
#include <stdlib.h>

/* Here a trainer loads the samples, shards them over the group's ranks, runs forward and backward, and adds
 * weight * (gradient of the mean loss) to its gradient. */
static void run_micro_batch(const struct dcpsim_group *g, const struct dcpsim_micro_batch *mb) {
  printf("  ranks %d to %d: %s of %zu samples, recompute %d layers, weight %.6f, first sample %lu of %lu tokens\n",
         g->first_rank, g->end_rank - 1, mb->packed ? "pack" : "padded batch", mb->n_samples, mb->recompute_layers[0],
         mb->weight, (unsigned long)mb->samples[0].id,
         (unsigned long)mb->samples[0].extent[0] * mb->samples[0].extent[1]);
}

int main(int argc, char **argv) {
  char error[1024];
  const struct dcpsim_step *step;
  int rank = argc > 2 ? atoi(argv[2]) : 0, status = DCPSIM_ERROR;
  struct dcpsim_schedule *s = dcpsim_schedule_open(argc > 1 ? argv[1] : "s.jsonl", error, sizeof error);
  while (s && (status = dcpsim_schedule_next(s, &step, error, sizeof error)) == DCPSIM_OK) {
    printf("step %lld\n", (long long)step->iteration);
    for (size_t g = 0; g < step->n_groups; g++) {
      const struct dcpsim_group *group = &step->groups[g];
      if (group->first_rank <= rank && rank < group->end_rank)
        for (size_t m = 0; m < group->n_micro_batches; m++)
          run_micro_batch(group, &group->micro_batches[m]);
    }
    /* All ranks, idle ones too: sum the gradients and step the optimizer. */
  }
  if (status == DCPSIM_ERROR)
    fprintf(stderr, "train: %s\n", error);
  dcpsim_schedule_close(s);
  return status == DCPSIM_ERROR;
}
