/* video.h: the sizes of Open-Sora v1.2 video buckets, and where a clip of another size goes. Exact sizes to latent
 * frames and positions: video_sample() in generate.h. */
#ifndef TRACES_VIDEO_H
#define TRACES_VIDEO_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/sample.h"

enum { VIDEO_RESOLUTIONS = 5, VIDEO_LENGTHS = 5 };

struct video_resolution {
  const char *name;
  int64_t height, width;
};

extern const struct video_resolution video_resolutions[VIDEO_RESOLUTIONS]; /* 144p .. 720p, ascending */
extern const int64_t video_lengths[VIDEO_LENGTHS];                         /* frames: 1, 51, 102, 204, 408 */

struct video_size {
  int64_t frames, height, width;
};

/* The table size a clip is trained at, by Open-Sora's own rule, so that there are 25 shapes at most:
 * - resolution: the highest of the table whose pixels times 0.8 the clip has (portrait as landscape); a clip smaller
 *   than that of the lowest goes to the lowest;
 * - frames: the largest table length the clip holds (it is cut to it); below 51 frames one image is taken.
 * A size of the table is returned as it is. */
struct video_size video_snap(struct video_size clip);

/* The table size that has these latent frames and positions; false if none. */
bool video_size_of_sample(struct sample s, struct video_size *out);

#endif
