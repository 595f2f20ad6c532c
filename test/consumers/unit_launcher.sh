#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A compiler launcher that checks the flags of a unit. To avoid compiling all units again, it
# returns the object of their instruction set that was built once by hand, in $VECDET_UNITS, for one
# of them, and empty objects for the others. It compiles all other files.
set -euo pipefail
command=("$@")
out='' unit='' family=''
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=$2 ;;
    */vecdet_units/*/*.cpp)
      unit=$(basename "$(dirname "$1")")
      family=$(basename "$1" .cpp) ;;
  esac
  shift
done
[ -n "$unit" ] || exec "${command[@]}"

flags=" ${command[*]} "
case $unit in
  baseline) wanted='-march=x86-64' ;;
  avx2) wanted='-march=x86-64-v3' ;;
  avx512) wanted='-march=x86-64-v4 -mprefer-vector-width=512' ;;
esac
for flag in $wanted -O2 -ffp-contract=off -fno-fast-math -fno-math-errno -fno-lto; do
  case $flags in
    *" $flag "*) ;;
    *) echo "$unit: no $flag in:$flags" >&2; exit 1 ;;
  esac
done
last_march=${flags##* -march=} last_level=${flags##* -O}
if [ "-march=${last_march%% *}" != "${wanted%% *}" ] || [ "${last_level%% *}" != 2 ]; then
  echo "$unit: its -march and -O2 are not the last ones in:$flags" >&2
  exit 1
fi
if [ "$family" = focal_loss ]; then
  cp "$VECDET_UNITS/$unit.o" "$out"
else
  "${command[0]}" -x c++ -c /dev/null -o "$out"
fi
