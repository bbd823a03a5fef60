// test_shim.cc: mistakes planted in small kernels, each of which the shim must report.
#include "kernels/tile.cuh"
#include "tests/cuda/kernel_test.h"

struct shim_args {
  float *out;
  const float *in;
  int mistake;
};

enum { THREADS = 64 };

static struct kernel_launch one_block(unsigned shared_bytes) { return {"planted", {1, 1, 1}, THREADS, shared_bytes}; }

// Each thread reads what its neighbour in the block wrote. Mistake 1: without a barrier.
static void neighbours(struct shim_args a) {
  float *row = (float *)shared_memory();
  row[threadIdx.x] = a.in[threadIdx.x];
  if (!a.mistake)
    __syncthreads();
  a.out[threadIdx.x] = row[(threadIdx.x + 1) % THREADS];
}

// Mistakes: 1: half of the block meets at the barrier and the others leave; 2: at another barrier.
static void barriers(struct shim_args a) {
  if (a.mistake == 0 || threadIdx.x < 32)
    __syncthreads();
  else if (a.mistake == 2)
    __syncthreads();
  a.out[threadIdx.x] = 1;
}

// Mistake 1: the halves of a warp shuffle at different lines.
static void shuffles(struct shim_args a) {
  if (a.mistake == 0 || threadIdx.x % 32 < 16)
    a.out[threadIdx.x] = shuffle_xor(a.in[threadIdx.x], 1);
  else
    a.out[threadIdx.x] = shuffle_xor(a.in[threadIdx.x], 1);
}

// Two groups of copies. Mistake 1: no wait; 2: waits for the first group only; 3: reads the first before its wait.
static void copies(struct shim_args a) {
  float *row = (float *)shared_memory();
  for (int i = 0; i < 2; i++) {
    cp_async_4(shared_address_of(row + threadIdx.x + THREADS * i), a.in + threadIdx.x, true);
    cp_async_commit();
  }
  float early = row[threadIdx.x];
  if (a.mistake == 2)
    cp_async_wait<1>();
  else if (a.mistake != 1)
    cp_async_wait<0>();
  a.out[threadIdx.x] = a.mistake == 3 ? early : row[threadIdx.x + THREADS];
}

// Reads an 8 x 8 matrix whose rows are 128 bytes apart. Mistake 1: all rows start in the same banks.
static void banks(struct shim_args a) {
  int row = threadIdx.x % 32, bytes = a.mistake ? row * 128 : tile_offset<64>(row, 0);
  uint32_t r[4];
  ldmatrix(r, shared_address_of(shared_memory() + bytes));
  a.out[threadIdx.x] = (float)(r[0] & 1);
}

// Mistake 1: one float beyond the shared memory of the launch.
static void overrun(struct shim_args a) {
  float *row = (float *)shared_memory();
  row[threadIdx.x + (a.mistake ? 1 : 0)] = a.in[threadIdx.x];
  a.out[threadIdx.x] = row[threadIdx.x];
}

static tensor<float> *out, *in;

// Whether every order succeeds and gives the same finite numbers.
static bool passes(void (*kernel)(struct shim_args), int mistake) {
  std::vector<float> first;
  long conflicts = shim_bank_conflicts;
  for (int order = 0; order < SHIM_ORDERS; order++) {
    out->poison();
    const struct shim_args a = {out->data(), in->data(), mistake};
    const char *error = shim_launch(kernel,
                                    one_block(sizeof(float) * (kernel == banks    ? 32 * 32
                                                               : kernel == copies ? 128
                                                                                  : 64)),
                                    a, (enum shim_order)order);
    if (error)
      printf("  reported: %s\n", error);
    if (error || shim_bank_conflicts != conflicts)
      return false;
    for (size_t i = 0; i < out->size(); i++)
      if (!((*out)[i] == (*out)[i]))
        return false;
    if (order == 0)
      first = out->copy();
    else if (first != out->copy())
      return false;
  }
  return true;
}

static void expect(const char *name, void (*kernel)(struct shim_args), int mistakes) {
  for (int mistake = 0; mistake <= mistakes; mistake++)
    if (passes(kernel, mistake) != (mistake == 0)) {
      printf("FAIL: %s, mistake %d: %s\n", name, mistake, mistake ? "not found" : "found where there is none");
      kernel_test_failures++;
    }
}

int main(int argc, char **) {
  tensor<float> results(THREADS), values(THREADS);
  std::vector<double> v = random_fp32(values, 1);
  out = &results;
  in = &values;
  if (argc > 1) {
    passes(overrun, 1); // AddressSanitizer must end the program here
    return 0;
  }
  expect("neighbours", neighbours, 1);
  expect("barriers", barriers, 2);
  expect("shuffles", shuffles, 1);
  expect("copies", copies, 3);
  expect("banks", banks, 1);
  expect("overrun", overrun, 0);
  expect_close("a shuffle", values_of(results), v, 0);
  const struct shim_args a = {out->data(), in->data(), 0};
  shim_launch(neighbours, one_block(256), a, SHIM_RANDOM);
  std::vector<double> next(v.begin() + 1, v.end());
  next.push_back(v[0]);
  expect_close("neighbours", values_of(results), next, 0);
  return kernel_test_end();
}
