// SPDX-License-Identifier: Apache-2.0
// From a network's output to detections.
//
// Detections of all images are in one list: those of image k are [offsets[k], offsets[k + 1]), in
// descending score. The caller's memory holds images x max_detections of them, and images + 1
// offsets.
#include <vecdet/box_head.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/detr_postprocess.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/yolo_postprocess.hpp>

/// The kind of numbers that vecdet_filter_topk() searches.
typedef enum vecdet_score_kind { VECDET_LOGITS, VECDET_PROBABILITIES } vecdet_score_kind;

/// The detectors of vecdet_postprocess().
typedef enum vecdet_dense_detector {
  VECDET_RETINANET,
  VECDET_FCOS,
  VECDET_SSD,
  VECDET_RPN
} vecdet_dense_detector;

/// Parameters of vecdet_postprocess().
typedef struct vecdet_postprocess_params {
  vecdet_dense_detector detector;
  double score_threshold;     ///< in [0, 1]; scores above it count
  int64_t max_candidates;     ///< per level; SSD: per class
  double iou_threshold;       ///< in [0, 1]
  int64_t max_detections;     ///< per image
  vecdet_coder_params coder;  ///< of the deltas; FCOS does not use it
  double min_size;            ///< boxes with a smaller side are removed; 0 removes none
} vecdet_postprocess_params;

/// Parameters of vecdet_postprocess_box_head().
typedef struct vecdet_box_head_params {
  double score_threshold;  ///< in [0, 1]; scores above it count
  double iou_threshold;    ///< in [0, 1]
  int64_t max_detections;  ///< per image
  vecdet_coder_params coder;
  double min_size;  ///< boxes with a smaller side are removed; 0 removes none
} vecdet_box_head_params;

/// The order of an image's numbers in memory: numbers x boxes, or boxes x numbers.
typedef enum vecdet_yolo_layout { VECDET_YOLO_CHANNELS, VECDET_YOLO_ROWS } vecdet_yolo_layout;

/// The scores that follow the four coordinates of a box: a score per class; the objectness, then a
/// score per class; one score, then the index of its class. The last two are for rows only.
typedef enum vecdet_yolo_scores {
  VECDET_YOLO_CLASSES,
  VECDET_YOLO_OBJECTNESS,
  VECDET_YOLO_SCORE_AND_CLASS
} vecdet_yolo_scores;

/// Parameters of vecdet_postprocess_yolo().
typedef struct vecdet_yolo_postprocess_params {
  vecdet_yolo_layout layout;
  vecdet_yolo_scores scores;
  vecdet_box_format boxes;    ///< of the model's output
  int normalised;             ///< coordinates are fractions of the image's size
  vecdet_box_format results;  ///< of the detections
  double score_threshold;     ///< in [0, 1]; scores above it count
  int multi_label;            ///< one detection per class above the threshold
  int suppresses;             ///< applies NMS
  int class_agnostic;         ///< boxes of different classes suppress each other, too
  double iou_threshold;       ///< in [0, 1]
  int64_t max_candidates;     ///< per image: only the best go to NMS
  int64_t max_detections;     ///< per image
  int64_t extras;             ///< numbers after the scores; -1: none, and scores are checked
  int64_t classes;            ///< as many as the model must have; 0: any; not with SCORE_AND_CLASS
  int64_t keypoint_size;      ///< 0: extras are copied; 2 or 3: they are key points
} vecdet_yolo_postprocess_params;

/// Parameters of vecdet_postprocess_detr().
typedef struct vecdet_detr_postprocess_params {
  int softmax;             ///< softmax with "no object" as last column, instead of sigmoid
  double score_threshold;  ///< in [0, 1]; scores above it count
  int64_t max_detections;  ///< per image
  vecdet_box_format results;
} vecdet_detr_postprocess_params;

