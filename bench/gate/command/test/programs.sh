#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verdicts on programs with scripted times.
. "$(dirname "$0")/common.sh"
run=("$gate" run --pairs 21)

program base 'sum/1024 100' 'copy<int>/8 5000' 'old 1'
program same 'sum/1024 100' 'copy<int>/8 5000' 'new 1'
expect 0 "${run[@]}" --base base --head same
has out 'vecdet-gate: pass (2 compared, 0 slower, 0 faster, 0 inconclusive' \
  'old: not in head' 'new: not in base'

program slow 'sum/1024 104' 'copy<int>/8 5000'
expect 1 "${run[@]}" --base base --head slow
grep -q '^sum/1024 .*100.00 ns *104.00 ns *+4.0% *+0.0% *3  SLOWER$' out || fail "sum/1024"
grep -q '^copy<int>/8 .* pass$' out || fail "copy<int>/8"
expect 0 "${run[@]}" --base base --head slow --threshold 5
expect 0 "${run[@]}" --base base --head slow --filter copy
has out '1 compared'

# Two per cent are below the threshold; the other direction is reported, and passes.
program small 'sum/1024 102' 'copy<int>/8 2500'
expect 0 "${run[@]}" --base base --head small
grep -q '^sum/1024 .* 1  pass$' out || fail "2 %"
grep -q '^copy<int>/8 .* 1  faster, -50 %$' out || fail "faster"

# Base differs from itself.
program restless 'sum/1024 100 drift'
program steady 'sum/1024 100'
expect 3 "${run[@]}" --base restless --head steady
grep -q '^sum/1024 .* 6  inconclusive$' out || fail "6 series"
expect 0 "${run[@]}" --base restless --head steady --control 1000

# Columns stay apart, however long the times.
program long 'sum/1024 1e21'
expect 0 "${run[@]}" --base long --head long
grep -q '^sum/1024 1000000000000.00 s 1000000000000.00 s *+0.0% ' out || fail "long times"

# A skipped benchmark is named.
program skipping 'sum/1024 100' 'copy<int>/8 5000 skip'
expect 0 "${run[@]}" --base base --head skipping
has out 'copy<int>/8: skipped: needs AVX-512' '1 compared'
