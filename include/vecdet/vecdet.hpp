// SPDX-License-Identifier: Apache-2.0
// All of vecdet but what reads and writes profiles: vecdet/profile.hpp.
#pragma once

#include <vecdet/anchor_cache.hpp>
#include <vecdet/anchors.hpp>
#include <vecdet/assigners.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/fcos_loss.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/iou.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/retinanet_loss.hpp>
#include <vecdet/smooth_l1.hpp>
#include <vecdet/soft_nms.hpp>
#include <vecdet/soft_target_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>
#include <vecdet/ssd_loss.hpp>
#include <vecdet/version.hpp>
#include <vecdet/views.hpp>
