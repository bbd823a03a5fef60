#!/bin/sh
# calibrate.sh: exit codes, messages and empty stdout of `dcpsim calibrate` for wrong usage and bad files.
. tests/common.sh
cd "$work" || exit 1

# accept ARGUMENTS...: exit 0 and something on stdout.
accept() {
  if ! "$dcpsim" calibrate "$@" >"$said/out" 2>"$said/err" </dev/null || [ ! -s "$said/out" ]; then
    fail "calibrate $*: failed or printed nothing:"
    cat "$said/err"
  fi
}

row='   134217728      33554432     float     sum      -1    613.3  218.85  382.99      0    614.3  218.48  382.34      0'
printf '%s\n' "$row" >"$work/h100_1n8g_all_reduce.txt"
printf '%s\n' "$row" >"$work/nameless.txt"
printf 'hello\n' >"$work/noise.txt"
: >"$work/empty"
printf 'a\000b\n' >"$work/binary"
printf 'op,dtype,m,n,k,time_s\ngemm,bf16,4096,4096,4096,2e-4\n' >"$work/good.csv"
printf 'op,dtype,m,n,k,time_s\ngemm,bf16,4096,x,4096,2e-4\n' >"$work/bad.csv"
printf 'op,dtype,m,n,k,time_s\ngemm,fp8,1,1,1,2e-4\n' >"$work/fp8.csv"

refuse 2 'a command is missing (run, import, fit, check or report' calibrate
refuse 2 "no command 'nope' (run, import, fit, check or report" calibrate nope
refuse 2 'what is it? (nccl-tests or csv' calibrate import
refuse 2 "no format 'nccl' (nccl-tests or csv" calibrate import nccl "$work/good.csv"

refuse 2 '\-o is missing' calibrate run
refuse 2 "no operation 'gem'; valid: attention, gemm, memory, collective, attention_forward" calibrate run -o "$work/run" --ops gem
refuse 2 'all_reduce needs several processes: mpirun' calibrate run -o "$work/run" --ops all_reduce
refuse 2 "no device 'tpu'; there are: cpu, cuda" calibrate run -o "$work/run" --device tpu
refuse 2 "unknown model" calibrate run -o "$work/run" --model nope
refuse 2 '\--max-tokens must be an integer from 64' calibrate run -o "$work/run" --max-tokens 1
refuse 2 '\--max-bytes must be an integer from 64' calibrate run -o "$work/run" --max-bytes 1k
refuse 2 '\--confidence must be a number above 0' calibrate run -o "$work/run" --confidence 0
refuse 2 '\--budget-s must be a number above 0' calibrate run -o "$work/run" --budget-s x
refuse 2 "it takes no file" calibrate run -o "$work/run" "$work/good.csv"
refuse 2 "no such option '--nope'" calibrate run --nope
refuse 1 "cannot create folder '$work/none/run'" calibrate run -o "$work/none/run"
refuse 1 'Not a directory' calibrate run -o "$work/good.csv"
mkdir "$work/other"
cp "$work/good.csv" "$work/other/gemm.csv"
refuse 1 "gemm.csv' line 1: not the columns that calibrate run writes" calibrate run -o "$work/other" --ops gemm
if ! [ -e /dev/nvidiactl ]; then
  refuse 1 'cuda' calibrate run -o "$work/run" --device cuda
fi
if [ -e "$work/run" ]; then
  fail "calibrate run made a folder before an error"
fi
accept run --help
sed 's/time_s$/time_s,source/; s/2e-4$/2e-4,dcpsim calibrate run/' "$work/good.csv" >"$work/made.csv"
refuse 1 "good.csv' are not of calibrate run, others are" calibrate fit --device cpu -o "$work/p.json" "$work/made.csv" "$work/good.csv"
refuse 1 '1 gemm rows are too few to fit cpu (at least 12)' calibrate fit --device cpu -o "$work/p.json" "$work/made.csv"

refuse 2 'device is missing' calibrate fit -o "$work/p.json" "$work/good.csv"
refuse 2 '\-o is missing' calibrate fit --device h200_sxm "$work/good.csv"
refuse 2 "no constants for device 'b300'" calibrate fit --device b300 -o "$work/p.json" "$work/good.csv"
refuse 1 'rows are too few to fit' calibrate fit --device h200_sxm -o "$work/p.json" "$work/good.csv"
refuse 1 "'m' must be an integer\|'n' must be an integer" calibrate fit --device h200_sxm -o "$work/p.json" "$work/bad.csv"
refuse 2 'expected at least one file' calibrate fit --device h200_sxm -o "$work/p.json"
refuse 2 "no column 'dtype' to leave out" calibrate check --leave-out dtype --device h200_sxm "$work/good.csv"
refuse 1 'no rows with three values' calibrate check --leave-out m --device h200_sxm "$work/good.csv"
refuse 2 "worst must be an integer from 1 to 1048576, got '0'" calibrate check --leave-out m --worst 0 --device h200_sxm "$work/good.csv"
refuse 2 "worst must be an integer from 1 to 1048576, got 'x'" calibrate check --worst x --params h200_sxm "$work/good.csv"
refuse 2 'worst and --csv - both write to stdout' calibrate check --worst 3 --csv - --params h200_sxm "$work/good.csv"
refuse 2 'params is missing' calibrate report -o "$work/report" "$work/good.csv"
if [ -e "$work/p.json" ]; then
  fail "calibrate fit left a file after an error"
