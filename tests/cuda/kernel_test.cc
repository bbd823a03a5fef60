// kernel_test.cc: see kernel_test.h.
#include "tests/cuda/kernel_test.h"

int kernel_test_failures;
enum kernel_test_extent kernel_test_extent = KERNEL_TEST_USUAL;

void kernel_test_begin(int argc, char **argv) {
  if (argc > 1)
    kernel_test_extent = strcmp(argv[1], "all") == 0 ? KERNEL_TEST_ALL : KERNEL_TEST_SHORT;
}

static int checks;

double random_value() {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) / (1ull << 52) - 1;
}

int random_int(int n) { return (int)((random_value() + 1) / 2 * n); }

std::vector<double> values_of(const tensor<uint16_t> &t) {
  std::vector<double> v(t.size());
  for (size_t i = 0; i < v.size(); i++)
    v[i] = float_of_bits((uint32_t)t[i] << 16);
  return v;
}

std::vector<double> values_of(const tensor<float> &t) { return std::vector<double>(t.data(), t.data() + t.size()); }

std::vector<double> random_bf16(const tensor<uint16_t> &t, double scale, double offset) {
  for (size_t i = 0; i < t.size(); i++)
    t[i] = (uint16_t)shim_bf16((float)(random_value() * scale + offset));
  return values_of(t);
}

std::vector<double> random_fp32(const tensor<float> &t, double scale, double offset) {
  for (size_t i = 0; i < t.size(); i++)
    t[i] = (float)(random_value() * scale + offset);
  return values_of(t);
}

static void fail(const char *name, const char *what) {
  printf("FAIL: %s: %s\n", name, what);
  kernel_test_failures++;
}

void expect_close(const char *name, const std::vector<double> &got, const std::vector<double> &want, double tolerance,
                  size_t group) {
  checks++;
  double total = 0, worst = 0;
  for (double x : want)
    total += isinf(x) ? 0 : x * x;
  double average2 = want.empty() ? 0 : total / (double)want.size();
  if (group == 0)
    group = want.size();
  for (size_t first = 0; first < want.size(); first += group) {
    double norm2 = 0, error2 = 0;
    size_t end = first + group < want.size() ? first + group : want.size();
    for (size_t i = first; i < end; i++) {
      if (isinf(want[i])) {
        error2 += got[i] == want[i] ? 0 : INFINITY;
        continue;
      }
      norm2 += want[i] * want[i];
      error2 += (got[i] - want[i]) * (got[i] - want[i]);
    }
    norm2 = fmax(norm2, average2 * (double)(end - first));
    double error = error2 == 0 ? 0 : sqrt(error2 / norm2);
    if (!(error <= worst))
      worst = error; // also when it is NaN
    if (!(error <= tolerance)) {
      char text[120];
      snprintf(text, sizeof text, "relative error %.3g > %.3g in elements %zu..%zu", error, tolerance, first, end - 1);
      return fail(name, text);
    }
  }
  if (getenv("KERNEL_TEST_VERBOSE"))
    printf("%-60s %.2e of %.0e\n", name, worst, tolerance);
}

static std::vector<char> run_once(const kernel_run &launch, const std::vector<output> &outputs, enum shim_order order,
                                  const char **error) {
  std::vector<char> bytes;
  for (const output &o : outputs)
    if (o.start)
      memcpy(o.data, o.start, o.bytes);
    else
      memset(o.data, o.zero ? 0 : 0xff, o.bytes);
  *error = launch(order);
  for (const output &o : outputs)
    bytes.insert(bytes.end(), (char *)o.data, (char *)o.data + o.bytes);
  return bytes;
}

void expect_same_in_all_orders(const char *name, const kernel_run &launch, const std::vector<output> &outputs) {
  checks++;
  std::vector<char> first;
  for (int order = SHIM_ORDERS - 1; order >= 0;
       order--) { // ascending last: its outputs are compared with the reference
    const char *error;
    long conflicts = shim_bank_conflicts;
    std::vector<char> bytes = run_once(launch, outputs, (enum shim_order)order, &error);
    if (error)
      return fail(name, error);
    if (shim_bank_conflicts != conflicts)
      return fail(name, "bank conflicts in ldmatrix");
    if (order == SHIM_ORDERS - 1)
      first = bytes;
    else if (bytes != first)
      return fail(name, "results differ between thread orders");
  }
}

static bool noticed(const kernel_run &launch, const std::vector<output> &outputs, const std::vector<char> &good) {
  const char *error = nullptr;
  checks++;
  for (int order = 0; order < SHIM_ORDERS; order++)
    if (run_once(launch, outputs, (enum shim_order)order, &error) != good || error)
      return true;
  return false;
}

void expect_synchronisation_is_needed(const char *name, const kernel_run &launch, const std::vector<output> &outputs) {
  const char *error;
  shim_barriers_count = 0;
  shim_waits = 0;
  std::vector<char> good = run_once(launch, outputs, SHIM_ASCENDING, &error);
  if (error)
    return fail(name, error);
  for (int i = 0; i < shim_barriers_count; i++) {
    shim_barrier_dropped = i;
    bool found = noticed(launch, outputs, good);
    shim_barrier_dropped = -1;
    if (!found) {
      char text[200];
      snprintf(text, sizeof text, "nothing noticed that the barrier at %s:%d was dropped", shim_barriers[i].file,
               shim_barriers[i].line);
      fail(name, text);
    }
  }
  if (shim_waits > 0) {
    shim_wait_slack = 1;
    if (!noticed(launch, outputs, good))
      fail(name, "nothing noticed that copies were not waited for");
    shim_wait_slack = 0;
  }
  if (run_once(launch, outputs, SHIM_ASCENDING, &error) != good || error) // the next kernel may read them
    fail(name, "another result when run again");
}

int kernel_test_end() {
  printf("%d checks, %d failed\n", checks, kernel_test_failures);
  return kernel_test_failures ? 1 : checks ? 0 : 1;
}
