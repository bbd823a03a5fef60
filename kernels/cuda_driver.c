#include "kernels/cuda_driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

void *cuda_library_load(const char *title, const char *const *names, const char *const *symbols, void **const *slots,
                        struct err *err) {
  void *library = NULL;
  for (int i = 0; names[i] && !library; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    err_set(err, "no %s: %s cannot be loaded", title, names[0]);
    return NULL;
  }
  for (int i = 0; symbols[i]; i++) {
    *slots[i] = dlsym(library, symbols[i]);
    if (!*slots[i]) {
      err_set(err, "this %s is too old: it has no %s", title, symbols[i]);
      dlclose(library);
      return NULL;
    }
  }
  return library;
}

static int load(struct cuda_driver *d, struct err *err) {
  static const char *const names[] = {"libcuda.so.1", NULL};
#define NAME(symbol, parameters) #symbol,
  static const char *const symbols[] = {CUDA_DRIVER_SYMBOLS(NAME) NULL};
#undef NAME
#define SLOT(symbol, parameters) (void **)&d->symbol, /* POSIX: data and function pointers look alike */
  void **const slots[] = {CUDA_DRIVER_SYMBOLS(SLOT) NULL};
#undef SLOT
  d->handle = cuda_library_load("NVIDIA driver", names, symbols, slots, err);
  if (!d->handle)
    return -1;
  int count = 0, rc = d->cuInit(0);
  if (rc == CUDA_NO_DEVICE)
    return err_set(err, "the NVIDIA driver finds no GPU");
  if (cuda_driver_check(d, rc, "cuInit", err) ||
      cuda_driver_check(d, d->cuDeviceGetCount(&count), "cuDeviceGetCount", err))
    return -1;
  return count > 0 ? 0 : err_set(err, "the NVIDIA driver finds no GPU");
}

const struct cuda_driver *cuda_driver_load(struct err *err) {
  static struct cuda_driver driver;
  static bool loaded;
  if (!loaded && load(&driver, err)) {
    if (driver.handle)
      dlclose(driver.handle);
    memset(&driver, 0, sizeof driver);
    return NULL;
  }
  loaded = true;
  return &driver;
}

int cuda_driver_check(const struct cuda_driver *driver, int result, const char *symbol, struct err *err) {
  const char *name = NULL, *text = NULL;
  if (result == 0)
    return 0;
  driver->cuGetErrorName(result, &name);
  driver->cuGetErrorString(result, &text);
  return err_set(err, "%s: %s (%s)", symbol, text ? text : "unknown failure", name ? name : "no name");
}
