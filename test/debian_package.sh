#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package on a fresh Debian 12: built by the preset `package`, installed with its
# dependencies in a debootstrap root directory, and used from /usr. The consumers' program is built
# by find_package, by header-only pkg-config, and by pkg-config with the units that it lists.
#
#   debian_package.sh [<package>.deb]     needs root, debootstrap and 1 GB; ROOTS=folder keeps the root
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh" # debian_mirror, need_roots
need_roots
root=${ROOTS:-$scratch}/bookworm

# Runs a command in the root directory; the mounts end with it.
run() {
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" env -i \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' "$root" "$@"
}

package=${1:-}
if [ -z "$package" ]; then
  cd "$source"
  cmake --preset package -B "$scratch/build"
  cmake --build "$scratch/build" --target docs
  (cd "$scratch/build" && cpack)
  package=$(ls "$scratch"/build/*.deb)
fi
dpkg-deb --info "$package"

if [ ! -e "$root/etc/debian_version" ]; then
  unshare --mount debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$(debian_mirror)" >"$scratch/log" ||
    { tail "$scratch/log"; exit 1; }
fi
rm -rf "$root/src"
mkdir "$root/src"
cp "$package" "$root/src/vecdet.deb"
cp -r "$source/test/consumers" "$root/src/consumers"
run apt-get update -qq
run apt-get install -y -qq --no-install-recommends /src/vecdet.deb >/dev/null
run apt-get install -y -qq --no-install-recommends g++ cmake make pkg-config >/dev/null
run dpkg --verify libvecdet-dev
run test -s /usr/share/doc/libvecdet-dev/copyright

run cmake -S /src/consumers -B /src/find_package -DVECDET_FROM=find_package -DCMAKE_BUILD_TYPE=Release
run cmake --build /src/find_package -j "${JOBS:-2}"
run /src/find_package/trainer | tee "$scratch/known"

run sh -ec 'cd /src && g++ -std=c++17 -O1 consumers/trainer.cpp $(pkg-config --cflags --libs vecdet) -o alone && ./alone'

run bash -ec 'cd /src
  for unit in $(pkg-config --variable=units vecdet); do
    g++ -std=c++17 $(pkg-config --cflags vecdet) $(pkg-config --variable=${unit}_flags vecdet) \
      -c $(pkg-config --variable=${unit}_source vecdet) -o $unit.o
  done
  g++ -std=c++17 -O2 -DVECDET_DISPATCH consumers/trainer.cpp baseline.o avx2.o avx512.o environment.o \
    $(pkg-config --cflags --libs vecdet) -o dispatching && ./dispatching' | tee "$scratch/by_hand"
cmp "$scratch/known" "$scratch/by_hand"

run apt-get remove -y -qq libvecdet-dev >/dev/null
run test ! -e /usr/include/vecdet
echo "the Debian package works from /usr"
