#!/bin/sh
# Installs what is missing, builds, and runs the program.
set -eu
cd "$(dirname "$0")/../.."
. tests/packages.sh
packages_install core

if command -v ninja >/dev/null 2>&1; then
  export CMAKE_GENERATOR=Ninja
fi
echo "building build/release/dcpsim"
mkdir -p build
if ! { cmake --preset release -DDCPSIM_WERROR=OFF -DBUILD_TESTING=OFF &&
  cmake --build --preset release -j "$(nproc)"; } >build/quickstart.log 2>&1; then
  tail -n 20 build/quickstart.log >&2
  echo "the build failed; all of it is in build/quickstart.log" >&2
  exit 1
fi
build/release/dcpsim --version
