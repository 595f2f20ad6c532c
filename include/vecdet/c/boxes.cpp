// SPDX-License-Identifier: Apache-2.0
// Overlaps, formats and coding of boxes. Boxes are N x 4, x1 y1 x2 y2 unless a function says
// otherwise, of float, double or bfloat16. Output boxes may reuse the memory of the first input.
#include <vecdet/box_coding.hpp>
#include <vecdet/box_ops.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/distribution_focal_loss.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/iou.hpp>
#include <vecdet/prob_iou.hpp>
#include <vecdet/rotated_boxes.hpp>

namespace vecdet_c {
namespace {

iou_params iou_params_of(vecdet_iou_kind kind, vecdet_empty_iou empty, const char* function) {
  return {enum_of<iou_kind>(kind, function, "kind"), enum_of<empty_iou>(empty, function, "empty")};
}

image_size size_of(const vecdet_image_size& size) {
  return image_size::height_width(size.height, size.width);
}

int64_t numbers_of(rotated_format format) {
  return format == rotated_format::xyxyxyxy ? 8 : format == rotated_format::xyxy ? 4 : 5;
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// Writes the IoU of box i of `a` and box j of `b` to out[i * out_stride + j].
VECDET_C vecdet_status vecdet_pairwise_iou(vecdet_dtype type, const void* a, int64_t a_count,
                                           const void* b, int64_t b_count, vecdet_iou_kind kind,
                                           vecdet_empty_iou empty, void* out, int64_t out_stride) {
  return call_on_type(type, "pairwise_iou", [&](auto of, threading policy) {
    pairwise_iou(of.boxes(a, a_count), of.boxes(b, b_count),
                 of.matrix(out, a_count, b_count, out_stride),
                 iou_params_of(kind, empty, "pairwise_iou"), policy);
  });
}

/// Writes the IoU of box i of `a` and box i of `b` to out[i].
VECDET_C vecdet_status vecdet_elementwise_iou(vecdet_dtype type, const void* a, const void* b,
                                              int64_t count, vecdet_iou_kind kind,
                                              vecdet_empty_iou empty, void* out) {
  return call_on_type(type, "elementwise_iou", [&](auto of, threading policy) {
    elementwise_iou(of.boxes(a, count), of.boxes(b, count), of.vector(out, count),
                    iou_params_of(kind, empty, "elementwise_iou"), policy);
  });
}

/// Writes the IoU of rotated box i of `a` and rotated box j of `b` to out[i * out_stride + j].
/// Boxes are N x 5: centre, width, height, angle. The type is float or double.
VECDET_C vecdet_status vecdet_pairwise_rotated_iou(vecdet_dtype type, const void* a,
                                                   int64_t a_count, const void* b, int64_t b_count,
                                                   vecdet_angle_convention angles,
                                                   vecdet_empty_iou empty, void* out,
                                                   int64_t out_stride) {
  return call_on_type<float, double>(type, "pairwise_rotated_iou", [&](auto of, threading policy) {
    pairwise_rotated_iou(of.matrix(a, a_count, 5), of.matrix(b, b_count, 5),
                         angles_of(angles, "pairwise_rotated_iou"),
                         of.matrix(out, a_count, b_count, out_stride),
                         enum_of<empty_iou>(empty, "pairwise_rotated_iou", "empty"), policy);
  });
}

/// Writes the IoU of rotated box i of `a` and rotated box i of `b` to out[i]. The type is float or
/// double.
VECDET_C vecdet_status vecdet_elementwise_rotated_iou(vecdet_dtype type, const void* a,
                                                      const void* b, int64_t count,
                                                      vecdet_angle_convention angles,
                                                      vecdet_empty_iou empty, void* out) {
  return call_on_type<float, double>(
      type, "elementwise_rotated_iou", [&](auto of, threading policy) {
        elementwise_rotated_iou(of.matrix(a, count, 5), of.matrix(b, count, 5),
                                angles_of(angles, "elementwise_rotated_iou"), of.vector(out, count),
                                enum_of<empty_iou>(empty, "elementwise_rotated_iou", "empty"),
                                policy);
      });
}

/// Writes the ProbIoU of rotated box i of `a` and rotated box j of `b` to out[i * out_stride + j].
/// Boxes are N x 5: centre, width, height, angle. The type is float or double.
VECDET_C vecdet_status vecdet_pairwise_prob_iou(vecdet_dtype type, const void* a, int64_t a_count,
                                                const void* b, int64_t b_count,
                                                vecdet_angle_convention angles, void* out,
                                                int64_t out_stride) {
  return call_on_type<float, double>(type, "pairwise_prob_iou", [&](auto of, threading policy) {
    pairwise_prob_iou(of.matrix(a, a_count, 5), of.matrix(b, b_count, 5),
                      angles_of(angles, "pairwise_prob_iou"),
                      of.matrix(out, a_count, b_count, out_stride), policy);
  });
}

/// Writes the ProbIoU of rotated box i of `a` and rotated box i of `b` to out[i]. The type is float
/// or double.
VECDET_C vecdet_status vecdet_elementwise_prob_iou(vecdet_dtype type, const void* a, const void* b,
                                                   int64_t count, vecdet_angle_convention angles,
                                                   void* out) {
  return call_on_type<float, double>(type, "elementwise_prob_iou", [&](auto of, threading policy) {
    elementwise_prob_iou(of.matrix(a, count, 5), of.matrix(b, count, 5),
                         angles_of(angles, "elementwise_prob_iou"), of.vector(out, count), policy);
  });
}

/// Converts rotated boxes from one format to another. A box has 5 numbers, in
/// VECDET_ROTATED_XYXYXYXY 8 and in VECDET_ROTATED_XYXY 4. `out` may not share memory with `boxes`.
/// The type is float or double.
VECDET_C vecdet_status vecdet_convert_rotated_boxes(vecdet_dtype type, const void* boxes,
                                                    int64_t count, vecdet_rotated_format from,
                                                    vecdet_rotated_format to,
                                                    vecdet_angle_convention angles, void* out) {
  return guarded([&] {
    constexpr const char* function = "convert_rotated_boxes";
    const auto source = enum_of<rotated_format>(from, function, "from");
    const auto target = enum_of<rotated_format>(to, function, "to");
    on_type<float, double>(type, function, [&](auto of, threading policy) {
      convert_rotated_boxes(of.matrix(boxes, count, numbers_of(source)), source, target,
                            angles_of(angles, function), of.matrix(out, count, numbers_of(target)),
                            policy);
    });
  });
}

/// Writes width times height of each rotated box, N x 5. The type is float or double.
VECDET_C vecdet_status vecdet_rotated_box_areas(vecdet_dtype type, const void* boxes, int64_t count,
                                                void* areas) {
  return call_on_type<float, double>(type, "rotated_box_areas", [&](auto of, threading policy) {
    rotated_box_areas(of.matrix(boxes, count, 5), of.vector(areas, count), policy);
  });
}

/// Converts boxes from one format to another.
VECDET_C vecdet_status vecdet_convert_boxes(vecdet_dtype type, const void* boxes, int64_t count,
                                            vecdet_box_format from, vecdet_box_format to,
                                            void* out) {
  return call_on_type(type, "convert_boxes", [&](auto of, threading policy) {
    convert_boxes(of.boxes(boxes, count), enum_of<box_format>(from, "convert_boxes", "from"),
                  enum_of<box_format>(to, "convert_boxes", "to"), of.boxes(out, count), policy);
  });
}

/// Clips boxes to an image: x to [0, width], y to [0, height].
VECDET_C vecdet_status vecdet_clip_boxes(vecdet_dtype type, const void* boxes, int64_t count,
                                         vecdet_image_size image, void* out) {
  return call_on_type(type, "clip_boxes", [&](auto of, threading policy) {
    clip_boxes(of.boxes(boxes, count), size_of(image), of.boxes(out, count), policy);
  });
}

/// Writes width times height of each box.
VECDET_C vecdet_status vecdet_box_areas(vecdet_dtype type, const void* boxes, int64_t count,
                                        void* areas) {
  return call_on_type(type, "box_areas", [&](auto of, threading policy) {
    box_areas(of.boxes(boxes, count), of.vector(areas, count), policy);
  });
}

/// Writes 1 for each box with both sides at least `min_size`, else 0.
VECDET_C vecdet_status vecdet_large_box_mask(vecdet_dtype type, const void* boxes, int64_t count,
                                             double min_size, uint8_t* mask) {
  return call_on_type(type, "large_box_mask", [&](auto of, threading policy) {
    large_box_mask(of.boxes(boxes, count), min_size, vector_view<uint8_t>(mask, count), policy);
  });
}

/// Writes the indices of the boxes with both sides at least `min_size`, ascending, to `indices`,
/// which has memory for `count`, and their number to `large_count`.
VECDET_C vecdet_status vecdet_large_boxes(vecdet_dtype type, const void* boxes, int64_t count,
                                          double min_size, int64_t* indices, int64_t* large_count) {
  return guarded([&] {
    check_pointer(large_count, "large_boxes", "large_count");
    on_type(type, "large_boxes", [&](auto of, threading policy) {
      *large_count = large_boxes(of.boxes(boxes, count), min_size,
                                 vector_view<index_t>(indices, count), policy);
    });
  });
}

/// Splits rows of x1 y1 x2 y2 score, and the class if `classes` is not null, into separate arrays.
VECDET_C vecdet_status vecdet_split_detections(vecdet_dtype type, const void* detections,
                                               int64_t count, int64_t cols, int64_t stride,
                                               void* boxes, void* scores, int64_t* classes) {
  return call_on_type(type, "split_detections", [&](auto of, threading policy) {
    const auto rows = of.matrix(detections, count, cols, stride);
    const auto scores_out = of.vector(scores, count);
    if (classes == nullptr) {
      split_detections(rows, of.boxes(boxes, count), scores_out, policy);
    } else {
      split_detections(rows, of.boxes(boxes, count), scores_out,
                       vector_view<index_t>(classes, count), policy);
    }
  });
}

/// Joins boxes, scores and, if not null, classes to rows of x1 y1 x2 y2 score class. Further
/// columns are left unchanged.
VECDET_C vecdet_status vecdet_join_detections(vecdet_dtype type, const void* boxes,
                                              const void* scores, const int64_t* classes,
                                              int64_t count, void* detections, int64_t cols,
                                              int64_t stride) {
  return call_on_type(type, "join_detections", [&](auto of, threading policy) {
    const auto rows = of.matrix(detections, count, cols, stride);
    const auto scores_in = of.vector(scores, count);
    if (classes == nullptr) {
      join_detections(of.boxes(boxes, count), scores_in, rows, policy);
    } else {
      join_detections(of.boxes(boxes, count), scores_in, labels_view(classes, count), rows, policy);
    }
  });
}

/// Splits boxes into one array per coordinate.
VECDET_C vecdet_status vecdet_split_boxes(vecdet_dtype type, const void* boxes, int64_t count,
                                          void* x1, void* y1, void* x2, void* y2) {
  return call_on_type(type, "split_boxes", [&](auto of, threading policy) {
    using T = typename decltype(of)::type;
    split_boxes(of.boxes(boxes, count),
                boxes_soa_view<T>(as<T>(x1), as<T>(y1), as<T>(x2), as<T>(y2), count), policy);
  });
}

/// The inverse of vecdet_split_boxes().
VECDET_C vecdet_status vecdet_join_boxes(vecdet_dtype type, const void* x1, const void* y1,
                                         const void* x2, const void* y2, int64_t count,
                                         void* boxes) {
  return call_on_type(type, "join_boxes", [&](auto of, threading policy) {
    using T = typename decltype(of)::type;
    join_boxes(boxes_soa_view<const T>(as<T>(x1), as<T>(y1), as<T>(x2), as<T>(y2), count),
               of.boxes(boxes, count), policy);
  });
}

/// The deltas that decode to `targets` from `anchors`. `params` null: the defaults.
VECDET_C vecdet_status vecdet_encode_boxes(vecdet_dtype type, const void* targets,
                                           const void* anchors, int64_t count,
                                           const vecdet_coder_params* params, void* deltas) {
  return call_on_type(type, "encode_boxes", [&](auto of, threading policy) {
    encode_boxes(of.boxes(targets, count), of.boxes(anchors, count), of.boxes(deltas, count),
                 params_of<coder_params>(params, "encode_boxes"), policy);
  });
}

/// Decodes images x anchor_count deltas relative to the anchors, which are the same for all images.
/// Boxes are clipped to `image_sizes`, one per image, unless it is null.
VECDET_C vecdet_status vecdet_decode_boxes(vecdet_dtype type, const void* deltas, int64_t images,
                                           const void* anchors, int64_t anchor_count,
                                           const vecdet_image_size* image_sizes,
                                           const vecdet_coder_params* params, void* boxes) {
  return guarded([&] {
    const index_t count = product(images, anchor_count, "decode_boxes", "images");
    const auto p = params_of<coder_params>(params, "decode_boxes");
    on_type(type, "decode_boxes", [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const auto in = of.boxes(deltas, count), from = of.boxes(anchors, anchor_count);
      const auto out = of.boxes(boxes, count);
      if (image_sizes != nullptr) {
        std::vector<image_size> sizes;
        for (index_t i = 0; i < images; ++i) sizes.push_back(size_of(image_sizes[i]));
        decode_boxes(in, from, vector_view<const image_size>(sizes), out, p, policy);
        return;
      }
      detail::check_apart_or_same("decode_boxes", "boxes", out, "deltas", in);
      detail::check_apart("decode_boxes", "boxes", out, "anchors", from);
      for (index_t i = 0; i < images; ++i) {
        const index_t first = i * anchor_count;
        decode_boxes(boxes_view<const T>(in[first], anchor_count), from,
                     boxes_view<T>(out[first], anchor_count), p, policy);
      }
    });
  });
}

/// FCOS's distances from the anchors' centres to the sides of `targets`, divided by the anchors'
/// sizes if `by_size`.
VECDET_C vecdet_status vecdet_encode_distances(vecdet_dtype type, const void* targets,
                                               const void* anchors, int64_t count, int by_size,
                                               vecdet_box_format anchor_format, void* distances) {
  return guarded([&] {
    const distance_params p{
        by_size != 0, enum_of<box_format>(anchor_format, "encode_distances", "anchor_format")};
    on_type(type, "encode_distances", [&](auto of, threading policy) {
      encode_distances(of.boxes(targets, count), of.boxes(anchors, count),
                       of.boxes(distances, count), p, policy);
    });
  });
}

/// Decodes FCOS's distances. Boxes are clipped to `image_size` unless it is null.
VECDET_C vecdet_status vecdet_decode_distances(vecdet_dtype type, const void* distances,
                                               const void* anchors, int64_t count,
                                               const vecdet_image_size* image_size, int by_size,
                                               vecdet_box_format anchor_format, void* boxes) {
  return guarded([&] {
    const distance_params p{
        by_size != 0, enum_of<box_format>(anchor_format, "decode_distances", "anchor_format")};
    on_type(type, "decode_distances", [&](auto of, threading policy) {
      if (image_size == nullptr) {
        decode_distances(of.boxes(distances, count), of.boxes(anchors, count),
                         of.boxes(boxes, count), p, policy);
      } else {
        decode_distances(of.boxes(distances, count), of.boxes(anchors, count), size_of(*image_size),
                         of.boxes(boxes, count), p, policy);
      }
    });
  });
}

/// Writes the expectation of each row of `logits` (rows x bins), in bins.
VECDET_C vecdet_status vecdet_decode_distributions(const float* logits, int64_t rows, int64_t bins,
                                                   int64_t stride, float* distances) {
  return guarded([&] {
    on_threads([&](threading policy) {
      decode_distributions(matrix_view<const float>(logits, rows, bins, stride),
                           vector_view<float>(distances, rows), policy);
    });
  });
}

/// Decodes boxes from four rows of `logits` each (4 count x bins): the distances left, top, right
/// and bottom of the box's point (x, y), multiplied by its stride.
VECDET_C vecdet_status vecdet_decode_distribution_boxes(const float* logits, int64_t count,
                                                        int64_t bins, int64_t logits_stride,
                                                        const float* points, const float* strides,
                                                        float* boxes) {
  return guarded([&] {
    const index_t rows = product(count, 4, "decode_distribution_boxes", "count");
    on_threads([&](threading policy) {
      decode_distribution_boxes(matrix_view<const float>(logits, rows, bins, logits_stride),
                                matrix_view<const float>(points, count, 2),
                                vector_view<const float>(strides, count),
                                boxes_view<float>(boxes, count), policy);
    });
  });
}