namespace vecdet_c {

template <>
inline constexpr int enumerators<dense_detector> = 4;
template <>
inline constexpr int enumerators<yolo_layout> = 2;
template <>
inline constexpr int enumerators<yolo_scores> = 3;
template <>
inline constexpr int enumerators<score_kind> = 2;

template <class C, class Copy>
void each_field(postprocess_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(detector);
  VECDET_FIELD(score_threshold);
  VECDET_FIELD(max_candidates);
  VECDET_FIELD(iou_threshold);
  VECDET_FIELD(max_detections);
  VECDET_FIELD(coder);
  VECDET_FIELD(min_size);
}

template <class C, class Copy>
void each_field(box_head_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(score_threshold);
  VECDET_FIELD(iou_threshold);
  VECDET_FIELD(max_detections);
  VECDET_FIELD(coder);
  VECDET_FIELD(min_size);
}

template <class C, class Copy>
void each_field(yolo_postprocess_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(layout);
  VECDET_FIELD(scores);
  VECDET_FIELD(boxes);
  VECDET_FIELD(normalised);
  VECDET_FIELD(results);
  VECDET_FIELD(score_threshold);
  VECDET_FIELD(multi_label);
  VECDET_FIELD(suppresses);
  VECDET_FIELD(class_agnostic);
  VECDET_FIELD(iou_threshold);
  VECDET_FIELD(max_candidates);
  VECDET_FIELD(max_detections);
  VECDET_FIELD(extras);
  VECDET_FIELD(classes);
  VECDET_FIELD(keypoint_size);
}

template <class C, class Copy>
void each_field(detr_postprocess_params& p, C& c, const Copy& copy) {
  VECDET_FIELD(softmax);
  VECDET_FIELD(score_threshold);
  VECDET_FIELD(max_detections);
  VECDET_FIELD(results);
}

namespace {

std::vector<image_size> sizes_of(const vecdet_image_size* sizes, int64_t count,
                                 const char* function) {
  detail::check(count >= 0, function, "images", count, "0 or more");
  detail::check(sizes != nullptr || count == 0, function, "image_sizes", "null",
                "one size per image");
  std::vector<image_size> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(image_size::height_width(sizes[i].height, sizes[i].width));
  return result;
}

/// The memory that a function writes its detections to.
struct detection_outputs {
  float* boxes;
  float* scores;
  int64_t* labels;
  int64_t* offsets;

