#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands of README.md, as a new user runs them: each is read from README.md and runs in a clone of the last
# commit, in a new root directory that holds Debian's smallest system and only what the command installs.
#
#   readme_commands.sh [--no-ccache] [--together] [--suite <suite>] [bench|test]...
#
# runs the commands of these presets (default: both), and prints how long each took. The suite is that of the Debian
# that README.md names, if no other is given: trixie stands in for Ubuntu 24.04. --together runs the commands at the
# same time: one uses the processors that another leaves idle, for example while it waits for packages.
#
# The machine's ccache, if it has one, is mounted from outside, with its libraries, so that objects from other builds
# are reused; --no-ccache measures from nothing. CXXFLAGS, CTEST_PARALLEL_LEVEL and VECDET_FULL_TESTS reach the
# commands. The folder ../shared, if it is there, is mounted beside the clone: it has the data of tests that are
# otherwise skipped.
# Needs root, debootstrap and 3 GB. ROOTS=folder keeps the smallest system for the next time.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
source "$source/test/debian_root.sh" # debian_mirror, in_own_mounts

ccache=$(command -v ccache || true)
suite=
together=
while [[ ${1:-} = --* ]]; do
  case $1 in
    --no-ccache) ccache= ;;
    --together) together=1 ;;
    --suite)
      suite=$2
      shift
      ;;
    *)
      sed -n 's/^#   readme/readme/p' "$0"
      exit 2
      ;;
  esac
  shift
done
presets=("$@")
[ $# -gt 0 ] || presets=(bench test)

# The only line of README.md that runs a preset's workflow.
command_of() {
  local lines
  lines=$(grep -E "&& cmake --workflow --preset $1( |\$)" "$source/README.md" || true)
  if [ "$(grep -c . <<<"$lines")" != 1 ]; then
    echo "README.md has no line, or several, with \"&& cmake --workflow --preset $1\"" >&2
    return 1
  fi
  echo "$lines"
}

if [ -z "$suite" ]; then
  release=$(sed -nE 's/^Run in a clone on a fresh Debian ([0-9]+)\b.*/\1/p' "$source/README.md")
  case $release in
    12) suite=bookworm ;;
    13) suite=trixie ;;
    *)
      echo "README.md names no known Debian after \"Run in a clone on a fresh\": \"$release\""
      exit 1
      ;;
  esac
fi

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
smallest=${ROOTS:-$scratch}/minbase_$suite
if [ ! -e "$smallest" ]; then
  in_own_mounts debootstrap --variant=minbase "$suite" "$smallest.part" "$(debian_mirror)" >"$scratch/log" 2>&1 ||
    { tail "$scratch/log"; exit 1; }
  mv "$smallest.part" "$smallest"
fi

# ccache with the machine's own loader and libraries: the root directory's may be older, and none of this may be found
# by what is tested. The compiler is that of the root directory.
program=$scratch/ccache
mkdir "$program"
if [ -n "$ccache" ]; then
  cache=$("$ccache" --get-config cache_dir)
  mkdir -p "$cache"
  cp "$ccache" "$program/ccache"
  # Lines of ldd: "name => path (address)", or "path (address)" for the loader.
  ldd "$ccache" | sed -nE 's/^\t(.* => )?(\/[^ ]*) .*/\2/p' | xargs -I{} cp -L {} "$program"
  loader=$(ldd "$ccache" | sed -nE 's/^\t\/[^ ]*\/([^ ]*) .*/\1/p')
  printf '#!/bin/sh\nexec /ccache_program/%s --library-path /ccache_program /ccache_program/ccache "$@"\n' \
    "$loader" >"$program/launcher"
  chmod +x "$program/launcher"
fi

# run_in_clone <root directory> <command line>: runs the line in the root directory's clone.
run_in_clone() {
  local root=$1 line=$2
  local environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
  local variable folders=() # outside:inside
  for variable in CXXFLAGS CTEST_PARALLEL_LEVEL VECDET_FULL_TESTS; do
    [ -z "${!variable:-}" ] || environment+=("$variable=${!variable}")
  done
  if [ -n "$ccache" ]; then
    folders+=("$program:/ccache_program" "$cache:/ccache")
    environment+=(CMAKE_CXX_COMPILER_LAUNCHER=/ccache_program/launcher CCACHE_DIR=/ccache CCACHE_BASEDIR=/clone)
  fi
  [ ! -e "$source/../shared" ] || folders+=("$(cd "$source/../shared" && pwd):/shared")
  # shellcheck disable=SC2016 # for the inner shell
  in_own_mounts bash -euc 'root=$1 line=$2 variables=$3 folders=("${@:4}")
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    for folder in "${folders[@]}"; do
      mkdir -p "$root${folder##*:}"
      mount --bind "${folder%%:*}" "$root${folder##*:}"
    done
    mapfile -t environment <<<"$variables"
    code=0
    chroot "$root" env -i "${environment[@]}" sh -c "cd /clone && $line" || code=$?
    for folder in /proc /sys "${folders[@]##*:}"; do umount -l "$root$folder"; done
    exit $code' bash "$root" "$line" "$(printf '%s\n' "${environment[@]}")" "${folders[@]}"
}

run_preset() {
  local preset=$1 root=$scratch/root_$1 line start
  line=$(command_of "$preset") || return
  cp -a "$smallest" "$root"
  git clone -q --depth 1 "file://$source" "$root/clone"
  start=$SECONDS
  echo "\$ $line"
  run_in_clone "$root" "$line" ||
    { echo "README.md's command of the preset $preset fails in an empty $suite"; return 1; }
  echo "README.md's command of the preset $preset in an empty $suite: $((SECONDS - start)) s"
  rm -rf --one-file-system "$root"
}

if [ -z "$together" ]; then
  for preset in "${presets[@]}"; do run_preset "$preset"; done
  exit
fi
processes=()
for preset in "${presets[@]}"; do
  run_preset "$preset" >"$scratch/log_$preset" 2>&1 &
  processes+=($!)
done
failed=
for i in "${!presets[@]}"; do
  wait "${processes[i]}" || failed=1
  cat "$scratch/log_${presets[i]}"
done
[ -z "$failed" ]
