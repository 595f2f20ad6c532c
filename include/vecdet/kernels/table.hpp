// SPDX-License-Identifier: Apache-2.0
// All kernels of the instruction set that this unit is compiled for, as its kernel table.
#pragma once

#include <vecdet/detail/kernel_table.hpp>
#include <vecdet/kernels/box_coding.hpp>
#include <vecdet/kernels/filter_topk.hpp>
#include <vecdet/kernels/focal_loss.hpp>
#include <vecdet/kernels/iou.hpp>
#include <vecdet/kernels/iou_loss.hpp>
#include <vecdet/kernels/nms.hpp>
#include <vecdet/kernels/regression_loss.hpp>
#include <vecdet/kernels/smooth_l1.hpp>

namespace vecdet {
namespace VECDET_TARGET {

constexpr detail::kernel_table kernels = {
    isa::VECDET_TARGET_ISA,
    {focal_loss_kernels<float>(), focal_loss_kernels<bfloat16>(), focal_loss_kernels<double>()},
    {smooth_l1_kernels<float>(), smooth_l1_kernels<bfloat16>(), smooth_l1_kernels<double>()},
    {box_coding_kernels<float>(), box_coding_kernels<bfloat16>(), box_coding_kernels<double>()},
    mixed_coding_kernels(),
    {iou_kernels<float>(), iou_kernels<bfloat16>(), iou_kernels<double>()},
    {iou_loss_kernels<float>(), iou_loss_kernels<bfloat16>(), iou_loss_kernels<double>()},
    {regression_loss_kernels<float>(), regression_loss_kernels<bfloat16>(),
     regression_loss_kernels<double>()},
    regression_loss_kernels<detail::mixed_regression>(),
    {nms_kernels<float>(), nms_kernels<bfloat16>(), nms_kernels<double>()},
    {filter_topk_kernels<float>(), filter_topk_kernels<bfloat16>()},
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
