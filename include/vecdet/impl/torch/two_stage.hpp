// SPDX-License-Identifier: Apache-2.0
// A two-stage detector's proposals, its detections, and the samples that it learns from.
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

inline detection_tensors rpn_postprocess(at::TensorList logits, at::TensorList deltas,
                                         const at::Tensor& anchors,
                                         at::ArrayRef<double> image_sizes,
                                         std::int64_t max_candidates, double iou_threshold,
                                         std::int64_t max_proposals, double score_threshold,
                                         at::ArrayRef<double> delta_weights, double size_limit,
                                         double min_size) {
  constexpr const char* function = "rpn_postprocess";
  return translated([&] {
    levels x(function, "logits", logits), d(function, "deltas", deltas);
    check_shape(d.channels() == 4 * x.channels(), function, "deltas", d.first(),
                "[images, anchors x 4, height, width] with the anchors of logits");
    check_boxes(function, "anchors", anchors);
    postprocess_params params = vecdet::postprocess_params::rpn();
    params.score_threshold = score_threshold;
    params.max_candidates = max_candidates;
    params.iou_threshold = iou_threshold;
    params.max_detections = max_proposals;
    params.coder = coder_of(function, delta_weights, size_limit);
    params.min_size = min_size;
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

inline detection_tensors postprocess_box_head(
    const at::Tensor& logits, const at::Tensor& deltas, const at::Tensor& proposals,
    at::IntArrayRef proposal_counts, at::ArrayRef<double> image_sizes, double score_threshold,
    double iou_threshold, std::int64_t max_detections, at::ArrayRef<double> delta_weights,
    double size_limit, double min_size) {
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
    box_head_params params;
    params.score_threshold = score_threshold;
    params.iou_threshold = iou_threshold;
    params.max_detections = max_detections;
    params.coder = coder_of(
        function, delta_weights.empty() ? at::ArrayRef<double>{10, 10, 5, 5} : delta_weights,
        size_limit);
    params.min_size = min_size;
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

inline std::tuple<at::Tensor, at::Tensor, at::Tensor> sample_balanced(
    const at::Tensor& label_of, at::IntArrayRef counts, std::int64_t size, double positive_share,
    std::int64_t seed, std::int64_t background, std::int64_t ignore) {
  constexpr const char* function = "sample_balanced";
  return translated([&] {
    check_dense(function, "labels", label_of);
    const labels chosen(function, "labels", label_of, label_of.numel(), "integers");
    const index_t count = label_of.numel();
    const std::vector<index_t> offsets =
        counts.empty() ? std::vector<index_t>{0, count}
                       : image_offsets_from(function, "counts", counts, count, "labels");
    balanced_sample_params params;
    params.size = size;
    params.positive_share = positive_share;
    params.seed = static_cast<std::uint64_t>(seed);
    params.background = background;
    params.ignore = ignore;
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