  void check(const char* function, int64_t images, int64_t max_detections) const {
    const bool any = images > 0 && max_detections > 0;
    check_pointer(boxes, function, "boxes", any);
    check_pointer(scores, function, "scores", any);
    check_pointer(labels, function, "labels", any);
    check_pointer(offsets, function, "offsets");
  }
  template <class Detections>
  void write(const Detections& found) const {
    std::copy_n(found.boxes.data(), 4 * found.boxes.size(), boxes);
    copy_view(found.scores, scores);
    copy_view(found.labels, labels);
    copy_view(found.offsets, offsets);
  }
};

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// Selects the best `k` of logits (rows x cols of float or bfloat16) whose score is above the
/// threshold, in descending order. A stride is the number of elements from one row to the next.
/// Writes the numbers to `values`, and row * cols + column to `elements`; both have memory for
/// min(k, rows * cols).
VECDET_C vecdet_status vecdet_filter_topk(vecdet_dtype type, const void* logits, int64_t rows,
                                          int64_t cols, int64_t stride, double score_threshold,
                                          int64_t k, vecdet_score_kind kind,
                                          vecdet_workspace* workspace, float* values,
                                          int64_t* elements, int64_t* count) {
  return guarded([&] {
    check_pointer(values, "filter_topk", "values", rows > 0 && cols > 0 ? k : 0);
    check_pointer(elements, "filter_topk", "elements", rows > 0 && cols > 0 ? k : 0);
    check_pointer(count, "filter_topk", "count");
    scratch memory(workspace);
    with_type<float, bfloat16>(type, "filter_topk", [&](auto of) {
      using T = typename decltype(of)::type;
      on_threads([&](threading policy) {
        const auto result = filter_topk(matrix_view<const T>(as<T>(logits), rows, cols, stride),
                                        score_threshold, k, memory.get<filter_topk_workspace>(),
                                        policy, enum_of<score_kind>(kind, "filter_topk", "kind"));
        copy_view(result.logits, values);
        copy_view(result.elements, elements);
        *count = result.logits.size();
      });
    });
  });
}

/// The defaults of torchvision's detectors.
VECDET_C vecdet_postprocess_params vecdet_postprocess_params_retinanet(void) {
  return c_params_of<vecdet_postprocess_params>(postprocess_params::retinanet());
}
/// The same for FCOS.
VECDET_C vecdet_postprocess_params vecdet_postprocess_params_fcos(void) {
  return c_params_of<vecdet_postprocess_params>(postprocess_params::fcos());
}
/// The same for SSD.
VECDET_C vecdet_postprocess_params vecdet_postprocess_params_ssd(void) {
  return c_params_of<vecdet_postprocess_params>(postprocess_params::ssd());
}
/// The same for RPNs in training: 2000 proposals per image.
VECDET_C vecdet_postprocess_params vecdet_postprocess_params_rpn(void) {
  return c_params_of<vecdet_postprocess_params>(postprocess_params::rpn());
}

/// The detections of a dense detector: threshold and top-k per level, decoding, clipping, NMS per
/// class. `logits` are images x anchor_count x classes, `deltas` images x anchor_count x 4, and
/// `centerness`, for FCOS only, images x anchor_count; all of float or bfloat16. `level_sizes` has
/// the number of anchors per level; null: one level. There is one image size per image. `params`
/// null: RetinaNet's.
VECDET_C vecdet_status vecdet_postprocess(vecdet_dtype type, const void* logits, const void* deltas,
                                          const void* centerness, int64_t images, int64_t classes,
                                          const float* anchors, int64_t anchor_count,
                                          const int64_t* level_sizes, int64_t levels,
                                          const vecdet_image_size* image_sizes,
                                          const vecdet_postprocess_params* params,
                                          vecdet_workspace* workspace, float* boxes, float* scores,
                                          int64_t* labels, int64_t* offsets) {
  return guarded([&] {
    const auto p = params_of<postprocess_params>(params, "postprocess");
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check("postprocess", images, p.max_detections);
    const index_t rows = product(images, anchor_count, "postprocess", "images");
    scratch memory(workspace);
    with_type<float, bfloat16>(type, "postprocess", [&](auto of) {
      using T = typename decltype(of)::type;
      const head_outputs<T> outputs{matrix_view<const T>(as<T>(logits), rows, classes),
                                    boxes_view<const T>(as<T>(deltas), rows),
                                    optional_view(as<T>(centerness), rows)};
      const auto sizes = sizes_of(image_sizes, images, "postprocess");
      on_threads([&](threading policy) {
        out.write(postprocess(outputs, boxes_view<const float>(anchors, anchor_count),
                              optional_view(level_sizes, levels), sizes, p,
                              memory.get<postprocess_workspace>(), policy));
      });
    });
  });
}

/// torchvision's Faster R-CNN.
VECDET_C vecdet_box_head_params vecdet_box_head_params_default(void) {
  return c_params_of<vecdet_box_head_params>(box_head_params());
}

/// The detections of a two-stage detector's box head. `logits` are proposals x classes with
/// background first, `deltas` proposals x classes x 4, of float or bfloat16. The proposals (x1 y1
/// x2 y2) of image k are [image_offsets[k], image_offsets[k + 1]), and its boxes are clipped to
/// image_sizes[k].
VECDET_C vecdet_status vecdet_postprocess_box_head(
    vecdet_dtype type, const void* logits, const void* deltas, int64_t classes,
    const float* proposals, int64_t proposal_count, const int64_t* image_offsets,
    const vecdet_image_size* image_sizes, int64_t images, const vecdet_box_head_params* params,
    vecdet_workspace* workspace, float* boxes, float* scores, int64_t* labels, int64_t* offsets) {
  return guarded([&] {
    const auto p = params_of<box_head_params>(params, "postprocess_box_head");
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check("postprocess_box_head", images, p.max_detections);
    const index_t rows = product(proposal_count, classes, "postprocess_box_head", "proposal_count");
    const auto sizes = sizes_of(image_sizes, images, "postprocess_box_head");
    scratch memory(workspace);
    with_type<float, bfloat16>(type, "postprocess_box_head", [&](auto of) {
      using T = typename decltype(of)::type;
      const box_head_outputs<T> outputs{
          matrix_view<const T>(as<T>(logits), proposal_count, classes),
          boxes_view<const T>(as<T>(deltas), rows)};
      on_threads([&](threading policy) {
        out.write(postprocess_box_head(outputs, boxes_view<const float>(proposals, proposal_count),
                                       vector_view<const index_t>(image_offsets, images + 1), sizes,
                                       p, memory.get<postprocess_workspace>(), policy));
      });
    });
  });
}

/// YOLOv5 and YOLOX: rows of cx cy w h, objectness, and a score per class.
VECDET_C vecdet_yolo_postprocess_params vecdet_yolo_postprocess_params_v5(void) {
  return c_params_of<vecdet_yolo_postprocess_params>(yolo_postprocess_params::v5());
}
/// YOLOv8 to v12: channels first, cx cy w h and a score per class.
VECDET_C vecdet_yolo_postprocess_params vecdet_yolo_postprocess_params_v8(void) {
  return c_params_of<vecdet_yolo_postprocess_params>(yolo_postprocess_params::v8());
}
/// YOLOv10 and YOLO26, end to end: rows of x1 y1 x2 y2, score, class.
VECDET_C vecdet_yolo_postprocess_params vecdet_yolo_postprocess_params_v10(void) {
  return c_params_of<vecdet_yolo_postprocess_params>(yolo_postprocess_params::v10());
}
/// RT-DETR as exported by ultralytics.
VECDET_C vecdet_yolo_postprocess_params vecdet_yolo_postprocess_params_rt_detr(void) {
  return c_params_of<vecdet_yolo_postprocess_params>(yolo_postprocess_params::rt_detr());
}

/// Tells whether params->extras may have been forgotten. For 16, 33, 52 or 112 scores per box,
/// which models of rotated boxes, masks and poses seem to have without it, the result is the number
/// of their extras: 1, 32, 51 or 32. Otherwise it is 0.
VECDET_C int64_t vecdet_yolo_likely_extras(int64_t scores) { return detail::likely_extras(scores); }

/// The detections of a YOLO model's raw output, of float or bfloat16. `numbers` are images x boxes
/// x numbers (params->layout VECDET_YOLO_ROWS) or images x numbers x boxes (VECDET_YOLO_CHANNELS):
/// `rows` counts those of all images, and `stride` is the number of elements from one to the next.
/// Scores are probabilities; if params->extras is -1, a score or an objectness outside [0, 1] is an
/// error.
/// `transforms` has one per image; null: results stay in the input's pixels. `sources` are indices
/// of boxes in their image's output; `extras` have params->extras numbers per detection. Both may
/// be null. `params` null: vecdet_yolo_postprocess_params_v8().
VECDET_C vecdet_status vecdet_postprocess_yolo(vecdet_dtype type, const void* numbers, int64_t rows,
                                               int64_t cols, int64_t stride, int64_t images,
                                               const vecdet_letterbox_transform* transforms,
                                               const vecdet_yolo_postprocess_params* params,
                                               vecdet_workspace* workspace, float* boxes,
                                               float* scores, int64_t* labels, int64_t* sources,
                                               float* extras, int64_t* offsets) {
  return guarded([&] {
    const auto p = params_of<yolo_postprocess_params>(params, "postprocess_yolo");
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check("postprocess_yolo", images, p.max_detections);
    std::vector<letterbox_transform> undone;
    for (int64_t i = 0; transforms != nullptr && i < images; ++i) {
      const vecdet_letterbox_transform& t = transforms[i];
      undone.push_back(
          {t.scale_x, t.scale_y, t.pad_x, t.pad_y, image_size::height_width(t.height, t.width)});
    }
    scratch memory(workspace);
    with_type<float, bfloat16>(type, "postprocess_yolo", [&](auto of) {
      using T = typename decltype(of)::type;
      const yolo_outputs<T> outputs{matrix_view<const T>(as<T>(numbers), rows, cols, stride),
                                    images};
      on_threads([&](threading policy) {
        const auto found = postprocess_yolo(outputs, vector_view<const letterbox_transform>(undone),
                                            p, memory.get<yolo_postprocess_workspace>(), policy);
        out.write(found);
        if (sources != nullptr) copy_view(found.sources, sources);
        if (extras != nullptr) {
          for (index_t i = 0; i < found.extras.rows(); ++i)
            extras = std::copy_n(found.extras.row(i), found.extras.cols(), extras);
        }
      });
    });
  });
}

/// DETR: softmax, 100 queries.
VECDET_C vecdet_detr_postprocess_params vecdet_detr_postprocess_params_detr(void) {
  return c_params_of<vecdet_detr_postprocess_params>(detr_postprocess_params::detr());
}
/// RT-DETR, DINO, Deformable DETR: sigmoid, 300 detections.
VECDET_C vecdet_detr_postprocess_params vecdet_detr_postprocess_params_rt_detr(void) {
  return c_params_of<vecdet_detr_postprocess_params>(detr_postprocess_params::rt_detr());
}

/// The detections of a DETR's raw output, of float or bfloat16: `logits` are images x queries x
/// classes, `centres` images x queries x 4: cx cy w h in fractions of the image. `sources` are
/// queries; it may be null. `params` null: vecdet_detr_postprocess_params_rt_detr().
VECDET_C vecdet_status vecdet_postprocess_detr(
    vecdet_dtype type, const void* logits, const void* centres, int64_t images, int64_t queries,
    int64_t classes, const vecdet_image_size* image_sizes,
    const vecdet_detr_postprocess_params* params, vecdet_workspace* workspace, float* boxes,
    float* scores, int64_t* labels, int64_t* sources, int64_t* offsets) {
  return guarded([&] {
    const auto p = params_of<detr_postprocess_params>(params, "postprocess_detr",
                                                      detr_postprocess_params::rt_detr());
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check("postprocess_detr", images, p.max_detections);
    const index_t rows = product(images, queries, "postprocess_detr", "images");
    const auto sizes = sizes_of(image_sizes, images, "postprocess_detr");
    scratch memory(workspace);
    with_type<float, bfloat16>(type, "postprocess_detr", [&](auto of) {
      using T = typename decltype(of)::type;
      const detr_outputs<T> outputs{matrix_view<const T>(as<T>(logits), rows, classes),
                                    boxes_view<const T>(as<T>(centres), rows)};
      on_threads([&](threading policy) {
        const auto found =
            postprocess_detr(outputs, sizes, p, memory.get<yolo_postprocess_workspace>(), policy);
        out.write(found);
        if (sources != nullptr) copy_view(found.sources, sources);
      });
    });
  });
}
