// SPDX-License-Identifier: Apache-2.0
// The function of rotated_assigner.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/assigners.hpp>
#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/impl/assigners.hpp>
#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/rotated_assigner.hpp>

#include <algorithm>

namespace vecdet {
inline namespace VECDET_ABI {

inline void assign_rotated_task_aligned(const rotated_task_aligned_predictions& predictions,
                                        matrix_view<const float> points,
                                        vector_view<const grid_size> levels,
                                        const rotated_ground_truth& truth, angle_convention angles,
                                        vector_view<index_t> matches, vector_view<float> targets,
                                        const task_aligned_params& params,
                                        assigner_workspace& workspace, threading policy) {
  const char* const function = "assign_rotated_task_aligned";
  const detail::angle_rule rule = detail::rule_of(function, angles);
  ground_truth known;
  known.classes = truth.classes;
  known.image_offsets = truth.image_offsets;
  known.regions = truth.regions;
  known.region_offsets = truth.region_offsets;
  const matrix_view<const float>& boxes = truth.boxes;
  const detail::task_aligned_call call(
      detail::assigner_call(function, points.rows(), "points", levels, known, "truth.boxes.rows()",
                            boxes.rows(), matches),
      params);
  const index_t rows = matches.size();
  const matrix_view<const float>& scores = predictions.scores;
  detail::check_rotated(function, "truth.boxes.cols()", boxes);
  detail::check_rotated(function, "predictions.boxes.cols()", predictions.boxes);
  call.check_predictions(points, "predictions.scores.rows()", scores, "predictions.boxes.rows()",
                         predictions.boxes.rows(), targets, rows);
  call.check_params(function);
  call.check_targets_apart(matches, targets,
                           {{"truth.boxes", boxes},
                            {"predictions.scores", scores},
                            {"predictions.boxes", predictions.boxes},
                            {"points", points}});
  const isa target = active_isa();
  const auto& kernels = detail::kernels<detail::assigner_kernels>(target);
  detail::assigner_buffers& buffers = detail::workspace_access::buffers(workspace);
  const profile::scope timing([&] { return call.problem(rows, target, policy); });

  detail::task_aligned_args args =
      call.prepare(kernels, points, scores, truth.classes, buffers, policy);
  args.common.truth = boxes.data();
  args.truth_stride = boxes.stride();
  args.predictions = predictions.boxes.data();
  args.prediction_stride = predictions.boxes.stride();
  args.angles = rule;
  args.prob_ious =
      detail::kernels<detail::rotated_boxes_kernels<float>>(target).elementwise_prob_iou;
  constexpr index_t more = 16;
  const index_t size = boxes.rows() + more;
  double* const turned = detail::grown(buffers.turned, 6 * size);
  for (int k = 0; k < 6; ++k) {
    args.turned[k] = turned + k * size;
    std::fill(args.turned[k] + boxes.rows(), args.turned[k] + size, 0.0);
  }
  call.run(
      args.common, matches, targets.data(), detail::ignore_regions(known), policy,
      [&](index_t image, index_t box) {
        kernels.rotated_task_aligned_candidates(args, image, box);
      },
      [&](const detail::assigned_image& image) {
        kernels.rotated_task_aligned_matches(args, image);
      });
}

}  // namespace VECDET_ABI
}  // namespace vecdet
