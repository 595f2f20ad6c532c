#!/usr/bin/env bash
# Every function of the catalogue on real threads, beside the simulation of the same numbers of threads: for a
# machine with more processors, which needs no compiler. docs/whole_socket.md
#
#   threads.sh pack <build tree> <folder>          copies vecdet-profile, its libraries, the list and this script
#   threads.sh run <results> [<seconds in all>]    runs the list in the script's folder, 230 s at most by default
#
# The list is run in parts, so that what is measured is kept if the time ends: <results>/<part>.{json,txt}.
# THREADS (default 2,4,8,16) has the numbers of threads besides one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
parts=6

pack() {
  local program=$1/bench/profile/vecdet-profile folder=$2 library
  mkdir -p "$folder"
  cp "$program" "$here/profile/threads.txt" "$here/threads.sh" "$folder"
  # The C and C++ libraries are the machine's own.
  for library in $(ldd "$program" | awk '$3 ~ /^\// { print $3 }'); do
    case ${library##*/} in
      libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.*) ;;
      *) cp -L "$library" "$folder" ;;
    esac
  done
  du -sh "$folder"
}

run() {
  local results=$1 end=$((SECONDS + ${2:-230})) part
  mkdir -p "$results"
  unset VECDET_ISA VECDET_PROFILE VECDET_CHECK
  export LD_LIBRARY_PATH=$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  { lscpu; uptime; numactl --hardware || true; } >"$results/machine.txt" 2>&1
  grep -v '^#' "$here/threads.txt" | grep . | split -d -n "r/$parts" - "$results/list."
  for part in $(seq -f %02.0f 0 $((parts - 1))); do
    [ $((end - SECONDS)) -gt 1 ] || { echo "no time left for part $part" >&2; return 1; }
    timeout $((end - SECONDS)) "$here/vecdet-profile" replay "$results/list.$part" --simulate \
      --threads "${THREADS:-2,4,8,16}" --seconds 0.01 -o "$results/$part.json" >"$results/$part.txt" ||
      { echo "part $part failed or found no time" >&2; return 1; }
    cat "$results/$part.txt"
  done
  uptime >>"$results/machine.txt"
}

case ${1:-} in
  pack) [ $# = 3 ] && pack "$2" "$3" ;;
  run) [ $# = 2 ] || [ $# = 3 ] && run "${@:2}" ;;
  *) sed -n '/^#   threads.sh/p' "$0" >&2; exit 2 ;;
esac
