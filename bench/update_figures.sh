#!/usr/bin/env bash
# Inserts a run of vecdet_bench, with machine, compiler, command and date, into docs/figures.md; by
# default, of the problems of --all. README.md has the chart of bench/plot_peers.py.
# Usage: bench/update_figures.sh [benchmark binary] [flags of vecdet_bench]
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/figures.sh
binary=${1:-build/bench/bench/vecdet_bench}
shift || true
flags=("$@")
[ ${#flags[@]} -gt 0 ] || flags=(--all --benchmark_repetitions=5)

# The table and what follows it, up to the summary; the names of functions in bold.
table=$("$binary" "${flags[@]}" 2>/dev/null | tee /dev/stderr | sed -n '/^| problem/,/^Summary of/p' |
  sed -e '/^Summary of/d' -Ee 's/^\| ([a-z]\S*)( +\|( +\|)+)$/| **\1**\2/')
cpu() { sed -n "s/^$1[^:]*: //p" /proc/cpuinfo | head -n 1; }
processor="$(cpu 'model name') (family $(cpu 'cpu family'), model $(cpu 'model\t'))"
compiler=$(strings "$binary" | grep -m 1 -oE '(GCC: \([^)]*\) [0-9.]+|clang version [0-9.]+)' || true)
section=$(mktemp)
{
  printf '%s, %s processors visible; %s; %s\n\n' \
    "$processor" "$(nproc)" "$compiler" "$(date +%Y-%m-%d)"
  printf '`vecdet_bench %s`\n\n%s\n' "${flags[*]}" "$table"
} >"$section"

# Replaces the text between the marks of figures in a page.
put_into() {
  awk -v section="$2" '
    /^<!-- figures -->/ { print; while ((getline line < section) > 0) print line; skip = 1 }
    /^<!-- end of figures -->/ { skip = 0 }
    !skip' "$1" >"$1.new"
  mv "$1.new" "$1"
}
put_into docs/figures.md "$section"
rm "$section"
