#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the NumPy package, vecdet-*-py3-none-manylinux_*.whl, with oneTBB inside.
#
#   wheel.sh <folder for the wheel>                   in an empty root directory of Debian 12
#   wheel.sh --arch arm64 <folder for the wheel>      there, for 64-bit Arm, with the cross compiler
#   wheel.sh --host <folder for the wheel>            on this machine
#
# A root directory needs root, debootstrap and 1 GB; ROOTS=folder keeps it, and ccache's results, for
# the next time. The host needs g++, cmake, ninja, oneTBB, xsimd, patchelf, and Python's setuptools,
# wheel and pip. The tag names the C library of the machine that builds: Debian 12's is 2.36.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
source "$source/test/debian_root.sh"

# Runs where the wheel is built, in an empty folder: the wheel's path is the last line. The C library of
# the cross compiler has the version of the system's.
build='
set -euo pipefail
source=$1 machine=$2
platform="manylinux_$(getconf GNU_LIBC_VERSION | tr -d "a-z " | tr . _)_$machine"
copyright=/usr/share/doc/libtbb12/copyright
if [ "$machine" != "$(uname -m)" ]; then
  source "$source/test/arm_packages.sh"
  fetch_arm_packages "$PWD/sysroot" libtbb-dev libxsimd-dev
  copyright=$PWD/sysroot$copyright
  cat >toolchain.cmake <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $machine)
set(CMAKE_CXX_COMPILER $machine-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH $PWD/sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
END
  export CMAKE_TOOLCHAIN_FILE=$PWD/toolchain.cmake STRIP=$machine-linux-gnu-strip
fi
mkdir tree && tar -C "$source" --exclude=./build --exclude=./out --exclude=./.git -c . | tar -C tree -x # pip builds in the tree
python3 -m pip wheel --no-build-isolation --no-deps --no-cache-dir -q -w built ./tree/python >&2
python3 -m wheel unpack -d unpacked built/vecdet-*.whl >&2
package=$(echo unpacked/vecdet-*)
# A unique name: otherwise, the process might use another oneTBB that it has loaded.
name=$(patchelf --print-needed "$package/vecdet/libvecdet.so.0" | grep libtbb)
if [ -d sysroot ]; then
  tbb=$(echo sysroot/usr/lib/*/"$name")
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
sed -i "s/^Tag: .*/Tag: py3-none-$platform/" "$licences/WHEEL"
mkdir repaired
python3 -m wheel pack -d repaired "$package" >&2
echo "$PWD"/repaired/*.whl
'
usage() {
  sed -n '3,12s/^# \{0,1\}//p' "$0"
  exit 2
}

machine=$(uname -m) at=bookworm-wheel-build
packages=ca-certificates,g++,cmake,ninja-build,ccache,libtbb-dev,libxsimd-dev,patchelf,python3-setuptools,python3-wheel,python3-pip
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
  wheel=$(cd "$scratch" && bash -c "$build" build "$source" "$machine" | tail -n 1)
else
  make_root bookworm "$at" "$packages"
  rm -rf "$at/build"
  mkdir "$at/build"
  wheel=$at$(run bash -c "cd /build && bash -c '${build//\'/\'\\\'\'}' build /src $machine" | tail -n 1)
fi
cp "$wheel" "$out"
ls -l "$out/$(basename "$wheel")"
