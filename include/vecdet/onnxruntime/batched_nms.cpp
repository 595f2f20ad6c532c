// SPDX-License-Identifier: Apache-2.0
// ai.vecdet::BatchedNms: the indices of the boxes that NMS keeps.
#include <vecdet/nms.hpp>
#include <vecdet/onnxruntime/support.hpp>

#include <algorithm>

namespace vecdet_onnxruntime {
namespace {

class batched_nms_kernel {
 public:
  static constexpr const char* name = "BatchedNms";
  static constexpr std::array<parameter, 4> inputs{
      {{"boxes"}, {"scores"}, {"classes", any_type, true}, {"images", any_type, true}}};
  static constexpr std::array<parameter, 1> outputs{
      {{"kept", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64}}};

  explicit batched_nms_kernel(const attributes& node) {
    node.read("iou_threshold", params_.iou_threshold);
    node.read("score_threshold", params_.score_threshold);
    node.read("max_per_class", params_.max_per_class);
    node.read("max_per_image", params_.max_per_image);
    node.read("max_total", params_.max_total);
    node.read("format", params_.format,
              {{"corners", nms_format::corners},
               {"any_corners", nms_format::any_corners},
               {"centre", nms_format::centre}});
    node.read("overlap", params_.overlap,
              {{"plain", nms_overlap::plain},
               {"positive_area", nms_overlap::positive_area},
               {"smaller_area", nms_overlap::smaller_area},
               {"jaccard", nms_overlap::jaccard}});
    node.read("order", params_.order,
              {{"score", nms_order::score},
               {"index", nms_order::index},
               {"image_score", nms_order::image_score},
               {"image_class_score", nms_order::image_class_score}});
    node.read("suppress_equal", params_.suppress_equal);
    node.read("float_threshold", params_.float_threshold);
    node.read("plus_one", params_.plus_one);
    node.read("drop_nan_scores", params_.drop_nan_scores);
    node.read("drop_degenerate", params_.drop_degenerate);
    nms(boxes_view<const float>(), vector_view<const float>(), params_);  // checks them
  }

  void compute(const call& node) {
    const tensor boxes = node.input(0), scores = node.input(1);
    boxes.check_shape({-1, 4}, "[boxes, 4]");
    const index_t count = boxes.shape[0];
    scores.check_shape({count}, "[boxes]");
    scores.check_type(scores.type == boxes.type, "the type of boxes");
    nms_groups groups;
    groups.classes = node.input(2).labels(count);
    groups.images = node.input(3).labels(count);
    workspaces_.with_one([&](nms_workspace& workspace) {
      with_type<float, double, bfloat16>(boxes, [&](auto of) {
        using T = typename decltype(of)::type;
        const auto kept = batched_nms(boxes_view<const T>(boxes.as<T>(), count),
                                      vector_view<const T>(scores.as<T>(), count), groups, params_,
                                      workspace, node.threads());
        std::copy(kept.begin(), kept.end(), node.output<std::int64_t>(0, {kept.size()}));
      });
    });
  }

 private:
  nms_params params_;
  workspace_pool<nms_workspace> workspaces_;
};

}  // namespace

const OrtCustomOp* batched_nms_operator() {
  static const operator_of<batched_nms_kernel> op;
  return &op;
}

}  // namespace vecdet_onnxruntime
