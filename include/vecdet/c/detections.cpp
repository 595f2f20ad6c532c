// SPDX-License-Identifier: Apache-2.0
// From a network's output to detections.
//
// Detections of all images are in one list: those of image k are [offsets[k], offsets[k + 1]), in
// descending score. The caller's memory holds images x max_detections of them, and images + 1
// offsets.
#include <vecdet/box_head.hpp>
#include <vecdet/c/detections.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/filter_topk.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/postprocess_detr.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/quantised_outputs.hpp>

namespace vecdet_c {
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

/// Calls body() with the matrix_view or the quantised_matrix that a matrix is.
template <class Body>
void with_matrix(const vecdet_matrix& matrix, const char* function, const char* argument,
                 const Body& body) {
  const auto view_of = [&](auto of) {
    using T = typename decltype(of)::type;
    return matrix_view<const T>(as<T>(matrix.data), matrix.rows, matrix.cols, matrix.stride);
  };
  const bool has_scale = matrix.type == VECDET_INT8 || matrix.type == VECDET_UINT8;
  detail::check_member(has_scale || (detail::is_equal(matrix.scale, 0.0) && matrix.zero_point == 0),
                       function, argument, "scale", matrix.scale,
                       "0, and zero_point 0, because the type is not VECDET_INT8 or VECDET_UINT8");
  const auto quantised = [&](auto of) {
    body(quantised_matrix<typename decltype(of)::type>(view_of(of), matrix.scale,
                                                       matrix.zero_point));
  };
  switch (matrix.type) {
    case VECDET_FLOAT32:
      return body(view_of(element<float>()));
    case VECDET_BFLOAT16:
      return body(view_of(element<bfloat16>()));
    case VECDET_INT8:
      return quantised(element<std::int8_t>());
    case VECDET_UINT8:
      return quantised(element<std::uint8_t>());
    default:
      detail::throw_invalid_argument(
          function, std::string(argument) + ".type", static_cast<int>(matrix.type),
          "VECDET_FLOAT32, VECDET_BFLOAT16, VECDET_INT8 or VECDET_UINT8");
  }
}

/// A matrix of any type of which few numbers are read: one type for the functions in C++.
class any_matrix {
 public:
  template <class Matrix>
  explicit any_matrix(const Matrix& matrix)
      : matrix_(&matrix),
        number_([](const void* from, index_t i, index_t j) {
          return static_cast<float>((*static_cast<const Matrix*>(from))(i, j));
        }),
        rows_(matrix.rows()),
        cols_(matrix.cols()),
        bytes_(detail::bytes_of(matrix)) {}

  index_t rows() const { return rows_; }
  index_t cols() const { return cols_; }
  float operator()(index_t i, index_t j) const { return number_(matrix_, i, j); }
  friend index_t bytes_of(const any_matrix& matrix) { return matrix.bytes_; }

 private:
  const void* matrix_;
  float (*number_)(const void* matrix, index_t i, index_t j);
  index_t rows_, cols_, bytes_;
};

}  // namespace

std::vector<letterbox_transform> transforms_of(const vecdet_letterbox_transform* transforms,
                                               int64_t images) {
  std::vector<letterbox_transform> undone;
  for (int64_t i = 0; transforms != nullptr && i < images; ++i) {
    const vecdet_letterbox_transform& t = transforms[i];
    undone.push_back(
        {t.scale_x, t.scale_y, t.pad_x, t.pad_y, image_size::height_width(t.height, t.width)});
  }
  return undone;
}

void write_raw(const detections_view& found, const detection_outputs& out, int64_t* sources,
               float* extras) {
  out.write(found);
  if (sources != nullptr) copy_view(found.sources, sources);
  if (extras == nullptr) return;
  for (index_t i = 0; i < found.extras.rows(); ++i)
    extras = std::copy_n(found.extras.row(i), found.extras.cols(), extras);
}

