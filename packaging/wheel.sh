#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python package, vecdet-*-py3-none-manylinux_*.whl, with oneTBB inside.
#
#   wheel.sh <folder for the wheel>                   for the C and C++ libraries of Debian 11 and newer
#   wheel.sh --arch arm64 <folder for the wheel>      the same for 64-bit Arm, with the cross compiler
#   wheel.sh --host <folder for the wheel>            for this machine's libraries, with its oneTBB
#
# The first two run in an empty root directory of Debian 12 and compile oneTBB, too, with the headers and
# libraries of Debian 11. That needs root, debootstrap and 2 GB; ROOTS=folder keeps the root directory, and
# ccache's results, for the next time. The host needs g++, cmake, ninja, oneTBB, xsimd, patchelf, and Python's
# setuptools, wheel and pip. The tag of the wheel names the version of the C library.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
source "$source/test/debian_root.sh"

# Runs where the wheel is built, in an empty folder: the wheel's path is the last line.
build='
set -euo pipefail
source=$1 machine=$2 suite=$3 # of the C library; empty: that of this machine
libc=$(getconf GNU_LIBC_VERSION | tr -d "a-z ")
copyright=/usr/share/doc/libtbb12/copyright
if [ -n "$suite" ]; then
  source "$source/test/debian_packages.sh"
  triple=$machine-linux-gnu architecture=${machine/x86_64/amd64} architecture=${architecture/aarch64/arm64}
  libraries=$PWD/libraries packages=$PWD/packages
  fetch_packages "$suite" $architecture "$libraries" libc6-dev libstdc++-10-dev
  fetch_packages bookworm $architecture "$packages" libxsimd-dev libtbb12 # of libtbb12 only the licence
  copyright=$packages$copyright
  libc=$(basename "$libraries"/lib/$triple/libc-*.so .so) libc=${libc#libc-}
  # The libraries of Debian 11 come before those of GCC, which needs no other of them than libgcc.
  cat >toolchain.cmake <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $machine)
set(CMAKE_C_COMPILER $triple-gcc)
set(CMAKE_CXX_COMPILER $triple-g++)
set(CMAKE_SYSROOT $libraries)
set(CMAKE_FIND_ROOT_PATH $packages/usr $PWD/tbb)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CXX_FLAGS_INIT "-nostdinc++ -isystem $libraries/usr/include/c++/10 -isystem $libraries/usr/include/$triple/c++/10")
foreach(kind EXE SHARED)
  set(CMAKE_\${kind}_LINKER_FLAGS_INIT "-B$libraries/usr/lib/$triple -L$libraries/usr/lib/gcc/$triple/10 -L$libraries/usr/lib/$triple -L$libraries/lib/$triple")
endforeach()
END
  export CMAKE_TOOLCHAIN_FILE=$PWD/toolchain.cmake STRIP=$triple-strip
  fetch_source bookworm onetbb
  cmake -S onetbb-*/ -B onetbb -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PWD/tbb" -DTBB_TEST=OFF \
    -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON -DCMAKE_INSTALL_LIBDIR=lib >&2
  cmake --build onetbb --target install >&2
  $STRIP tbb/lib/libtbb.so
fi
mkdir tree && tar -C "$source" --exclude=./build --exclude=./out --exclude=./.git -c . | tar -C tree -x # pip builds in the tree
python3 -m pip wheel --no-build-isolation --no-deps --no-cache-dir -q -w built ./tree/python >&2
python3 -m wheel unpack -d unpacked built/vecdet-*.whl >&2
package=$(echo unpacked/vecdet-*)
# It exports the functions of c.h and those that the package calls to register the operators in PyTorch.
symbols() { # without the sections, which the linker for 64-bit Arm lists, too
  readelf --dyn-syms --wide "$package/vecdet/libvecdet.so.0" | awk "\$4 != \"SECTION\" && \$7 ~ /$1/ { print \$8 }" |
    LC_ALL=C sort
}
LC_ALL=C sort tree/test/c/symbols.txt tree/test/c/symbols_torch.txt |
  diff - <(symbols "^[0-9]+\$") >&2 || { echo "the exports of libvecdet (>) differ from symbols.txt and symbols_torch.txt (<)" >&2; exit 1; }
! symbols UND | grep -E "torch|N2at|N3c10" >&2 || { echo "libvecdet needs PyTorch" >&2; exit 1; }
# A unique name: otherwise, the process might use another oneTBB that it has loaded.
name=$(patchelf --print-needed "$package/vecdet/libvecdet.so.0" | grep libtbb)
if [ -n "$suite" ]; then
  tbb=tbb/lib/$name
else
  tbb=$(ldd "$package/vecdet/libvecdet.so.0" | awk "/libtbb/ { print \$3 }")
fi
own=libtbb-vecdet.so.12
cp -L "$tbb" "$package/vecdet/$own"
patchelf --set-soname "$own" "$package/vecdet/$own"
patchelf --replace-needed "$name" "$own" "$package/vecdet/libvecdet.so.0"
licences=$(echo "$package"/vecdet-*.dist-info)
cp tree/LICENSE "$licences/LICENSE"
cp "$copyright" "$licences/LICENSE.oneTBB"
if [ -n "$suite" ]; then # they need nothing that the libraries lack
  versions() { readelf -V --wide "${@:2}" | awk "/^Version/ { on = /$1/ } on" | grep -oE "\\<(GLIBC|GLIBCXX|CXXABI|GCC)_[0-9.]+" | sort -u; }
  versions definition "$libraries"/lib/$triple/*.so.* "$libraries"/usr/lib/$triple/libstdc++.so.6 >has
  versions needs "$package"/vecdet/*.so.* >needs
  [ -s needs ] && ! comm -23 needs has | grep . || { echo "Debian $suite lacks these" >&2; exit 1; }
fi
sed -i "s/^Tag: .*/Tag: py3-none-manylinux_${libc/./_}_$machine/" "$licences/WHEEL"
mkdir repaired
python3 -m wheel pack -d repaired "$package" >&2
echo "$PWD"/repaired/*.whl
'
usage() {
  sed -n '3,12s/^# \{0,1\}//p' "$0"
  exit 2
}

machine=$(uname -m) at=bookworm-wheel-build
packages=ca-certificates,g++,cmake,ninja-build,ccache,dpkg-dev,patchelf,python3-setuptools,python3-wheel,python3-pip
on_host=
while [ $# -gt 1 ]; do
  case $1 in
    --host) on_host=yes ;;
    --arch)
      [ "$2" = arm64 ] || usage
      machine=aarch64 at=$at-arm64 packages=$packages,g++-aarch64-linux-gnu
      shift
      ;;
    *) usage ;;
  esac
  shift
done
[[ $# = 1 && $1 != -* ]] || usage
out=$(mkdir -p "$1" && cd "$1" && pwd)
if [ -n "$on_host" ]; then
  wheel=$(cd "$scratch" && bash -c "$build" build "$source" "$machine" "" | tail -n 1)
else
  make_root bookworm "$at" "$packages"
  rm -rf "$at/build"
  mkdir "$at/build"
  wheel=$at$(run bash -c "cd /build && bash -c '${build//\'/\'\\\'\'}' build /src $machine bullseye" | tail -n 1)
fi
cp "$wheel" "$out"
ls -l "$out/$(basename "$wheel")"
