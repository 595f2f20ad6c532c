#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_valgrind.sh <vecdet_test> [<doctest filter>...]: runs tests under valgrind on the instruction
# sets that it supports, up to AVX2. Any read of memory that is not initialised or not allocated
# fails. Default: cases that are quick there, chosen by name. Exits with 77 without valgrind.
set -euo pipefail
test=$1
shift
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
filters=("$@")
[ ${#filters[@]} -gt 0 ] || filters=(
  --test-case='*special*,*bad arguments*,*degenerate*,*smooth L1: Huber*,*row stride*,postprocess: RetinaNet,postprocess: FCOS,postprocess: SSD,*not read*,*no foreground*'
)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for set in baseline avx2; do
  start=$SECONDS
  # Short blocks: with long ones, code that uses many vectors at once exceeds valgrind's limits.
  VECDET_ISA=$set valgrind --quiet --vex-guest-max-insns=20 --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
    "$test" "${filters[@]}" >"$log" 2>&1 || { cat "$log"; echo "FAILED on $set"; exit 1; }
  grep -E 'test cases|assertions' "$log"
  grep -qE 'test cases: +0 ' "$log" && { echo "no test ran"; exit 1; }
  echo "$set: nothing found ($((SECONDS - start)) s)"
done
