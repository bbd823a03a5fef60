#include "traces/video.h"

#include "sim/base/units.h"
#include "traces/generate.h"

const struct video_resolution video_resolutions[VIDEO_RESOLUTIONS] = {
    {"144p", 144, 256}, {"240p", 240, 426}, {"360p", 360, 640}, {"480p", 480, 854}, {"720p", 720, 1280},
};
const int64_t video_lengths[VIDEO_LENGTHS] = {1, 51, 102, 204, 408};

/* The VAE keeps 5 latent frames of 17 (an image keeps its one) and one latent element of 8x8 pixels; the transformer
 * takes patches of 1x2x2 latent elements, an odd edge being padded. */
struct sample video_sample(int64_t frames, int64_t height, int64_t width) {
  int64_t latent_frames = int64_max(1, frames * 5 / 17);
  int64_t positions = ceil_div(height / 8, 2) * ceil_div(width / 8, 2);
  return (struct sample){(uint32_t)latent_frames, (uint32_t)int64_max(1, positions)};
}

struct video_size video_snap(struct video_size clip) {
  int r = VIDEO_RESOLUTIONS - 1, f = VIDEO_LENGTHS - 1;
  int64_t pixels = clip.height * clip.width;
  while (r > 0 && 10 * pixels < 8 * video_resolutions[r].height * video_resolutions[r].width)
    r--;
  while (f > 0 && clip.frames < video_lengths[f])
    f--;
  return (struct video_size){video_lengths[f], video_resolutions[r].height, video_resolutions[r].width};
}

bool video_size_of_sample(struct sample s, struct video_size *out) {
  for (int r = 0; r < VIDEO_RESOLUTIONS; r++)
    for (int f = 0; f < VIDEO_LENGTHS; f++) {
      struct video_size size = {video_lengths[f], video_resolutions[r].height, video_resolutions[r].width};
      struct sample have = video_sample(size.frames, size.height, size.width);
      if (have.a == s.a && have.b == s.b) {
        *out = size;
        return true;
      }
    }
  return false;
}
