#include "sim/base/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/err.h"

#define REDRAW_NS 100000000
#define BAR_WIDTH 30

int64_t wall_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void progress_start(struct progress *p, const char *label, int64_t total) {
  *p = (struct progress){.label = label, .total = total};
  p->enabled = total > 0 && isatty(STDERR_FILENO);
  if (p->enabled)
    p->started_ns = wall_clock_ns();
}

static void draw(const struct progress *p) {
  char bar[BAR_WIDTH + 1];
  double frac = p->done >= p->total ? 1.0 : p->done <= 0 ? 0.0 : (double)p->done / (double)p->total;
  int full = (int)(frac * BAR_WIDTH);
  memset(bar, ' ', BAR_WIDTH);
  memset(bar, '#', (size_t)full);
  bar[BAR_WIDTH] = '\0';
  double elapsed_s = (double)(p->drawn_ns - p->started_ns) * 1e-9;
  fprintf(stderr, "\r%s [%s] %3.0f %%  %.0f s", p->label, bar, 100 * frac, elapsed_s);
  if (frac > 0.01)
    fprintf(stderr, ", %.0f s left ", elapsed_s * (1 - frac) / frac);
  fprintf(stderr, "\033[K");
  fflush(stderr);
}

void progress_update(struct progress *p, int64_t done) {
  p->done = done;
  if (!p->enabled)
    return;
  int64_t now = wall_clock_ns();
  if (now - p->drawn_ns < REDRAW_NS)
    return;
  p->drawn_ns = now;
  draw(p);
}

void progress_finish(struct progress *p) {
  if (p->enabled && p->drawn_ns) {
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
  }
  p->enabled = false;
}

static void log_line(const char *before, const char *fmt, va_list ap) {
  char msg[1200];
  vsnprintf(msg, sizeof msg, fmt, ap);
  message_flatten(msg);
  fprintf(stderr, "dcpsim: %s%s\n", before, msg);
}

void log_note(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  log_line("", fmt, ap);
  va_end(ap);
}

void log_warn(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  log_line("warning: ", fmt, ap);
  va_end(ap);
}
