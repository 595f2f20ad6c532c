#!/usr/bin/env bash
# Puts a run of vecdet_bench, with machine, compiler, command and date, into README's section of
# figures. Usage: bench/update_readme.sh [benchmark binary] [Google Benchmark's flags]
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-build/bench/bench/vecdet_bench}
shift || true
flags=("$@")
[ ${#flags[@]} -gt 0 ] || flags=(--benchmark_min_time=0.2 --benchmark_repetitions=3)

table=$("$binary" "${flags[@]}" 2>/dev/null | tee /dev/stderr | sed -n '/^| problem/,$p')
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
compiler=$(strings "$binary" | grep -m 1 -oE '(GCC: \([^)]*\) [0-9.]+|clang version [0-9.]+)' || true)
section=$(mktemp)
{
  printf '%s, %s processors visible; %s; %s\n\n' \
    "$processor" "$(nproc)" "$compiler" "$(date +%Y-%m-%d)"
  printf '`vecdet_bench %s`\n\n%s\n' "${flags[*]}" "$table"
} >"$section"
awk -v section="$section" '
  /^<!-- figures -->/ { print; while ((getline line < section) > 0) print line; skip = 1 }
  /^<!-- end of figures -->/ { skip = 0 }
  !skip' README.md >README.md.new
mv README.md.new README.md
rm "$section"
