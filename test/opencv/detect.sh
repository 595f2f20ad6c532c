#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/opencv/detect.cpp finds the squares of examples/onnxruntime/stand_in.py and draws them. Skipped
# without the folder of its model and picture.
#
#   detect.sh <program> <folder>
set -euo pipefail
[ -n "${2:-}" ] || { echo "no model: VECDET_STAND_IN is empty"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" "$2/model.onnx" "$2/picture.png" "$scratch/drawn.png" >"$scratch/printed"
sort "$scratch/printed" | diff - <(sort <<'END'
0 0.98 48 40 64 64
1 0.98 528 64 64 64
1 0.98 320 160 64 64
0 0.98 400 328 64 64
END
)
# A text in place of a picture, and no model.
! "$1" "$2/model.onnx" "$0" "$scratch/drawn.png" 2>"$scratch/said" || exit 1
grep -q 'vecdet::opencv::image: mat is empty' "$scratch/said"
! "$1" "$0" "$2/picture.png" "$scratch/drawn.png" 2>/dev/null || exit 1
