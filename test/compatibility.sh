#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the kernels with several compilers and xsimd releases, and compares their results: on
# AVX2 and AVX-512 all must give the same bits.
#
#   compatibility.sh [--tests] [<xsimd include folder or Debian suite>...]
#
# The system's xsimd comes first. A Debian suite (trixie, sid) means the xsimd package of that suite,
# got with apt from the machine's own mirror and unpacked in a scratch folder: nothing is installed.
# COMPILERS lists the compilers (default "g++ clang++"); --tests runs the kernels' tests with each.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
with_tests=
if [ "${1:-}" = --tests ]; then
  with_tests=yes
  shift
fi

# Unpacks libxsimd-dev of a suite and prints its include folder.
fetch_xsimd() {
  local suite=$1 at=$scratch/$1 apt source
  mkdir -p "$at"/{lists/partial,cache/archives/partial,sysroot}
  source=$(ls /etc/apt/sources.list.d/debian.sources 2>/dev/null || echo /etc/apt/sources.list)
  if [ "${source##*.}" = sources ]; then
    sed -e '/^$/,$d' -e "s/^Suites:.*/Suites: $suite/" "$source" >"$at/suite.sources"
  else
    sed -nE "s/^(deb .*) [a-z]+ main.*/\1 $suite main/p" "$source" | head -n 1 >"$at/suite.list"
  fi
  apt="-o Dir::State::lists=$at/lists -o Dir::State::status=/dev/null -o Dir::Cache=$at/cache
       -o Dir::Etc::sourcelist=$(ls "$at"/suite.*) -o Dir::Etc::sourceparts=/nonexistent
       -o APT::Sandbox::User=root"
  (cd "$at" && apt-get -qq $apt update && apt-get -qq $apt download libxsimd-dev) >&2
  dpkg -x "$at"/libxsimd-dev_*.deb "$at/sysroot"
  echo "$at/sysroot/usr/include"
}

xsimd_release() {
  sed -nE 's/#define XSIMD_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)/\2/p' \
    "$1/xsimd/config/xsimd_config.hpp" | paste -sd.
}

reference=
check() {
  local compiler=$1 include=$2 start=$SECONDS build name
  name="$("$compiler" --version | head -n 1), xsimd $(xsimd_release "$include")"
  build=$scratch/build_$(echo "$name" | tr -c 'A-Za-z0-9\n' _)
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DVECDET_XSIMD_INCLUDE_DIR="$include" -DVECDET_BUILD_BENCHMARKS=OFF -DVECDET_BUILD_EXAMPLES=OFF \
    -DVECDET_WARNINGS_AS_ERRORS=ON >/dev/null
  cmake --build "$build" -j "$(nproc)" --target vecdet_digest ${with_tests:+vecdet_test} \
    >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; echo "FAILED: $name"; exit 1; }
  "$build/test/vecdet_digest" | grep '^avx' >"$scratch/digest"
  if [ -z "$reference" ]; then
    reference=$scratch/reference
    cp "$scratch/digest" "$reference"
  fi
  diff "$reference" "$scratch/digest" || { echo "FAILED: $name: other bits than the first"; exit 1; }
  if [ -n "$with_tests" ]; then
    ctest --test-dir "$build" -R '^(test_|unit_symbols)' -E 'test_profile' --output-on-failure |
      tail -n 4
  fi
  echo "ok  $name: $(wc -l <"$scratch/digest") results ($((SECONDS - start)) s)"
}

system=$(dirname "$(dirname "$(echo '#include <xsimd/xsimd.hpp>' | g++ -E -x c++ - |
  sed -n 's/^# 1 "\(.*xsimd\.hpp\)".*/\1/p' | head -n 1)")")
# A folder of its own: as an include folder, /usr/include would come before the compiler's.
mkdir "$scratch/system"
ln -s "$system/xsimd" "$scratch/system/xsimd"
includes=("$scratch/system")
for argument in "$@"; do
  case $argument in
    */*) includes+=("$argument") ;;
    *) includes+=("$(fetch_xsimd "$argument")") ;;
  esac
done
for include in "${includes[@]}"; do
  for compiler in ${COMPILERS:-g++ clang++}; do check "$compiler" "$include"; done
done
