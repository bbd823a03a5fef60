#!/bin/sh
# run.sh: what a user of an installed dcpsim finds: the program and its data, libdcpsim, the examples, man pages, shell
# completion, the Debian package. Installs $BUILD (build/release) into empty folders, and works from an empty folder.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
build=${BUILD:-$root/build/release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
prefix=$work/prefix
unset DCPSIM_SHARE

fail() {
  echo "FAILED: $*"
  failed=1
}

cmake --build "$build" --target dcpsim dcpsim_shared >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
mkdir "$work/empty"
cd "$work/empty" || exit 1

# ---- The program ----

# works PROGRAM NAME: it runs the main job from anywhere, with the data of its own prefix and no environment.
works() {
  env -i "$1" simulate --trace sharegpt --model llama2-7b --cluster h200_8x1 --policy bucket,dcp --steps 2 \
    --schedule "$work/$2_{policy}.jsonl" >"$work/$2.txt" 2>"$work/$2.err" || fail "$2: $(cat "$work/$2.err")"
  grep -q '^dcp ' "$work/$2.txt" || fail "$2: no table"
  env -i "$1" check "$work/$2_dcp.jsonl" >"$work/$2.check" || fail "$2: $(cat "$work/$2.check")"
}
works "$prefix/bin/dcpsim" installed
sed 's/"name": "llama2-7b"/"name": "mine"/' "$prefix/share/dcpsim/models/presets/llama2-7b.json" \
  >"$prefix/share/dcpsim/models/presets/mine.json"
env -i "$prefix/bin/dcpsim" list models | grep -q '^mine ' || fail 'the installed models are not those of the prefix'
mv "$prefix" "$work/moved" && env -i "$work/moved/bin/dcpsim" list models | grep -q '^mine ' || fail 'moved: no data'
mv "$work/moved" "$prefix"

"$prefix/bin/dcpsim" --version >version || fail '--version'
for line in 'dcpsim [0-9]+\.[0-9]+\.[0-9]+' 'commit: ([0-9a-f]{12}(-dirty)?|unknown)' 'compiler: .+ [0-9.]+' \
  'build: (Release|Debug)' 'mpi: (none|[0-9.]+)' 'cuda: (none|sm_[0-9a-z]+)' 'sanitizers: (none|.+)'; do
  [ "$(grep -Ecx "$line" version)" -eq 1 ] || fail "--version: no line '$line'"
done
[ "$(wc -l <version)" -eq 7 ] || fail "--version: $(cat version)"

# ---- The library ----

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
needed=$(ldd "$prefix/lib/libdcpsim.so") || fail 'ldd'
if printf '%s' "$needed" | grep -Eiq 'mpi|cuda|nccl|not found'; then
  fail "libdcpsim needs: $needed"
fi
nm -D --defined-only "$prefix/lib/libdcpsim.so" | awk '$3 !~ /^dcpsim_/ { print $3; bad = 1 } END { exit bad }' ||
  fail 'libdcpsim exports more than its API'

# compiled NAME SOURCE: against the installed header and library alone, as strictly as a caller may ask.
compiled() {
  # shellcheck disable=SC2046
  ${CC:-cc} -std=c99 -pedantic -Wall -Wextra -Werror "$2" -o "$1" $(pkg-config --cflags --libs dcpsim) \
    -Wl,-rpath,"$prefix/lib" || fail "$1 does not compile"
}
compiled train "$root/examples/train.c"
compiled lines_from_lengths "$root/tests/install/lines_from_lengths.c"
if command -v c++ >/dev/null 2>&1; then
  printf '#include <dcpsim.h>\nint main() { return dcpsim_api() != DCPSIM_API; }\n' >cpp.cc
  # shellcheck disable=SC2046
  c++ -Wall -Wextra -Werror cpp.cc -o cpp $(pkg-config --cflags --libs dcpsim) -Wl,-rpath,"$prefix/lib" && ./cpp ||
    fail 'the header in C++'
fi
env -i ./train "$work/installed_dcp.jsonl" 3 >train.txt || fail 'train'
grep -q '^  ranks 3 to 3: padded batch of' train.txt || fail "train prints $(head -n 3 train.txt)"
if ./train /none/such 0 2>err >out || [ -s out ] || ! grep -q "cannot open schedule '/none/such'" err; then
  fail 'train without a schedule'
fi

# same FIELDS OPTIONS...: the library's lines are the program's, to the byte.
same() {
  printf '{"schema": "dcpsim.experiment/1", "trace": "lengths.txt", "cluster": "h200_8x1", %s}\n' "$1" >experiment.json
  shift
  "$prefix/bin/dcpsim" simulate experiment.json --schedule expected.jsonl >/dev/null 2>err || fail "$(cat err)"
  env -i ./lines_from_lengths experiment.json <lengths.txt >lines.jsonl || fail "lines of $(cat experiment.json)"
  cmp expected.jsonl lines.jsonl || fail "other lines: $(cat experiment.json)"
}
"$prefix/bin/dcpsim" trace generate lognormal:mean=3000,sigma=1.2,max=90000 -n 600 -o lengths.txt
# All but `given`, which runs the batches of a trace: lengths have none.
for policy in $("$prefix/bin/dcpsim" list policies | awk '$1 != "given" { print $1 }'); do
  same "\"model\": \"llama2-7b\", \"policy\": \"$policy\", \"max_length\": 60000"
done
same '"model": "tiny-1d", "policy": "dcp_rebalance", "max_length": 8000, "overlong": "split", "drop_last": true,
  "tokens_per_step": 400000, "seed": 7'

# ---- Python ----

python3 "$root/examples/train.py" "$work/installed_dcp.jsonl" 3 >train_py.txt || fail 'train.py'
[ "$(grep -c '^  ranks' train.txt)" -eq "$(grep -c '^  ranks' train_py.txt)" ] || fail 'C and Python see other steps'
LD_LIBRARY_PATH="$prefix/lib" python3 "$root/examples/plan.py" >plan.txt || fail 'plan.py'
grep -q '^step 0: ranks 0 to' plan.txt || fail "plan.py prints $(head -n 3 plan.txt)"
sed '1s,dcpsim.schedule/1,dcpsim.schedule/2,' "$work/installed_dcp.jsonl" >next.jsonl
for reader in "python3 $root/examples/train.py next.jsonl 0" './train next.jsonl 0' \
  "$prefix/bin/dcpsim check next.jsonl"; do
  if $reader >out 2>err || [ -s out ] || ! grep -q 'dcpsim.schedule/2' err; then
    fail "a schedule of another version: $reader"
  fi
done

# ---- Man pages and completion ----

for page in dcpsim $("$prefix/bin/dcpsim" --help | sed -n 's/^  \([a-z][a-z_-]*\)  *[a-z].*/dcpsim-\1/p'); do
  [ -s "$prefix/share/man/man1/$page.1" ] || fail "no page $page"
done
[ "$(find "$prefix/share/man/man1" -name 'dcpsim-*' | wc -l)" -ge 9 ] || fail 'man pages are missing'
if command -v man >/dev/null 2>&1; then
  MANWIDTH=130 man --warnings -l "$prefix/share/man/man1/dcpsim-simulate.1" >page.txt 2>err || fail man
  [ -s err ] && fail "man: $(head -n 3 err)"
  grep -q -e '--tokens-per-step N   real tokens' page.txt || fail 'the page lacks what the help says'
fi

# completes EXPECTED WORDS...: the last word, as typed so far, becomes one of EXPECTED.
completes() {
  expected=$1
  shift
  found=$(PATH="$prefix/bin:$PATH" bash -c 'source "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _dcpsim &&
    echo "${COMPREPLY[*]}"' "$prefix/share/bash-completion/completions/dcpsim" "$@")
  [ "$found" = "$expected" ] || fail "completion of '$*': '$found', not '$expected'"
}
completes simulate dcpsim sim
completes '--tokens-per-step' dcpsim simulate --tok
completes wikipedia dcpsim simulate --trace wiki
completes wikipedia dcpsim simulate --trace = wiki
completes bucket,packed dcpsim simulate --policy bucket,pa
completes 'drop truncate split' dcpsim simulate --overlong ''
completes 'convert generate info' dcpsim trace ''
completes --column dcpsim trace info --col
completes 'csv nccl-tests' dcpsim calibrate import ''
completes lengths.txt dcpsim trace info len
completes step_times dcpsim plot step
completes models dcpsim list mo

# ---- The Debian package ----

if command -v dpkg-deb >/dev/null 2>&1; then
  cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/cpack" >log 2>&1 || { cat log; fail cpack; }
  dpkg-deb -x "$work"/cpack/*.deb "$work/deb" || fail 'dpkg-deb -x'
  works "$work/deb/usr/bin/dcpsim" deb
  cmp "$work/deb_dcp.jsonl" "$work/installed_dcp.jsonl" || fail 'the package plans otherwise'
  LD_LIBRARY_PATH="$work/deb/usr/lib" python3 "$work/deb/usr/share/doc/dcpsim/examples/plan.py" | cmp - plan.txt ||
    fail 'plan.py of the package'
  depends=$(dpkg-deb -f "$work"/cpack/*.deb Depends)
  if command -v dpkg-shlibdeps >/dev/null 2>&1 && ! printf '%s' "$depends" | grep -q libjansson; then
    fail "the package depends on: $depends"
  fi
fi
exit "$failed"
