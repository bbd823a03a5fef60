# common.sh: how an experiment begins and ends. POSIX sh, to be sourced in the root folder by a script in experiments/NAME:
#   . experiments/common.sh; experiment_begin NAME "$@"; ...; experiment_end
# Options it takes: --short (a subset of the rows in a fraction of the time, in out/short), --docs (results.csv and the
# fenced tables of README.md are replaced by today's), --continue (keeps what an interrupted run had finished).

# Sets here, out, short, docs and dcpsim: the program $DCPSIM if that is set, else the release, built first. Paths of out and
# dcpsim are absolute.
experiment_begin() {
  name=$1
  shift
  short=no
  docs=no
  keep=no
  for option in "$@"; do
    case $option in
    --short) short=yes ;;
    --docs) docs=yes ;;
    --continue) keep=yes ;;
    *)
      echo "usage: sh $0 [--short] [--docs] [--continue]" >&2
      exit 2
      ;;
    esac
  done
  if [ $short = yes ] && [ $docs = yes ]; then
    echo "$0: --docs needs all rows, --short has few" >&2
    exit 2
  fi
  export LC_ALL=C
  here=experiments/$name
  out=$PWD/$here/out
  [ $short = no ] || out=$out/short
  if [ -z "${DCPSIM-}" ]; then
    . tests/packages.sh
    packages_install core
    if command -v ninja >/dev/null 2>&1; then
      export CMAKE_GENERATOR=Ninja
    fi
    mkdir -p build
    if ! { cmake --preset release -DDCPSIM_WERROR=OFF && cmake --build --preset release -j "$(nproc)" --target dcpsim; } \
      >"build/$name.log" 2>&1; then
      tail -n 20 "build/$name.log" >&2
      exit 1
    fi
    DCPSIM=build/release/dcpsim
  fi
  dcpsim=$(command -v "$DCPSIM") || {
    echo "$0: no program '$DCPSIM'" >&2
    exit 1
  }
  case $dcpsim in
  /*) ;;
  *) dcpsim=$PWD/$dcpsim ;;
  esac
  [ $keep = yes ] || rm -rf "$out"
  mkdir -p "$out"
  started=$(date +%s)
}

# In FILE a line "<!-- NAME.txt -->" is followed by a fenced block: it is replaced by that file of the output folder.
experiment_tables() {
  awk -v out="$out" '/^<!-- [a-z0-9_]+\.txt -->$/ { print; print "```"; file = out "/" $2
      while ((getline line <file) > 0) print line
      close(file); print "```"; skip = 1; next }
    skip && /^```$/ { fences++; if (fences == 2) { skip = 0; fences = 0 } next }
    skip { next }
    { print }' "$1" >"$out/document.md"
  cat "$out/document.md" >"$1"
  rm "$out/document.md"
}

# Says where everything is; with --docs renews the committed results and tables.
experiment_end() {
  if [ $docs = yes ]; then
    cp "$out/results.csv" "$here/results.csv"
    experiment_tables "$here/README.md"
  fi
  echo
  echo "$name: $(($(date +%s) - started)) s; results, tables and plots are in ${out#"$PWD"/}"
}
