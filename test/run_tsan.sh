#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that call from many threads, and the examples, under ThreadSanitizer with an
# instrumented oneTBB. With a packaged oneTBB, ThreadSanitizer sees neither its synchronisation nor
# that a task starts after it was spawned. The source package of the system's oneTBB is downloaded
# by apt from the machine's own mirror and built in build/tsan_onetbb. Nothing is installed, and a
# later run reuses the build.
#
#   run_tsan.sh [<configure arguments>...]
#
# Needs apt with dpkg-dev. TESTS, a regular expression, chooses other tests of ctest.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
onetbb=$root/build/tsan_onetbb
: "${TESTS:=^(test_(threads|postprocess|soft_nms|dispatch|profile.*)|example_.*)\$}"

# Unpacks the source package in the current folder, with separate package lists.
fetch_source() {
  mkdir -p apt/{lists/partial,cache/archives/partial}
  if [ -e /etc/apt/sources.list.d/debian.sources ]; then
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >apt/source.sources
  else
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >apt/source.list
  fi
  local options="-o Dir::State::lists=$PWD/apt/lists -o Dir::Cache=$PWD/apt/cache
    -o Dir::Etc::sourcelist=$(ls "$PWD"/apt/source.*) -o Dir::Etc::sourceparts=/nonexistent
    -o APT::Sandbox::User=root"
  apt-get -qq $options update && apt-get -qq $options source onetbb
}

build_onetbb() {
  mkdir -p "$onetbb"
  cd "$onetbb"
  ls -d onetbb-*/ >/dev/null 2>&1 || fetch_source
  # Without ThreadSanitizer's warning that it does not support fences.
  cmake -S onetbb-*/ -B build -G Ninja -DCMAKE_CXX_COMPILER=g++ -DCMAKE_CXX_FLAGS=-Wno-tsan \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTBB_SANITIZE=thread -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBB_ENABLE_IPO=OFF \
    -DTBBMALLOC_BUILD=OFF -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build build
  cmake --install build --prefix "$onetbb/prefix"
}

[ -e "$onetbb/prefix/lib/libtbb.so" ] || (build_onetbb)
echo "oneTBB: $SECONDS s"
cd "$root"
build=$root/build/tsan_all
# The compiler, and so the sanitizer's runtime, is oneTBB's.
cmake --preset tsan -B "$build" -DCMAKE_CXX_COMPILER=g++ \
  -DTBB_DIR="$onetbb/prefix/lib/cmake/TBB" "$@"
cmake --build "$build" --target vecdet_test examples/all
ldd "$build/test/vecdet_test" | grep "$onetbb/prefix/lib/libtbb" # not the packaged one
echo "built: $SECONDS s"
ctest --test-dir "$build" -R "$TESTS" --no-tests=error --output-on-failure
echo "all: $SECONDS s"
