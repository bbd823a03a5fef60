/* Damaged files of every format: read or refused with a complete message, never a crash or a length out of range. */
#include <fcntl.h>
#include <sys/mman.h>

#include "sim/base/rng.h"
#include "tests/unit/test_trace_files.h"
#include "traces/format.h"

struct seed {
  const char *bytes;
  size_t n;
};

#define SEED(text)                                                                                                     \
  { text, sizeof(text) - 1 }

static const struct seed seeds[] = {
    SEED("5\n7\n1234\n99\n"),
    SEED("a,length,b\n1,5,\"x\"\n2,7,\"y,\"\"z\"\n3,9,\"\n\"\n"),
    SEED("length,weight\n10,0.5\n20,1.5\n30,2\n"),
    SEED("num_frames,height,width\n51,240,426\n1,144,256\n408,720,1280\n"),
    SEED("[5, 7, {\"length\": 9}, [1], \"x\", 1e3]"),
    SEED("{\"length\": 5, \"a\": [1, {\"b\": null}]}\n{\"tokens\": [1,2,3]}\n{\"seq_len\": 7, \"s\": "
         "\"\\u0041\\\"\"}\n"),
    SEED("\x93NUMPY\1\0\x46\0{'descr': '<i4', 'fortran_order': False, 'shape': (3, 1), }          "
         "\n\5\0\0\0\7\0\0\0\11\0\0\0"),
    SEED("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x33\xe5\x32\xe7\xb2\xe4\x02\x00\x76\x0e\xff\x21\x06\x00\x00\x00"),
    SEED("\x28\xb5\x2f\xfd\x20\x06\x31\x00\x00\x35\x0a\x37\x0a\x39\x0a"),
};

/* Some bytes changed, removed, repeated or cut off; sometimes a piece that means something put in. */
static size_t damage(struct rng *rng, const struct seed *seed, char *out) {
  static const char *const pieces[] = {"\"", "[",     "]",           "{",   "}",  ",", "\n",
                                       "-1", "1e999", "99999999999", "nan", "\\", "#"};
  size_t n = seed->n;
  memcpy(out, seed->bytes, n);
  for (int changes = (int)rng_below(rng, 4); changes >= 0 && n > 1; changes--) {
    size_t at = (size_t)rng_below(rng, n), span = 1 + (size_t)rng_below(rng, 8);
    span = span < n - at ? span : n - at;
    const char *piece = pieces[rng_below(rng, sizeof pieces / sizeof *pieces)];
    switch (rng_below(rng, 5)) {
    case 0:
      out[at] = (char)rng_below(rng, 256);
      break;
    case 1:
      memmove(out + at, out + at + span, n - at - span);
      n -= span;
      break;
    case 2:
      memmove(out + at + span, out + at, n - at);
      n += span;
      break;
    case 3:
      memmove(out + at + strlen(piece), out + at, n - at);
      memcpy(out + at, piece, strlen(piece));
      n += strlen(piece);
      break;
    default:
      n = at;
    }
  }
  return n;
}

static void load_damaged(int fd, const char *path, const char *bytes, size_t n, const struct trace_options *options,
                         int *good) {
  struct trace t;
  struct err err = {.set = false};
  cr_assert(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
  if (trace_load(&t, path, options, &err)) {
    cr_assert(err.set && strstr(err.msg, "trace '/proc/") && !strchr(err.msg, '\n'), "%s", err.msg);
    return;
  }
  cr_assert(t.n > 0 && !err.set);
  for (int64_t i = 0; i < t.n; i++)
    cr_assert(sample_tokens(t.samples[i]) >= 1 && sample_tokens(t.samples[i]) <= TRACE_MAX_LENGTH);
  ++*good;
  trace_release(&t);
}

Test(trace_fuzz, damaged) {
  enum { SEEDS = sizeof seeds / sizeof *seeds, ROUNDS = 1500 };
  int fd = memfd_create("trace", 0), good = 0;
  char path[64], bytes[1024];
  struct rng rng;
  rng_init(&rng, 1, "trace fuzz");
  sprintf(path, "/proc/self/fd/%d", fd);
  for (int s = 0; s < SEEDS; s++) {
    struct trace_options whole = {.skip_bad = true, .draws = 10};
    int before = good;
    load_damaged(fd, path, seeds[s].bytes, seeds[s].n, &whole, &good);
    cr_expect_eq(good, before + 1, "seed %d is not a good file", s);
    for (int i = 0; i < ROUNDS; i++) {
      struct trace_options options = {.skip_bad = i % 2, .draws = 10};
      load_damaged(fd, path, bytes, damage(&rng, &seeds[s], bytes), &options, &good);
    }
  }
  cr_expect(good > SEEDS * ROUNDS / 10 && good < SEEDS * ROUNDS * 9 / 10, "%d read", good);
  rng_release(&rng);
  close(fd);
}
