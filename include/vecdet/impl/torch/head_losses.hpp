// SPDX-License-Identifier: Apache-2.0
// The losses of a head's levels in place. The library computes them only together with their
// gradients, so memory for gradients is always allocated.
#pragma once

#include <vecdet/focal_loss.hpp>
#include <vecdet/impl/torch/assignment.hpp>
#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/levels.hpp>
#include <vecdet/impl/torch/loss_tensors.hpp>
#include <vecdet/retinanet_loss.hpp>

#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// A loss and its gradients with respect to the levels; empty if they are not needed.
using levels_loss_tensors = std::tuple<at::Tensor, std::vector<at::Tensor>>;
/// The classification loss, the regression loss, and their gradients.
using retinanet_loss_tensors =
    std::tuple<at::Tensor, at::Tensor, std::vector<at::Tensor>, std::vector<at::Tensor>>;

namespace cpu {

/// The sum of the focal losses of a head's levels (head_levels.hpp), read in place in NCHW or
/// channels last. Each level is images x (anchors x classes) x height x width. Nothing is permuted,
/// copied or concatenated if all levels have the same memory layout.
/// @param labels images x anchors of all levels, ordered by level, row, column and anchor, as in
///     torchvision's heads
/// @param image_scales an additional factor per image, e.g. 1 / max(1, its foreground)
inline levels_loss_tensors sigmoid_focal_loss_levels(at::TensorList logits,
                                                     const at::Tensor& labels_,
                                                     const focal_loss_params& params,
                                                     const optional_tensor& image_scales,
                                                     bool needs_grad, bool float_loss) {
  constexpr const char* function = "sigmoid_focal_loss_levels";
  return translated([&] {
    levels x(function, "logits", logits);
    check_dense(function, "labels", labels_);
    const index_t locations = x.locations();
    const index_t anchors = labels_.dim() == 2 && locations > 0 ? labels_.size(1) / locations : 0;
    check_shape(labels_.dim() == 2 && labels_.size(0) == x.images() &&
                    labels_.size(1) == anchors * locations &&
                    (anchors == 0 || x.channels() % anchors == 0),
                function, "labels", labels_,
                "[images, anchors of all levels], the same number of anchors at each location");
    const labels chosen(function, "labels", labels_, labels_.numel(), "one label per anchor");
    const weights per_image(function, "image_scales", image_scales);
    const at::ScalarType type = computed_type(function, "logits", x.first());
    x.prepare(x.layout(), type);
    double sum = 0;
    with_element(type, [&](auto element) {
      using T = decltype(element);
      x.with_heads<T>(anchors, [&](const auto& head, const auto& grad) {
        sum = sigmoid_focal_loss_and_grad(head, focal_targets<T>(chosen.view()), grad,
                                          per_image.view(), params, threads());
      });
    });
    return levels_loss_tensors(scalar(sum, loss_type(x.first(), float_loss)),
                               needs_grad ? x.grads() : std::vector<at::Tensor>());
  });
}

/// The classification loss and the regression loss of RetinaNet (retinanet_loss.hpp), including
/// matching. The head's levels are read in place. Each loss is the mean over images of a sum
/// divided by max(1, the image's foreground).
/// @param logits levels, each images x (anchors x classes) x height x width
/// @param deltas levels of the same sizes, each images x (anchors x 4) x height x width
/// @param anchors corners, N x 4, of all levels of one image, the same for all images
/// @param boxes ground-truth corners, M x 4, image after image
/// @param classes one integer per box: columns of the logits
/// @param box_counts the number of boxes per image; empty: all boxes belong to one image
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param size_limit upper limit of dw and dh; infinity: unbounded
/// @param regions boxes in which anchors are ignored, e.g. crowds, image after image
/// @param region_counts the number of regions per image
inline retinanet_loss_tensors retinanet_loss(at::TensorList logits, at::TensorList deltas,
                                             const at::Tensor& anchors, const at::Tensor& boxes_,
                                             const at::Tensor& classes, at::IntArrayRef box_counts,
                                             const retinanet_loss_params& params_,
                                             at::ArrayRef<double> weights_,
                                             const optional_tensor& regions,
                                             at::IntArrayRef region_counts, bool needs_grad,
                                             bool float_loss) {
  constexpr const char* function = "retinanet_loss";
  return translated([&] {
    levels x(function, "logits", logits), d(function, "deltas", deltas);
    check_boxes(function, "anchors", anchors);
    check_shape(anchors.dim() == 2, function, "anchors", anchors, "[N, 4]");
    computed_type(function, "anchors", anchors);
    const index_t anchors_here = d.channels() / 4;
    check_shape(d.channels() % 4 == 0, function, "deltas", d.first(),
                "[images, anchors x 4, height, width]");
    check_shape(anchors_here > 0 && x.channels() % anchors_here == 0, function, "logits", x.first(),
                "[images, anchors x classes, height, width] with the anchors of deltas");
    check_choice(function, "loss", params_.loss, box_loss::ciou,
                 "0 (smooth L1), 1 (GIoU), 2 (DIoU) or 3 (CIoU)");
    const at::ScalarType type = computed_type(function, "logits", x.first(), "deltas", d.first());
    check(type != at::kDouble, function, "logits.dtype", c10::toString(type),
          "float32, bfloat16 or float16");
    truth_tensors truth(function, boxes_, classes, box_counts);
    truth.add_regions(function, regions, region_counts);
    retinanet_loss_params params = params_;
    params.matcher.coder = coder_of(function, params.matcher.coder, weights_);

    const at::Tensor a = contiguous("anchors", anchors, at::kFloat);
    x.prepare(x.layout(), type);
    d.prepare(x.layout(), type);
    const anchor_index index(boxes<const float>(a), threads());
    const auto run = [&](auto element) {
      using T = decltype(element);
      return x.with_heads<T>(anchors_here, [&](const auto& head, const auto& head_grad) {
        return d.with_heads<T>(anchors_here, [&](const auto& box_head, const auto& box_head_grad) {
          return retinanet_loss_and_grad(
              retinanet_head<T>{head, box_head, head_grad, box_head_grad}, index, truth.view(),
              params, thread_workspace<retinanet_loss_workspace>(), threads());
        });
      });
    };
    const retinanet_losses losses = type == at::kBFloat16 ? run(bfloat16()) : run(float());
    using grads = std::vector<at::Tensor>;
    return retinanet_loss_tensors(scalar(losses.classification, loss_type(x.first(), float_loss)),
                                  scalar(losses.regression, loss_type(d.first(), float_loss)),
                                  needs_grad ? x.grads() : grads(),
                                  needs_grad ? d.grads() : grads());
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
