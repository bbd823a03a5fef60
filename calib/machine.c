#include "calib/machine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "sim/base/units.h"

enum { MIB = 1 << 20 };

/* The first line that `command` prints, or what a file's first line with `key` says after its colon. */
static void first_line(FILE *in, const char *key, char *out, size_t size) {
  char line[512];
  snprintf(out, size, "unknown");
  while (in && fgets(line, sizeof line, in)) {
    line[strcspn(line, "\r\n")] = '\0';
    const char *colon = strchr(line, ':');
    if (!*line || (key && (strncmp(line, key, strlen(key)) != 0 || !colon)))
      continue;
    snprintf(out, size, "%s", key ? colon + 1 + strspn(colon + 1, " ") : line);
    return;
  }
}

static void of_command(const char *command, char *out, size_t size) {
  FILE *in = popen(command, "r");
  first_line(in, NULL, out, size);
  if (in && pclose(in) != 0)
    snprintf(out, size, "unknown");
}

static void of_cpuinfo(const char *key, char *out, size_t size) {
  FILE *in = fopen("/proc/cpuinfo", "r");
  first_line(in, key, out, size);
  if (in)
    fclose(in);
}

/* Version number that a library gives, or 0. It stays loaded, as where it is used: the first product may be yet to
 * come. */
static long version_of(const char *const *names, const char *symbol, bool by_pointer) {
  for (; *names; names++) {
    void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, symbol) : NULL;
    int version = 0;
    long found = 0;
    if (address && by_pointer) {
      int (*get)(int *);
      memcpy(&get, &address, sizeof get);
      found = get(&version) == 0 ? version : 0;
    } else if (address) {
      size_t (*get)(void);
      memcpy(&get, &address, sizeof get);
      found = (long)get();
    }
    if (found)
      return found;
  }
  return 0;
}

static void describe_cpu(struct machine *m, const struct device *device, const struct communicator *world) {
  char name[96], mhz[32], blas[96] = "";
  struct utsname os;
  of_cpuinfo("model name", name, sizeof name);
  of_cpuinfo("cpu MHz", mhz, sizeof mhz);
  snprintf(m->device, sizeof m->device, "%s, %ld threads", name, sysconf(_SC_NPROCESSORS_ONLN));
  snprintf(m->driver, sizeof m->driver, "%s", uname(&os) == 0 ? os.release : "unknown");
  snprintf(m->clocks, sizeof m->clocks, "%s MHz", mhz);
  const char *open = strchr(device->name, '(');
  if (open)
    snprintf(blas, sizeof blas, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
  snprintf(m->library, sizeof m->library, "%s", world ? "MPI" : blas);
}

static void describe_cuda(struct machine *m, const struct device *device, const struct communicator *world) {
  static const char *const blas[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL},
                           *const nccl[] = {"libnccl.so.2", NULL};
  char command[160];
  snprintf(m->device, sizeof m->device, "%s", device->name);
  of_command("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null", m->driver, sizeof m->driver);
  snprintf(command, sizeof command,
           "nvidia-smi -i %d --query-gpu=clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv,noheader "
           "2>/dev/null",
           device->index);
  of_command(command, m->clocks, sizeof m->clocks);
  for (char *s = m->clocks; *s; s++)
    if (*s == ',')
      *s = ';'; /* one field */
  if (world)
    snprintf(m->library, sizeof m->library, "NCCL %ld", version_of(nccl, "ncclGetVersion", true));
  else
    snprintf(m->library, sizeof m->library, "cuBLASLt %ld; kernels of dcpsim " DCPSIM_VERSION "%s%s",
             version_of(blas, "cublasLtGetVersion", false), device->choice ? "; " : "",
             device->choice ? device->choice : "");
}

void machine_describe(struct machine *m, const struct device *device, const struct communicator *world) {
  if (device->kind->element == ELEMENT_BF16)
    describe_cuda(m, device, world);
  else
    describe_cpu(m, device, world);
}

/* An H100 has 50 MiB, an H200 60. A CPU's last cache may be shared by many machines, and takes long to
 * overwrite: no more than 8 MiB of it. */
size_t machine_cache_bytes(const struct device *device) {
  if (device->kind->element == ELEMENT_BF16)
    return (size_t)64 * MIB;
  const long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return (size_t)int64_min(int64_max(last, 4 * MIB), 8 * MIB);
}
