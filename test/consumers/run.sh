#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs a tiny user of vecdet in every way that users build: by the commands of
# docs/building.md without CMake; the first program of docs/getting_started.md; with find_package and FetchContent; with compiler flags that
# differ from vecdet's; header-only and dispatching in one program. The instruction sets' units are
# compiled once, by hand.
#
#   run.sh [--all]   --all adds vecdet::torch from an installed vecdet, Clang's warnings, and
#                    add_subdirectory, whose units are compiled once more, under flags that would break
#                    them if they reached them; CXX chooses the compiler (default g++),
#                    VECDET_XSIMD_INCLUDE_DIR xsimd's headers
set -euo pipefail
all=${1:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
: "${CXX:=g++}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
configure=(cmake -G Ninja -DCMAKE_CXX_COMPILER="$CXX")
# Not /usr/include: GCC would search it before its own C++ headers.
if [ -n "${VECDET_XSIMD_INCLUDE_DIR:-}" ] && [ "$VECDET_XSIMD_INCLUDE_DIR" != /usr/include ]; then
  export CPLUS_INCLUDE_PATH=$VECDET_XSIMD_INCLUDE_DIR
  configure+=(-DVECDET_XSIMD_INCLUDE_DIR="$VECDET_XSIMD_INCLUDE_DIR")
fi
cache=${CMAKE_CXX_COMPILER_LAUNCHER:-$(command -v ccache || true)}
unset CMAKE_CXX_COMPILER_LAUNCHER
units=$scratch/by_hand
warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
known= # what the consumer built by hand printed: the bits that all others must print

consumer() {
  local name=$1 start
  shift
  start=$(date +%s%N)
  # In the background, because set -e has no effect within a condition.
  "$@" >"$scratch/log" 2>&1 &
  wait $! || { tail -n 40 "$scratch/log"; echo "FAILED: $name"; exit 1; }
  printf 'ok  %-52s %5d ms\n' "$name" $((($(date +%s%N) - start) / 1000000))
}

# Runs a consumer and compares its loss, bit by bit.
run_and_compare() {
  local printed
  printed=$("$@")
  echo "$printed"
  [ "$printed" = "$known" ] || { echo "expected: $known"; return 1; }
}

# The g++ commands of docs/building.md, section "Without CMake".
by_hand() {
  mkdir "$units"
  cd "$units"
  cp "$here/trainer.cpp" .
  local commands
  commands=$(sed -n '/^Without CMake/,/^```$/s/^g++/\$CXX/p' "$root/docs/building.md")
  [ "$(echo "$commands" | wc -l)" = 5 ] || { echo "docs/building.md has other commands"; return 1; }
  # Compile the units in parallel; if one fails, so does the link. They are position-independent, so
  # that they also serve the shared library of vecdet::torch.
  I=$root/include CXX="$cache $CXX -fPIC" bash -ec "$(echo "$commands" | sed '1,4s/$/ \&/; 4s/$/ wait/')"
  VECDET_PROFILE=1 ./a.out 2>profile
  grep sigmoid_focal_loss_and_grad/labels/f32/4x3 profile
}

# The first program of docs/getting_started.md, by its command, prints what the page shows.
first_program() {
  mkdir "$scratch/first"
  cd "$scratch/first"
  ln -s "$root" vecdet
  # block <kind>: the first block of code of that kind.
  block() {
    sed -n '/^## A first program/,/^## Install/p' "$root/docs/getting_started.md" |
      awk -v kind="$1" '/^```/ { if (inside && on) exit; inside = !inside; on = inside && $0 == "```" kind; next } on'
  }
  block cpp >detect.cpp
  block '' >expected
  [ "$(wc -l <expected)" = 3 ]
  block sh | sed "s|^g++|$cache $CXX|" >command
  bash -e command >printed
  diff expected printed
}

# A consumer's own flags, with the units by hand.
with_flags() {
  local binary
  binary=$scratch/$(echo "$*" | tr -c 'a-z0-9\n' '_')
  $CXX -I "$root/include" $warnings -DVECDET_DISPATCH "$@" "$here/trainer.cpp" \
    "$units"/{baseline,avx2,avx512,environment}.o -ltbb -o "$binary"
  run_and_compare "$binary"
}

# A user's file compiled by Clang, with units of $CXX.
with_clang() {
  local CXX=clang++
  with_flags "$@"
}

headers_alone() {
  $cache $CXX -I "$root/include" "$@" -c "$here/trainer.cpp" -o "$scratch/headers_alone.o"
  $CXX "$scratch/headers_alone.o" -ltbb -o "$scratch/headers_alone"
  "$scratch/headers_alone"
}

# Header-only kernels, with a user's usual warnings.
header_only_warnings() {
  local compiler compilers=$CXX
  [ -z "$all" ] || [ "$CXX" = clang++ ] || ! command -v clang++ >/dev/null || compilers+=' clang++'
  for compiler in $compilers; do
    $cache $compiler -std=c++17 -I "$root/include" -Wall -Wextra -Werror "$@" \
      -c "$here/warnings.cpp" -o "$scratch/warnings.o"
  done
}

# The header-only object comes first on the link line: any symbol that it shares with a unit would
# win.
two_in_one() {
  local flags=$1 march unit mixed=$scratch/mixed_${1//[^a-z0-9]/_}
  $cache $CXX -I "$root/include" $flags -c "$here/header_only.cpp" -o "$mixed.o"
  $CXX -I "$root/include" -O2 -DVECDET_DISPATCH -DHEADER_ONLY_TOO -c "$here/trainer.cpp" \
    -o "$scratch/trainer.o"
  $CXX "$mixed.o" "$scratch/trainer.o" "$units"/{baseline,avx2,avx512,environment}.o -ltbb -o "$mixed"
  run_and_compare "$mixed"
  # Each writes its own profile.
  (cd "$scratch" && rm -f mixed*.json && VECDET_PROFILE=mixed.json "$mixed" >/dev/null 2>&1 &&
    [ "$(ls mixed*.json | wc -l)" = 2 ] && grep -q sigmoid_focal_loss_and_grad mixed.json)
  # The linker keeps one copy of what both files define; vecdet's functions must not be part of it.
  nm --defined-only "$mixed.o" | awk '$2 ~ /[A-Zuvw]/ && $3 ~ /6vecdet/ { print $3 }' | sort >"$scratch/symbols"
  nm --defined-only "$scratch/trainer.o" "$units/environment.o" | awk '$2 ~ /[A-Zuvw]/ { print $3 }' |
    sort -u | comm -12 - "$scratch/symbols" | { grep -v 18reporting_profiles || [ $? = 1 ]; } >"$scratch/shared"
  if [ -s "$scratch/shared" ]; then
    echo "functions that a header-only file shares with a dispatching one:"
    c++filt <"$scratch/shared"
    return 1
  fi
  nm --defined-only "$mixed.o" | awk '$2 ~ /[A-Zuvw]/ { print $3 }' | sort >"$scratch/symbols"
  for unit in baseline avx2 avx512; do
    nm --defined-only "$units/$unit.o" | awk '$2 ~ /[A-Zuvw]/ { print $3 }' | sort |
      comm -12 - "$scratch/symbols" | { grep -v '^DW\.ref' || [ $? = 1 ]; } >"$scratch/shared"
    if [ -s "$scratch/shared" ]; then
      echo "symbols that a header-only unit shares with $unit.o:"
      c++filt <"$scratch/shared"
      return 1
    fi
  done
}

# with_cmake <way> <cmake arguments>...; the units come from by_hand.
with_cmake() {
  local way=$1 build=$scratch/$1
  shift
  "${configure[@]}" -S "$here" -B "$build" -DVECDET_FROM="$way" -DVECDET_SOURCE="$root" "$@"
  VECDET_UNITS=$units cmake --build "$build" -j 2
  run_and_compare "$build/trainer"
}

install_package() {
  "${configure[@]}" -S "$root" -B "$scratch/install_build"
  cmake --build "$scratch/install_build"
  # Header-only users wait for nothing: no file of vecdet's own is compiled.
  [ -z "$(find "$scratch/install_build" -name '*.o' -not -path '*/CMakeFiles/[0-9]*' -print -quit)" ]
  cmake --install "$scratch/install_build" --prefix "$scratch/prefix"
  # Installed files must not contain the path of their source tree.
  ! grep -rl -e "$root" -e "$scratch" "$scratch/prefix"
}

# Without AVX-512, through CMake's option: AVX2's kernels, with identical bits, and a clear error.
fewer_instruction_sets() {
  local build=$scratch/fewer said known=${known/%avx512/avx2}
  set_to() {
    "${configure[@]}" -S "$here" -B "$build" -DVECDET_FROM=find_package -DVECDET_INSTRUCTION_SETS="$1" "${@:2}"
  }
  set_to 'baseline;avx2' "$@"
  VECDET_UNITS=$units cmake --build "$build" -j 2
  [ -z "$(find "$build" -path '*vecdet_units/avx512*' -print -quit)" ]
  run_and_compare "$build/trainer"
  said=$(VECDET_ISA=avx512 "$build/trainer" 2>&1 || true)
  grep -q "VECDET_ISA is avx512, expected .*VECDET_INSTRUCTION_SETS" <<<"$said" || { echo "$said"; return 1; }
  said=$(set_to 'baseline;sse9' "$@" 2>&1 || true)
  grep -q 'VECDET_INSTRUCTION_SETS names "sse9"' <<<"$said" || { echo "$said"; return 1; }
  said=$(set_to avx2 "$@" 2>&1 | tr -s ' \n' ' ' || true)
  grep -q 'expected baseline among them' <<<"$said" || { echo "$said"; return 1; }
}

# Header-only by pkg-config, whose lists for the units are those of docs/building.md.
with_pkg_config() {
  local unit source
  export PKG_CONFIG_PATH=$scratch/prefix/share/pkgconfig
  headers_alone_from $(pkg-config --cflags vecdet)
  [ "$(pkg-config --variable=units vecdet)" = "baseline avx2 avx512 environment" ]
  for unit in $(pkg-config --variable=units vecdet); do
    source=$(pkg-config --variable=${unit}_source vecdet)
    cmp "$source" "$root/include/vecdet/${source##*/vecdet/}"
    sed -n '/^Without CMake/,/^```$/s/^g++ -std=c++17 -I$I \(.*\) -c .*/\1/p' "$root/docs/building.md" |
      grep -qxF -e "$(pkg-config --variable=${unit}_flags vecdet | sed 's/ *$//')"
  done
}

headers_alone_from() {
  $CXX -std=c++17 -O1 "$@" -c "$here/trainer.cpp" -o "$scratch/from_package.o"
  $CXX "$scratch/from_package.o" $(pkg-config --libs vecdet) -o "$scratch/from_package"
  "$scratch/from_package"
}

# Errors name a missing dependency with its package, and an xsimd that is too old with its version. Optional use
# continues without them.
missing_packages() {
  local project=$scratch/missing said
  mkdir "$project"
  cat >"$project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(missing LANGUAGES CXX)
if(XSIMD) # a target like that of xsimd as a subdirectory
  add_library(xsimd INTERFACE)
  target_include_directories(xsimd INTERFACE $<BUILD_INTERFACE:${XSIMD}> $<INSTALL_INTERFACE:include>)
endif()
find_package(vecdet ${KIND})
message(STATUS "found: ${vecdet_FOUND}")
EOF
  try() {
    env -u CPLUS_INCLUDE_PATH cmake -S "$project" -B "$project/build" --fresh -DCMAKE_CXX_COMPILER="$CXX" \
      -DCMAKE_PREFIX_PATH="$scratch/prefix" "$@" 2>&1 | tr -s ' \n' '  '
  }
  said=$(try -DKIND=REQUIRED -DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON || true)
  grep -q "oneTBB was not found.*install libtbb-dev" <<<"$said" || { echo "$said"; return 1; }
  said=$(try -DKIND=REQUIRED "-DCMAKE_IGNORE_PATH=/usr/include;/usr/local/include" || true)
  grep -q "xsimd was not found.*install libxsimd-dev" <<<"$said" || { echo "$said"; return 1; }
  mkdir -p "$project/old/xsimd/config"
  printf '#define XSIMD_VERSION_%s\n' 'MAJOR 7' 'MINOR 6' 'PATCH 0' >"$project/old/xsimd/config/xsimd_config.hpp"
  said=$(try -DKIND=REQUIRED -DVECDET_XSIMD_INCLUDE_DIR="$project/old" || true)
  grep -q "/old is version 7.6, and vecdet needs 8.1" <<<"$said" || { echo "$said"; return 1; }
  echo '#include "config/xsimd_config.hpp"' >"$project/old/xsimd/xsimd.hpp"
  said=$("$CXX" -std=c++17 -I"$project/old" -I"$root/include" -fsyntax-only "$here/header_only.cpp" 2>&1 || true)
  grep -q "vecdet needs xsimd 8.1 or newer" <<<"$said" || { echo "$said" | head -n 40; return 1; }
  said=$(try -DKIND=REQUIRED -DXSIMD="$project/old" || true)
  grep -q "/old is version 7.6, and vecdet needs 8.1" <<<"$said" || { echo "$said"; return 1; }
  said=$(try -DKIND=REQUIRED -DXSIMD="${VECDET_XSIMD_INCLUDE_DIR:-/usr/include}")
  grep -q "found: 1" <<<"$said" || { echo "$said"; return 1; }
  said=$(try -DKIND=QUIET -DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON)
  grep -q "found: 0" <<<"$said" || { echo "$said"; return 1; }
}

# vecdet::torch from an installed vecdet; the units come from by_hand.
with_torch() {
  local build=$scratch/torch
  "${configure[@]}" -S "$here/torch" -B "$build" -DCMAKE_PREFIX_PATH="$scratch/prefix" "$@"
  VECDET_UNITS=$units cmake --build "$build" -j 2
  "$build/trainer"
}
without_libtorch() {
  ! "${configure[@]}" -S "$here/torch" -B "$scratch/no_torch" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON >"$scratch/message" 2>&1
  grep libtorch-dev "$scratch/message"
}

# Programs of a few calls: unoptimised, because compiling takes longer than running.
ours=(-DCMAKE_CXX_COMPILER_LAUNCHER="$here/unit_launcher.sh" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=)

consumer "by hand, with the commands of docs/building.md" by_hand
known=$("$units/a.out")
consumer "the first program of docs/getting_started.md" first_program
for standard in 17 20 2b; do consumer "C++$standard" with_flags -std=c++$standard -O2; done
if command -v clang++ >/dev/null; then
  consumer "Clang, C++2b" with_clang -std=c++2b -O2
else
  echo "--  no Clang: a user's file is not compiled by it"
fi
consumer "Debug" with_flags -std=c++17 -O0 -g
consumer "-ffast-math" with_flags -std=c++17 -O3 -ffast-math
consumer "LTO" with_flags -std=c++17 -O2 -flto
consumer "-march=native" with_flags -std=c++17 -O3 -march=native
consumer "-Os -fno-rtti" with_flags -std=c++17 -Os -fno-rtti
consumer "ASan and UBSan with -ffast-math" with_flags -std=c++17 -O1 -ffast-math \
  -fsanitize=address,undefined -fno-sanitize-recover=all
consumer "headers alone, -O1 -march=native -ffast-math" headers_alone -std=c++17 -O1 \
  -march=native -ffast-math
consumer "headers alone for AVX-512, -Wall -Wextra -O2" header_only_warnings -O2 -march=x86-64-v4
if [ -n "$all" ]; then
  consumer "headers alone for AVX-512, -Wall -Wextra -O3" header_only_warnings -O3 -march=x86-64-v4
  consumer "headers alone for AVX2, -Wall -Wextra -O2" header_only_warnings -O2 -march=x86-64-v3
  consumer "headers alone for AVX2, -Wall -Wextra -O3" header_only_warnings -O3 -march=x86-64-v3
fi
consumer "headers alone at -O0 beside dispatch" two_in_one "-std=c++17 -O0"
consumer "headers alone for AVX2 beside dispatch" two_in_one "-std=c++20 -O1 -ffast-math -march=x86-64-v3"
consumer "install" install_package
consumer "find_package" with_cmake find_package "${ours[@]}" -DCMAKE_PREFIX_PATH="$scratch/prefix"
consumer "find_package without AVX-512" fewer_instruction_sets "${ours[@]}" -DCMAKE_PREFIX_PATH="$scratch/prefix"
consumer "pkg-config" with_pkg_config
consumer "without oneTBB, without xsimd, with an old xsimd" missing_packages
if [ -z "$all" ]; then
  echo "--  vecdet::torch is tried with --all"
elif [ -n "$(find /usr/lib /usr/share /usr/local ${CMAKE_PREFIX_PATH:-} -name TorchConfig.cmake -print -quit 2>/dev/null)" ]; then
  consumer "find_package with the component torch" with_torch "${ours[@]}"
else
  echo "--  no libtorch: vecdet::torch is not tried"
fi
consumer "the message where libtorch is missing" without_libtorch
consumer "FetchContent" with_cmake FetchContent "${ours[@]}"
if [ -n "$all" ]; then
  # Without -g, which would make the units compile for minutes longer.
  consumer "add_subdirectory, a project of hostile flags" with_cmake add_subdirectory \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$cache" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= \
    -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON -DCMAKE_UNITY_BUILD=ON \
    -DCMAKE_CXX_FLAGS="-march=native -ffast-math -ffp-contract=fast"
  consumer "the units built under hostile flags" "$root/test/check_symbols.sh" objects \
    $(find "$scratch/add_subdirectory" -path '*/vecdet_units/*.o')
fi
echo "all consumers: $SECONDS s"
