// SPDX-License-Identifier: Apache-2.0
#include <vecdet/nms.hpp>
#include <vecdet/soft_nms.hpp>

#include "catalogue.hpp"

namespace vecdet {
namespace test {
namespace {

template <class T>
struct nms_calls {
  placed_detections<T> found;
  placed<index_t> image_offsets;
  const placed_boxes<T>& boxes = found.boxes;
  const placed<T>& scores = found.scores;
  const placed<index_t>& classes = found.classes;
  nms_workspace workspace;
  soft_nms_workspace<compute_type<T>> soft_workspace;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows > 3000 ? rows / 12 : rows}; }

  nms_calls(operands& make, const problem& p)
      : found(make.detections<T>(p.exact_count(p.shape[0], 5 * sizeof(T)))),
        image_offsets(make.copy(std::vector<index_t>{0, p.shape[0] / 3, p.shape[0]})) {}

  nms_groups by_class() const {
    nms_groups groups;
    groups.classes = classes;
    return groups;
  }

  void list(call_list& c) {
    const accesses arrays = reads(boxes, scores);
    add(c, "", {});
    add(c, "/onnx", onnx_nms(0.5, 3, true));
    add(c, "/opencv", opencv_nms(0.5, 0.2));
    add(c, "/mmcv", mmcv_nms(0.5, true));
    add(c, "/ipex", ipex_nms(0.3));
    c.add("batched_nms//images", arrays.reads(classes, image_offsets), [this](execution policy) {
      nms_groups groups = by_class();
      groups.image_offsets = image_offsets;
      return batched_nms(boxes.in(), scores.in(), groups, {}, workspace, policy);
    });
    c.add("nms//vector", arrays, [this](execution policy) {
      return nms(boxes.in(), scores.in(), nms_params{}, policy);
    });
    c.add("batched_nms//vector", arrays.reads(classes), [this](execution policy) {
      return batched_nms(boxes.in(), scores.in(), by_class(), nms_params{}, policy);
    });
    add(c, "hard", soft_nms_method::hard);
    add(c, "linear", soft_nms_method::linear);
    add(c, "gaussian", soft_nms_method::gaussian);
  }

  void add(call_list& c, const std::string& options, const nms_params& params) {
    c.add("nms/" + options, reads(boxes, scores), [=](execution policy) {
      return nms(boxes.in(), scores.in(), params, workspace, policy);
    });
    c.add("batched_nms/" + options, reads(boxes, scores, classes), [=](execution policy) {
      return batched_nms(boxes.in(), scores.in(), by_class(), params, workspace, policy);
    });
  }

  void add(call_list& c, const std::string& variant, soft_nms_method method) {
    soft_nms_params params;
    params.method = method;
    c.add("soft_nms/" + variant, reads(boxes, scores, classes), [=](execution policy) {
      const auto best =
          soft_nms(boxes.in(), scores.in(), by_class(), params, soft_workspace, policy);
      return std::make_tuple(best.kept, best.scores);
    });
  }
};

const registered_family registered = calls_of<nms_calls, float, bfloat16, double>("nms");

}  // namespace
}  // namespace test
}  // namespace vecdet
