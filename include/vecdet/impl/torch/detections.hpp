// SPDX-License-Identifier: Apache-2.0
// NMS and related functions, whose results' sizes depend on the data.
#pragma once

#include <vecdet/filter_topk.hpp>
#include <vecdet/impl/torch/boxes.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/nms.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/soft_nms.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The scratch memory of a thread's calls.
template <class Workspace>
Workspace& thread_workspace() {
  static thread_local Workspace workspace;
  return workspace;
}

/// Copies a result from a workspace to a tensor.
template <class T>
at::Tensor copied(const T* data, at::IntArrayRef sizes, at::ScalarType type) {
  const at::Tensor copy = at::empty(sizes, type);
  if (copy.numel() > 0) std::copy_n(data, copy.numel(), static_cast<T*>(copy.data_ptr()));
  return copy;
}
inline at::Tensor copied(const vector_view<const index_t>& numbers) {
  return copied(numbers.data(), {numbers.size()}, at::kLong);
}
inline at::Tensor copied(const vector_view<const float>& numbers) {
  return copied(numbers.data(), {numbers.size()}, at::kFloat);
}
inline at::Tensor copied(const vector_view<const double>& numbers) {
  return copied(numbers.data(), {numbers.size()}, at::kDouble);
}

/// Boxes, scores, labels, and the offset of each image's detections.
using detection_tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

inline detection_tensors copied(const detections_view& found) {
  return detection_tensors(copied(found.boxes.data(), {found.boxes.size(), 4}, at::kFloat),
                           copied(found.scores), copied(found.labels), copied(found.offsets));
}

/// Image sizes from alternating heights and widths, in torchvision's order.
inline std::vector<image_size> image_sizes_from(const char* function,
                                                at::ArrayRef<double> image_sizes, index_t images) {
  check_size(function, "image_sizes.size()", static_cast<index_t>(image_sizes.size()), 2 * images,
             "height and width of each image");
  std::vector<image_size> sizes;
  for (std::size_t i = 0; i < image_sizes.size(); i += 2)
    sizes.push_back(image_size::height_width(image_sizes[i], image_sizes[i + 1]));
  return sizes;
}

inline at::ScalarType check_scored(const char* function, const at::Tensor& boxes,
                                   const at::Tensor& scores) {
  check_boxes(function, "boxes", boxes);
  check_shape(boxes.dim() == 2, function, "boxes", boxes, "[N, 4]");
  check_dense(function, "scores", scores);
  check_shape(scores.dim() == 1 && scores.size(0) == boxes.size(0), function, "scores", scores,
              "[N], one per box");
  return computed_type(function, "boxes", boxes, "scores", scores);
}

/// Maps numbers of any type, which torchvision accepts as classes, to integers. Equal numbers give
/// equal integers.
inline at::Tensor as_integers(const char* function, const char* argument,
                              const at::Tensor& classes) {
  check_dense(function, argument, classes);
  if (classes.scalar_type() == at::kBool) return classes.to(at::kByte);
  if (!classes.is_floating_point()) return classes;
  const at::Tensor numbers = contiguous(argument, classes, at::kDouble);
  const at::Tensor bits = at::empty(classes.sizes(), at::kLong);
  const double* from = static_cast<const double*>(numbers.data_ptr());
  auto* to = static_cast<std::int64_t*>(bits.data_ptr());
  for (index_t i = 0, count = numbers.numel(); i < count; ++i) {
    const double number = from[i] + 0.0;  // turns -0.0 into 0.0
    std::memcpy(to + i, &number, sizeof(number));
  }
  return bits;
}

/// Calls use(groups) with the classes of boxes, if there are any.
template <class Use>
auto with_classes(const char* function, const optional_tensor& classes, index_t boxes,
                  const Use& use) {
  nms_groups groups;
  if (!classes.has_value() || !classes->defined()) return use(groups);
  const labels chosen(function, "classes", as_integers(function, "classes", *classes), boxes,
                      "one number per box");
  const labels_view view = chosen.view();
  groups.classes = view;
  return use(groups);
}

