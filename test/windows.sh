#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for Windows with GCC's cross compiler in a root directory of Debian 12, and runs under Wine what it has
# built:
#
#   windows.sh <vecdet_digest>    the digest of Linux, whose results must be the same
#
# oneTBB comes from Debian's source package. The unit tests are those that need no POSIX: test/CMakeLists.txt
# excludes the others. Needs root, debootstrap and 3 GB; ROOTS=folder keeps the root directory, oneTBB and ccache's
# results for the next time.
set -euo pipefail

# From here to build_and_run(), all runs in the root directory.
compiler=x86_64-w64-mingw32

# What a user's folder of packages has: oneTBB, xsimd, the libraries of the tests and those of GCC.
prepare() {
  [ ! -e /windows/ready ] || return 0
  rm -rf /windows /onetbb
  mkdir -p /windows/{bin,include,share/cmake} /onetbb
  cp -r /usr/include/{xsimd,doctest,nlohmann} /windows/include
  cp -r /usr/share/cmake/nlohmann_json /windows/share/cmake
  local library
  for library in libstdc++-6 libgcc_s_seh-1 libwinpthread-1; do
    cp "$($compiler-g++-posix -print-file-name=$library.dll)" /windows/bin
  done
  cd /onetbb
  source /src/test/debian_packages.sh
  fetch_source bookworm onetbb
  cmake -S onetbb-*/ -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/windows -DTBB_TEST=OFF -DTBB_STRICT=OFF \
    -DTBBMALLOC_BUILD=OFF
  cmake --build build --target install
  wine64 wineboot --init
  touch /windows/ready
}

# GCC moves AVX's vectors as if the stack were aligned for them. Nothing in vecdet's objects may rely on that. Stores
# past the caches, which have no unaligned form, go to aligned addresses in the caller's arrays, never to the stack.
unaligned_moves() {
  $compiler-objdump -d --no-show-raw-insn "$@" | awk '
    /%[yz]mm/ && /\(/ && $2 ~ /^vmovu|^vmovdqu/ { ++unaligned }
    /%[yz]mm/ && /\(/ && ($2 ~ /^vmova|^vmovdqa/ || $2 ~ /^vmovnt/ && /\(%rsp/) && ++aligned <= 10 { print "  " $0 }
    END {
      print "moves of AVX vectors in memory: " unaligned + 0 " unaligned, " aligned + 0 " aligned"
      exit aligned > 0 || unaligned < 1000
    }'
}

# Runs a program of Windows; its lines end as those of Linux.
windows() { wine64 "$@" | tr -d '\r'; }

digest() {
  windows /build/vecdet/test/vecdet_digest.exe >/build/digest
  diff /build/linux_digest /build/digest || { echo "the results above differ between Linux and Windows"; exit 1; }
  head -n 1 /build/digest
  echo "$(sed 1d /build/digest | wc -l) results equal those of Linux"
}

# The DLL exports the functions of the list, and the sample of docs/c.md calls them from C.
c_interface() {
  $compiler-objdump -p /build/prefix/bin/libvecdet.dll | sed -n '/Ordinal\/Name Pointer/,/^$/s/^\t\[.*\] //p' |
    LC_ALL=C sort | diff - /src/test/c/symbols.txt || { echo "libvecdet.dll exports other symbols"; exit 1; }
  sed -n '/^```c$/,/^```$/p' /src/docs/c.md | sed '1d;$d' >/build/sample.c
  $compiler-gcc-posix -std=c99 -Wall -Wextra -Werror -I /build/prefix/include /build/sample.c -L /build/prefix/lib -lvecdet \
    -o /build/sample.exe
  [ "$(windows /build/sample.exe)" = "kept box 1" ]
  echo "libvecdet.dll: $(wc -l </src/test/c/symbols.txt) functions, and the sample in C"
}

# By the commands of docs/building.md, and by find_package with the same objects.
consumers() {
  mkdir -p /build/by_hand
  cd /build/by_hand
  cp /src/test/consumers/trainer.cpp .
  local commands
  commands=$(sed -n '/^Without CMake/,/^```$/s/^g++/$CXX $W/p' /src/docs/building.md | sed 's/-ltbb$/-ltbb12/')
  I=/src/include CXX="ccache $compiler-g++-posix -isystem /windows/include -L /windows/lib" \
    W=$(sed -n 's/^W=//p' /src/docs/building.md) bash -ec "$commands"
  unaligned_moves avx2.o avx512.o
  local known
  known=$(windows a.exe)
  CMAKE_CXX_COMPILER_LAUNCHER=/src/test/consumers/unit_launcher.sh VECDET_UNITS=$PWD \
    bash -c 'cmake -S /src/test/consumers -B /build/consumer -DVECDET_FROM=find_package -DCMAKE_FIND_ROOT_PATH=/build/prefix &&
      cmake --build /build/consumer' >/build/log || { cat /build/log; exit 1; }
  [ "$(windows /build/consumer/trainer.exe)" = "$known" ]
  echo "by hand and by find_package: $known"
}

# Prints an example's table, and writes a report over an older file.
profiler() {
  local example=/build/vecdet/examples/losses_in_trainer.exe folder=/build/reports
  rm -rf $folder
  mkdir $folder
  cd $folder
  VECDET_PROFILE=1 wine64 $example 2>&1 >/dev/null | tr -d '\r' | tee table
  grep -q '^  losses_in_trainer.exe, process ' table
  grep -q '/f32/[0-9x]*/' table
  echo older >report.json
  VECDET_PROFILE=report.json wine64 $example >/dev/null
  grep -q '/f32/[0-9x]*/' report.json
  [ "$(ls)" = "$(printf 'report.json\ntable')" ]
}

build_and_run() {
  export CMAKE_GENERATOR=Ninja CMAKE_TOOLCHAIN_FILE=/src/test/windows.cmake HOME=/root WINEPREFIX=/wine WINEDEBUG=-all
  export PATH=$PATH:/usr/lib/wine WINEPATH='Z:\windows\bin;Z:\build\prefix\bin'
  prepare
  rm -rf /build/{vecdet,prefix,by_hand,consumer}
  cmake -S /src -B /build/vecdet -DCMAKE_BUILD_TYPE=Release -DVECDET_BUILD_TESTS=ON -DVECDET_C=ON \
    -DVECDET_BUILD_EXAMPLES=ON -DVECDET_WARNINGS_AS_ERRORS=ON -DCMAKE_INSTALL_PREFIX=/build/prefix
  cmake --build /build/vecdet
  unaligned_moves /build/vecdet/libvecdet_dispatch.a
  digest
  cmake --install /build/vecdet >/dev/null
  ctest --test-dir /build/vecdet --output-on-failure --no-tests=error
  c_interface
  consumers
  profiler
  wineserver -w
}
if [ "${1:-}" = --in-root ]; then
  build_and_run
  exit
fi

source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh"
[ $# = 1 ] || { sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 2; }
need_roots
make_root bookworm bookworm-windows ca-certificates,g++-mingw-w64-x86-64-posix,wine64,cmake,ninja-build,ccache,dpkg-dev,libxsimd-dev,doctest-dev,nlohmann-json3-dev
mkdir -p "$at/build"
"$1" >"$at/build/linux_digest"
run bash /src/test/windows.sh --in-root
