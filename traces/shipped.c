#include "traces/shipped.h"

#include <stdio.h>
#include <string.h>

static const struct shipped_trace shipped[] = {
    {"wikipedia", "traces/data/wikipedia_lengths.txt.zst", 1000000, 1013648780,
     "lengths of Wikipedia documents (PKU-DAIR/Hetu-Galvatron, Apache-2.0)"},
    {"prolong", "traces/data/prolong_lengths.json", 77932, 237840913,
     "lengths of ProLong long-context documents (hao-ai-lab/DistCA, Apache-2.0)"},
    {"sharegpt", "traces/data/sharegpt_8k.csv", 30731, 85393559,
     "ShareGPT conversations, Llama-2 tokens (microsoft/sarathi-serve, Apache-2.0)"},
    {"azure_code_2023", "traces/data/azure_code_2023.csv", 8819, 18059974,
     "INFERENCE prompts of a code service, not training data (Azure/AzurePublicDataset, CC-BY 4.0)"},
};
enum { SHIPPED = sizeof shipped / sizeof *shipped };

const struct shipped_trace *shipped_trace_find(const char *name) {
  for (int i = 0; i < SHIPPED; i++)
    if (strcmp(shipped[i].name, name) == 0)
      return &shipped[i];
  return NULL;
}

const struct shipped_trace *shipped_trace_at(int i) { return i >= 0 && i < SHIPPED ? &shipped[i] : NULL; }

void shipped_trace_names(char *buf, size_t size) {
  size_t used = 0;
  buf[0] = 0;
  for (int i = 0; i < SHIPPED && used < size; i++)
    used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "", shipped[i].name);
}
