# packages.sh: the one place that knows which Debian or Ubuntu packages dcpsim needs. POSIX sh, to be sourced:
#   . tests/packages.sh; packages_install core test || exit 1
# Sets: core = build and run (plots included), test = what tests/run.sh needs besides. Looks for what is missing by use
# (commands, pkg-config), not by package name, so that other systems work too when they have it all.

has_command() { command -v "$1" >/dev/null 2>&1; }
has_library() { has_command pkg-config && pkg-config --exists "$1"; }
has_shared() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q "$1"; }
# Demanded where the package has this name, Debian 12; elsewhere tests/fuzz/run.sh does with less and says so.
has_fuzzer() { ! grep -qs '^VERSION_ID="12"' /etc/os-release || ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1; }
has_libc() { has_command gcc && printf '#include <stdio.h>\n' | gcc -E - >/dev/null 2>&1; }

packages_missing_core() {
  has_command gcc || printf ' gcc'
  has_libc || printf ' libc6-dev'
  has_command cmake || printf ' cmake'
  has_command ninja || has_command make || printf ' ninja-build'
  has_command pkg-config || printf ' pkg-config'
  has_library gsl || printf ' libgsl-dev'
  has_library jansson || printf ' libjansson-dev'
  has_library zlib || printf ' zlib1g-dev'
  has_library libzstd || printf ' libzstd-dev'
  has_shared 'libopenblas\.so\.0' || printf ' libopenblas0-pthread' # loaded at run time by the CPU device
  has_command gnuplot || printf ' gnuplot-nox'
}

packages_missing_test() {
  has_library criterion || printf ' libcriterion-dev'
  has_command g++ || printf ' g++' # CUDA kernels on the CPU
  has_command clang || printf ' clang'
  has_fuzzer || printf ' libclang-rt-14-dev'
  has_command clang-format || printf ' clang-format'
  has_command mpicc && has_command mpirun || printf ' libopenmpi-dev openmpi-bin' # sweeps and execution on ranks
  has_command python3 || printf ' python3'
}

packages_missing() {
  for set in "$@"; do
    "packages_missing_$set"
  done
}

# Installs what is missing of the named sets; silent when nothing is.
packages_install() {
  missing=$(packages_missing "$@")
  [ -n "$missing" ] || return 0
  if ! has_command apt-get; then
    echo "missing:$missing (Debian package names); no apt-get here, so install their equivalents and run this again" >&2
    return 1
  fi
  as_root=
  if [ "$(id -u)" != 0 ]; then
    if ! has_command sudo; then
      echo "missing:$missing; not root and no sudo: as root, run 'apt-get install$missing' and run this again" >&2
      return 1
    fi
    as_root=sudo
  fi
  echo "installing:$missing"
  log=$(mktemp)
  # $missing and $as_root are word lists
  # shellcheck disable=SC2086
  if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    echo "could not install:$missing (the lines above say why)" >&2
    return 1
  fi
  rm -f "$log"
  missing=$(packages_missing "$@")
  [ -z "$missing" ] || { echo "still missing after installing:$missing" >&2; return 1; }
}
