// SPDX-License-Identifier: Apache-2.0
// vecdet for the tensors of PyTorch's C++ library, in namespace vecdet::ops. Each function is also
// an operator, torch.ops.vecdet.<name> in Python and TorchScript, with the same arguments in the
// same order.
//
// Link vecdet::torch (CMake option VECDET_TORCH), or compile vecdet/torch/*operators.cpp and
// vecdet/torch/generated/*.cpp once per program, with the flags of libtorch (including -fopenmp)
// and those of the files that include this header. These files contain the function bodies, so
// this header needs only the declaration of tensors.
//
// Tensors are dense, on the CPU, and of float32, float64, bfloat16 or float16; float16 is computed
// in float32 and rounded. If floating types differ, the widest is used. Functions write only to new
// memory. A strided input is copied only if a kernel cannot read it in place: logits may have any
// row stride, but boxes must be contiguous. The profile shows such a copy as the problem
// "copy_to_contiguous". Work is spread over ATen's threads, at::get_num_threads(); results do not
// depend on their number.
//
// Losses are differentiable with respect to their first argument, retinanet_loss() and set_loss()
// with respect to their first two. If such an argument requires a gradient, the gradient is
// computed together with the loss. backward() multiplies it by the upstream gradient, in place
// unless the graph is retained. Second derivatives are an error, except for conv3x3(). If any other
// tensor requires a gradient, including weights and scales, the call fails: detach that tensor.
// RoIAlign is differentiable with respect to its features, conv3x3() and deformable_attention()
// with respect to all their tensors; backward() computes these gradients. Nothing else has a
// gradient: backward() through it is an error. Tensors with a derivative in forward mode (forward
// AD) are an error, except for conv3x3().
//
// Under autocast, floating-point arguments are cast to float32, as for torchvision's operators, and
// results are float32. bfloat16 tensors are read without conversion if that gives the same numbers:
// the logits and deltas of losses that return one number and of functions that return detections,
// and the features of RoIAlign, whose result has their type. Inputs of conv3x3() get autocast's
// type, as for at::conv2d(), and so has its result.
//
// Invalid arguments throw c10::Error (RuntimeError in Python) with the messages of vecdet's
// functions. Their headers document what each function computes and accepts.
#pragma once

#include <vecdet/box_loss.hpp>
#include <vecdet/dense_detector.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/soft_nms_method.hpp>
#include <vecdet/torch/convolutions.hpp>
#include <vecdet/torch/generated/assignment.hpp>
#include <vecdet/torch/generated/attention.hpp>
#include <vecdet/torch/generated/box_losses.hpp>
#include <vecdet/torch/generated/boxes.hpp>
#include <vecdet/torch/generated/class_losses.hpp>
#include <vecdet/torch/generated/ctc_loss.hpp>
#include <vecdet/torch/generated/detections.hpp>
#include <vecdet/torch/generated/grouped_convolution.hpp>
#include <vecdet/torch/generated/head_losses.hpp>
#include <vecdet/torch/generated/masks.hpp>
#include <vecdet/torch/generated/normalization.hpp>
#include <vecdet/torch/generated/pooling.hpp>
#include <vecdet/torch/generated/queries.hpp>
#include <vecdet/torch/generated/roi_align.hpp>
#include <vecdet/torch/generated/softmax_losses.hpp>
#include <vecdet/torch/generated/two_stage.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {

/// vecdet's functions for at::Tensor. Leave an optional tensor undefined ({}) to omit it.
namespace ops {

/// The kinds of regression_loss(); see regression_loss.hpp.
using regression = box_loss;
/// How soft_nms() reduces the scores of overlapping boxes; see soft_nms.hpp.
using soft_nms_decay = soft_nms_method;
/// The detectors of postprocess(); see postprocess.hpp. `rpn` is rejected: use rpn_postprocess().
using detector = dense_detector;

/// Frees the memory that the operators keep for later calls: up to 512 MiB of freed gradients of
/// 1 MiB or more, which saves page faults, and the transformed weights of conv3x3(), which are four
/// times as large as the weights. Those of freed weights stay until others are transformed.
/// @return the number of bytes
std::int64_t free_cached_memory();

}  // namespace ops
}  // namespace VECDET_ABI
}  // namespace vecdet
