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

# Two per cent are below the threshold, which a second series confirms; the other direction is reported, and passes.
program small 'sum/1024 102' 'copy<int>/8 2500'
expect 0 "${run[@]}" --base base --head small
grep -q '^sum/1024 .* 2  pass$' out || fail "2 %"
grep -q '^copy<int>/8 .* 1  faster, -50 %$' out || fail "faster"

# So noisy that nothing is excluded.
program restless 'sum/1024 100 drift'
expect 3 "${run[@]}" --base restless --head restless
grep -q '^sum/1024 .* 6  inconclusive$' out || fail "6 series"

# Columns stay apart, however long the times.
program long 'sum/1024 1e21'
expect 0 "${run[@]}" --base long --head long
grep -q '^sum/1024 1000000000000.00 s 1000000000000.00 s *+0.0% ' out || fail "long times"

# A skipped benchmark is named.
program skipping 'sum/1024 100' 'copy<int>/8 5000 skip'
expect 0 "${run[@]}" --base base --head skipping
has out 'copy<int>/8: skipped: needs AVX-512' '1 compared' '2 not compared'

# Two benchmarks of one name are not repetitions of one, whatever their order of speed.
program twins 'sum 100' 'sum 300' 'copy 50'
program slow_twin 'sum 100' 'sum 600' 'copy 50'
expect 1 "${run[@]}" --base twins --head slow_twin
grep -q '^sum .*100.00 ns *100.00 ns .* pass$' out || fail "the first sum"
grep -q '^sum #2 .*300.00 ns *600.00 ns .* SLOWER$' out || fail "the second sum"
program triplets 'sum 100' 'sum 300' 'sum 10' 'copy 50'
expect 3 "${run[@]}" --base twins --head triplets
grep -q '^sum .*  not compared: base has 2 of this name, head has 3$' out || fail "another number"
grep -q '^copy .*  pass$' out || fail "the other benchmark"

# A benchmark is identified by its own name and its place, not by the number that the table gives it.
program numbered 'x 100' 'x 300' 'x~#2 50'
program other_order 'x~#2 100' 'x 100' 'x 300'
expect 1 "${run[@]}" --base numbered --head other_order
grep -q '^x #2 .* 50.00 ns *100.00 ns .* SLOWER$' out || fail "its own number"
grep -q '^x .*100.00 ns *100.00 ns .* pass$' out || fail "the first x"
grep -q '^x #3 .*300.00 ns *300.00 ns .* pass$' out || fail "the second x"
expect 0 "${run[@]}" --base numbered --head numbered

# A benchmark that reports only aggregates is compared by its median, or named.
program aggregates 'sum 100 aggregates' 'copy 50'
program slow_aggregates 'sum 200 aggregates' 'copy 50'
expect 0 "${run[@]}" --base aggregates --head aggregates
grep -q '^sum .*100.00 ns *100.00 ns .* pass$' out || fail "aggregates"
expect 1 "${run[@]}" --base aggregates --head slow_aggregates
grep -q '^sum .*100.00 ns *200.00 ns .* SLOWER$' out || fail "slower aggregates"
program means 'sum 100 mean' 'copy 50'
expect 3 "${run[@]}" --base means --head means --json out.json --markdown out.md --junit out.xml --history history
grep -q '^sum .*  not compared: in head, reports only aggregates, without a median$' out || fail "means"
has out.json '"verdict": "not compared"' '"reason": "in head, reports only aggregates, without a median"'
has out.md '| sum | - | - | - | - | - | not compared: in head, reports only'
has out.xml '<skipped message="not compared: in head, reports only'
expect 0 "$gate" history history

# A benchmark that cannot be compared does not keep the others from being judged.
program sound 'sum 100' 'copy 50' 'move 70'
for what in error late_error; do
  program broken "sum 100 $what" 'copy 50' 'move 70'
  expect 1 "${run[@]}" --base sound --head broken --json out.json --markdown out.md --junit out.xml --history history
  grep -q '^sum .*  FAILED: .*reports an error: no such file$' out || fail "an error in head: $what"
  has out '2 compared, 0 slower, 0 faster, 0 inconclusive, 1 failed'
  has out.json '"verdict": "fail"' '"verdict": "FAILED"'
  has out.xml 'failures="1"' '<failure message="FAILED: '
  rm broken.runs
