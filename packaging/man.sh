#!/bin/sh
# man.sh PROGRAM FOLDER: writes dcpsim.1 and dcpsim-COMMAND.1 for every command that the program names, from its help.
set -eu
program=$1
folder=$2
version=$("$program" --version | sed -n '1s/^dcpsim //p')

commands() {
  "$program" --help | sed -n 's/^  \([a-z][a-z_-]*\)  *[a-z].*/\1/p'
}

# Text as troff prints it unchanged.
escape() {
  sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'\'']\)/\\\&\1/'
}

# subcommands COMMAND: words that have help of their own, as in trace info.
subcommands() {
  "$program" "$1" --help | grep -q '^Each of them has --help' || return 0
  "$program" "$1" --help | grep -Eo "dcpsim $1 [a-z][a-z-]*" | sed 's/.* //' | sort -u
}

# page NAME SUMMARY < HELP: the text as it is, with the lines of "usage:" as the synopsis.
page() {
  printf '.TH %s 1 "" "dcpsim %s" "dcpsim"\n.SH NAME\n%s \\- %s\n' \
    "$(printf '%s' "$1" | tr a-z A-Z | sed 's/-/\\-/g')" "$version" "$(printf '%s' "$1" | sed 's/-/\\-/g')" "$2"
  escape | awk '
    NR == 1 { sub(/^usage: /, ""); print ".SH SYNOPSIS\n.nf"; synopsis = 1 }
    synopsis && $0 == "" { print ".fi\n.SH DESCRIPTION\n.nf"; synopsis = 0; next }
    synopsis { sub(/^       /, "") }
    { print }
    END { print ".fi" }'
}

# The summary of a command in the program's help.
summary() {
  "$program" --help | sed -n "s/^  $1  *//p" | sed 's/-/\\-/g'
}

rm -rf "$folder"
mkdir -p "$folder"
"$program" --help | page dcpsim 'simulate training on sequences of very different lengths' >"$folder/dcpsim.1"
all=$(commands)
[ -n "$all" ]
for command in $all; do
  {
    "$program" "$command" --help | page "dcpsim-$command" "$(summary "$command")"
    for word in $(subcommands "$command"); do
      printf '.SH DCPSIM %s\n.nf\n' "$(printf '%s %s' "$command" "$word" | tr a-z A-Z | escape)"
      "$program" "$command" "$word" --help | escape
      printf '.fi\n'
    done
  } >"$folder/dcpsim-$command.1"
done
{
  printf '.SH SEE ALSO\n'
  for command in $all; do
    printf '.BR dcpsim\\-%s (1)\n' "$command"
  done
} >>"$folder/dcpsim.1"
