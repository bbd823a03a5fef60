#!/bin/sh
# trace.sh: exit codes, messages and empty stdout of `dcpsim trace` for wrong usage and bad files; good pipes.
set -u
dcpsim=${DCPSIM:-build/release/dcpsim}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refuse STATUS WORD ARGUMENTS...: this exit status, the word in a one-line message on stderr, nothing on stdout.
refuse() {
  status=$1
  word=$2
  shift 2
  "$dcpsim" trace "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  lines=$(wc -l <"$work/err")
  if [ "$got" -ne "$status" ] || [ -s "$work/out" ] || [ "$lines" -ne 1 ] || ! grep -q "^dcpsim: .*$word" "$work/err"; then
    echo "trace $*: exit $got (wanted $status), stdout $(wc -c <"$work/out") bytes, stderr without '$word':"
    cat "$work/err"
    failed=1
  fi
}

# same WANTED COMMAND...: the shell command prints this.
same() {
  wanted=$1
  shift
  got=$(eval "$*" 2>&1)
  if [ "$got" != "$wanted" ]; then
    echo "$*: '$got' instead of '$wanted'"
    failed=1
  fi
}

refuse 2 'info, convert or generate'
refuse 2 "no command 'nope'" nope
refuse 2 'expected one FILE, got 0' info
refuse 2 'expected one FILE, got 2' info a b
refuse 2 "'--nope'" info --nope wikipedia
refuse 2 'a value is missing' info wikipedia --column
refuse 2 'xml' info wikipedia --format xml
refuse 2 'no such file.*wikipedia, prolong' info nosuch
refuse 2 'from 1' info wikipedia --samples 0
refuse 2 'from 0' info wikipedia --seed -1
refuse 2 "'x'" info wikipedia --seed x
refuse 2 'no option --to' info wikipedia --to csv
refuse 2 '-o OUT is missing' convert wikipedia
refuse 2 'no option -n' convert wikipedia -n 5 -o "$work/x"
refuse 2 'no option --json' convert wikipedia --json -o "$work/x"
refuse 2 'read only' convert prolong -o "$work/x" --to histogram
refuse 2 '1D' convert prolong -o "$work/x" --to video_csv
refuse 2 'uncompressed' convert prolong -o "$work/x.gz"
refuse 1 'No such file' convert prolong -o "$work/no/such/x.csv"
refuse 2 '-o OUT is missing' generate constant:length=5
refuse 2 "unknown generator 'nope'" generate nope:a=1 -o "$work/x"
refuse 2 'takes -n' generate constant:length=5 --column a -o "$work/x"
refuse 2 "'length' is missing" generate constant -o "$work/x"
refuse 1 'directory' info "$work"
printf '5\n0\n' >"$work/zero.txt"
refuse 1 "zero.txt' line 2: length must be positive" info "$work/zero.txt"
refuse 1 "zero.txt' line 2" convert "$work/zero.txt" -o "$work/half"
refuse 1 'empty' info -
if [ -e "$work/x" ] || [ -e "$work/half" ]; then
  echo "a refused command left a file"
  failed=1
fi

same '5' "$dcpsim trace convert --skip-bad $work/zero.txt -o - 2>/dev/null"
same '[5, 7]' "printf '5\n7\n' | gzip | $dcpsim trace convert - -o - --to json"
same 'length 9' "printf 'x,n\n1,9\n' | $dcpsim trace convert --column n - -o - --to csv | tr '\n' ' ' | sed 's/ \$//'"
same 'dcpsim.trace/1' "$dcpsim trace info azure_code_2023 --json | sed -n 's/.*\"schema\": *\"\\(.*\\)\",/\\1/p'"
same '1' "$dcpsim trace info azure_code_2023 2>/dev/null >/dev/full; echo \$?"
for command in info convert generate; do
  same 'usage' "$dcpsim trace $command --help | head -n 1 | cut -d: -f1"
done
[ "$failed" -eq 0 ]