fi
accept fit --help
accept check --leave-out m --help
accept report --help

refuse 2 'expected at least one file, got 0' calibrate import nccl-tests
refuse 2 "'--nope'" calibrate import nccl-tests --nope
refuse 2 'a value is missing' calibrate import nccl-tests "$work/nameless.txt" --csv
refuse 2 'no option --json' calibrate import nccl-tests --json "$work/nameless.txt"
refuse 2 "no collective 'sum'; valid: all_reduce" calibrate import nccl-tests --op sum "$work/nameless.txt"
refuse 2 '\--ranks must be an integer from 1' calibrate import nccl-tests --ranks 0 "$work/nameless.txt"
refuse 2 '\--nodes must be an integer from 1' calibrate import nccl-tests --nodes 2x "$work/nameless.txt"
refuse 1 "noise.txt': no row of a nccl-tests table found" calibrate import nccl-tests "$work/noise.txt"
refuse 1 "empty': no row of a nccl-tests table found" calibrate import nccl-tests "$work/empty"
refuse 1 "standard input': no row" calibrate import nccl-tests -
refuse 1 "binary' is not a text file" calibrate import nccl-tests "$work/binary"
refuse 1 'No such file' calibrate import nccl-tests "$work/none"
refuse 1 'Is a directory' calibrate import nccl-tests "$work"
refuse 1 "nameless.txt' line 1: which collective is this? --op" calibrate import nccl-tests "$work/nameless.txt"
refuse 1 "nameless.txt' line 1: of how many nodes is this? --nodes" calibrate import nccl-tests --op all_reduce "$work/nameless.txt"
refuse 1 'none/out' calibrate import nccl-tests "$work/h100_1n8g_all_reduce.txt" --csv "$work/none/out"
refuse 1 'no row' calibrate import nccl-tests "$work/h100_1n8g_all_reduce.txt" "$work/noise.txt" --csv "$work/rows.csv"
[ ! -e "$work/rows.csv" ] || fail "a failed import left its output"

refuse 2 'expected one file, got 2' calibrate import csv "$work/good.csv" "$work/good.csv"
refuse 2 'no such name; valid: op, dtype' calibrate import csv "$work/good.csv" --map m=q
refuse 2 'has no such column (there are op' calibrate import csv "$work/good.csv" --map q=m
refuse 1 'none of 1 rows can be converted: a number of the shape' calibrate import csv "$work/bad.csv" --csv "$work/rows.csv"
refuse 1 "no column 'op'" calibrate import csv "$work/noise.txt"
[ ! -e "$work/rows.csv" ] || fail "a failed import left its output"

refuse 2 '\--params is missing' calibrate check "$work/good.csv"
refuse 2 'expected at least one file, got 0' calibrate check --params h200_sxm
refuse 2 '\--by nope: rows .* has no such column (there are op' calibrate check --params h200_sxm --by nope "$work/good.csv"
refuse 2 'both write to stdout' calibrate check --params h200_sxm --json --csv - "$work/good.csv"
refuse 2 'unknown cluster' calibrate check --params h200_sxm --cluster nope "$work/good.csv"
refuse 2 'nope' calibrate check --params nope "$work/good.csv"
refuse 1 "bad.csv' line 2: 'n' must be an integer" calibrate check --params h200_sxm "$work/good.csv" "$work/bad.csv" --csv "$work/rows.csv"
refuse 1 "empty' is empty" calibrate check --params h200_sxm "$work/empty"
refuse 1 'none of the 1 rows can be predicted: only bf16' calibrate check --params h200_sxm "$work/fp8.csv"
[ ! -e "$work/rows.csv" ] || fail "a failed check left its output"

for words in '' 'import' 'import nccl-tests' 'import csv' 'check'; do
  # shellcheck disable=SC2086
  accept $words --help
done
accept import nccl-tests "$work/h100_1n8g_all_reduce.txt"
accept import csv "$work/good.csv"
accept check --params h200_sxm "$work/good.csv"
accept check --params h200_sxm --json --by k "$work/good.csv"
accept check --params h200_sxm --csv - "$work/good.csv"
# What import writes, check reads.
"$dcpsim" calibrate import nccl-tests "$work/h100_1n8g_all_reduce.txt" --csv "$work/rows.csv"
accept check --params h100_sxm "$work/rows.csv" --by in_place
exit $failed
