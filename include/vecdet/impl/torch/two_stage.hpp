// SPDX-License-Identifier: Apache-2.0
// A two-stage detector's proposals, detections, and training samples.
#pragma once

#include <vecdet/balanced_sample.hpp>
#include <vecdet/box_head.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/levels.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/postprocess.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

namespace cpu {

/// The proposals of an RPN (postprocess.hpp), whose head's levels are read in place. Returns boxes
/// and scores (float32), levels (int64), and the offset of each image's proposals (int64), one more
/// than there are images.
/// @param logits levels, each images x anchors x height x width
/// @param deltas levels of the same sizes, each images x (anchors x 4) x height x width
/// @param anchors corners, N x 4, of all levels of one image, the same for all images
/// @param image_sizes height and width of each image, alternating
/// @param max_candidates per level, before NMS; torchvision uses 2000 in training, 1000 in
///     evaluation
/// @param max_proposals per image, after NMS; likewise
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param size_limit upper limit of dw and dh; infinity: unbounded
inline detection_tensors rpn_postprocess(at::TensorList logits, at::TensorList deltas,
                                         const at::Tensor& anchors,
                                         at::ArrayRef<double> image_sizes,
                                         const postprocess_params& params_,
                                         at::ArrayRef<double> weights) {
  constexpr const char* function = "rpn_postprocess";
  return translated([&] {
    levels x(function, "logits", logits), d(function, "deltas", deltas);
    check_shape(d.channels() == 4 * x.channels(), function, "deltas", d.first(),
                "[images, anchors x 4, height, width] with the anchors of logits");
    check_boxes(function, "anchors", anchors);
    postprocess_params params = params_;
    params.coder = coder_of(function, params.coder, weights);
    const std::vector<image_size> sizes = image_sizes_from(function, image_sizes, x.images());
    const at::ScalarType type = computed_type(function, "logits", x.first(), "deltas", d.first());
    const head_layout layout = x.layout();
    x.prepare_to_read(layout, type);
    d.prepare_to_read(layout, type);
    const at::Tensor a = contiguous("anchors", anchors, at::kFloat);
    return with_searched_element(function, type, [&](auto element) {
      using T = decltype(element);
      return x.with_head<T>(x.channels(), [&](const head_view<const T>& level_logits) {
        return d.with_head<T>(x.channels(), [&](const head_view<const T>& level_deltas) {
          return copied(vecdet::postprocess(head_level_outputs<T>{level_logits, level_deltas, {}},
                                            boxes<const float>(a),
                                            vector_view<const image_size>(sizes), params,
                                            thread_workspace<postprocess_workspace>(), threads()));
        });
      });
    });
  });
}

/// The detections of Faster R-CNN's box head (box_head.hpp), in the form of postprocess().
/// @param logits proposals x classes, background first
/// @param deltas proposals x (classes x 4)
/// @param proposals corners, N x 4, image after image
/// @param proposal_counts the number of proposals per image; empty: all belong to one image
/// @param image_sizes height and width of each image, alternating
/// @param weights of dx, dy, dw, dh; empty: 10, 10, 5, 5
/// @param size_limit upper limit of dw and dh; infinity: unbounded
inline detection_tensors postprocess_box_head(const at::Tensor& logits, const at::Tensor& deltas,
                                              const at::Tensor& proposals,
                                              at::IntArrayRef proposal_counts,
                                              at::ArrayRef<double> image_sizes,
                                              const box_head_params& params_,
                                              at::ArrayRef<double> weights) {
  constexpr const char* function = "postprocess_box_head";
  return translated([&] {
    check_dense(function, "logits", logits);
    check_shape(logits.dim() == 2, function, "logits", logits, "[proposals, classes]");
    check_dense(function, "deltas", deltas);
    check_shape(deltas.dim() >= 2 && deltas.size(0) == logits.size(0) &&
                    deltas.numel() == 4 * logits.numel(),
                function, "deltas", deltas, "[proposals, classes x 4]");
    check_boxes(function, "proposals", proposals);
    const index_t count = proposals.numel() / 4;
    box_head_params params = params_;
    params.coder = coder_of(function, params.coder, weights);
    const std::vector<index_t> offsets =
        proposal_counts.empty()
            ? std::vector<index_t>{0, count}
            : image_offsets_from(function, "proposal_counts", proposal_counts, count, "proposals");
    const std::vector<image_size> sizes =
        image_sizes_from(function, image_sizes, static_cast<index_t>(offsets.size()) - 1);
    const at::ScalarType type = computed_type(function, "logits", logits, "deltas", deltas);
    const rows x("logits", logits, type);
    const at::Tensor d = contiguous("deltas", deltas, type);
    const at::Tensor p = contiguous("proposals", proposals, at::kFloat);
    return with_searched_element(function, type, [&](auto element) {
      using T = decltype(element);
      return copied(vecdet::postprocess_box_head(
          box_head_outputs<T>{x.view<T>(), boxes<const T>(d)}, boxes<const float>(p),
          vector_view<const index_t>(offsets), vector_view<const image_size>(sizes), params,
          thread_workspace<postprocess_workspace>(), threads()));
    });
  });
}

/// A balanced sample of each image (balanced_sample.hpp). Returns three int64 tensors: the sampled
/// indices among the labels of all images, where each image's positives come first, ascending, then
/// its negatives; the offset of each image's sample, one more than there are images; and the number
/// of positives per image.
/// @param labels integers, one per anchor or proposal, image after image; all values except
///     `background` and `ignore` are positive
/// @param counts the number of labels per image; empty: all belong to one image
/// @param size sample size per image: 256 for an RPN, 512 for a box head
/// @param positive_share greatest share of positives; a quarter for a box head
/// @param seed use a different one for each step
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> sample_balanced(
    const at::Tensor& labels_, at::IntArrayRef counts, const balanced_sample_params& params) {
  constexpr const char* function = "sample_balanced";
  return translated([&] {
    check_dense(function, "labels", labels_);
    const labels chosen(function, "labels", labels_, labels_.numel(), "integers");
    const index_t count = labels_.numel();
    const std::vector<index_t> offsets =
        counts.empty() ? std::vector<index_t>{0, count}
                       : image_offsets_from(function, "counts", counts, count, "labels");
    const balanced_sample drawn =
        vecdet::sample_balanced(chosen.view(), vector_view<const index_t>(offsets), params,
                                thread_workspace<balanced_sample_workspace>(), threads());
    return std::make_tuple(copied(drawn.indices), copied(drawn.offsets), copied(drawn.positives));
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
