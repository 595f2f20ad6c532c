#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fast_math.sh <vecdet_fast_math> <libvecdet_dispatch.a> <folder> [<build>...]: compiles the catalogue of
# calls with flags that change floating-point operations and compares results with those of
# <vecdet_fast_math>, a program compiled without such flags. A build is
#
#   <compiler>/dispatch/<flags>   only the host's code has the flags: results must be bit-identical
#   <compiler>/equal/<flags>      all code has the flags: results must be bit-identical
#   <compiler>/close/<flags>      all code has the flags: docs/portability.md lists the tolerances
#
# with flags joined by commas. Without builds, all of those below. Objects are kept in <folder>. FAMILIES
# limits the catalogue, as in "nms iou"; JOBS is the number of compilers at once.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 library=$2 folder=$3
shift 3
if [ $# = 0 ]; then
  for compiler in g++ clang++; do
    set -- "$@" $compiler/dispatch/-O2,-ffast-math,-march=native \
      $compiler/dispatch/-O2,-march=native,-ffp-contract=fast
    set -- "$@" $compiler/close/-O2,-funsafe-math-optimizations,-march=x86-64
    for march in x86-64 x86-64-v3 x86-64-v4; do set -- "$@" $compiler/close/-Ofast,-march=$march; done
    set -- "$@" $compiler/equal/-O2,-ffp-contract=off,-march=x86-64-v3
  done
fi
mkdir -p "$folder"
record=$folder/record
[ "$record" -nt "$program" ] || "$program" record "$record"
families=${FAMILIES:-$(basename -s .cpp test/calls/*.cpp)}

compile() {
  local object=$1
  shift
  ${CMAKE_CXX_COMPILER_LAUNCHER:-} "$@" -c -o "$object"
}
export -f compile

failed=()
for build; do
  IFS=/ read -r compiler kind flags <<<"$build"
  IFS=, read -ra flags <<<"$flags"
  to=$folder/${build//\//_}
  mkdir -p "$to"
  common=(-std=c++17 -Iinclude -I.)
  libraries=(-ltbb -pthread)
  mode=$kind
  if [ "$kind" = dispatch ]; then
    common+=(-DVECDET_DISPATCH)
    libraries=("$library" "${libraries[@]}")
    mode=equal
  fi
  {
    march=$(printf '%s\n' "${flags[@]}" | grep '^-march' || true)
    printf '%s\0' "$to/driver.o $compiler ${common[*]} -O1 -ffp-contract=off $march test/fast_math.cpp"
    for family in $families; do
      printf '%s\0' "$to/$family.o $compiler ${common[*]} ${flags[*]} test/calls/$family.cpp"
    done
  } | xargs -0 -n 1 -P "${JOBS:-2}" bash -c "compile \$0"
  # Not linked with the flags: -ffast-math would make the processor flush denormal numbers to 0.
  objects=()
  for family in $families; do objects+=("$to/$family.o"); done
  "$compiler" "$to/driver.o" "${objects[@]}" "${libraries[@]}" -o "$to/program"
  echo "$build"
  # 77: this processor lacks the instruction set
  "$to/program" "$mode" "$record" || [ $? = 77 ] || failed+=("$build")
done
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[*]}"; exit 1; }
