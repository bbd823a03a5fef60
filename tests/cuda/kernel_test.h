/* kernel_test.h: what the tests of kernels on the shim share: random inputs, poisoned outputs, comparison with a double
 * reference, three thread orders, and dropped barriers. */
#ifndef TESTS_KERNEL_TEST_H
#define TESTS_KERNEL_TEST_H
#include <stdio.h>
#include <stdlib.h>

#include <functional>
#include <vector>

extern int kernel_test_failures;

/* How much: "short", for sanitizers; without an argument; "all": every combination. */
enum kernel_test_extent { KERNEL_TEST_SHORT, KERNEL_TEST_USUAL, KERNEL_TEST_ALL };
extern enum kernel_test_extent kernel_test_extent;
void kernel_test_begin(int argc, char **argv);

/* Uniform in [-1, 1), from one stream for the whole program. */
double random_value();
int random_int(int n);

/* A device tensor. Poisoned tensors are NaN (or -1) throughout; what lies beside one is watched: by AddressSanitizer,
 * or else by guard bytes that must not change. */
template <class T> class tensor {
public:
  explicit tensor(size_t count);
  ~tensor();
  tensor(const tensor &) = delete;
  T *data() const { return values; }
  size_t size() const { return count; }
  T &operator[](size_t i) const { return values[i]; }
  void poison() { memset((void *)values, 0xff, count * sizeof(T)); }
  std::vector<T> copy() const { return std::vector<T>(values, values + count); }

private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr size_t GUARD = 0;
#else
  static constexpr size_t GUARD = 64;
#endif
  size_t count;
  char *raw;
  T *values;
};

template <class T> tensor<T>::tensor(size_t n) : count(n) {
  size_t bytes = n * sizeof(T);
  if (posix_memalign((void **)&raw, 64, bytes + 2 * GUARD + !bytes) != 0)
    abort();
  memset(raw, 0xa5, bytes + 2 * GUARD);
  values = (T *)(raw + GUARD);
  poison();
}

template <class T> tensor<T>::~tensor() {
  for (size_t i = 0; i < GUARD; i++)
    if ((unsigned char)raw[i] != 0xa5 || (unsigned char)raw[GUARD + count * sizeof(T) + i] != 0xa5) {
      printf("FAIL: a kernel wrote outside a tensor of %zu elements\n", count);
      kernel_test_failures++;
      break;
    }
  free(raw);
}

/* Random bf16 in [-scale, scale), and the values that were stored. */
std::vector<double> random_bf16(const tensor<uint16_t> &t, double scale, double offset = 0);
std::vector<double> random_fp32(const tensor<float> &t, double scale, double offset = 0);
std::vector<double> values_of(const tensor<uint16_t> &t);
std::vector<double> values_of(const tensor<float> &t);

/* Fails, with the name, unless ||got - want|| <= tolerance ||want|| within each of the groups of `group` consecutive
 * elements (0: all in one). A group whose `want` is small counts as an average one: what rounds are the terms
 * of a sum, however small it is. Infinite values
 * must be equal. NaN never passes. */
void expect_close(const char *name, const std::vector<double> &got, const std::vector<double> &want, double tolerance,
                  size_t group = 0);

/* An output of a kernel as bytes, for poison and comparison between runs. */
struct output {
  void *data;
  size_t bytes;
  bool zero;         /* starts as zeros rather than NaN: the kernel adds to it */
  const void *start; /* starts as these bytes: the kernel updates it in place */
};
template <class T> static output output_of(const tensor<T> &t) {
  return {t.data(), t.size() * sizeof(T), false, nullptr};
}
template <class T> static output sum_of(const tensor<T> &t) { return {t.data(), t.size() * sizeof(T), true, nullptr}; }
template <class T> static output update_of(const tensor<T> &t, const std::vector<T> &start) {
  return {t.data(), t.size() * sizeof(T), false, start.data()};
}

/* Runs `launch` in the three orders: each must succeed and leave the same bytes in the outputs. */
using kernel_run = std::function<const char *(enum shim_order)>;
void expect_same_in_all_orders(const char *name, const kernel_run &launch, const std::vector<output> &outputs);

/* Drops each barrier that `launch` meets, one at a time, and then lets all waits for copies end one group too early:
 * each time some order must fail or change the outputs. Leaves right outputs behind. */
void expect_synchronisation_is_needed(const char *name, const kernel_run &launch, const std::vector<output> &outputs);

/* Prints the sum; the exit status of the program. */
int kernel_test_end();

#endif
