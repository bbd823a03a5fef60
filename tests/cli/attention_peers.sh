#!/bin/sh
# attention_peers.sh: calib/attention_peers.py without a GPU: which rows it takes, what it joins them with, its table, and
# its messages. Timing itself needs PyTorch; where the python3 here has it, it is tried on the CPU.
set -u
golden=$PWD/tests/golden/attention_peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
peers() { python3 calib/attention_peers.py "$@"; }
fail() {
  echo "$*"
  cat "$work/out" "$work/err"
  exit 1
}
same() {
  peers "$@" >"$work/out" 2>"$work/err" || fail "exit status $?: $*"
  [ ! -s "$work/err" ] || fail "stderr: $*"
}
# refuse MESSAGE ARGUMENTS...: exit status 1, that line and nothing else
refuse() {
  wanted=$1
  shift
  peers "$@" >"$work/out" 2>"$work/err"
  [ $? -eq 1 ] && [ ! -s "$work/out" ] && [ "$(cat "$work/err")" = "attention_peers: $wanted" ] || fail "not '$wanted'"
}

# Rows of cuDNN for some of the shapes (all times are made up), on a GPU whose FlashAttention 3 rows are shipped.
same "$golden/attention.csv" "$golden/wgmma.csv" --peer "$golden/cudnn.csv"
diff -u "$golden/table.txt" "$work/out" || fail 'another table'
# No PyTorch: its place is taken by a package that cannot be imported.
mkdir -p "$work/none/torch"
echo 'raise ImportError("No module named torch")' >"$work/none/torch/__init__.py"
PYTHONPATH=$work/none same "$golden/attention.csv" "$golden/wgmma.csv"
[ "$(head -n 1 "$work/out")" = 'cuDNN skipped: PyTorch cannot be imported: No module named torch' ] || fail 'no PyTorch'
grep -q '^mma.sync  attention_forward  causal   4 x 8192   32/32  128     8.000     274.9         -         -    3.856   48.2$' \
  "$work/out" || fail 'FA3 without cuDNN'
# Another GPU has no shipped rows; short sequences are not compared.
sed 's/NVIDIA H200/NVIDIA A100/' "$golden/attention.csv" >"$work/a100.csv"
same "$work/a100.csv" --peer "$golden/cudnn.csv"
if grep -q '3\.856' "$work/out"; then fail 'FA3 rows of another GPU'; fi
grep -v ',\(8192\|32768\),' "$golden/attention.csv" >"$work/short.csv"
same "$work/short.csv"
grep -q '^nothing to compare: no attention row at head dim 64 or 128, sequences of 1024 to 32768$' "$work/out" || fail 'short'

# Files that are broken
broken() { sed "$1" "$golden/attention.csv" >"$work/broken.csv"; }
refuse "cannot open rows '$work/none.csv': No such file or directory" "$work/none.csv"
broken '1s/library/lib/'
refuse "rows '$work/broken.csv' line 1: no column 'library'" "$work/broken.csv"
broken '3s/,8192,/,8k,/'
refuse "rows '$work/broken.csv' line 3: 'seqlen' must be a whole number from 1, got '8k'" "$work/broken.csv"
broken '4s/,0.03,/,nan,/'
refuse "rows '$work/broken.csv' line 4: 'time_s' must be a number of seconds above 0, got 'nan'" "$work/broken.csv"
broken '2s/,32,32,128/,32,5,128/'
refuse "rows '$work/broken.csv' line 2: heads (32) must be a multiple of kv_heads (5)" "$work/broken.csv"
broken '5s/,[^,]*$//'
refuse "rows '$work/broken.csv' line 5: not as many fields as the header has" "$work/broken.csv"
: >"$work/empty.csv"
refuse "rows '$work/empty.csv' line 1: no column 'op'" "$golden/attention.csv" --peer "$work/empty.csv"
printf 'op,\377\n' >"$work/latin.csv"
refuse "rows '$work/latin.csv': not UTF-8" "$work/latin.csv"
broken '4s/attention/"attention/'
refuse "rows '$work/broken.csv' line 9: unexpected end of data" "$work/broken.csv"
peers >/dev/null 2>&1
[ $? -eq 2 ] || fail 'exit status without a file'

# The timing itself
if python3 -c 'import torch' 2>/dev/null; then
  sed -n 1,3p "$golden/attention.csv" | sed 's/,4,8192,32,32,128,/,1,1024,2,1,64,/; s/,bf16,/,fp32,/' >"$work/small.csv"
  same "$work/small.csv" --device cpu --write "$work/torch.csv"
  [ "$(grep -c '^attention_forward,fp32,[01],1,1024,2,1,64,[0-9.e-]*,.*,cpu,unknown,' "$work/torch.csv")" -eq 2 ] || fail 'timing'
else
  echo 'no PyTorch: timing is not tried'
fi
