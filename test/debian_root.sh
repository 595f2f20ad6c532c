# SPDX-License-Identifier: Apache-2.0
# For scripts that build in root directories of Debian's suites, which read it with `source`. They set
#
#   source   vecdet's tree
#   at       the root directory in which run() runs; empty: the system
source "$source/test/debian_packages.sh" # debian_mirror

# Runs a command in a mount namespace of its own, also where "/" is no mount point, because chroot entered it.
in_own_mounts() {
  if unshare --mount true 2>/dev/null; then unshare --mount "$@"; else unshare --mount --propagation unchanged "$@"; fi
}

# Runs a command in the root directory $at, where the source is /src, or in the system if $at is
# empty. The mounts are in a separate namespace and end with the command.
run() {
  if [ -z "$at" ]; then
    "$@"
  else
    in_own_mounts bash -c 'mount -t proc proc "$0/proc" && mount -t tmpfs shm "$0/dev/shm" &&
      mount --bind -o ro "$1" "$0/src" &&
      exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive VECDET_FULL_TESTS=1 CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/ccache "${@:2}"' \
      "$at" "$source" "$@"
  fi
}

# debootstrap_root <suite> <packages>: creates the root directory $at from the machine's own mirror.
# apt-get installs the packages, because debootstrap does not find those that others provide. A root is
# complete once the caller has created its folder /ccache.
debootstrap_root() {
  in_own_mounts debootstrap --variant=minbase "$1" "$at" "$(debian_mirror)" &&
    mkdir "$at/src" &&
    run apt-get install -y -qq --no-install-recommends ${2//,/ }
}

# ensure_root <suite> <packages>: the same, unless a complete root is there from an earlier run.
ensure_root() {
  [ ! -e "$at/ccache" ] || return 0
  rm -rf --one-file-system "$at"
  debootstrap_root "$@" && mkdir "$at/ccache"
}

# need_roots: ends the script as a skipped test unless root directories can be made. Then creates the
# folder $scratch, which is removed at the end.
need_roots() {
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "needs root and debootstrap"
    exit 77
  fi
  scratch=$(mktemp -d)
  trap 'rm -rf --one-file-system "$scratch"' EXIT
}

# make_root <suite> <folder> <packages>: sets $at to the root directory of that name in $ROOTS, or in
# $scratch if it is not set, and completes it with ensure_root. Shows apt-get's output only if it fails.
make_root() {
  at=${ROOTS:-$scratch}/$2
  ensure_root "$1" "$3" >"$scratch/log" || { tail "$scratch/log"; exit 1; }
}
