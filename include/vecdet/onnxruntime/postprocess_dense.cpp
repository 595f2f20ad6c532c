// SPDX-License-Identifier: Apache-2.0
// ai.vecdet::PostprocessDense: from the heads of RetinaNet, FCOS, SSD or an RPN to detections.
#include <vecdet/onnxruntime/support.hpp>
#include <vecdet/postprocess.hpp>

namespace vecdet_onnxruntime {
namespace {

using preset = postprocess_params (*)();
constexpr std::pair<const char*, preset> detectors[] = {
    {"retinanet", postprocess_params::retinanet},
    {"fcos", postprocess_params::fcos},
    {"ssd", postprocess_params::ssd},
    {"rpn", postprocess_params::rpn}};

class postprocess_dense_kernel {
 public:
  static constexpr const char* name = "PostprocessDense";
  static constexpr std::array<parameter, 6> inputs{{{"logits"},
                                                    {"deltas"},
                                                    {"anchors"},
                                                    {"image_sizes"},
                                                    {"level_sizes", any_type, true},
                                                    {"centerness", any_type, true}}};
  static constexpr std::array<parameter, 4> outputs{
      {boxes_output, scores_output, labels_output, offsets_output}};

  explicit postprocess_dense_kernel(const attributes& node)
      : params_(node.required("detector", detectors)()) {
    node.read("score_threshold", params_.score_threshold);
    node.read("max_candidates", params_.max_candidates);
    node.read("iou_threshold", params_.iou_threshold);
    node.read("max_detections", params_.max_detections);
    node.read("min_size", params_.min_size);
    node.read("size_limit", params_.coder.size_limit);
    std::vector<double> weights;
    if (node.read("weights", weights)) {
      detail::check(weights.size() == 4, name, "weights.size()", weights.size(),
                    "4: of x, y, width and height");
      params_.coder.weight_x = weights[0];
      params_.coder.weight_y = weights[1];
      params_.coder.weight_w = weights[2];
      params_.coder.weight_h = weights[3];
    }
    lists_.read(node, params_);
    head_outputs<float> outputs_of_no_image;  // of a call that checks the parameters
    outputs_of_no_image.logits = matrix_view<const float>(nullptr, 0, 1);
    postprocess_workspace workspace;
    postprocess(outputs_of_no_image, boxes_view<const float>(), {}, std::vector<image_size>(),
                params_, workspace);
  }

  void compute(const call& node) {
    const tensor logits = node.input(0), deltas = node.input(1), anchors = node.input(2);
    logits.check_shape({-1, -1, -1}, "[images, anchors, classes]");
    const index_t images = logits.shape[0], count = logits.shape[1];
    deltas.check_shape({images, count, 4}, "[images, anchors, 4]");
    deltas.check_type(deltas.type == logits.type, "the type of logits");
    anchors.check_shape({count, 4}, "[anchors, 4]");
    anchors.check_type(anchors.type == type_of<float>, "float");
    const tensor centerness = node.input(5);
    if (centerness.is_present()) {
      centerness.check_shape({images, count}, "[images, anchors]");
      centerness.check_type(centerness.type == logits.type, "the type of logits");
    }
    const std::vector<image_size> sizes = sizes_of(node.input(3), images);
    const std::vector<index_t> levels = levels_of(node.input(4));
    workspaces_.with_one([&](postprocess_workspace& workspace) {
      with_type<float, bfloat16>(logits, [&](auto of) {
        using T = typename decltype(of)::type;
        const index_t rows = images * count;
        head_outputs<T> outputs;
        outputs.logits = matrix_view<const T>(logits.as<T>(), rows, logits.shape[2]);
        outputs.deltas = boxes_view<const T>(deltas.as<T>(), rows);
        if (centerness.is_present())
          outputs.centerness = vector_view<const T>(centerness.as<T>(), rows);
        node.write_detections(postprocess(
            outputs, boxes_view<const float>(anchors.as<float>(), count),
            vector_view<const index_t>(levels), sizes, params_, workspace, node.threads()));
      });
    });
  }

 private:
  static std::vector<image_size> sizes_of(const tensor& input, index_t images) {
    input.check_shape({images, 2}, "[images, 2]: height and width of each image");
    const std::vector<double> numbers = input.numbers();
    std::vector<image_size> sizes;
    for (const double* n = numbers.data(); n != numbers.data() + numbers.size(); n += 2)
      sizes.push_back(image_size::height_width(n[0], n[1]));
    return sizes;
  }

  static std::vector<index_t> levels_of(const tensor& input) {
    if (!input.is_present()) return {};
    input.check_shape({-1}, "[levels]");
    input.check_type(input.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64");
    return std::vector<index_t>(input.as<std::int64_t>(),
                                input.as<std::int64_t>() + input.shape[0]);
  }

  postprocess_params params_;
  class_lists lists_;
  workspace_pool<postprocess_workspace> workspaces_;
};

}  // namespace

const OrtCustomOp* postprocess_dense_operator() {
  static const operator_of<postprocess_dense_kernel> op;
  return &op;
}

}  // namespace vecdet_onnxruntime
