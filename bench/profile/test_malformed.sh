#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_malformed.sh <vecdet-profile> <profile.json> <trace.json.gz>: what was tampered with is refused, or
# skipped with a message. It never causes a signal, and its contents never reach the terminal
# unescaped.
set -euo pipefail
tool=$1 profile=$2 trace=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# tampered <sed script> <exit code> <expected output> <arguments>...
tampered() {
  local script=$1 code=$2 expected=$3 status=0
  shift 3
  sed "$script" "$profile" >"$scratch/tampered.json"
  ! cmp -s "$profile" "$scratch/tampered.json" || { echo "$script changes nothing"; exit 1; }
  "$tool" "$@" "$scratch/tampered.json" >"$scratch/output" 2>&1 || status=$?
  if [ $status != "$code" ] || ! grep -qF -- "$expected" "$scratch/output" ||
    LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177\233]')" "$scratch/output"; then
    cat -v "$scratch/output"
    echo "FAILED: $script: exit code $status, expected $code and \"$expected\""
    exit 1
  fi
}
replay=(replay --seconds 0.001 --repetitions 1 --cold-calls 1)
tampered 's/"shape":\[[0-9]*,[0-9]*\]/"shape":[1000,0]/' 2 "is 0, expected 1 or more" "${replay[@]}"
tampered 's/"shape":\[[0-9]*/"shape":[-1/' 2 "is -1, expected 1 or more" "${replay[@]}"
tampered 's/"threads":[0-9]*/"threads":2000000000/' 0 "on more than 4096 threads" "${replay[@]}"
tampered 's/"threads":[0-9]*/"threads":-1/' 2 "is -1, expected 0 to" "${replay[@]}"
tampered 's/"shape":\[[0-9]*/"shape":[9000000000000000000/' 0 "too large for this machine" "${replay[@]}"
tampered 's/"source":"vecdet"/"source":"\\u001b[2J\\u009b"/' 0 "recorded by  [2J" "${replay[@]}"
tampered 's/"warnings":\[/"warnings":["\\u001b[2J\\u009b[2J\\nend",/;s/",\]/"]/' 0 "note:  [2J [2J end" report
tampered 's/"schema":"[^"]*"/"schema":"\\u001b[2J"/' 2 'its schema is " [2J"' report
tampered 's/"name":"/"name":"\\u001b[2J/' 0 " [2J" report
for wrong in -1 1.5 1e300 '"2"' 99999999999999999999999; do
  tampered "s/\"count\":[0-9]*/\"count\":$wrong/" 2 '"count" is ' report
  tampered "s/\"seen_on_threads\":[0-9]*/\"seen_on_threads\":$wrong/" 2 '"seen_on_threads" is ' report
  tampered "s/\"dropped_scopes\":[0-9]*/\"dropped_scopes\":$wrong/" 2 '"dropped_scopes" is ' report
  tampered "s/\"threads\":[0-9]*/\"threads\":$wrong/" 2 ', expected 0 to 2147483647' report
  tampered "s/\"shape\":\[[0-9][0-9]*/\"shape\":[$wrong/" 2 ', expected 1 or more' report
  tampered "s/\"histogram\":\[\[[0-9]*/\"histogram\":[[$wrong/" 2 "the start of a histogram's bucket is " report
  tampered "s/\"histogram\":\[\[\([0-9]*\),[0-9]*/\"histogram\":[[\1,$wrong/" 2 \
    "the number of calls in a histogram's bucket is " report
  tampered "s/\"entries\":\[0,1/\"entries\":[0,$wrong/" 2 ' path ' report
done
tampered 's/"rank":-1/"rank":-2/' 2 '"rank" is -2, expected -1 to 2147483647' report
tampered 's/"pid":1/"pid":1e300/' 2 '"pid" is 1e+300, expected' report
for wrong in -5 1e300 '"2"'; do
  tampered "s/\"samples_ns\":\[[0-9]*/\"samples_ns\":[$wrong/" 2 "a sample is " report
  tampered "s/\"total_ns\":[0-9]*/\"total_ns\":$wrong/" 2 '"total_ns" is ' report
done

# Traces of torch.profiler.
profile=$scratch/trace.json
gzip -dc "$trace" >"$profile"
tampered 's/"traceEvents":\[/"traceEvents":[{/' 2 "not JSON at byte " report
tampered 's/"dur":[0-9.]*/"dur":-1/' 2 "no events of torch.profiler" report
tampered 's/"cat":"[a-z_]*"/"cat":"\\u001b[2J"/' 2 "no events of torch.profiler" report
tampered 's/"name":"aten::/"name":"\\u001b[2J\\u009baten::/' 0 " [2J aten::" report
tampered 's/"Input Dims":/"Input dims":/' 0 "aten::convolution/s1,p1,d1,g1/" report
tampered 's/"Input Dims":/"Output Dims":/' 0 "record_shapes=True" report
tampered 's/"Input Dims":\[\[[0-9]*/"Input Dims":[[9000000000000000000/' 0 "replayed" "${replay[@]}"
tampered 's/"Input Dims":\[\[[0-9]*/"Input Dims":[[-9000000000000000000/' 0 "replayed" "${replay[@]}"
tampered 's/"Input Dims":\[\[[0-9]*/"Input Dims":[[0/' 0 "replayed" "${replay[@]}"
for wrong in -1 1e300 '"2"' 99999999999999999999999; do
  tampered "s/\"Sequence number\":[0-9]*/\"Sequence number\":$wrong/" 0 "aten::convolution" report
done
head -c 3000 "$trace" >"$scratch/cut.json.gz"
status=0
"$tool" report "$scratch/cut.json.gz" >"$scratch/output" 2>&1 || status=$?
[ $status = 2 ] && grep -qF 'cannot read' "$scratch/output" || { cat "$scratch/output"; exit 1; }
echo "malformed profiles and traces are refused or passed over"
