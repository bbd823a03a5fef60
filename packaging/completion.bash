# bash completion of dcpsim. Commands, options and their values come from the program's own help and lists.

# _dcpsim_options HELP: a line "OPTION ARGUMENT VALUES" per option; VALUES is "list KIND" for names that `dcpsim list`
# tells, "of A B C" where the help lists all, else empty.
_dcpsim_options() {
  awk '
    function tell() {
      if (option == "") return
      values = ""
      if (match(text, /see: dcpsim list [a-z]+/)) values = "list " substr(text, RSTART + 17, RLENGTH - 17)
      else if (match(text, /: [a-z0-9_]+(, [a-z0-9_]+)+( \(default.*)?$/)) {
        values = substr(text, RSTART + 2, RLENGTH - 2)
        sub(/ \(default.*/, "", values)
        gsub(/,/, "", values)
        values = "of " values
      }
      print option, (argument == "" ? "-" : argument), values
      option = ""
    }
    /^ +(-[a-zA-Z], )?--[a-z]/ {
      tell()
      match($0, /--[a-z-]+/)
      option = substr($0, RSTART, RLENGTH)
      rest = substr($0, RSTART + RLENGTH)
      argument = match(rest, /^ [A-Z0-9][^ ]*/) ? substr(rest, 2, RLENGTH - 1) : ""
      text = rest
      next
    }
    /^$/ { tell() }
    { gsub(/^ +/, ""); text = text " " $0 }
    END { tell() }' <<<"$1"
}

# _dcpsim_subcommands HELP WORDS: the words that follow "dcpsim WORDS" in the help: trace info, calibrate import csv.
_dcpsim_subcommands() {
  grep -Eo "dcpsim $2 [a-z][a-z-]*" <<<"$1" | sed 's/.* //' | sort -u
}

# The names of a list: first words of the lines that are not indented as continuations.
_dcpsim_names() {
  "$1" list "$2" 2>/dev/null | awk '/^ ? ?[^ ]/ { print $1 }'
}

_dcpsim() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]-} help subcommands option argument values
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    help=$("$program" --help 2>/dev/null)
    mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^  \([a-z-][a-z_-]*\)  *[a-z].*/\1/p' <<<"$help")" -- "$word")
    return
  fi
  help=$("$program" "$command" --help 2>/dev/null) || return
  if [[ $command == list ]]; then
    ((COMP_CWORD == 2)) && mapfile -t COMPREPLY < <(
      compgen -W "$(sed -n '1s/.*dcpsim list //p' <<<"$help" | tr '|' ' ')" -- "$word")
    return
  fi
  if [[ $help == *'Each of them has --help'* ]]; then
    subcommands=$(_dcpsim_subcommands "$help" "$command")
    if ((COMP_CWORD == 2)); then
      mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$word")
      return
    fi
    subcommands=$(_dcpsim_subcommands "$help" "$command ${COMP_WORDS[2]}")
    if ((COMP_CWORD == 3)) && [[ -n $subcommands ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$word")
      return
    fi
    help=$("$program" "$command" "${COMP_WORDS[2]}" --help 2>/dev/null) || return
  fi
  if ((COMP_CWORD == 2)) && [[ $help == "usage: dcpsim $command KIND "* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_dcpsim_names "$program" "${command}s")" -- "$word")
    return
  fi
  # readline cuts words at "=" and ":", so --trace=wiki arrives as three words.
  if [[ $word == '=' ]]; then
    word=
  elif [[ $previous == '=' ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_dcpsim_options "$help" | cut -d ' ' -f 1) --help" -- "$word")
    return
  fi
  while read -r option argument values; do
    [[ $option == "$previous" ]] || continue
    case $values in
      'list '*) values=$(_dcpsim_names "$program" "${values#list }") ;;
      'of '*) values=${values#of } ;;
    esac
    if [[ -n $values && $argument == A,B,* && $word == *,* ]]; then # the last name of a comma list
      mapfile -t COMPREPLY < <(compgen -P "${word%,*}," -W "$values" -- "${word##*,}")
    elif [[ -n $values ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
    fi
    [[ $argument == - || $argument == *FILE* || $argument == *FOLDER* ]] || return 0
    [[ $argument == - ]] && break
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word")
    return
  done < <(_dcpsim_options "$help")
  mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _dcpsim dcpsim
