/* tile.cuh: bf16 tiles in shared memory and products of tiles on the tensor cores, one warp at a time.
 *
 * A tile is rows of COLUMNS bf16 without padding, in chunks of 16 bytes. ldmatrix reads one chunk of 8 consecutive rows
 * at once: where the chunks lie within their row depends on the row, so that the 8 fall into different banks. */
#ifndef KERNELS_TILE_CUH
#define KERNELS_TILE_CUH
#include "kernels/intrinsics.cuh"

/* Byte offset of a chunk: how the chunks of a row are reordered by its number. Banks are 8 groups of 16 bytes. A row of
 * a multiple of 64 columns begins in the same group as the one before: shift by the row. Rows of 16 or 80 columns move
 * on by 2 groups by themselves, so rows 4 to 7 only have to take the odd groups; rows of 32 or 96 move on by 4, so each
 * two rows take another of four. */
template <int COLUMNS> static __device__ __forceinline__ int tile_offset(int row, int chunk) {
  static_assert(COLUMNS % 32 == 0 || COLUMNS % 64 == 16, "no conflict-free order known for this row length");
  int order = COLUMNS % 64 == 0 ? row & 7 : COLUMNS % 64 == 32 ? (row >> 1) & 3 : (row >> 2) & 1;
  return (row * (COLUMNS / 8) + (chunk ^ order)) * 16;
}

/* Starts the copy of rows [row0, row0 + ROWS) of a matrix of `rows` rows of HEAD_DIM elements, `stride` elements apart.
 * What lies outside the matrix becomes zero. All THREADS of the block take part. */
template <int HEAD_DIM, int COLUMNS, int ROWS, int THREADS>
static __device__ __forceinline__ void tile_copy(shared_address tile, const uint16_t *matrix, int row0, int rows,
                                                 int64_t stride) {
  constexpr int CHUNKS = COLUMNS / 8;
#pragma unroll
  for (int n = 0; n < (ROWS * CHUNKS + THREADS - 1) / THREADS; n++) {
    int i = n * THREADS + (int)threadIdx.x, row = i / CHUNKS, chunk = i % CHUNKS;
    if (ROWS * CHUNKS % THREADS != 0 && i >= ROWS * CHUNKS)
      break;
    bool valid = row0 + row < rows && chunk * 8 < HEAD_DIM;
    cp_async_16(tile + tile_offset<COLUMNS>(row, chunk), valid ? matrix + (row0 + row) * stride + chunk * 8 : matrix,
                valid);
  }
}

/* acc (16 M x 8 N) += a (16 M x COLUMNS) b^T (8 N x COLUMNS): rows of two tiles, from row_a and from 0. */
template <int COLUMNS, int M, int N>
static __device__ __forceinline__ void tile_product_transposed(float (&acc)[M][N][4], shared_address a, int row_a,
                                                               shared_address b) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < COLUMNS / 16; k++) {
    uint32_t fa[M][4];
#pragma unroll
    for (int m = 0; m < M; m++)
      ldmatrix(fa[m], a + tile_offset<COLUMNS>(row_a + 16 * m + (lane & 15), 2 * k + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < N / 2; n++) {
      uint32_t fb[4];
      ldmatrix(fb, b + tile_offset<COLUMNS>(16 * n + (lane & 7) + (lane >> 4 << 3), 2 * k + ((lane >> 3) & 1)));
#pragma unroll
      for (int m = 0; m < M; m++) {
        mma_16x8x16(acc[m][2 * n], fa[m], fb[0], fb[1]);
        mma_16x8x16(acc[m][2 * n + 1], fa[m], fb[2], fb[3]);
      }
    }
  }
}

/* acc (16 M x COLUMNS) += p (16 M x 8 K) b (8 K x COLUMNS): p is the result of another product, rounded to bf16: what a
 * lane holds of two neighbouring results is what it must hold of a left factor. b: rows from 0 of a tile. */
template <int COLUMNS, int M, int K>
static __device__ __forceinline__ void tile_product(float (&acc)[M][COLUMNS / 8][4], const float (&p)[M][K][4],
                                                    shared_address b) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < K / 2; k++) {
    uint32_t fa[M][4];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        fa[m][i] = bf16_pack(p[m][2 * k + i / 2][i % 2 * 2], p[m][2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < COLUMNS / 16; n++) {
      uint32_t fb[4];
      ldmatrix_transposed(fb, b + tile_offset<COLUMNS>(16 * k + (lane & 15), 2 * n + (lane >> 4)));
#pragma unroll
      for (int m = 0; m < M; m++) {
        mma_16x8x16(acc[m][2 * n], fa[m], fb[0], fb[1]);
        mma_16x8x16(acc[m][2 * n + 1], fa[m], fb[2], fb[3]);
      }
    }
  }
}

template <int M, int N> static __device__ __forceinline__ void tile_zero(float (&acc)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        acc[m][n][i] = 0;
}

/* Writes 16 M rows of a warp, each times its factor, to rows row0 + row_tile... of a matrix (see tile_copy), through
 * rows row_tile... of a tile that nobody else uses any more, so that global memory is written 16 bytes at a time. */
template <int HEAD_DIM, int COLUMNS, int M>
static __device__ __forceinline__ void tile_store(const float (&acc)[M][COLUMNS / 8][4], const float (&factor)[M][2],
                                                  char *tile, int row_tile, uint16_t *matrix, int row0, int rows,
                                                  int64_t stride) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int row = row_tile + 16 * m + 8 * half + lane / 4;
        *(uint32_t *)(tile + tile_offset<COLUMNS>(row, n) + lane % 4 * 4) =
            bf16_pack(acc[m][n][2 * half] * factor[m][half], acc[m][n][2 * half + 1] * factor[m][half]);
      }
  __syncwarp();
  for (int i = lane; i < 16 * M * CHUNKS; i += 32) {
    int row = row_tile + i / CHUNKS, chunk = i % CHUNKS;
    if (row0 + row < rows)
      *(uint4 *)(matrix + (row0 + row) * stride + chunk * 8) =
          *(const uint4 *)(tile + tile_offset<COLUMNS>(row, chunk));
  }
}

#endif
