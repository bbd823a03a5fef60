# common.sh: how scripts of cli/ and invalid/ begin; sourced in the root folder. Sets dcpsim (the program's path), work (a
# folder that goes with the script) and failed (0).
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
dcpsim=$(cd "$(dirname "$dcpsim")" && pwd)/$(basename "$dcpsim")
work=$(mktemp -d) && said=$(mktemp -d) || exit 1
trap 'rm -rf "$work" "$said"' EXIT
failed=0 # read by the scripts

fail() {
  echo "$*"
  failed=1
}

# refuse STATUS WORD COMMAND ARGUMENTS...: this exit status, the word (a pattern of grep) in a one-line message on stderr,
# nothing on stdout, no file of this folder left or changed.
refuse() {
  status=$1
  word=$2
  shift 2
  before=$(ls -A; cksum ./* 2>/dev/null)
  "$dcpsim" "$@" >"$said/out" 2>"$said/err" </dev/null
  got=$?
  if [ "$got" -ne "$status" ] || [ -s "$said/out" ] || [ "$(wc -l <"$said/err")" -ne 1 ] ||
    ! grep -q "^dcpsim: .*$word" "$said/err"; then
    fail "$*: exit $got (wanted $status), stdout $(wc -c <"$said/out") bytes, stderr without '$word':"
    head -n 3 "$said/err"
  fi
  [ "$before" = "$(ls -A; cksum ./* 2>/dev/null)" ] || fail "$*: a file was left or changed: $(ls -A)"
}