detections_view yolo_detections_of(const vecdet_matrix* coordinates, const vecdet_matrix* numbers,
                                   index_t images,
                                   const vector_view<const letterbox_transform>& transforms,
                                   const postprocess_yolo_params& params,
                                   postprocess_workspace& workspace, threading policy) {
  constexpr const char* function = "postprocess_yolo";
  check_pointer(numbers, function, "numbers");
  detections_view found;
  const auto run = [&](const auto* own_coordinates, const auto& matrix) {
    found = detail::run_postprocess_yolo(own_coordinates, matrix, images, transforms, params,
                                         detail::workspace_access::buffers(workspace), policy);
  };
  with_matrix(*numbers, function, "numbers", [&](const auto& matrix) {
    if (coordinates == nullptr) return run(static_cast<const any_matrix*>(nullptr), matrix);
    with_matrix(*coordinates, function, "coordinates", [&](const auto& own_coordinates) {
      const any_matrix any(own_coordinates);
      run(&any, matrix);
    });
  });
  return found;
}

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
    on_type<float, bfloat16>(type, "filter_topk", [&](auto of, threading policy) {
      const auto result = filter_topk(of.matrix(logits, rows, cols, stride), score_threshold, k,
                                      memory.get<filter_topk_workspace>(), policy,
                                      enum_of<score_kind>(kind, "filter_topk", "kind"));
      copy_view(result.logits, values);
      copy_view(result.elements, elements);
      *count = result.logits.size();
    });
  });
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
    on_type<float, bfloat16>(type, "postprocess", [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      const head_outputs<T> outputs{of.matrix(logits, rows, classes), of.boxes(deltas, rows),
                                    optional_view(as<T>(centerness), rows)};
      out.write(postprocess(outputs, boxes_view<const float>(anchors, anchor_count),
                            optional_view(level_sizes, levels),
                            sizes_of(image_sizes, images, "postprocess"), p,
                            memory.get<postprocess_workspace>(), policy));
    });
  });
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
    on_type<float, bfloat16>(type, "postprocess_box_head", [&](auto of, threading policy) {
      const box_head_outputs<typename decltype(of)::type> outputs{
          of.matrix(logits, proposal_count, classes), of.boxes(deltas, rows)};
      out.write(postprocess_box_head(outputs, boxes_view<const float>(proposals, proposal_count),
                                     vector_view<const index_t>(image_offsets, images + 1), sizes,
                                     p, memory.get<postprocess_workspace>(), policy));
    });
  });
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
/// of boxes in their image's output; `extras` have params->extras numbers per detection, or 5 or 8,
/// the rotated boxes in the format params->rotated_result_format, if params->rotated is set. Both
/// may be null. `params` null: vecdet_postprocess_yolo_params_v8().
VECDET_C vecdet_status vecdet_postprocess_yolo(vecdet_dtype type, const void* numbers, int64_t rows,
                                               int64_t cols, int64_t stride, int64_t images,
                                               const vecdet_letterbox_transform* transforms,
                                               const vecdet_postprocess_yolo_params* params,
                                               vecdet_workspace* workspace, float* boxes,
                                               float* scores, int64_t* labels, int64_t* sources,
                                               float* extras, int64_t* offsets) {
  return guarded([&] {
    const auto p = params_of<postprocess_yolo_params>(params, "postprocess_yolo");
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check("postprocess_yolo", images, p.max_detections);
    const auto undone = transforms_of(transforms, images);
    scratch memory(workspace);
    on_type<float, bfloat16>(type, "postprocess_yolo", [&](auto of, threading policy) {
      const yolo_outputs<typename decltype(of)::type> outputs{
          of.matrix(numbers, rows, cols, stride), images};
      write_raw(postprocess_yolo(outputs, vector_view<const letterbox_transform>(undone), p,
                                 memory.get<postprocess_workspace>(), policy),
                out, sources, extras);
    });
  });
}

/// The detections of a DETR's raw output, of float or bfloat16: `logits` are images x queries x
/// classes, `centres` images x queries x 4: cx cy w h in fractions of the image. `sources` are
/// queries; it may be null. `params` null: vecdet_postprocess_detr_params_rt_detr().
VECDET_C vecdet_status vecdet_postprocess_detr(
    vecdet_dtype type, const void* logits, const void* centres, int64_t images, int64_t queries,
    int64_t classes, const vecdet_image_size* image_sizes,
    const vecdet_postprocess_detr_params* params, vecdet_workspace* workspace, float* boxes,
    float* scores, int64_t* labels, int64_t* sources, int64_t* offsets) {
  return guarded([&] {
    const auto p = params_of<postprocess_detr_params>(params, "postprocess_detr");
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check("postprocess_detr", images, p.max_detections);
    const index_t rows = product(images, queries, "postprocess_detr", "images");
    const auto sizes = sizes_of(image_sizes, images, "postprocess_detr");
    scratch memory(workspace);
    on_type<float, bfloat16>(type, "postprocess_detr", [&](auto of, threading policy) {
      const detr_outputs<typename decltype(of)::type> outputs{of.matrix(logits, rows, classes),
                                                              of.boxes(centres, rows)};
      write_raw(postprocess_detr(outputs, sizes, p, memory.get<postprocess_workspace>(), policy),
                out, sources, nullptr);
    });
  });
}

