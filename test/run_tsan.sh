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

source "$root/test/debian_packages.sh"

build_onetbb() {
  mkdir -p "$onetbb"
  cd "$onetbb"
  ls -d onetbb-*/ >/dev/null 2>&1 || fetch_source "$(debian_suite)" onetbb
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
