#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# VECDET_CHECK=1 reports each mistake once per place; without it, nothing is reported. checked.sh
# <program>
set -euo pipefail
silent=$("$1" 2>&1)
[ -z "$silent" ] || { echo "without VECDET_CHECK: $silent"; exit 1; }
read -r -d '' expected <<'END' || true
vecdet::filter_topk: logits: all 40 logits are in [0, 1]; are they probabilities? Leave out sigmoid or softmax (VECDET_CHECK)
vecdet::filter_topk: logits: all 40 logits are in [0, 1]; are they probabilities? Leave out sigmoid or softmax (VECDET_CHECK)
vecdet::match_anchors: truth.boxes: 1 of 2 boxes have x2 < x1 or y2 < y1, first 0: 100 100 20 30; are they x, y, width, height? Convert them with convert_boxes() (VECDET_CHECK)
vecdet::nms: boxes: 1 of 2 boxes have x2 < x1 or y2 < y1, first 0: 100 100 20 30; are they x, y, width, height? Convert them with convert_boxes() (VECDET_CHECK)
vecdet::nms: boxes: 1 of 2 boxes have x2 < x1 or y2 < y1, first 0: 100 100 20 30; are they x, y, width, height? Convert them with convert_boxes() (VECDET_CHECK)
vecdet::nms: scores: 2 of 2 scores are outside [0, 1], first 0: 2.5; are they logits? (VECDET_CHECK)
vecdet::postprocess_yolo: params.extras: not given, and the boxes have 33 scores, as those of models with 32 extras seem to have; pass extras=32, or class_count=33 if all are scores (VECDET_CHECK)
vecdet::postprocess_yolo: params.rotated: not set, and the boxes have 16 scores, as rotated boxes of DOTA's 15 classes seem to have; use v8_obb() or 'yolov8-obb', or pass class_count=16 if all are scores (VECDET_CHECK)
vecdet::postprocess_yolo: params.rotated: set, and the boxes have 79 scores and a last number, as those of upright boxes of COCO's 80 classes; use v8() or 'yolov8', or pass class_count=79 if the last number is an angle (VECDET_CHECK)
vecdet::sigmoid_focal_loss: scores: 1 of 2 scores are outside [0, 1], first 0: 1.5; are they logits? (VECDET_CHECK)
END
diff <(echo "$expected") <(VECDET_CHECK=1 "$1" 2>&1 | LC_ALL=C sort)
