#!/bin/sh
# trace.sh: exit codes, messages and empty stdout of `dcpsim trace` for wrong usage and bad files; good pipes.
. tests/common.sh
cd "$work" || exit 1

# same WANTED COMMAND...: the shell command prints this.
same() {
  wanted=$1
  shift
  got=$(eval "$*" 2>&1)
  if [ "$got" != "$wanted" ]; then
    fail "$*: '$got' instead of '$wanted'"
  fi
}

refuse 2 'info, convert or generate' trace
refuse 2 "no command 'nope'" trace nope
refuse 2 'expected one FILE, got 0' trace info
refuse 2 'expected one FILE, got 2' trace info a b
refuse 2 "'--nope'" trace info --nope wikipedia
refuse 2 'a value is missing' trace info wikipedia --column
refuse 2 'xml' trace info wikipedia --format xml
refuse 2 'no such file.*wikipedia, prolong' trace info nosuch
refuse 2 'from 1' trace info wikipedia --samples 0
refuse 2 'from 0' trace info wikipedia --seed -1
refuse 2 "'x'" trace info wikipedia --seed x
refuse 2 'no option --to' trace info wikipedia --to csv
refuse 2 '-o OUT is missing' trace convert wikipedia
refuse 2 'no option -n' trace convert wikipedia -n 5 -o "$work/x"
refuse 2 'no option --json' trace convert wikipedia --json -o "$work/x"
refuse 2 'read only' trace convert prolong -o "$work/x" --to histogram
refuse 2 '1D' trace convert prolong -o "$work/x" --to video_csv
refuse 2 'uncompressed' trace convert prolong -o "$work/x.gz"
refuse 1 'No such file' trace convert prolong -o "$work/no/such/x.csv"
refuse 2 '-o OUT is missing' trace generate constant:length=5
refuse 2 "unknown generator 'nope'" trace generate nope:a=1 -o "$work/x"
refuse 2 'takes -n' trace generate constant:length=5 --column a -o "$work/x"
refuse 2 "'length' is missing" trace generate constant -o "$work/x"
refuse 1 'directory' trace info "$work"
printf '5\n0\n' >"$work/zero.txt"
refuse 1 "zero.txt' line 2: length must be positive" trace info "$work/zero.txt"
refuse 1 "zero.txt' line 2" trace convert "$work/zero.txt" -o "$work/half"
refuse 1 'empty' trace info -
if [ -e "$work/x" ] || [ -e "$work/half" ]; then
  fail "a refused command left a file"
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
