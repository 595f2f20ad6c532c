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
has err 'no benchmark in common: base has "sum", head has "product"'
program crashing 'sum 100' 'copy 50 crash'
expect 2 "${run[@]}" --base base --head crashing
has err "/crashing\": signal 6 (Aborted)"
program failing 'sum 100' 'copy 50 error'
expect 2 "${run[@]}" --base failing --head base
has err '/failing": benchmark "copy" reports an error: no such file'
program timeless 'sum 0'
expect 2 "${run[@]}" --base base --head timeless
has err 'benchmark "sum": its time is 0.000000 ns, expected more than 0'

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
