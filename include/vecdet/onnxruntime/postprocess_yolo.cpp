// SPDX-License-Identifier: Apache-2.0
// ai.vecdet::PostprocessYolo: from the raw output of a YOLO model to detections.
#include <vecdet/onnxruntime/support.hpp>
#include <vecdet/postprocess_yolo.hpp>

namespace vecdet_onnxruntime {
namespace {

using preset = postprocess_yolo_params (*)();
constexpr std::pair<const char*, preset> models[] = {
    {"yolov5", postprocess_yolo_params::v5},  {"yolov7", postprocess_yolo_params::v5},
    {"yolox", postprocess_yolo_params::v5},   {"yolov8", postprocess_yolo_params::v8},
    {"yolov9", postprocess_yolo_params::v8},  {"yolo11", postprocess_yolo_params::v8},
    {"yolo12", postprocess_yolo_params::v8},  {"yolov11", postprocess_yolo_params::v8},
    {"yolov12", postprocess_yolo_params::v8}, {"yolov10", postprocess_yolo_params::v10},
    {"yolo26", postprocess_yolo_params::v10}, {"rt-detr", postprocess_yolo_params::rt_detr}};

class postprocess_yolo_kernel {
 public:
  static constexpr const char* name = "PostprocessYolo";
  static constexpr std::array<parameter, 2> inputs{{{"output"}, {"transforms", any_type, true}}};
  static constexpr std::array<parameter, 6> outputs{
      {boxes_output,
       scores_output,
       labels_output,
       offsets_output,
       {"sources", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, true},
       {"extras", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, true}}};

  explicit postprocess_yolo_kernel(const attributes& node)
      : params_(node.required("model", models)()) {
    node.read("score_threshold", params_.score_threshold);
    if (node.read("iou_threshold", params_.iou_threshold)) check_suppresses("iou_threshold");
    node.read("max_candidates", params_.max_candidates);
    node.read("max_detections", params_.max_detections);
    node.read("multi_label", params_.multi_label);
    if (node.read("class_agnostic", params_.class_agnostic)) check_suppresses("class_agnostic");
    node.read(
        "result_format", params_.result_format,
        {{"xyxy", box_format::xyxy}, {"xywh", box_format::xywh}, {"cxcywh", box_format::cxcywh}});
    if (node.read("extras", params_.extras))
      detail::check(params_.extras >= 0 && params_.extras <= detail::most_yolo_extras, name,
                    "extras", params_.extras, "0 to 2^31 - 1");
    node.read("keypoint_size", params_.keypoint_size);
    if (node.read("class_count", class_count_)) {
      detail::check(params_.scores != yolo_scores::score_and_class, name, "class_count",
                    class_count_, "no value, because the model gives one score and its class");
      detail::check(class_count_ >= 1, name, "class_count", class_count_, "1 or more");
    }
    params_.class_count = class_count_;
    lists_.read(node, params_);
    postprocess_workspace workspace;  // of a call that checks the parameters
    postprocess_yolo(yolo_outputs<float>{{}, 0}, {}, params_, workspace);
  }

  void compute(const call& node) {
    const tensor output = node.input(0);
    check_shape(output);
    const index_t images = output.shape[0];
    const std::vector<letterbox_transform> transforms = transforms_of(node.input(1), images);
    workspaces_.with_one([&](postprocess_workspace& workspace) {
      with_type<float, bfloat16>(output, [&](auto of) {
        using T = typename decltype(of)::type;
        const yolo_outputs<T> numbers{
            matrix_view<const T>(output.as<T>(), images * output.shape[1], output.shape[2]),
            images};
        const auto found =
            postprocess_yolo(numbers, vector_view<const letterbox_transform>(transforms), params_,
                             workspace, node.threads());
        check_scores(found.scores);
        write(node, found);
      });
    });
  }

 private:
  void check_suppresses(const char* option) const {
    detail::check(params_.suppress, name, option, "set",
                  "no value, because the model needs no NMS");
  }

  /// Refuses a transposed output, which has more numbers per box than boxes.
  void check_shape(const tensor& output) const {
    const bool by_rows = params_.layout == yolo_layout::rows;
    const bool is_scored = params_.scores == yolo_scores::score_and_class;
    std::string text = is_scored                                   ? "6"
                       : params_.scores == yolo_scores::objectness ? "5 + classes"
                                                                   : "4 + classes";
    if (params_.extras > 0) text += " + extras";
    text = by_rows ? "[images, boxes, " + text + "]" : "[images, " + text + ", boxes]";
    output.check_shape({-1, -1, -1}, text.c_str());
    const index_t numbers = output.shape[by_rows ? 2 : 1], boxes = output.shape[by_rows ? 1 : 2];
    const index_t before = is_scored ? 6 : params_.scores == yolo_scores::objectness ? 5 : 4;
    const index_t extras = std::max(params_.extras, index_t{0});
    const index_t classes = numbers - before - extras;
    bool is_right = is_scored ? classes == 0 : classes == class_count_;
    if (!is_scored && class_count_ == 0) {
      is_right = numbers <= boxes || boxes == 0;
      text += ", and more boxes than numbers per box: is it transposed? If not, set class_count";
    } else if (!is_scored) {
      text += " with " + std::to_string(class_count_) + " classes";
    }
    if (!is_right) output.check_shape({}, text.c_str());
  }

  static std::vector<letterbox_transform> transforms_of(const tensor& input, index_t images) {
    std::vector<letterbox_transform> transforms;
    if (!input.is_present()) return transforms;
    input.check_shape({images, 6},
                      "[images, 6]: scale_x, scale_y, pad_x, pad_y, height, width of each image");
    const std::vector<double> numbers = input.numbers();
    for (const double* n = numbers.data(); n != numbers.data() + numbers.size(); n += 6)
      transforms.push_back({n[0], n[1], n[2], n[3], image_size::height_width(n[4], n[5])});
    return transforms;
  }

  static void check_scores(const vector_view<const float>& scores) {
    for (const float score : scores)
      detail::check(score <= detail::greatest_probability, name, "a score of output", score,
                    "probabilities, not logits");
  }

  void write(const call& node, const detections_view& found) const {
    node.write_detections(found);
    const index_t count = found.scores.size();
    if (auto* to = node.output<std::int64_t>(4, {count}))
      std::copy(found.sources.begin(), found.sources.end(), to);
    const index_t extras = found.extras.cols();
    if (auto* to = node.output<float>(5, {count, extras}))
      for (index_t i = 0; i < count; ++i) to = std::copy_n(found.extras.row(i), extras, to);
  }

  postprocess_yolo_params params_;
  index_t class_count_ = 0;  // 0: any number
  class_lists lists_;
  workspace_pool<postprocess_workspace> workspaces_;
};

}  // namespace

const OrtCustomOp* postprocess_yolo_operator() {
  static const operator_of<postprocess_yolo_kernel> op;
  return &op;
}

}  // namespace vecdet_onnxruntime