done
program broken 'sum 100 error' 'copy 50' 'move 70'
program slow_move 'sum 100' 'copy 50' 'move 140'
for head in broken sound; do
  expect 0 "${run[@]}" --base broken --head $head
  has out 'sum: base reports an error: no such file' '2 compared' '1 not compared'
done
expect 1 "${run[@]}" --base broken --head slow_move
grep -q '^move .* SLOWER$' out || fail "beside an error"
# What comes up only while measuring is decided after both programs were asked, as at first.
for _ in 1 2 3; do
  for what in error skip; do
    program late "sum 100 measured_$what" 'copy 50' 'move 70'
    for sides in "--base late --head late" "--base late --head sound"; do
      expect 0 "${run[@]}" $sides
      grep -q '^sum: .*\(reports an error: no such file\|skipped: needs AVX-512\)$' out || fail "a late $what: $sides"
      has out '2 compared' '1 not compared'
    done
    expect "$([ $what = error ] && echo 1 || echo 0)" "${run[@]}" --base sound --head late
  done
done
program late 'sum 100 measured_error'
program sound_sum 'sum 100'
expect 2 "${run[@]}" --base late --head late
has err 'no benchmark can be compared:' 'sum: base reports an error: no such file'
expect 1 "${run[@]}" --base sound_sum --head late

# Times whose ratio is no number.
for time in 1e308 1e-308; do
  program extreme "sum $time" 'copy 50'
  program usual 'sum 100' 'copy 50'
  expect 3 "${run[@]}" --base usual --head extreme --history extreme.jsonl
  grep -q '^sum .*  not compared: in head, its time is .* ns, expected 1e-100 to 1e+100$' out || fail "a time of $time"
  has out '1 compared'
  if grep null extreme.jsonl; then fail "null in the history"; fi
done

# Bytes that are not UTF-8.
program latin $'gr\xfc\xdfe 100' $'\xff 100 error' 'copy 50'
program slow_latin $'gr\xfc\xdfe 200' $'\xff 100 error' 'copy 50'
expect 1 "${run[@]}" --base latin --head slow_latin --json out.json --markdown out.md --junit out.xml --history latin.jsonl
grep -q $'^gr\xef\xbf\xbd\xef\xbf\xbde .* SLOWER$' out || fail "not UTF-8"
has out '2 compared' '1 not compared'
has latin.jsonl $'"gr\xef\xbf\xbd\xef\xbf\xbde"'

for time in 0 -1; do
  program timeless "sum $time" 'copy 50' 'move 70'
  for sides in "--base timeless --head sound" "--base sound --head timeless" "--base timeless --head timeless"; do
    expect 3 "${run[@]}" $sides
    grep -q '^sum .*  not compared: in .*, expected ' out || fail "a time of $time"
    has out '2 compared' '1 not compared'
  done
  expect 1 "${run[@]}" --base timeless --head slow_move
done

# Units, clocks and counters.
program micro 'sum 100 us' 'copy 50'
program nano 'sum 100' 'copy 50'
expect 0 "${run[@]}" --base micro --head nano
grep -q '^sum .*100.00 ns *100.00 ns .* pass$' out || fail "microseconds"
program nano 'sum 105' 'copy 50'
expect 1 "${run[@]}" --base micro --head nano
for clock in real_time manual_time; do
  program wall "sum/$clock 100"
  program slow_wall "sum/$clock 200"
  expect 1 "${run[@]}" --base wall --head slow_wall
  expect 2 "${run[@]}" --base wall --head nano
  has err "sum/$clock: not in head" 'sum: not in base'
done
program counting 'sum 100 counter'
program slow_counting 'sum 200 counter'
expect 1 "${run[@]}" --base counting --head slow_counting
program rates 'sum 100 nan'
expect 0 "${run[@]}" --base rates --head rates
