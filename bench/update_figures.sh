#!/usr/bin/env bash
# Puts a run of vecdet_bench, with machine, compiler, command and date, into docs/figures.md, by
# default of the problems that it runs unasked, and some rows of it into README.md.
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

# Replaces what stands between the marks of figures in a page.
put_into() {
  awk -v section="$2" '
    /^<!-- figures -->/ { print; while ((getline line < section) > 0) print line; skip = 1 }
    /^<!-- end of figures -->/ { skip = 0 }
    !skip' "$1" >"$1.new"
  mv "$1.new" "$1"
}
put_into docs/figures.md "$section"

# One thread: the plain loop's time beside vecdet's on each of the two wider instruction sets.
short=$(mktemp)
{
  printf '%s, one thread; %s; %s\n\n' "$processor" "$compiler" "$(date +%Y-%m-%d)"
  echo '| problem | unit | plain loop, AVX2 | vecdet, AVX2 | plain loop, AVX-512 | vecdet, AVX-512 |'
  echo '|---|---|--:|--:|--:|--:|'
  awk -F ' *[|] *' '
    NR == FNR && /^[|] problem/ { for (i = 2; i < NF; ++i) column[$i] = i }
    $3 == 1 && $2 ~ /^(sigmoid_focal_loss_and_grad.labels.f32.120087x91|sigmoid_focal_loss_and_grad.labels.bf16.4096x80|giou_loss_and_grad|ciou_loss_and_grad|decode_boxes|pairwise_iou|nms.clustered.f32.20000|match_anchors.retinanet.f32.300|retinanet_loss_and_grad)/ {
      cell = ""
      split("plain_avx2 avx2 plain_avx512 avx512", names, " ")
      for (i = 1; i <= 4; ++i) {
        name = names[i]
        cell = cell " | " (name in column ? $column[name] : "")
      }
      print "| `" $2 "` | " $4 cell " |"
    }' <<<"$table"
} >"$short"
put_into README.md "$short"
rm "$section" "$short"