namespace cpu {

/// The indices (int64) of the boxes that non-maximum suppression keeps (nms.hpp), in descending
/// score. `boxes` are N x 4 corners, `scores` N.
inline at::Tensor nms(const at::Tensor& boxes_, const at::Tensor& scores, double iou_threshold) {
  constexpr const char* function = "nms";
  return translated([&] {
    const at::ScalarType type = check_scored(function, boxes_, scores);
    const at::Tensor x = contiguous("boxes", boxes_, type);
    const at::Tensor s = contiguous("scores", scores, type);
    return with_element(type, [&](auto element) {
      using T = decltype(element);
      return copied(vecdet::nms(boxes<const T>(x), vector<const T>(s),
                                nms_params::torchvision(iou_threshold),
                                thread_workspace<nms_workspace>(), threads()));
    });
  });
}

/// The same, comparing only boxes with equal `classes`, N numbers of any type and value.
inline at::Tensor batched_nms(const at::Tensor& boxes_, const at::Tensor& scores,
                              const at::Tensor& classes, double iou_threshold) {
  constexpr const char* function = "batched_nms";
  return translated([&] {
    const at::ScalarType type = check_scored(function, boxes_, scores);
    const at::Tensor x = contiguous("boxes", boxes_, type);
    const at::Tensor s = contiguous("scores", scores, type);
    return with_classes(function, classes, s.numel(), [&](const nms_groups& groups) {
      return with_element(type, [&](auto element) {
        using T = decltype(element);
        return copied(vecdet::batched_nms(boxes<const T>(x), vector<const T>(s), groups,
                                          nms_params::torchvision(iou_threshold),
                                          thread_workspace<nms_workspace>(), threads()));
      });
    });
  });
}

/// Soft-NMS (soft_nms.hpp). Returns the indices of the picked boxes and their reduced scores.
/// @param classes as in batched_nms(); undefined: all boxes have the same class
/// @param decay how the scores of overlapping boxes are reduced
inline std::tuple<at::Tensor, at::Tensor> soft_nms(const at::Tensor& boxes_,
                                                   const at::Tensor& scores,
                                                   const optional_tensor& classes,
                                                   const soft_nms_params& params) {
  constexpr const char* function = "soft_nms";
  return translated([&] {
    const at::ScalarType type = check_scored(function, boxes_, scores);
    check_choice(function, "decay", params.method, soft_nms_method::gaussian,
                 "0 (hard), 1 (linear) or 2 (gaussian)");
    const at::Tensor x = contiguous("boxes", boxes_, type);
    const at::Tensor s = contiguous("scores", scores, type);
    return with_classes(function, classes, s.numel(), [&](const nms_groups& groups) {
      return with_element(type, [&](auto element) {
        using T = decltype(element);
        const auto picked =
            vecdet::soft_nms(boxes<const T>(x), vector<const T>(s), groups, params,
                             thread_workspace<soft_nms_workspace<compute_type<T>>>(), threads());
        return std::make_tuple(
            copied(picked.kept),
            copied(picked.scores)
                .to(c10::promoteTypes(scores.scalar_type(), boxes_.scalar_type())));
      });
    });
  });
}

/// Calls use(T()) with the type of the searched logits.
template <class Use>
auto with_searched_element(const char* function, at::ScalarType type, const Use& use) {
  check(type != at::kDouble, function, "logits.dtype", c10::toString(type),
        "float32, bfloat16 or float16");
  return type == at::kBFloat16 ? use(bfloat16()) : use(float());
}

/// The best `k` of the `logits` (... x classes, float32, bfloat16 or float16) whose sigmoid is
/// above `score_threshold`, in descending order, and their indices in the flattened tensor
/// (filter_topk.hpp).
inline std::tuple<at::Tensor, at::Tensor> filter_topk(const at::Tensor& logits,
                                                      double score_threshold, std::int64_t k) {
  constexpr const char* function = "filter_topk";
  return translated([&] {
    check_dense(function, "logits", logits);
    const at::ScalarType type = computed_type(function, "logits", logits);
    const rows x("logits", logits, type);
    return with_searched_element(function, type, [&](auto element) {
      using T = decltype(element);
      const filter_topk_result best = vecdet::filter_topk(
          x.view<T>(), score_threshold, k, thread_workspace<filter_topk_workspace>(), threads());
      return std::make_tuple(copied(best.logits).to(logits.scalar_type()), copied(best.elements));
    });
  });
}

/// The detections of a batch (postprocess.hpp): boxes (float32), scores (float32), labels (int64),
/// and the offset of each image's detections (int64), one more than there are images.
/// @param logits images x anchors x classes
/// @param deltas images x anchors x 4
/// @param anchors anchors x 4 corners, the same for all images
/// @param image_sizes height and width of each image, alternating
/// @param level_sizes the number of anchors per level; empty: one level
/// @param kind the detector; `rpn` is rejected: use rpn_postprocess()
/// @param weights of dx, dy, dw, dh; empty: all 1
/// @param size_limit upper limit of dw and dh; infinity: unbounded
/// @param centerness images x anchors: FCOS only
/// @param classes the wanted classes, columns of the logits; empty: all
/// @param class_thresholds a threshold per column of the logits instead of score_threshold; empty:
/// none
/// @param class_groups a group per column of the logits: boxes of classes with the same group
/// suppress each other; empty: each class is a group of its own
inline detection_tensors postprocess(const at::Tensor& logits, const at::Tensor& deltas,
                                     const at::Tensor& anchors, at::ArrayRef<double> image_sizes,
                                     at::IntArrayRef level_sizes, const postprocess_params& params_,
                                     at::ArrayRef<double> weights,
                                     const optional_tensor& centerness, at::IntArrayRef classes,
                                     at::ArrayRef<double> class_thresholds,
                                     at::IntArrayRef class_groups) {
  constexpr const char* function = "postprocess";
  return translated([&] {
    check_dense(function, "logits", logits);
    check_shape(logits.dim() == 3, function, "logits", logits, "[images, anchors, classes]");
    check_boxes(function, "deltas", deltas);
    check_boxes(function, "anchors", anchors);
    check_choice(function, "kind", params_.detector, dense_detector::ssd,
                 "0 (RetinaNet), 1 (FCOS) or 2 (SSD)");
    const std::vector<vecdet::image_size> sizes =
        image_sizes_from(function, image_sizes, logits.size(0));
    postprocess_params params = params_;
    params.coder = coder_of(function, params.coder, weights);
    params.classes = vector_view<const index_t>(classes.data(), classes.size());
    params.class_thresholds =
        vector_view<const double>(class_thresholds.data(), class_thresholds.size());
    params.class_groups = vector_view<const index_t>(class_groups.data(), class_groups.size());

    const at::ScalarType type = computed_type(function, "logits", logits);
    const rows x("logits", logits, type);
    const at::Tensor d = contiguous("deltas", deltas, type);
    const at::Tensor a = contiguous("anchors", anchors, at::kFloat);
    const bool has_centerness = centerness.has_value() && centerness->defined();
    if (has_centerness) check_dense(function, "centerness", *centerness);
    const at::Tensor c =
        has_centerness ? contiguous("centerness", *centerness, type) : at::Tensor();
    return with_searched_element(function, type, [&](auto element) {
      using T = decltype(element);
      head_outputs<T> outputs;
      outputs.logits = x.view<T>();
      outputs.deltas = boxes<const T>(d);
      if (has_centerness) outputs.centerness = vector<const T>(c);
      return copied(
          vecdet::postprocess(outputs, boxes<const float>(a),
                              vector_view<const index_t>(level_sizes.data(), level_sizes.size()),
                              vector_view<const vecdet::image_size>(sizes), params,
                              thread_workspace<postprocess_workspace>(), threads()));
    });
  });
}

}  // namespace cpu
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
