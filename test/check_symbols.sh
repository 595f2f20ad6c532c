#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that no code compiled for an instruction set can run on a processor without it.
#
#   check_symbols.sh objects <unit.o>...   every weak, unique or global symbol that an instruction
#       set's unit defines is in the unit's namespace: the linker could use any other for the
#       whole program. The instruction set is the name of the unit's folder, or its own name
#   check_symbols.sh program <executable>  in a linked program whose own code is baseline, AVX (any
#       VEX or EVEX instruction) occurs only in the avx2 and avx512 namespaces, and AVX-512 not in
#       avx2; the profiler's measurement of the machine's peak is exempt
set -euo pipefail
: "${NM:=nm}" "${OBJDUMP:=objdump}"

check_objects() {
  local object unit bad status=0
  [ $# -gt 0 ] || { echo "no objects to check"; return 1; }
  for object in "$@"; do
    case $object in
      */avx512/* | *avx512.o) unit=avx512 ;;
      */avx2/* | *avx2.o) unit=avx2 ;;
      *) unit=baseline ;;
    esac
    bad=$("$NM" --defined-only "$object" | awk -v unit="$unit" '
      BEGIN { tag = "^_Z[A-Z]*N?K?6vecdet" length(unit) unit
              kernels = "^_ZN6vecdet" length(unit) unit "7kernelsI" }
      $3 ~ kernels { ++found }
      $2 ~ /[a-z]/ && $2 !~ /[uvwi]/ || $3 ~ tag || $3 == "DW.ref.__gxx_personality_v0" { next }
      { print "  " $2, $3 }
      END { if (!found) print "  no kernels" }')
    if [ -n "$bad" ]; then
      echo "$object: expected kernels, and all in namespace $unit:"
      echo "$bad" | c++filt
      status=1
    fi
  done
  [ $status = 0 ] && echo "symbols: $# units bear their namespaces"
  return $status
}

check_program() {
  "$OBJDUMP" -d --no-show-raw-insn "$1" | awk '
    /^[0-9a-f]+ <.*>:$/ {
      name = $2
      in_avx2 = name ~ /6vecdet4avx2|multiply_add_avx2/
      in_avx512 = name ~ /6vecdet6avx512|multiply_add_avx512/
      next
    }
    $1 !~ /^[0-9a-f]+:$/ { next }
    {
      vex = $2 ~ /^v/ && $2 !~ /^ver[rw]$/ || $2 ~ /^k(mov|and|or|x|not|test|shift|add|unpck)/ ||
            $2 ~ /^(mulx|pdep|pext|rorx|sarx|shlx|shrx|andn|bextr|bls(i|r|msk))[lq]?$/
      evex = $0 ~ /%zmm|%[xy]mm(1[6-9]|2[0-9]|3[01])|%k[0-7]/
      if (vex && in_avx512) ++avx512
      else if (vex && in_avx2) ++avx2
      if (vex && !in_avx512 && !in_avx2 || evex && !in_avx512) {
        if (++bad <= 20) print "  " name " " $0
      }
    }
    END {
      print "instructions: " avx2 + 0 " AVX in avx2, " avx512 + 0 " AVX in avx512, " bad + 0 " elsewhere"
      exit bad > 0 || avx2 == 0 || avx512 == 0
    }' | c++filt
}

case ${1:-} in
  objects) check_objects "${@:2}" ;;
  program) check_program "$2" ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
