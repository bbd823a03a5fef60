/* CSV of num_frames,height,width: one video or image per row, as latent frames x positions of the nearest Open-Sora
 * size (video.h says how). */
#include "traces/csv.h"
#include "traces/generate.h"
#include "traces/video.h"

#define VIDEO_MAX_EDGE 100000u

static const char *const columns[3] = {"num_frames", "height", "width"};

static bool detect(const struct trace_peek *peek) {
  for (int i = 0; i < 3; i++)
    if (!csv_line_has(peek->line, peek->line_n, columns[i]))
      return false;
  return !peek->column;
}

static int add_row(struct trace_sink *sink, int64_t line, const struct csv_field *record, char separator,
                   const int *column, struct err *err) {
  uint32_t v[3];
  for (int i = 0; i < 3; i++) {
    struct csv_field f = {"", 0};
    csv_get(record, separator, column[i], &f);
    enum length_verdict verdict = length_parse(f.s, f.n, &v[i]);
    if (verdict == LENGTH_OK && i > 0 && v[i] > VIDEO_MAX_EDGE)
      return trace_sink_bad(sink, line, err, "'%s' must be at most %u pixels, got %u", columns[i], VIDEO_MAX_EDGE,
                            v[i]);
    if (verdict != LENGTH_OK)
      return trace_sink_bad(sink, line, err, "'%s' %s, got '%s'", columns[i], length_verdict_text(verdict),
                            excerpt_make(f.s, f.n).text);
  }
  struct video_size size = video_snap((struct video_size){v[0], v[1], v[2]});
  return trace_sink_add(sink, line, video_sample(size.frames, size.height, size.width), err);
}

static int read_video(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                      struct err *err) {
  struct csv_table table;
  struct csv_field record;
  int64_t line;
  int column[3], rc = -1;
  (void)options;
  sink->is_2d = true;
  if (csv_table_open(&table, src, sink, err))
    return -1;
  for (int i = 0; i < 3; i++) {
    column[i] = csv_find(&table, (const char *const[]){columns[i], NULL});
    if (column[i] < 0) {
      csv_no_column(&table, sink, src->line, columns[i], err);
      goto out;
    }
  }
  while ((rc = csv_record(src, &table, sink, &record, &line, err)) > 0)
    if (add_row(sink, line, &record, table.separator, column, err)) {
      rc = -1;
      goto out;
    }
out:
  csv_table_release(&table);
  return rc;
}

static int write_video(const struct trace *t, FILE *out, struct err *err) {
  struct video_size size;
  fprintf(out, "num_frames,height,width\n");
  for (int64_t i = 0; i < t->n; i++) {
    if (!video_size_of_sample(t->samples[i], &size))
      return err_set(err, "sample %lld: %u latent frames of %u positions is no Open-Sora size", (long long)i,
                     t->samples[i].a, t->samples[i].b);
    fprintf(out, "%lld,%lld,%lld\n", (long long)size.frames, (long long)size.height, (long long)size.width);
  }
  return 0;
}

const struct trace_format format_video_csv = {
    .name = "video_csv",
    .help = "CSV of num_frames,height,width: each row at the nearest Open-Sora bucket size (2D)",
    .detect = detect,
    .read = read_video,
    .write = write_video,
};
