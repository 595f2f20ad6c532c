#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is wrong is said, with exit code 2.
. "$(dirname "$0")/common.sh"
run=("$gate" run --pairs 20)

program base 'sum 100' 'copy 50'
expect 0 "$gate" --help
has out run callables modules history 'Exit codes: 0'
for command in run callables modules history; do
  expect 0 "$gate" $command --help
  [ -s out ] || fail "no help for $command"
done
expect 2 "$gate"
expect 2 "$gate" run
has err '--base and --head are the programs to compare'
expect 2 "${run[@]}" --base base --head nowhere
has err '--head "nowhere": No such file or directory'
expect 2 "${run[@]}" --base base.times --head base
has err '--base "base.times" is not an executable program'
expect 2 "${run[@]}" --base base --head base --filter nothing
has err 'no benchmark to measure: --filter "nothing" matches none'
expect 2 "${run[@]}" --base base --head base --pairs 3

program other 'product 100'
expect 2 "${run[@]}" --base base --head other
has err 'no benchmark can be compared:' 'product: not in base' 'sum: not in head'
program crashing 'sum 100' 'copy 50 crash'
expect 2 "${run[@]}" --base base --head crashing
has err "/crashing\": signal 6 (Aborted)"

# Programs that know no Google Benchmark.
expect 2 "${run[@]}" --base /bin/true --head /bin/true
has err 'no benchmark to measure' "write its JSON"
printf '#!/bin/sh\necho "no such option" >&2; exit 4\n' >script
chmod +x script
expect 2 "${run[@]}" --base base --head script
has err '/script": exit code 4; its last words:' 'no such option'
printf '#!/bin/sh\necho "{\\"benchmarks\\": 3}" >/dev/fd/3\n' >script
expect 2 "${run[@]}" --base script --head base
has err '/script": not the JSON of Google Benchmark'
expect 2 "$gate" modules --base /bin/true --head /bin/true

# A program that hangs is killed with what it has started: at first, or in a benchmark.
cat >hanging <<'END'
#!/bin/sh
case "$*" in
  *min_time=1e-9* | *list_tests*) [ -e hang_at_once ] || exec "$BASE" "$@" ;;
esac
sleep 1000 &
echo $! >started
wait
END
chmod +x hanging
export BASE=$scratch/base
ln -s base.times hanging.times
for at in at_once in_benchmark; do
  touch "hang_$at"
  rm -f started
  start=$SECONDS
  expect 2 "${run[@]}" --base base --head hanging --time-limit 2
  has err '/hanging"' 'killed after 2 s without an end (--time-limit)'
  [ $((SECONDS - start)) -lt 60 ] || fail "the time limit"
  ended "$(cat started)"
  rm "hang_$at"
done
expect 2 "${run[@]}" --base base --head base --time-limit 0
touch hang_at_once
expect 2 "${run[@]}" --base base --head hanging --time-limit 1.5
has err 'killed after 1.5 s'
rm hang_at_once
for option in --threshold --control --time-limit; do
  for value in nan inf -1 1e9 x; do
    expect 2 "${run[@]}" --base base --head base "$option" "$value"
    has err "$option: \"$value\" is not a number in ["
  done
done

# A program that writes without end.
program flood 'sum 100 flood'
expect 2 "${run[@]}" --base base --head flood
has err '/flood"' 'it writes 256 MiB to its output or to another file, expected less'

# What keeps a report from being written is found before anything is measured.
program fresh 'sum 100'
ln -s nowhere/file dangling
for report in --json --markdown --junit --history; do
  for file in no/such/folder . dangling; do
    expect 2 "${run[@]}" --base fresh --head fresh "$report" "$file"
    has err "\"$file\" cannot be written: "
  done
done
expect 2 "${run[@]}" --base fresh --head fresh --history new.jsonl --label $'\xff'
has err '--label "' '" is not UTF-8'
[ ! -e fresh.runs ] || fail "it was measured"
[ ! -e new.jsonl ] || fail "an empty history"
for function in open run; do
  VECDET_GATE_HANG=$function expect 2 "$gate" modules --base "$endless" --head "$endless" --isa baseline --time-limit 1
  has err 'the measuring process: killed after 1 s without an end (--time-limit)'
done

# A file of ratios that was cut off is named.
echo '{"machines": [' >ratios.json
modules=("$gate" modules --base "$endless" --head "$endless" --isa baseline --ratios ratios.json)
expect 2 "${modules[@]}"
has err '"ratios.json" is not complete JSON'
