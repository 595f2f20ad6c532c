#!/usr/bin/env bash
# Inserts a run of vecdet_bench, with machine, compiler, command and date, into docs/figures.md; by
# default, of its default problems. README.md has the chart of bench/plot_peers.py.
# Usage: bench/update_figures.sh [benchmark binary] [Google Benchmark's flags]
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-build/bench/bench/vecdet_bench}
shift || true
flags=("$@")
[ ${#flags[@]} -gt 0 ] || flags=(--benchmark_repetitions=5)

table=$("$binary" "${flags[@]}" 2>/dev/null | tee /dev/stderr | sed -n '/^| problem/,$p')
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
