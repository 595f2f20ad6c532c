#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds vecdet with the compilers, xsimd and oneTBB of several Debian suites and compares the
# results: on AVX2 and AVX-512, all must be bit-identical.
#
#   compatibility.sh [--tests] [<Debian suite or xsimd include folder>...]
#
# The system's GCC and Clang come first. A suite (trixie, sid) is a root directory that debootstrap
# creates from the machine's own mirror, with the suite's newest GCC and Clang. The system's
# compilers are also tried with its xsimd, and with the xsimd of a given folder. Each combination
# builds vecdet_digest with warnings as errors, and a user's program in C++17, 20 and 23. --tests
# also runs the kernels' tests with the last suite's compilers. Prints one table row per
# combination.
#
# Suites need root, debootstrap and 3 GB each. ROOTS=folder keeps them, and ccache's results of
# their builds, for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
roots=${ROOTS:-$scratch}
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
tests=
if [ "${1:-}" = --tests ]; then
  tests=yes
  shift
fi

# shellcheck source=debian_root.sh
at= # the root directory of run(), or none
source "$source/test/debian_root.sh"

# Creates the root directory of a suite.
make_root() {
  local suite=$1 compiler newest
  at=$roots/$suite
  [ ! -e "$at/ccache" ] || return 0
  debootstrap_root "$suite" \
    ca-certificates,g++,clang,cmake,ninja-build,ccache,libtbb-dev,libxsimd-dev,doctest-dev,nlohmann-json3-dev,libcli11-dev,libbenchmark-dev,zlib1g-dev
  for compiler in g++ clang; do
    newest=$(run apt-cache search --names-only "^${compiler//+/\\+}-[0-9]+\$" | cut -d ' ' -f 1 |
      sort -V | tail -n 1)
    run apt-get install -y --no-install-recommends "$newest"
    ln -sf "${newest/clang/clang++}" "$at/usr/bin/${compiler/clang/clang++}"
  done
  mkdir "$at/ccache" # last: the sign that the root is complete
}

# Builds and runs everything with a compiler, and optionally with the xsimd of a folder; writes the
# results that must be equal for all to $scratch/results.
build_and_run() {
  local compiler=$1 include=$2 with_tests=$3 folder=$source standard
  [ -z "$at" ] || folder=/src
  run cmake -S "$folder" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DVECDET_BUILD_TESTS=ON -DVECDET_TEST_PROJECT=ON \
    -DVECDET_WARNINGS_AS_ERRORS=ON ${include:+-DVECDET_XSIMD_INCLUDE_DIR="$include"}
  run cmake --build "$build" -j "$(nproc)" --target vecdet_digest ${with_tests:+vecdet_test}
  run "$build/test/vecdet_digest" >"$scratch/digest"
  grep '^avx' "$scratch/digest" >"$scratch/results"
  for standard in 17 20 2b; do
    run "$compiler" -std=c++$standard -O2 $warnings -DVECDET_DISPATCH -I "$folder/include" \
      "$folder/test/consumers/trainer.cpp" "$build/libvecdet_dispatch.a" -ltbb -o "$build/trainer"
    run "$build/trainer" >>"$scratch/results"
  done
  if [ -n "$with_tests" ]; then
    run ctest --test-dir "$build" -R '^(test_|unit_symbols|no_avx_elsewhere|isa_)' --output-on-failure
  fi
}

check() {
  local compiler=$1 include=$2 with_tests=${3:-} start=$SECONDS name versions build
  name=$(run "$compiler" --version | head -n 1)
  versions=$(printf '%s\n' '#include <xsimd/config/xsimd_config.hpp>' '#include <tbb/version.h>' \
    'XSIMD_VERSION_MAJOR.XSIMD_VERSION_MINOR.XSIMD_VERSION_PATCH|TBB_VERSION_MAJOR.TBB_VERSION_MINOR' |
    run "$compiler" ${include:+-isystem "$include"} -E -P -x c++ - | tail -n 1 | tr -d ' ')
  name="$name | ${versions/|/ | }"
  build=$(TMPDIR=$scratch run mktemp -d)
  # In the background, because set -e has no effect within a condition.
  build_and_run "$compiler" "$include" "$with_tests" >"$scratch/log" 2>&1 &
  wait $! || { tail -n 40 "$scratch/log"; echo "FAILED: $name"; exit 1; }
  run rm -r "$build"
  [ -e "$scratch/reference" ] || cp "$scratch/results" "$scratch/reference"
  diff "$scratch/reference" "$scratch/results" ||
    { echo "FAILED: $name: the results differ from the first"; exit 1; }
  echo "| $name | $(wc -l <"$scratch/results") equal${with_tests:+; $(
    sed -n 's/, 0 tests failed out of / of /p' "$scratch/log")} | $((SECONDS - start)) s |"
}

echo '| compiler | xsimd | oneTBB | results | time |'
echo '|---|---|---|---|--:|'
for compiler in g++ clang++; do check "$compiler" ''; done
for argument in "$@"; do
  at=
  include=$argument
  if [[ $argument != */* ]]; then
    make_root "$argument" >"$scratch/log" 2>&1 &
    wait $! || { tail "$scratch/log"; echo "FAILED: no root directory of $argument"; exit 1; }
    # A separate folder: the suite's /usr/include has another C library.
    include=$scratch/xsimd_$argument
    mkdir "$include"
    ln -s "$roots/$argument/usr/include/xsimd" "$include/xsimd"
  fi
  for compiler in g++ clang++; do check "$compiler" "$include"; done
  [[ $argument != */* ]] || continue
  at=$roots/$argument
  last=
  [ "$argument" != "${*: -1}" ] || last=$tests
  for compiler in g++ clang++; do check "$compiler" '' "$last"; done
done
