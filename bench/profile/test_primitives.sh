#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_primitives.sh <vecdet-profile> <log of oneDNN>...: replay runs what was recorded, according
# to oneDNN's own log of the replay. If the tool was built without oneDNN, it must say so; the exit
# code is then 77.
set -euo pipefail
tool=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
replay=("$tool" replay --seconds 0.001 --repetitions 1 --cold-calls 1)

# Direction and shape of each distinct execution. In version 2, the result of a product is named as
# well.
problems() {
  awk -F, '/_verbose,.*exec,/ { print $(NF - 5) " " $(NF - 1) }' "$1" |
    sed -E 's/^(undef [0-9x]+:[0-9x]+):[0-9x]+$/\1/' | sort -u
}

for log in "$@"; do
  status=0
  ONEDNN_VERBOSE=1 "${replay[@]}" "$log" >"$scratch/output" 2>"$scratch/progress" || status=$?
  if [ $status = 2 ] && grep -q "built without oneDNN: install libdnnl-dev" "$scratch/progress"; then
    echo "skipped: $(cat "$scratch/progress")"
    exit 77
  fi
  [ $status = 0 ] || { cat "$scratch/progress"; exit 1; }
  # shuffle and int8 must be refused.
  grep -vE ',shuffle,|:s8m' "$log" >"$scratch/recorded"
  if ! diff <(problems "$scratch/recorded") <(problems "$scratch/output"); then
    grep -v _verbose "$scratch/output"
    echo "FAILED: $log: recorded (<) and replayed (>) differ"
    exit 1
  fi
  # Each took half a millisecond.
  refused=$(grep -cE '^  500 us  .*(shuffle is not known to replay|compensation of integers)' "$scratch/output" || true)
  if [ "$refused" != "$(grep -cE ',shuffle,|:s8m' "$log")" ]; then
    cat "$scratch/output"
    echo "FAILED: $log: what cannot be rebuilt is not listed"
    exit 1
  fi
done

# Convolutions with alternatives, and the report's explanation of the time.
"${replay[@]}" --layouts nchw,channels_last,blocked --types f32 --threads 1 "$1" 2>/dev/null |
  grep -v '^ *-' >"$scratch/output"
for expected in "projected with warm caches, x" "fresh pages of outputs" "threads:1" "nchw f32" \
  "channels_last f32" "blocked f32" "x1.00 .*nchw f32"; do
  grep -q -- "$expected" "$scratch/output" || { cat "$scratch/output"; echo "FAILED: no \"$expected\""; exit 1; }
done
# PyTorch's records of transposed convolutions.
transposed=aten::convolution/s2,p0,d1,g1,transposed,o1/f32/1x8x9x12,8x5x2x2
cat >"$scratch/transposed.json" <<END
{"schema": "vecdet-profile/1", "processes": [], "whole_ns": 3000000, "paths": [{"entries": [0], "count": 2,
 "total_ns": 3000000, "self_ns": 3000000}], "warnings": [], "machine": {"processor": "", "threads": 0,
 "cache_gbs": 0, "memory_gbs": 0, "cache_gbs_all_threads": 0, "memory_gbs_all_threads": 0, "gflops_f32": 0,
 "gflops_f32_all_threads": 0, "cache_bytes": 0}, "entries": [{"name": "$transposed",
 "function": "aten::convolution", "variant": "s2,p0,d1,g1,transposed,o1", "type": "f32", "shape": [],
 "implementation": "1x8x9x12,8x5x2x2", "threads": 0, "source": "vecdet", "count": 2, "total_ns": 3000000,
 "inclusive_ns": 3000000, "self_ns": 3000000, "min_ns": 1500000, "max_ns": 1500000, "stddev_ns": 0,
 "bytes": 0, "flops": 0, "seen_on_threads": 1, "concurrency": 1, "histogram": [], "samples_ns": []}]}
END
"${replay[@]}" "$scratch/transposed.json" 2>/dev/null >"$scratch/output"
if ! grep -qF "  3.00 ms  $transposed: transposed convolutions are replayed from oneDNN's log" "$scratch/output"; then
  cat "$scratch/output"
  echo "FAILED: a transposed convolution that cannot be rebuilt is not listed with its time"
  exit 1
fi
# Convolutions that conv3x3 and grouped_conv3x3 compute.
for fitting in "s1,p1,d1,g1 1x32x40x40,32x32x3x3" "s2,p1,d1,g8 1x32x40x40,32x4x3x3"; do
  sed -e "s/s2,p0,d1,g1,transposed,o1/${fitting% *}/g; s/1x8x9x12,8x5x2x2/${fitting#* }/g" "$scratch/transposed.json" >"$scratch/fitting.json"
  "${replay[@]}" "$scratch/fitting.json" --conv3x3 2>/dev/null >"$scratch/output"
  for expected in "nchw f32  *nchw f32 conv3x3" "x1.00 .*nchw f32$" "x[0-9.]* .*nchw f32 conv3x3$"; do
    grep -q -- "$expected" "$scratch/output" || { cat "$scratch/output"; echo "FAILED: no \"$expected\""; exit 1; }
  done
done
echo "what was recorded was replayed"
