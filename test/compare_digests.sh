#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every result of the first vecdet_digest, built for AVX2 alone, must be one of the second's, which
# has all instruction sets. Exits with 77 where this processor has no AVX2.
set -euo pipefail
all=$("$2")
if echo "$all" | grep -qx 'detected baseline'; then exit 77; fi
one=$("$1")
results=$(echo "$one" | sed 1d)
[ "$(echo "$results" | wc -l)" -gt 10 ] || { echo "too few results: $results"; exit 1; }
if echo "$results" | grep -vxF -f <(echo "$all" | sed 1d); then
  echo "the lines above differ from those of vecdet::dispatch"
  exit 1
fi
echo "$(echo "$results" | wc -l) results of the headers alone equal those of vecdet::dispatch"
