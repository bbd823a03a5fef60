/* nccl_line.h: one line of a collective benchmark's table: nccl-tests in its versions, and tables that people cut from
 * them (columns removed, thousands separators, Markdown).
 *
 * A table header ("#       size         count      type   redop    root     time   algbw   busbw #wrong     time ...")
 * gives the layout; without one the usual layout of nccl-tests is assumed. A row may bear a prefix of words
 * (mpirun --tag-output and --timestamp-output, srun --label, container logs, what NCCL says). */
#ifndef CALIB_NCCL_LINE_H
#define CALIB_NCCL_LINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_TOKENS_MAX 48

struct nccl_tokens {
  char *v[NCCL_TOKENS_MAX]; /* into `text` */
  int n;
  bool cut; /* the line had more */
  char text[1024];
};

/* Splits a line of n bytes (without its newline) at blanks and "|", terminal colours taken out. Lines over 1023 bytes
 * are cut. */
void nccl_tokens_split(struct nccl_tokens *t, const char *line, size_t n);

enum nccl_column {
  NCCL_SIZE,
  NCCL_TYPE,
  NCCL_TIME, /* microseconds */
  NCCL_ALGBW,
  NCCL_BUSBW,
  NCCL_WRONG,
  NCCL_OTHER
};

struct nccl_layout {
  enum nccl_column columns[NCCL_TOKENS_MAX];
  int n;
  int halves; /* 2: out-of-place and in-place */
};

/* size count type redop root (time algbw busbw #wrong) twice. */
struct nccl_layout nccl_layout_usual(void);
/* The same without root, as nccl-tests printed before 2.13. */
struct nccl_layout nccl_layout_rootless(void);
/* Whether the line is a table header; fills *layout only then. */
bool nccl_layout_read(struct nccl_layout *layout, const struct nccl_tokens *t);

/* Half of a row: out-of-place or in-place. */
struct nccl_half {
  bool present;
  double time_s;
  double algbw_bytes_per_s, busbw_bytes_per_s; /* as printed; -1 where the layout has no such column */
  const char *problem;                         /* why it is not usable although it is there (static), or NULL */
};

struct nccl_line {
  int64_t bytes;
  const char *dtype; /* our name; NULL where the layout has no type column */
  struct nccl_half half[2];
  bool is_short, is_long; /* fewer or more columns than the layout */
};

/* Whether the line is a row of the table (even if its halves are damaged). */
bool nccl_line_read(struct nccl_line *row, const struct nccl_tokens *t, const struct nccl_layout *layout);

/* Our name of a data type of nccl-tests ("half" -> "fp16"), or NULL. */
const char *nccl_dtype(const char *name);

#endif