// ---- Quantised outputs. They are compared as integers, and results are those of the dequantised
// numbers in float, bit for bit.

/// vecdet_filter_topk() of a matrix that may be quantised. `values` are dequantised.
VECDET_C vecdet_status vecdet_filter_topk_of_matrix(const vecdet_matrix* logits,
                                                    double score_threshold, int64_t k,
                                                    vecdet_score_kind kind,
                                                    vecdet_workspace* workspace, float* values,
                                                    int64_t* elements, int64_t* count) {
  return guarded([&] {
    check_pointer(logits, "filter_topk", "logits");
    const index_t size = logits->rows > 0 && logits->cols > 0 ? k : 0;
    check_pointer(values, "filter_topk", "values", size);
    check_pointer(elements, "filter_topk", "elements", size);
    check_pointer(count, "filter_topk", "count");
    scratch memory(workspace);
    with_matrix(*logits, "filter_topk", "logits", [&](const auto& matrix) {
      on_threads([&](threading policy) {
        const auto result =
            filter_topk(matrix, score_threshold, k, memory.get<filter_topk_workspace>(), policy,
                        enum_of<score_kind>(kind, "filter_topk", "kind"));
        copy_view(result.logits, values);
        copy_view(result.elements, elements);
        *count = result.logits.size();
      });
    });
  });
}

/// vecdet_postprocess_yolo() of matrices that may be quantised. If `coordinates` is not null, it
/// has the coordinates (images x 4 x boxes, or images x boxes x 4), and `numbers` all that follows
/// them; the two may have different types. A single matrix of quantised coordinates in pixels and
/// scores has no scale that suits both: its coordinates are fractions (params->normalised). Models
/// with a class index per box give it as a float tensor: quantised `numbers` are then an error.
VECDET_C vecdet_status vecdet_postprocess_yolo_of_matrices(
    const vecdet_matrix* coordinates, const vecdet_matrix* numbers, int64_t images,
    const vecdet_letterbox_transform* transforms, const vecdet_postprocess_yolo_params* params,
    vecdet_workspace* workspace, float* boxes, float* scores, int64_t* labels, int64_t* sources,
    float* extras, int64_t* offsets) {
  constexpr const char* function = "postprocess_yolo";
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const auto p = params_of<postprocess_yolo_params>(params, function);
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check(function, images, p.max_detections);
    const auto undone = transforms_of(transforms, images);
    write_raw(yolo_detections_of(coordinates, numbers, images,
                                 vector_view<const letterbox_transform>(undone), p,
                                 memory.get<postprocess_workspace>(), policy),
              out, sources, extras);
  });
}

/// vecdet_postprocess_detr() of matrices that may be quantised, of the same or different types:
/// `logits` are (images x queries) x classes, `centres` (images x queries) x 4.
VECDET_C vecdet_status vecdet_postprocess_detr_of_matrices(
    const vecdet_matrix* logits, const vecdet_matrix* centres, int64_t images,
    const vecdet_image_size* image_sizes, const vecdet_postprocess_detr_params* params,
    vecdet_workspace* workspace, float* boxes, float* scores, int64_t* labels, int64_t* sources,
    int64_t* offsets) {
  constexpr const char* function = "postprocess_detr";
  return guarded([&] {
    const auto p = params_of<postprocess_detr_params>(params, function);
    const detection_outputs out{boxes, scores, labels, offsets};
    out.check(function, images, p.max_detections);
    check_pointer(logits, function, "logits");
    check_pointer(centres, function, "centres");
    const auto sizes = sizes_of(image_sizes, images, function);
    scratch memory(workspace);
    auto& buffers = detail::workspace_access::buffers(memory.get<postprocess_workspace>());
    with_matrix(*centres, function, "centres", [&](const auto& own_centres) {
      const any_matrix any(own_centres);
      with_matrix(*logits, function, "logits", [&](const auto& matrix) {
        on_threads([&](threading policy) {
          write_raw(detail::run_postprocess_detr(matrix, any, vector_view<const image_size>(sizes),
                                                 p, buffers, policy),
                    out, sources, nullptr);
        });
      });
    });
  });
}
