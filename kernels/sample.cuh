/* sample.cuh: what bias.cu, modulate.cu and gate.cu share: the loops over the rows of a sample. */
#ifndef KERNELS_SAMPLE_CUH
#define KERNELS_SAMPLE_CUH
#include "kernels/sample_launch.h"
#include "kernels/vector.cuh"

static __device__ __forceinline__ int64_t sample_first_row(const struct sample_args &a, unsigned sample) {
  return !a.cu_rows ? sample * a.rows : a.cu_rows[sample];
}

/* Calls each(where row and column c lie in a tensor, where c lies in the sample's vectors) for 8 columns at a time. */
template <class F> static __device__ __forceinline__ void sample_forward(const struct sample_args &a, F each) {
  const int64_t end = sample_first_row(a, blockIdx.y + 1);
  for (int64_t row = sample_first_row(a, blockIdx.y) + blockIdx.x; row < end; row += gridDim.x)
    for (int c = (int)threadIdx.x * 8; c < a.width; c += 256 * 8)
      each(row * a.width + c, blockIdx.y * a.stride + c);
}

/* The first of the lane's columns, of sample_backward. */
static __device__ __forceinline__ int sample_column() {
  return (int)blockIdx.x * SAMPLE_COLUMNS + (int)threadIdx.x % 32 * 8;
}

/* The sample's scale of the lane's columns; 0 beyond the width. */
static __device__ __forceinline__ void load_scale(float (&scale)[8], const struct sample_args &a) {
  const int c = sample_column();
  for (float &s : scale)
    s = 0;
  if (c < a.width)
    load_8(scale, a.scale + blockIdx.y * a.stride + c);
}

/* Sums over a part of the sample's rows. A block has SAMPLE_COLUMNS columns, a lane 8 of them; warps take every 8th
 * row. each(where row and column lie, sums of the lane's columns) adds to COUNT sums a column; partial: where each
 * goes. */
template <int COUNT, class F>
static __device__ __forceinline__ void sample_backward(const struct sample_args &a, float *const (&partial)[COUNT],
                                                       F each) {
  float *scratch = (float *)shared_memory();
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int first = (int)blockIdx.x * SAMPLE_COLUMNS, c = sample_column();
  const int64_t end = sample_first_row(a, blockIdx.y + 1);
  float sums[COUNT][8] = {};
  for (int64_t row = sample_first_row(a, blockIdx.y) + blockIdx.z * 8 + warp; row < end && c < a.width;
       row += (int64_t)gridDim.z * 8)
    each(row * a.width + c, sums);
#pragma unroll
  for (int n = 0; n < COUNT; n++) {
    float *to = scratch + (n * 8 + warp) * SAMPLE_COLUMNS + lane * 8;
    *(float4 *)to = float4{sums[n][0], sums[n][1], sums[n][2], sums[n][3]};
    *(float4 *)(to + 4) = float4{sums[n][4], sums[n][5], sums[n][6], sums[n][7]};
  }
  __syncthreads();
  const int column = first + (int)threadIdx.x;
  if (column >= a.width)
    return;
#pragma unroll
  for (int n = 0; n < COUNT; n++) {
    float sum = 0;
    for (int i = 0; i < 8; i++)
      sum += scratch[(n * 8 + i) * SAMPLE_COLUMNS + (int)threadIdx.x];
    partial[n][((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * a.width + column] = sum;
  }
}

#endif
