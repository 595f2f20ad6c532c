// SPDX-License-Identifier: Apache-2.0
// All kernels for baseline, for builds without CMake. Compile with -march=x86-64 (on 64-bit Arm
// without -march) -O2 -ffp-contract=off -fno-fast-math -fno-math-errno, regardless of the program's
// other flags.
#define VECDET_ISA_UNIT baseline
#include <vecdet/isa/units/assigners.cpp>
#include <vecdet/isa/units/box_coding.cpp>
#include <vecdet/isa/units/conv3x3.cpp>
#include <vecdet/isa/units/distribution_focal_loss.cpp>
#include <vecdet/isa/units/filter_topk.cpp>
#include <vecdet/isa/units/focal_loss.cpp>
#include <vecdet/isa/units/head_boxes.cpp>
#include <vecdet/isa/units/iou.cpp>
#include <vecdet/isa/units/iou_loss.cpp>
#include <vecdet/isa/units/letterbox.cpp>
#include <vecdet/isa/units/matching.cpp>
#include <vecdet/isa/units/nms.cpp>
#include <vecdet/isa/units/regression_loss.cpp>
#include <vecdet/isa/units/roi_align.cpp>
#include <vecdet/isa/units/smooth_l1.cpp>
#include <vecdet/isa/units/softmax_cross_entropy.cpp>
#include <vecdet/isa/units/yolo_postprocess.cpp>
