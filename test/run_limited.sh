#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_limited.sh <vecdet_profiled>: the measurement of the machine at the program's end stays within
# a control group's memory limit. Exits with 77 if it is not root or may not create groups.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: not root"; exit 77; }
limit=$((48 << 20))
scratch=$(mktemp -d)
group=
trap 'rm -rf "$scratch"; [ -z "$group" ] || rmdir "$group"' EXIT

if [ -d /sys/fs/cgroup/memory ]; then
  root=/sys/fs/cgroup/memory file=memory.limit_in_bytes
else
  root=/sys/fs/cgroup file=memory.max
  { echo +memory >$root/cgroup.subtree_control; } 2>/dev/null || true
fi
if ! mkdir "$root/vecdet-$$" 2>/dev/null; then
  echo "skipped: no control groups to be made"
  exit 77
fi
group=$root/vecdet-$$
if ! { echo $limit >"$group/$file"; } 2>/dev/null; then
  echo "skipped: no limit on memory to be set"
  exit 77
fi
if [ -e "$group/memory.swap.max" ]; then echo 0 >"$group/memory.swap.max"; fi

in_group() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }
# A program that takes more must be killed, or this test would prove nothing.
if in_group bash -c 'head -c 100000000 /dev/zero | tail -c 100000000' >/dev/null 2>&1; then
  echo "skipped: the limit on memory does not hold"
  exit 77
fi
VECDET_PROFILE=$scratch/report.json in_group "$1" || { echo "FAILED: it exits with $?"; exit 1; }
grep -qE '"memory_gbs":[0-9.e+]*[1-9]' "$scratch/report.json" ||
  { echo "FAILED: memory was not measured"; exit 1; }
echo "the machine was measured within $limit bytes"
