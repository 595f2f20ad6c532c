#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the NumPy package, vecdet-*-py3-none-manylinux_*_x86_64.whl, with oneTBB inside.
#
#   wheel.sh <folder for the wheel>           in an empty root directory of Debian 12
#   wheel.sh --host <folder for the wheel>    on this machine
#
# A root directory needs root, debootstrap and 1 GB; ROOTS=folder keeps it, and ccache's results, for
# the next time. The host needs g++, cmake, ninja, oneTBB, xsimd, patchelf, and Python's setuptools,
# wheel and pip. The tag names the C library of the machine that builds: Debian 12's is 2.36.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
source "$source/test/debian_root.sh"

# Runs where the wheel is built, in an empty folder: the wheel's path is the last line.
build='
set -euo pipefail
source=$1
platform="manylinux_$(getconf GNU_LIBC_VERSION | tr -d "a-z " | tr . _)_$(uname -m)"
mkdir tree && tar -C "$source" --exclude=./build --exclude=./out --exclude=./.git -c . | tar -C tree -x # pip builds in the tree
python3 -m pip wheel --no-build-isolation --no-deps --no-cache-dir -q -w built ./tree/python >&2
python3 -m wheel unpack -d unpacked built/vecdet-*.whl >&2
package=$(echo unpacked/vecdet-*)
# A unique name: otherwise, the process might use another oneTBB that it has loaded.
tbb=$(ldd "$package/vecdet/libvecdet.so.0" | awk "/libtbb/ { print \$3 }")
own=libtbb-vecdet.so.12
cp -L "$tbb" "$package/vecdet/$own"
patchelf --set-soname "$own" "$package/vecdet/$own"
patchelf --replace-needed "$(basename "$tbb")" "$own" "$package/vecdet/libvecdet.so.0"
licences=$(echo "$package"/vecdet-*.dist-info)
cp tree/LICENSE "$licences/LICENSE"
cp /usr/share/doc/libtbb12/copyright "$licences/LICENSE.oneTBB"
sed -i "s/^Tag: .*/Tag: py3-none-$platform/" "$licences/WHEEL"
mkdir repaired
python3 -m wheel pack -d repaired "$package" >&2
echo "$PWD"/repaired/*.whl
'
in=$scratch
if [ "${1:-}" = --host ]; then
  shift
  out=$(mkdir -p "$1" && cd "$1" && pwd)
  wheel=$(cd "$in" && bash -c "$build" build "$source" | tail -n 1)
else
  [ $# = 1 ] || { sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 2; }
  out=$(mkdir -p "$1" && cd "$1" && pwd)
  at=${ROOTS:-$scratch}/bookworm-wheel-build
  if [ ! -e "$at/ccache" ]; then
    debootstrap_root bookworm \
      ca-certificates,g++,cmake,ninja-build,ccache,libtbb-dev,libxsimd-dev,patchelf,python3-setuptools,python3-wheel,python3-pip \
      >"$scratch/log" || { tail "$scratch/log"; exit 1; }
    mkdir "$at/ccache" # last: the sign that the root is complete
  fi
  rm -rf "$at/build"
  mkdir "$at/build"
  wheel=$at$(run bash -c "cd /build && bash -c '${build//\'/\'\\\'\'}' build /src" | tail -n 1)
fi
cp "$wheel" "$out"
ls -l "$out/$(basename "$wheel")"
