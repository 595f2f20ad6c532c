// SPDX-License-Identifier: Apache-2.0
// ai.vecdet::RoiAlign: the features of each box, pooled to a fixed size.
#include <vecdet/onnxruntime/support.hpp>
#include <vecdet/roi_align.hpp>

#include <type_traits>

namespace vecdet_onnxruntime {
namespace {

/// One kernel per type of features: the runtime can give an output the type of an input only if no
/// other input may have any type.
template <class T>
class roi_align_kernel {
  using real = compute_type<T>;

 public:
  static constexpr const char* name = "RoiAlign";
  static constexpr std::array<parameter, 3> inputs{
      {{"features", type_of<T>}, {"boxes"}, {"images", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64}}};
  static constexpr std::array<parameter, 1> outputs{{{"pooled", type_of<T>}}};

  explicit roi_align_kernel(const attributes& node)
      : height_(node.required("output_height")), width_(node.required("output_width")) {
    detail::check(height_ >= 1, name, "output_height", height_, "1 or more");
    detail::check(width_ >= 1, name, "output_width", width_, "1 or more");
    node.read("spatial_scale", params_.spatial_scale);
    node.read("sampling_ratio", params_.sampling_ratio);
    node.read("aligned", params_.aligned);
    roi_align_workspace workspace;  // of a call that checks the parameters
    roi_align(feature_view<const T>(), roi_boxes<real>(),
              feature_view<T>(nullptr, 0, 0, height_, width_, feature_layout::nchw), params_,
              workspace);
  }

  void compute(const call& node) {
    const tensor features = node.input(0), boxes = node.input(1), images = node.input(2);
    features.check_shape({-1, -1, -1, -1}, "[images, channels, height, width]");
    boxes.check_shape({-1, 4}, "[boxes, 4]");
    boxes.check_type(boxes.type == type_of<real>,
                     std::is_same<T, double>::value ? "double, as features" : "float");
    const std::vector<std::int64_t>& n = features.shape;
    const index_t count = boxes.shape[0];
    roi_boxes<real> rois;
    rois.boxes = boxes_view<const real>(boxes.as<real>(), count);
    rois.images = images.labels(count);
    const feature_view<const T> from(features.as<T>(), n[0], n[1], n[2], n[3],
                                     feature_layout::nchw);
    const feature_view<T> to(node.output<T>(0, {count, n[1], height_, width_}), count, n[1],
                             height_, width_, feature_layout::nchw);
    workspaces_.with_one([&](roi_align_workspace& workspace) {
      roi_align(from, rois, to, params_, workspace, node.threads());
    });
  }

 private:
  index_t height_, width_;
  roi_align_params params_;
  workspace_pool<roi_align_workspace> workspaces_;
};

/// An attribute that the kernel will check; 0 if the node has none.
std::int64_t size_attribute(OrtShapeInferContext* context, const char* name) {
  const OrtApi& api = Ort::GetApi();
  const OrtOpAttr* attribute = nullptr;
  std::int64_t size = 0;
  std::size_t written = 0;
  ensure(api.ShapeInferContext_GetAttribute(context, name, &attribute));
  ensure(api.ReadOpAttr(attribute, ORT_OP_ATTR_INT, &size, sizeof size, &written));
  return size;
}

/// [boxes, channels, output_height, output_width], if the inputs' sizes are numbers.
void infer(OrtShapeInferContext* context) {
  using shape = Ort::ShapeInferContext::Shape;
  Ort::ShapeInferContext node(&Ort::GetApi(), context);
  const shape &features = node.GetInputShape(0), &boxes = node.GetInputShape(1);
  if (features.size() != 4 || boxes.size() != 2) return;
  const shape pooled{boxes[0], features[1], size_attribute(context, "output_height"),
                     size_attribute(context, "output_width")};
  for (const auto& size : pooled)
    if (!size.IsInt() || size.AsInt() < 0) return;
  OrtTensorTypeAndShapeInfo* info = nullptr;  // the runtime's
  ensure(Ort::GetApi().ShapeInferContext_GetInputTypeShape(context, 0, &info));
  const Ort::Status set =
      node.SetOutputShape(0, pooled, Ort::ConstTensorTypeAndShapeInfo(info).GetElementType());
  detail::check(set.IsOK(), "RoiAlign", "pooled.shape", set.IsOK() ? "" : set.GetErrorMessage(),
                "the inferred shape");
}

/// Only this operator's shape can be inferred: a function that infers cannot set sizes that depend
/// on the data, and the runtime fails to call it if an optional input is absent.
template <class T>
struct operator_with_shape : operator_of<roi_align_kernel<T>> {
  operator_with_shape() {
    this->InferOutputShapeFn = [](const OrtCustomOp*, OrtShapeInferContext* context) -> OrtStatus* {
      return guarded([&] { infer(context); });
    };
  }
};

}  // namespace

std::array<const OrtCustomOp*, 3> roi_align_operators() {
  static const operator_with_shape<float> of_float;
  static const operator_with_shape<double> of_double;
  static const operator_with_shape<bfloat16> of_bfloat16;
  return {&of_float, &of_double, &of_bfloat16};
}

}  // namespace vecdet_onnxruntime
