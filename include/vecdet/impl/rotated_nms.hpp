// SPDX-License-Identifier: Apache-2.0
// The functions of rotated_nms.hpp: checks, the profiler's scope, and what nms_call needs of the
// boxes. prob_iou_nms.hpp shares them.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/nms.hpp>
#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// The overlap of rotated boxes by which they suppress each other.
enum class rotated_nms_overlap { exact, prob };

/// The root of 4 L, with some to spare (kernels/rotated_boxes/prob_tile.hpp), where L is the
/// greatest B of boxes with a ProbIoU of at least `least`.
inline double prob_iou_reach(double least) {
  // 1e-4 is ten times the bound of computed ProbIoUs for sides in a ratio of at most 40 : 1. For
  // longer boxes it is room, not a proof.
  const double distance = 1 - least + 1e-4;
  const double least_power = 1 - distance * distance;
  if (!(least_power > 0)) return std::numeric_limits<double>::infinity();
  return std::sqrt(4 * (1.01 * -std::log(least_power) + 1e-3));
}

/// The rotated boxes of a call of NMS.
template <class T>
class turned_nms {
 public:
  using element = T;

  turned_nms(matrix_view<const T> boxes, angle_rule angles, rotated_nms_overlap overlap,
             const nms_params& params, isa target)
      : boxes_(boxes),
        by_prob_(overlap == rotated_nms_overlap::prob),
        kernels_(kernels<rotated_boxes_kernels<T>>(target)) {
    args_.boxes = boxes.data();
    args_.stride = boxes.stride();
    args_.angles = angles;
    args_.least_overlap = static_cast<double>(least_overlap<T>(params));
    args_.reach = prob_iou_reach(args_.least_overlap);
    args_.max_kept = std::min({params.max_per_class, params.max_per_image, params.max_total});
  }

  index_t size() const { return boxes_.rows(); }
  index_t scratch_bytes(index_t count) const {
    return by_prob_ ? kernels_.prob_nms_scratch_bytes(count) : kernels_.nms_scratch_bytes(count);
  }
  void prepare(nms_buffers&, index_t) const {}
  index_t drop_degenerate(nms_record* records, index_t count) const {
    return kernels_.drop_degenerate(args_, records, count);
  }
  index_t least_in_task(index_t count) const { return least_nms_task_boxes(count); }
  index_t suppress(nms_buffers&, index_t, nms_state& state, threading) const {
    const profile::scope timing([&] { return nms_step<T>("nms.compare", size()); });
    const auto kernel = by_prob_ ? kernels_.prob_nms : kernels_.nms;
    return kernel(args_, state.order, state.count, state.scratch, state.kept);
  }

 private:
  matrix_view<const T> boxes_;
  bool by_prob_;
  const rotated_boxes_kernels<T>& kernels_;
  rotated_nms_args<T> args_{};
};

template <class T>
vector_view<const index_t> run_rotated_nms(const char* function, rotated_nms_overlap overlap,
                                           matrix_view<const T> boxes, vector_view<const T> scores,
                                           const nms_groups& groups, angle_convention angles,
                                           const nms_params& params, nms_buffers& buffers,
                                           isa target, threading policy) {
  const angle_rule rule = rule_of(function, angles);
  check_rotated(function, "boxes.cols()", boxes);
  check(params.format == nms_format::corners, function, "params.format",
        static_cast<int>(params.format), "the default: boxes are centre, size and angle");
  check(params.overlap == nms_overlap::plain, function, "params.overlap",
        static_cast<int>(params.overlap),
        overlap == rotated_nms_overlap::exact ? "nms_overlap::plain, the exact IoU"
                                              : "nms_overlap::plain, the default");
  check(!params.plus_one, function, "params.plus_one", "true", "false");
  check_nms(function, boxes.rows(), scores.size(), params);
  check_groups(function, groups, boxes.rows());
  check_nms_classes(function, groups, boxes.rows(), params, buffers);
  look_at_scores(function, "scores", scores, [](index_t) { return true; });
  const profile::scope timing([&] {
    return profile::problem{function,
                            nullptr,
                            dtype_name<T>(),
                            {profile::rounded_count(boxes.rows())},
                            isa_name(target),
                            policy.threads(),
                            boxes.rows() * 6 * index_t{sizeof(T)}};
  });
  const turned_nms<T> turned(boxes, rule, overlap, params, target);
  return nms_call<turned_nms<T>, T>(turned, scores, params, buffers, target, policy).run(groups);
}

}  // namespace detail

template <class T>
vector_view<const index_t> rotated_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                       const nms_groups& groups, angle_convention angles,
                                       const nms_params& params, nms_workspace& workspace,
                                       threading policy) {
  return detail::run_rotated_nms<value_of<T>>(
      "rotated_nms", detail::rotated_nms_overlap::exact, boxes, scores, groups, angles, params,
      detail::workspace_access::buffers(workspace), active_isa(), policy);
}

template <class T>
std::vector<index_t> rotated_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                 const nms_groups& groups, angle_convention angles,
                                 const nms_params& params, threading policy) {
  nms_workspace workspace;
  const auto kept = rotated_nms(boxes, scores, groups, angles, params, workspace, policy);
  return {kept.begin(), kept.end()};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
