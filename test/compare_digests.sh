#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare_digests.sh <vecdet_digest>...: the results on AVX2 and on AVX-512 are bit-identical, within
# a program and between all programs. Programs built only for AVX2 come last. Exits with 77 if there is
# nothing to compare on this processor.
set -euo pipefail
expected=
comparisons=0
for program in "$@"; do
  output=$("$program")
  if grep -qx 'detected baseline' <<<"$output"; then exit 77; fi
  for set in avx2 avx512; do
    results=$(sed -n "s/^$set //p" <<<"$output")
    [ -n "$results" ] || continue
    if [ -z "$expected" ]; then
      expected=$results first="$set of $program"
      [ "$(wc -l <<<"$expected")" -gt 10 ] || { echo "too few results: $expected"; exit 1; }
      continue
    fi
    diff <(echo "$expected") <(echo "$results") ||
      { echo "$set of $program differs as above from $first"; exit 1; }
    comparisons=$((comparisons + 1))
  done
done
[ $comparisons -gt 0 ] || exit 77
echo "$(wc -l <<<"$expected") results are the same $((comparisons + 1)) times"
