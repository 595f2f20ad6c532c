// SPDX-License-Identifier: Apache-2.0
// SimOTA: checks, and the points near boxes, which come before the boxes' choices.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/assigners.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline void check_sim_ota(const char* function, const assigner_call& call,
                          const sim_ota_predictions& predictions,
                          const matrix_view<const float>& points, index_t levels,
                          const vector_view<const double>& strides,
                          const vector_view<index_t>& matches, const vector_view<float>& targets,
                          const sim_ota_params& params) {
  const index_t rows = matches.size();
  call.check_predictions(points, "predictions.logits.rows()", predictions.logits,
                         "predictions.boxes.size()", predictions.boxes.size(), targets, rows);
  check_size(function, "strides.size()", strides.size(), levels, "the number of levels");
  for (index_t l = 0; l < levels; ++l)
    check_element(fits_float(strides[l]) && static_cast<float>(strides[l]) > 0, function, "strides",
                  l, strides[l], "a finite float above 0");
  check_size(function, "predictions.objectness.size()", predictions.objectness.size(), rows,
             "images x points");
  check(params.candidates >= 1, function, "params.candidates", params.candidates, "1 or more");
  check_float_from_0(function, "params.radius", params.radius);
  check_float_from_0(function, "params.iou_weight", params.iou_weight);
  call.check_targets_apart(matches, targets,
                           {{"predictions.logits", predictions.logits},
                            {"predictions.objectness", predictions.objectness},
                            {"predictions.boxes", predictions.boxes},
                            {"points", points},
                            {"strides", strides}});
}

/// Lists the points near boxes and computes their costs of background.
inline void prepare_sim_ota(const sim_ota_args& args, const assigner_kernels& kernels,
                            const assigner_call& call, index_t* near_counts, threading policy) {
  for_each_chunk(policy, chunking(call.images(), 1), [&](index_t, index_t first, index_t last) {
    for (index_t k = first; k < last; ++k)
      near_counts[k] = kernels.sim_ota_near(args, k, call.first_box(k), call.first_box(k + 1));
  });
  constexpr index_t smallest = 64;  // points: some microseconds
  for (index_t k = 0; k < call.images(); ++k) {
    for_each_chunk(policy, chunking(near_counts[k], smallest),
                   [&](index_t, index_t first, index_t last) {
                     kernels.sim_ota_background(args, k, first, last);
                   });
  }
}

}  // namespace detail

inline index_t assign_sim_ota(const sim_ota_predictions& predictions,
                              matrix_view<const float> points, vector_view<const grid_size> levels,
                              vector_view<const double> strides, const ground_truth& truth,
                              vector_view<index_t> matches, vector_view<float> targets,
                              const sim_ota_params& params, assigner_workspace& workspace,
                              threading policy) {
  const char* const function = "assign_sim_ota";
  const index_t count = points.rows();
  const detail::assigner_call call(function, count, "points", levels, truth, matches);
  detail::check_sim_ota(function, call, predictions, points, levels.size(), strides, matches,
                        targets, params);
  const isa target = active_isa();
  const auto& kernels = detail::kernels<detail::assigner_kernels>(target);
  detail::assigner_buffers& buffers = detail::workspace_access::buffers(workspace);
  const matrix_view<const float>& logits = predictions.logits;
  const profile::scope timing([&] {
    return call.problem(
        profile::numbered_name("candidates", static_cast<double>(params.candidates)),
        matches.size() * 2 * index_t{sizeof(float)}, target, policy);
  });

  const index_t images = call.images(),
                most = std::min(params.candidates, std::max(index_t{1}, count));
  constexpr index_t more = 16;
  detail::sim_ota_args args{};
  args.common = call.prepare(kernels, points.data(), most, buffers, policy);
  args.logits = logits.data();
  args.stride = logits.stride();
  args.class_count = logits.cols();
  args.objectness = predictions.objectness.data();
  args.predictions = predictions.boxes.data();
  args.classes = truth.classes;
  args.iou_weight = static_cast<float>(params.iou_weight);
  float* const reaches = detail::grown(buffers.widest, levels.size());
  for (index_t l = 0; l < levels.size(); ++l)
    reaches[l] =
        detail::rounded(static_cast<float>(params.radius) * static_cast<float>(strides[l]));
  args.reaches = reaches;
  args.near = detail::grown(buffers.near, images * (count + 1));
  args.near_boxes = detail::grown(buffers.near_boxes, 4 * images * (count + more));
  args.background = detail::grown(buffers.ranks, images * count);
  args.positives = detail::grown(buffers.positives, most * call.boxes());
  index_t* const near_counts = detail::grown(buffers.near_counts, images);
  index_t* const foreground = detail::grown(buffers.foreground, images);
  args.near_counts = near_counts;
  detail::prepare_sim_ota(args, kernels, call, near_counts, policy);
  call.run(
      args.common, matches, targets.data(), detail::ignore_regions(truth), policy,
      [&](index_t image, index_t box) { kernels.sim_ota_choose(args, image, box); },
      [&](const detail::assigned_image& image) {
        foreground[image.image] = kernels.sim_ota_matches(args, image);
      });
  index_t total = 0;
  for (index_t k = 0; k < images; ++k) total += foreground[k];
  return total;
}

}  // namespace VECDET_ABI
}  // namespace vecdet
