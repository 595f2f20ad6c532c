# SPDX-License-Identifier: Apache-2.0
# For the tests of vecdet-gate: <test>.sh GATE SCRIPTED_BENCHMARK SAMPLE_BENCHMARK PYTHON
# ENDLESS_MODULE. Each works in a new folder. PYTHON is "" where there is none.
# shellcheck shell=bash disable=SC2034 # some tests do not need all of them
set -euo pipefail
gate=$1 scripted=$2 sample=$3 python=$4 endless=${5:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() { echo "FAILED: $*"; cat out err 2>/dev/null; exit 1; }

# program NAME LINE...: a benchmark program with the script's lines.
program() {
  cp "$scripted" "$1"
  printf '%s\n' "${@:2}" >"$1.times"
}

# expect CODE COMMAND...: runs it; its output goes to the files out and err.
expect() {
  local wanted=$1 code=0
  shift
  "$@" >out 2>err || code=$?
  [ "$code" = "$wanted" ] || fail "exit code $code, expected $wanted: $*"
}

needs_python() { [ -n "$python" ] || { echo "skipped: Python 3 was not found"; exit 77; }; }

# ended NUMBER: the process ends within ten seconds. It may stay as a zombie where no process 1 waits for orphans.
ended() {
  for _ in $(seq 100); do
    grep -q '^State:\s*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null || return 0
    sleep 0.1
  done
  fail "process $1 still runs"
}

# has FILE TEXT...: the file contains each text.
has() {
  local file=$1 text
  shift
  for text in "$@"; do grep -qF -- "$text" "$file" || { cat "$file"; fail "$file lacks: $text"; }; done
}
