// SPDX-License-Identifier: Apache-2.0
// All families of kernels as one unit, for builds without CMake.
#pragma once

#include <vecdet/isa/unit.hpp>
#include <vecdet/kernels/assigners/assigners.hpp>
#include <vecdet/kernels/batch_norm/batch_norm.hpp>
#include <vecdet/kernels/box_coding/box_coding.hpp>
#include <vecdet/kernels/conv3x3/conv3x3.hpp>
#include <vecdet/kernels/ctc_beams/ctc_beams.hpp>
#include <vecdet/kernels/ctc_decoding/ctc_decoding.hpp>
#include <vecdet/kernels/ctc_loss/ctc_loss.hpp>
#include <vecdet/kernels/deformable_attention/deformable_attention.hpp>
#include <vecdet/kernels/distribution_focal_loss/distribution_focal_loss.hpp>
#include <vecdet/kernels/filter_topk/filter_topk.hpp>
#include <vecdet/kernels/focal_loss/focal_loss.hpp>
#include <vecdet/kernels/grouped_conv3x3/grouped_conv3x3.hpp>
#include <vecdet/kernels/head_boxes/head_boxes.hpp>
#include <vecdet/kernels/iou/iou.hpp>
#include <vecdet/kernels/iou_loss/iou_loss.hpp>
#include <vecdet/kernels/letterbox/letterbox.hpp>
#include <vecdet/kernels/mask_bits/mask_bits.hpp>
#include <vecdet/kernels/masks/masks.hpp>
#include <vecdet/kernels/matching/matching.hpp>
#include <vecdet/kernels/max_pool/max_pool.hpp>
#include <vecdet/kernels/nms/nms.hpp>
#include <vecdet/kernels/postprocess_yolo/postprocess_yolo.hpp>
#include <vecdet/kernels/quantised_outputs/quantised_outputs.hpp>
#include <vecdet/kernels/query_matching/query_matching.hpp>
#include <vecdet/kernels/regression_loss/regression_loss.hpp>
#include <vecdet/kernels/roi_align/roi_align.hpp>
#include <vecdet/kernels/rotated_boxes/rotated_boxes.hpp>
#include <vecdet/kernels/set_loss/set_loss.hpp>
#include <vecdet/kernels/smooth_l1/smooth_l1.hpp>
#include <vecdet/kernels/softmax_cross_entropy/softmax_cross_entropy.hpp>
