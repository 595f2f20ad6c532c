// SPDX-License-Identifier: Apache-2.0
// The functions of rotated_nms.hpp: checks, the profiler's scope, and what nms_call needs of the
// boxes.
#pragma once

#include <vecdet/args/rotated_boxes.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/nms.hpp>
#include <vecdet/impl/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>

#include <algorithm>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// The rotated boxes of a call of NMS.
template <class T>
class turned_nms {
 public:
  using element = T;

  turned_nms(matrix_view<const T> boxes, angle_rule angles, const nms_params& params, isa target)
      : boxes_(boxes), kernels_(kernels<rotated_boxes_kernels<T>>(target)) {
    args_.boxes = boxes.data();
    args_.stride = boxes.stride();
    args_.angles = angles;
    args_.least_overlap = static_cast<double>(least_overlap<T>(params));
    args_.max_kept = std::min({params.max_per_class, params.max_per_image, params.max_total});
  }

  index_t size() const { return boxes_.rows(); }
  index_t scratch_bytes(index_t count) const { return kernels_.nms_scratch_bytes(count); }
  void prepare(nms_buffers&, index_t) const {}
  index_t drop_degenerate(nms_record* records, index_t count) const {
    return kernels_.drop_degenerate(args_, records, count);
  }
  index_t suppress(nms_buffers&, index_t, nms_state& state) const {
    const profile::scope timing([&] { return nms_step<T>("nms.compare", size()); });
    return kernels_.nms(args_, state.order, state.count, state.scratch, state.kept);
  }

 private:
  matrix_view<const T> boxes_;
  const rotated_boxes_kernels<T>& kernels_;
  rotated_nms_args<T> args_{};
};

}  // namespace detail

template <class T>
vector_view<const index_t> rotated_nms(matrix_view<T> boxes, vector_view<const value_of<T>> scores,
                                       const nms_groups& groups, angle_convention angles,
                                       const nms_params& params, nms_workspace& workspace,
                                       threading policy) {
  constexpr const char* function = "rotated_nms";
  using type = value_of<T>;
  const detail::angle_rule rule = detail::rule_of(function, angles);
  detail::check_rotated(function, "boxes.cols()", boxes);
  detail::check(params.format == nms_format::corners, function, "params.format",
                static_cast<int>(params.format), "the default: boxes are centre, size and angle");
  detail::check(params.overlap == nms_overlap::plain, function, "params.overlap",
                static_cast<int>(params.overlap), "nms_overlap::plain, the exact IoU");
  detail::check(!params.plus_one, function, "params.plus_one", "true", "false");
  detail::check_nms(function, boxes.rows(), scores.size(), params);
  detail::check_groups(function, groups, boxes.rows());
  detail::nms_buffers& buffers = detail::workspace_access::buffers(workspace);
  detail::check_nms_classes(function, groups, boxes.rows(), params, buffers);
  detail::look_at_scores(function, "scores", scores, [](index_t) { return true; });
  const isa target = active_isa();
  const profile::scope timing([&] {
    return profile::problem{function,
                            nullptr,
                            dtype_name<type>(),
                            {profile::rounded_count(boxes.rows())},
                            isa_name(target),
                            policy.threads(),
                            boxes.rows() * 6 * index_t{sizeof(type)}};
  });
  const detail::turned_nms<type> turned(boxes, rule, params, target);
  return detail::nms_call<detail::turned_nms<type>, type>(turned, scores, params, buffers, target,
                                                          policy)
      .run(groups);
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
