// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/nms.hpp>
#include <vecdet/soft_nms.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct nms_calls {
  placed_detections<T> found;
  placed<index_t> image_offsets;
  const placed_boxes<T>& boxes = found.boxes;
  const placed<T>& scores = found.scores;
  const placed<index_t>& classes = found.classes;
  placed<float> f32_scores;
  placed<bfloat16> bf16_scores;
  placed<double> f64_scores;
  placed_class_lists lists;
  nms_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  nms_calls(operands& make, const problem& p)
      : found(make.detections<T>(
            p.exact_count(p.shape[0], 4 * sizeof(T) + size_of_score(p.variant)))),
        image_offsets(make.offsets(2, static_cast<index_t>(found.scores.size()))),
        f32_scores(make.converted<float>(found.scores)),
        bf16_scores(make.converted<bfloat16>(found.scores)),
        f64_scores(make.converted<double>(found.scores)),
        lists(make.class_lists(5)) {}

  /// A recorded variant names the type of the scores if it differs from that of the boxes.
  static std::size_t size_of_score(const std::string& variant) {
    return variant == "bf16" ? 2 : variant == "f32" ? 4 : variant == "f64" ? 8 : sizeof(T);
  }

  nms_groups by_class() const { return {classes}; }

  void list(call_list& c) {
    const accesses arrays = reads(boxes, scores);
    add(c, "", {});
    add(c, "/onnx", nms_params::onnx(0.5, 3, true));
    add(c, "/opencv", nms_params::opencv(0.5, 0.2));
    add(c, "/mmcv", nms_params::mmcv(0.5, true));
    add(c, "/ipex", nms_params::ipex(0.3));
    c.add("batched_nms//images", arrays.reads(classes, image_offsets), [this](threading policy) {
      nms_groups groups = by_class();
      groups.image_offsets = image_offsets;
      return batched_nms(boxes.in(), scores.in(), groups, {}, workspace, policy);
    });
    c.add("nms//vector", arrays,
          [this](threading policy) { return nms(boxes.in(), scores.in(), nms_params{}, policy); });
    c.add("batched_nms//vector", arrays.reads(classes), [this](threading policy) {
      return batched_nms(boxes.in(), scores.in(), by_class(), nms_params{}, policy);
    });
    c.add("batched_nms//by_class", arrays.reads(classes, lists), [this](threading policy) {
      nms_params params;
      lists.give(params);
      return batched_nms(boxes.in(), scores.in(), by_class(), params, workspace, policy);
    });
    add_other_scores(c, f32_scores);
    add_other_scores(c, bf16_scores);
    add_other_scores(c, f64_scores);
  }

  void add(call_list& c, const std::string& options, const nms_params& params) {
    c.add("nms/" + options, reads(boxes, scores), [this, params](threading policy) {
      return nms(boxes.in(), scores.in(), params, workspace, policy);
    });
    c.add("batched_nms/" + options, reads(boxes, scores, classes),
          [this, params](threading policy) {
            return batched_nms(boxes.in(), scores.in(), by_class(), params, workspace, policy);
          });
  }

  template <class S>
  void add_other_scores(call_list& c, const placed<S>& others) {
    if (std::is_same<S, T>::value) return;
    c.add("nms/" + std::string(dtype_name<S>()), reads(boxes, others),
          [this, &others](threading policy) {
            return nms(boxes.in(), others.in(), {}, workspace, policy);
          });
    c.add("batched_nms/" + std::string(dtype_name<S>()), reads(boxes, others, classes),
          [this, &others](threading policy) {
            return batched_nms(boxes.in(), others.in(), by_class(), {}, workspace, policy);
          });
  }
};

/// Soft-NMS; its cost is quadratic in the number of boxes of a class.
template <class T>
struct soft_nms_calls {
  placed_detections<T> found;
  soft_nms_workspace<compute_type<T>> workspace;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows > 3000 ? rows / 12 : rows}; }

  soft_nms_calls(operands& make, const problem& p)
      : found(make.detections<T>(p.exact_count(p.shape[0], 5 * sizeof(T)))) {}

  void list(call_list& c) {
    add(c, "hard", soft_nms_method::hard);
    add(c, "linear", soft_nms_method::linear);
    add(c, "gaussian", soft_nms_method::gaussian);
  }

  void add(call_list& c, const std::string& variant, soft_nms_method method) {
    soft_nms_params params;
    params.method = method;
    c.add("soft_nms/" + variant, reads(found.boxes, found.scores, found.classes),
          [this, params](threading policy) {
            const nms_groups groups{found.classes};
            const auto best =
                soft_nms(found.boxes.in(), found.scores.in(), groups, params, workspace, policy);
            return std::make_tuple(best.kept, best.scores);
          });
  }
};

const registered_family registered[] = {
    calls_of<nms_calls, float, bfloat16, double>("nms"),
    calls_of<soft_nms_calls, float, bfloat16, double>("soft_nms"),
};

}  // namespace
}  // namespace vecdet::test
