// SPDX-License-Identifier: Apache-2.0
// The functions of soft_nms.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

template <class Boxes, class Groups>
soft_nms_result<compute_type<coordinate_of<Boxes>>> soft_nms(
    const Boxes& given_boxes, vector_view<const coordinate_of<Boxes>> scores,
    const Groups& given_groups, const soft_nms_params& params,
    soft_nms_workspace<compute_type<coordinate_of<Boxes>>>& workspace, threading policy) {
  const auto boxes = detail::boxes_in(given_boxes, "soft_nms", "boxes");
  using stored = coordinate_of<Boxes>;
  using real = compute_type<stored>;
  constexpr const char* function = "soft_nms";
  const index_t size = boxes.size();
  const nms_groups groups = detail::groups_of(function, given_groups, size);
  nms_params limits;
  limits.iou_threshold = params.iou_threshold;
  detail::check_nms(function, size, scores.size(), limits);
  detail::check_groups(function, groups, size);
  detail::look_at_boxes(function, "boxes", boxes);
  detail::look_at_scores(function, "scores", scores, [](index_t) { return true; });
  detail::check(params.sigma > 0 && detail::is_finite(params.sigma), function, "params.sigma",
                params.sigma, "a finite number above 0");
  detail::check(!detail::is_nan(params.score_floor), function, "params.score_floor",
                params.score_floor, "a number");
  const isa target = active_isa();
  const profile::scope timing([&] {
    return profile::problem{function,
                            params.method == soft_nms_method::linear     ? "linear"
                            : params.method == soft_nms_method::gaussian ? "gaussian"
                                                                         : "hard",
                            dtype_name<stored>(),
                            {profile::rounded_count(size)},
                            isa_name(target),
                            policy.threads(),
                            size * index_t{5 * sizeof(stored)}};
  });

  const auto& kernels = detail::kernels<detail::nms_kernels<stored>>(target);
  auto& soft_buffers = detail::workspace_access::buffers(workspace);
  detail::nms_buffers& buffers = soft_buffers.groups;
  const index_t count = kernels.select(scores.data(), 0, size, limits.score_threshold, true,
                                       detail::grown(buffers.records, size));
  detail::partition_into_groups(groups, size, count, buffers, policy);
  real* const rescored = detail::grown(soft_buffers.rescored, size);
  detail::nms_record* const kept_of_groups = detail::grown(buffers.kept, count);
  detail::suppress_groups(buffers, policy, detail::least_task_boxes, kernels.scratch_bytes,
                          [&](index_t begin, index_t end, detail::cache_line* scratch) {
                            detail::soft_nms_args<stored> args{};
                            args.boxes = boxes.data();
                            args.scores = scores.data();
                            args.method = params.method;
                            args.iou_threshold = params.iou_threshold;
                            args.sigma = params.sigma;
                            args.score_floor = params.score_floor;
                            args.plus_one = params.plus_one;
                            args.records = buffers.records.data() + begin;
                            args.count = end - begin;
                            args.scratch = scratch;
                            args.rescored = rescored;
                            args.kept = kept_of_groups + begin;
                            return kernels.soft(args);
                          });

  const index_t kept = detail::gather_kept(buffers);
  detail::kernels<detail::nms_kernels<real>>(target).sort_any(rescored, buffers.records.data(),
                                                              buffers.spare.data(), kept);
  index_t* const result = detail::grown(buffers.result, kept);
  real* const left = detail::grown(soft_buffers.scores, kept);
  for (index_t i = 0; i < kept; ++i) {
    result[i] = detail::index_of(buffers.records[static_cast<std::size_t>(i)]);
    left[i] = rescored[result[i]];
  }
  return {{result, kept}, {left, kept}};
}

template <class Boxes>
soft_nms_result<compute_type<coordinate_of<Boxes>>> soft_nms(
    const Boxes& given_boxes, vector_view<const coordinate_of<Boxes>> scores,
    const soft_nms_params& params,
    soft_nms_workspace<compute_type<coordinate_of<Boxes>>>& workspace, threading policy) {
  const auto boxes = detail::boxes_in(given_boxes, "soft_nms", "boxes");
  return soft_nms(boxes, scores, {}, params, workspace, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
