#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs on an emulated processor and compares with this one:
#
#   run_emulated.sh <vecdet_digest> <processor> <instruction set> [<vecdet_test>]   an x86-64 processor
#       of QEMU: it detects that instruction set, computes the same bits, and passes the tests that are
#       quick there
#   run_emulated.sh --aarch64 <source folder> <xsimd include folder> <vecdet_digest>   cross-compiles
#       the headers for 64-bit Arm with Debian's oneTBB and compares its bits with those of AVX2
#
# Needs qemu-user-static, and g++-aarch64-linux-gnu for Arm; exits with 77 where they are absent.
set -euo pipefail
source "$(dirname "$0")/debian_packages.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
  done
}

run_x86() {
  need qemu-x86_64-static
  local digest=$1 cpu=$2 expected=$3 tests=${4:-} filter
  "$digest" >"$scratch/native"
  qemu-x86_64-static -cpu "$cpu" "$digest" >"$scratch/$cpu" 2>"$scratch/errors" ||
    { cat "$scratch/errors"; echo "$cpu: the program failed"; exit 1; }
  grep -qx "detected $expected" "$scratch/$cpu" ||
    { echo "$cpu: $(head -n 1 "$scratch/$cpu"), expected $expected"; exit 1; }
  if sed 1d "$scratch/$cpu" | grep -vxF -f "$scratch/native"; then
    echo "$cpu: the lines above differ from this processor's"
    exit 1
  fi
  echo "$cpu: detects $expected, $(sed 1d "$scratch/$cpu" | wc -l) results equal this processor's"
  [ -z "$tests" ] && return
  # Not the memory tests: the emulator reads masked-out elements of AVX2's masked loads. Special values
  # are tested only in float, and the test of many calls is left out: this saves 90 s.
  for filter in --source-file='*test_dispatch.cpp' --test-case='*: special*'; do
    qemu-x86_64-static -cpu "$cpu" "$tests" "$filter" \
      --test-case-exclude='*double*,*bfloat16*,*runs to its end*' >"$scratch/log" 2>/dev/null ||
      { cat "$scratch/log"; echo "$cpu: $filter failed"; exit 1; }
    tail -n 3 "$scratch/log"
    ! grep -q 'test cases: *0 ' "$scratch/log" || { echo "$cpu: no test is $filter"; exit 1; }
  done
}

run_aarch64() {
  need qemu-aarch64-static aarch64-linux-gnu-g++ apt-get
  local source=$1 xsimd=$2 digest=$3 start=$SECONDS
  local lib=$scratch/sysroot/usr/lib/aarch64-linux-gnu
  fetch_packages "$(debian_suite)" arm64 "$scratch/sysroot" libtbb-dev
  mkdir "$scratch/xsimd" # a separate folder: /usr/include is this machine's
  ln -s "$xsimd/xsimd" "$scratch/xsimd/xsimd"
  local file
  for file in "$source/test/digest.cpp" "$source"/test/calls/*.cpp; do
    ${CMAKE_CXX_COMPILER_LAUNCHER:-} aarch64-linux-gnu-g++ -std=c++17 -O1 -ffp-contract=off \
      -Wall -Wextra -I "$source/include" -I "$source" -isystem "$scratch/xsimd" \
      -isystem "$scratch/sysroot/usr/include" -c "$file" -o "$scratch/$(basename "$file" .cpp).o"
  done
  aarch64-linux-gnu-g++ "$scratch"/*.o -L "$lib" -ltbb -o "$scratch/digest"
  qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$lib" "$scratch/digest" |
    sed -n 's/^baseline //p' >"$scratch/arm"
  "$digest" | sed -n 's/^avx2 //p' >"$scratch/avx2"
  diff "$scratch/arm" "$scratch/avx2" || { echo "aarch64: results differ from those of AVX2"; exit 1; }
  echo "aarch64: $(wc -l <"$scratch/arm") results equal those of AVX2 ($((SECONDS - start)) s)"
}

case ${1:-} in
  --aarch64) run_aarch64 "${@:2}" ;;
  /* | .*) run_x86 "$@" ;;
  *) sed -n '3,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
