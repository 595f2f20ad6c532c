#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What vecdet costs to compile: CPU seconds, peak memory in MB and KB of machine code, for each
# unit and all of them, and for a file that uses one family with only the headers.
#
#   bench/compile_cost.sh [units|headers]...    default: both; CXX chooses the compiler
set -euo pipefail
cd "$(dirname "$0")/.."
CXX=${CXX:-g++}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CCACHE_DISABLE=1
total=0

# cost NAME SOURCE FLAG...: prints a row of the table.
cost() {
  local name=$1 source=$2
  shift 2
  local seconds megabytes bytes
  /usr/bin/time -f '%U %S %M' -o "$scratch/time" \
    "$CXX" -std=c++17 -I include "$@" -c "$source" -o "$scratch/object.o"
  read -r seconds megabytes < <(awk '{ printf "%.1f %.0f\n", $1 + $2, $3 / 1024 }' "$scratch/time")
  bytes=$(size -A "$scratch/object.o" | awk '/^\.text/ { sum += $2 } END { print sum + 0 }')
  printf '%-32s %6s s %6s MB %6s KB\n' "$name" "$seconds" "$megabytes" "$((bytes / 1000))"
  total=$(awk '{ print $1 + $2 }' <<<"$total $seconds")
}

# unit_flags VARIABLE: the flags of an instruction set or a compiler, from their single source.
unit_flags() {
  sed -n "s/^set($1 \(.*\))/\1/p" cmake/vecdet-targets.cmake
}

# The units with their families, from the same source: one per line.
unit_families() {
  local family shared
  shared=$(sed -n '/^set(VECDET_UNIT_[a-z]/{:more;/)/!{N;s/\n//;b more};s/^set(VECDET_UNIT_//;s/)//p}' \
    cmake/vecdet-targets.cmake)
  echo "$shared"
  for family in include/vecdet/kernels/*/; do
    family=$(basename "$family")
    grep -qw "$family" <<<"$shared" || echo "$family $family"
  done
}

units() {
  local set flags name families family compiler=
  [[ $("$CXX" --version) == *clang* ]] || compiler=$(unit_flags VECDET_UNIT_FLAGS_GNU)
  for set in baseline avx2 avx512; do
    read -ra flags <<<"$(unit_flags "VECDET_FLAGS_$set") $compiler"
    while read -r name families; do
      echo '#include <vecdet/isa/unit.hpp>' >"$scratch/unit.cpp"
      for family in $families; do
        echo "#include <vecdet/kernels/$family/$family.hpp>" >>"$scratch/unit.cpp"
      done
      cost "$set/$name" "$scratch/unit.cpp" -DVECDET_ISA_UNIT="$set" -O2 \
        -ffp-contract=off -fno-math-errno "${flags[@]}"
    done < <(unit_families)
  done
  printf '%-32s %6.1f s\n' "all units" "$total"
}

# header NAME TYPE CALL: a file that includes NAME.hpp and makes one call on views of `type`.
header() {
  cat >"$scratch/use.cpp" <<END
#include <vecdet/$1.hpp>
namespace vecdet {
using type = $2;
double call(boxes_view<type> boxes, boxes_view<const float> anchors, matrix_view<type> logits,
            vector_view<type> scores, labels_view labels) {
  (void)boxes, (void)anchors, (void)logits, (void)scores, (void)labels;
  $3
  return 0;
}
}
END
  cost "$1.hpp, $2" "$scratch/use.cpp" -O2 -march=x86-64-v3 -ffp-contract=off
}

headers() {
  local type
  echo '#include <vecdet/vecdet.hpp>' >"$scratch/use.cpp"
  cost "vecdet.hpp, no call" "$scratch/use.cpp" -O2 -march=x86-64-v3
  cost "vecdet.hpp, no call, dispatch" "$scratch/use.cpp" -O2 -DVECDET_DISPATCH
  echo '#include <vecdet/profile.hpp>' >"$scratch/use.cpp"
  cost "profile.hpp, no call" "$scratch/use.cpp" -O2 -march=x86-64-v3
  for type in float bfloat16 double; do
    header focal_loss "$type" 'return sigmoid_focal_loss_and_grad(logits, labels, logits);'
    header smooth_l1 "$type" 'return smooth_l1_loss_and_grad(boxes, boxes, labels, boxes);'
    header regression_loss "$type" 'return regression_loss_and_grad(boxes, boxes, boxes, labels, boxes);'
    header iou_loss "$type" 'return iou_loss_and_grad(boxes, boxes, boxes, iou_kind::giou);'
    header iou "$type" 'pairwise_iou(boxes, boxes, logits);'
    header box_coding "$type" 'decode_boxes(boxes, boxes, boxes);'
    header nms "$type" 'return nms(boxes, scores).size();'
    [ "$type" = double ] || header filter_topk "$type" 'filter_topk_workspace w; return filter_topk(logits, 0.5, 10, w).elements.size();'
  done
}

if [ $# = 0 ]; then set -- units headers; fi
for part; do
  case $part in
    units | headers) "$part" ;;
    *) sed -n '3,6s/^# //p' "$0"; exit 2 ;;
  esac
done
