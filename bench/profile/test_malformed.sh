#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_malformed.sh <vecdet-profile> <profile.json>: a profile that was tampered with is refused or
# passed over with a word, never a signal, and nothing in it speaks to the terminal.
set -euo pipefail
tool=$1 profile=$2
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
echo "malformed profiles are refused or passed over"
