/* squared_error.cu: see squared_error_launch.h. A warp per row: what a DiT predicts is narrow. Not run on hardware so
 * far. */
#include "kernels/squared_error_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) squared_error(const struct squared_error_args a) {
  const int lane = (int)threadIdx.x % 32;
  for (int64_t row = first_item() / 32; row < a.rows; row += item_step() / 32) {
    float sum = 0;
    for (int c = lane * 8; c < a.width; c += 32 * 8) {
      float x[8], target[8];
      load_8(x, a.x + row * a.width + c);
      load_8(target, a.target + row * a.width + c);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const float difference = x[i] - target[i];
        sum += difference * difference;
        x[i] = 2 * a.scale * difference;
      }
      store_8(a.dx + row * a.width + c, x);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
      sum += shuffle_xor(sum, mask);
    if (lane == 0)
      a.loss[row] = sum;
  }
}
