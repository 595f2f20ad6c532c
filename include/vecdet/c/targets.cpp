// SPDX-License-Identifier: Apache-2.0
// From ground truth to targets: anchors, matching, assigners and samples. Boxes are x1 y1 x2 y2.
#include <vecdet/anchors.hpp>
#include <vecdet/assigners.hpp>
#include <vecdet/balanced_sample.hpp>
#include <vecdet/c/support.hpp>
#include <vecdet/matching.hpp>
#include <vecdet/rotated_assigner.hpp>

#include <new>

/// The anchors of a level: each combination of a size (side of the square anchor, in pixels) and a
/// ratio (height to width).
typedef struct vecdet_anchor_shapes {
  const double* sizes;
  int64_t size_count;
  const double* ratios;
  int64_t ratio_count;
} vecdet_anchor_shapes;

/// The default boxes of SSD: those of level k have scale scales[k], sqrt(scales[k] scales[k + 1]),
/// and, for each of ratio_counts[k] ratios, two boxes of scales[k].
typedef struct vecdet_ssd_shapes {
  const double* ratios;         ///< of all levels, one after the other
  const int64_t* ratio_counts;  ///< per level
  const double* scales;         ///< levels + 1
  const double* steps;          ///< pixels between locations, per level
  int64_t levels;
  int clip;  ///< clips widths and heights to the image's
} vecdet_ssd_shapes;

/// Anchors in the form that matching needs. Create it once and use it in many calls, on any thread.
typedef struct vecdet_anchor_index vecdet_anchor_index;

struct vecdet_anchor_index {
  vecdet::anchor_index index;
};

namespace vecdet_c {
namespace {

std::vector<grid_size> grids_of(const vecdet_grid_size* sizes, int64_t count,
                                const char* function) {
  detail::check(count >= 0, function, "levels", count, "0 or more");
  detail::check(sizes != nullptr || count == 0, function, "features", "null", "one size per level");
  std::vector<grid_size> result;
  for (int64_t i = 0; i < count; ++i) result.push_back({sizes[i].height, sizes[i].width});
  return result;
}

std::vector<double> doubles_of(const double* numbers, int64_t count, const char* function) {
  const vector_view<const double> view(numbers, count);
  detail::check(count < 1 << 20, function, "shapes", count, "fewer than 2^20 numbers");
  return {view.begin(), view.end()};
}

std::vector<anchor_shapes> shapes_of(const vecdet_anchor_shapes* shapes, int64_t levels,
                                     const char* function) {
  detail::check(levels >= 0, function, "levels", levels, "0 or more");
  detail::check(shapes != nullptr || levels == 0, function, "shapes", "null", "shapes per level");
  std::vector<anchor_shapes> result;
  for (int64_t l = 0; l < levels; ++l) {
    result.push_back({doubles_of(shapes[l].sizes, shapes[l].size_count, function),
                      doubles_of(shapes[l].ratios, shapes[l].ratio_count, function)});
  }
  return result;
}

ssd_shapes ssd_shapes_of(const vecdet_ssd_shapes* shapes, const char* function) {
  ssd_shapes result;
  if (shapes == nullptr) return result;
  const index_t levels = shapes->levels;
  detail::check(levels >= 0 && levels < 1 << 20, function, "shapes.levels", levels, "0 to 2^20");
  result.scales = doubles_of(shapes->scales, levels + 1, function);
  result.steps = doubles_of(shapes->steps, levels, function);
  result.clip = shapes->clip != 0;
  result.ratios.clear();
  const double* ratios = shapes->ratios;
  for (const index_t count : vector_view<const index_t>(shapes->ratio_counts, levels)) {
    result.ratios.push_back(doubles_of(ratios, count, function));
    ratios += count;
  }
  return result;
}

/// Presets in memory that is never freed.
struct kept_shapes {
  std::vector<anchor_shapes> shapes;
  std::vector<vecdet_anchor_shapes> views;

  explicit kept_shapes(std::vector<anchor_shapes> kept) : shapes(std::move(kept)) {
    for (const anchor_shapes& s : shapes) {
      views.push_back({s.sizes.data(), static_cast<int64_t>(s.sizes.size()), s.ratios.data(),
                       static_cast<int64_t>(s.ratios.size())});
    }
  }
};

template <class Make>
const vecdet_anchor_shapes* kept(Make make) noexcept {
  static const kept_shapes* const shapes = [&]() -> kept_shapes* {
    try {
      return new kept_shapes(make());
    } catch (...) {
      record_failure();
      return nullptr;
    }
  }();
  return shapes == nullptr ? nullptr : shapes->views.data();
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// RetinaNet's five levels: sizes 32 to 512, each in three steps of a third of an octave, three
/// ratios.
VECDET_C const vecdet_anchor_shapes* vecdet_anchor_shapes_retinanet(void) {
  return kept([] { return anchor_shapes::retinanet(); });
}
/// The RPN's five levels on a feature pyramid: one size per level, 32 to 512, and three ratios.
VECDET_C const vecdet_anchor_shapes* vecdet_anchor_shapes_rpn(void) {
  return kept([] { return anchor_shapes::rpn(); });
}
/// FCOS's five levels: one square per level, whose side is the stride, 8 to 128.
VECDET_C const vecdet_anchor_shapes* vecdet_anchor_shapes_fcos(void) {
  return kept([] { return anchor_shapes::fcos(); });
}

/// Writes the number of anchors on `levels` levels of these feature sizes to `count`.
VECDET_C vecdet_status vecdet_count_anchors(const vecdet_anchor_shapes* shapes,
                                            const vecdet_grid_size* features, int64_t levels,
                                            int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count_anchors", "count");
    *count =
        count_anchors(shapes_of(shapes, levels, "count_anchors"),
                      vector_view<const grid_size>(grids_of(features, levels, "count_anchors")));
  });
}

/// Writes the anchors of all levels, level after level, as torchvision's AnchorGenerator does.
/// `count` is their number, as vecdet_count_anchors() returns it.
VECDET_C vecdet_status vecdet_make_anchors(const vecdet_anchor_shapes* shapes,
                                           vecdet_grid_size image, const vecdet_grid_size* features,
                                           int64_t levels, float* anchors, int64_t count) {
  return guarded([&] {
    const auto sizes = grids_of(features, levels, "make_anchors");
    on_threads([&](threading policy) {
      make_anchors(shapes_of(shapes, levels, "make_anchors"), grid_size{image.height, image.width},
                   vector_view<const grid_size>(sizes), boxes_view<float>(anchors, count), policy);
    });
  });
}

/// The same for SSD's default boxes. `shapes` null: those of SSD300.
VECDET_C vecdet_status vecdet_count_ssd_anchors(const vecdet_ssd_shapes* shapes,
                                                const vecdet_grid_size* features, int64_t levels,
                                                int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count_anchors", "count");
    *count =
        count_anchors(ssd_shapes_of(shapes, "count_anchors"),
                      vector_view<const grid_size>(grids_of(features, levels, "count_anchors")));
  });
}
/// Writes SSD's default boxes of all levels, in pixels.
VECDET_C vecdet_status vecdet_make_ssd_anchors(const vecdet_ssd_shapes* shapes,
                                               vecdet_grid_size image,
                                               const vecdet_grid_size* features, int64_t levels,
                                               float* anchors, int64_t count) {
  return guarded([&] {
    const auto sizes = grids_of(features, levels, "make_anchors");
    on_threads([&](threading policy) {
      make_anchors(ssd_shapes_of(shapes, "make_anchors"), grid_size{image.height, image.width},
                   vector_view<const grid_size>(sizes), boxes_view<float>(anchors, count), policy);
    });
  });
}

/// Writes the points ((x + 0.5) stride, (y + 0.5) stride) of all levels' locations to `points`,
/// which has `count` x 2 numbers.
VECDET_C vecdet_status vecdet_make_points(const vecdet_grid_size* features, const double* strides,
                                          int64_t levels, float* points, int64_t count) {
  return guarded([&] {
    const auto sizes = grids_of(features, levels, "make_points");
    make_points(vector_view<const grid_size>(sizes), vector_view<const double>(strides, levels),
                vector_view<float>(points, product(count, 2, "make_points", "count")));
  });
}

/// Makes an index of `count` anchors, which are copied.
VECDET_C vecdet_status vecdet_anchor_index_create(const float* anchors, int64_t count,
                                                  vecdet_anchor_index** index) {
  return guarded([&] {
    check_pointer(index, "anchor_index", "index");
    on_threads([&](threading policy) {
      *index =
          new vecdet_anchor_index{anchor_index(boxes_view<const float>(anchors, count), policy)};
    });
  });
}
/// Frees an index; null is allowed.
VECDET_C void vecdet_anchor_index_free(vecdet_anchor_index* index) { delete index; }

/// Matches the anchors with the ground truth of each image by IoU. Outputs may be null, and have
/// one element per image and anchor: `matches` is the index among all ground-truth boxes, -1
/// (background) or -2 (ignored); `labels` the class of that box, params->background or
/// params->ignore; `best_ious` the greatest IoU; `deltas` those of matched anchors, while other
/// rows are left unchanged. `foreground` has the number of matched anchors per image. `params`
/// null: RetinaNet's.
VECDET_C vecdet_status vecdet_match_anchors(const vecdet_anchor_index* index,
                                            const vecdet_ground_truth* truth,
                                            const vecdet_matcher_params* params,
                                            vecdet_workspace* workspace, int64_t* matches,
                                            int64_t* labels, float* best_ious, float* deltas,
                                            int64_t* foreground) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    check_pointer(index, "match_anchors", "index");
    const ground_truth boxes = truth_of(truth, "match_anchors");
    const index_t images = images_in(truth);
    const index_t count = product(images, index->index.size(), "match_anchors", "truth.images");
    match_results results;
    if (matches != nullptr) results.matches = vector_view<index_t>(matches, count);
    if (labels != nullptr) results.labels = vector_view<index_t>(labels, count);
    if (best_ious != nullptr) results.best_ious = vector_view<float>(best_ious, count);
    if (deltas != nullptr) results.deltas = boxes_view<float>(deltas, count);
    if (foreground != nullptr) results.foreground = vector_view<index_t>(foreground, images);
    match_anchors(index->index, boxes, results, params_of<matcher_params>(params, "match_anchors"),
                  memory.get<match_workspace>(), policy);
  });
}

/// ATSS, arXiv 1912.02424, for one anchor per location. Writes the index of the assigned box among
/// all ground-truth boxes, -1 (background) or -2 (ignored), to `matches`, images x count. `params`
/// null: the paper's.
VECDET_C vecdet_status vecdet_assign_atss(const float* anchors, int64_t count,
                                          const vecdet_grid_size* features, int64_t levels,
                                          const vecdet_ground_truth* truth,
                                          const vecdet_atss_params* params,
                                          vecdet_workspace* workspace, int64_t* matches) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const ground_truth boxes = truth_of(truth, "assign_atss");
    const auto sizes = grids_of(features, levels, "assign_atss");
    const index_t results = product(images_in(truth), count, "assign_atss", "count");
    assign_atss(boxes_view<const float>(anchors, count), vector_view<const grid_size>(sizes), boxes,
                vector_view<index_t>(matches, results),
                params_of<atss_params>(params, "assign_atss"), memory.get<assigner_workspace>(),
                policy);
  });
}

/// FCOS's assigner with torchvision's centre sampling; otherwise as vecdet_assign_atss(). `params`
/// null: torchvision's.
VECDET_C vecdet_status vecdet_assign_fcos(const float* anchors, int64_t count,
                                          const vecdet_grid_size* features, int64_t levels,
                                          const vecdet_ground_truth* truth,
                                          const vecdet_fcos_assigner_params* params,
                                          vecdet_workspace* workspace, int64_t* matches) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const ground_truth boxes = truth_of(truth, "assign_fcos");
    const auto sizes = grids_of(features, levels, "assign_fcos");
    const index_t results = product(images_in(truth), count, "assign_fcos", "count");
    assign_fcos(boxes_view<const float>(anchors, count), vector_view<const grid_size>(sizes), boxes,
                vector_view<index_t>(matches, results),
                params_of<fcos_assigner_params>(params, "assign_fcos"),
                memory.get<assigner_workspace>(), policy);
  });
}

/// The task-aligned assigner, arXiv 2108.07755. `scores` are probabilities, images x count x
/// classes, `predicted` corners, images x count x 4, `points` count x 2. Writes matches, as
/// vecdet_assign_atss() does, and the target of each point, or 0 without a match. `params` null:
/// YOLOv8's.
VECDET_C vecdet_status vecdet_assign_task_aligned(const float* scores, const float* predicted,
                                                  int64_t classes, const float* points,
                                                  int64_t count, const vecdet_grid_size* features,
                                                  int64_t levels, const vecdet_ground_truth* truth,
                                                  const vecdet_task_aligned_params* params,
                                                  vecdet_workspace* workspace, int64_t* matches,
                                                  float* targets) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const ground_truth boxes = truth_of(truth, "assign_task_aligned");
    const auto sizes = grids_of(features, levels, "assign_task_aligned");
    const index_t results = product(images_in(truth), count, "assign_task_aligned", "count");
    task_aligned_predictions predictions;
    predictions.scores = matrix_view<const float>(scores, results, classes);
    predictions.boxes = boxes_view<const float>(predicted, results);
    assign_task_aligned(predictions, matrix_view<const float>(points, count, 2),
                        vector_view<const grid_size>(sizes), boxes,
                        vector_view<index_t>(matches, results),
                        vector_view<float>(targets, results),
                        params_of<task_aligned_params>(params, "assign_task_aligned"),
                        memory.get<assigner_workspace>(), policy);
  });
}

/// The task-aligned assigner for rotated boxes: vecdet_assign_task_aligned() with the overlap
/// ProbIoU. The boxes of `truth` are box_count x 5 and `predicted` images x count x 5: centre,
/// width, height, angle. Ignore regions are corners.
VECDET_C vecdet_status vecdet_assign_rotated_task_aligned(
    const float* scores, const float* predicted, int64_t classes, const float* points,
    int64_t count, const vecdet_grid_size* features, int64_t levels,
    const vecdet_ground_truth* truth, vecdet_angle_convention angles,
    const vecdet_task_aligned_params* params, vecdet_workspace* workspace, int64_t* matches,
    float* targets) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const char* const function = "assign_rotated_task_aligned";
    const ground_truth known = truth_of(truth, function);
    const auto sizes = grids_of(features, levels, function);
    const index_t results = product(images_in(truth), count, function, "count");
    const rotated_ground_truth boxes{matrix_view<const float>(truth->boxes, truth->box_count, 5),
                                     known.classes, known.image_offsets, known.regions,
                                     known.region_offsets};
    rotated_task_aligned_predictions predictions;
    predictions.scores = matrix_view<const float>(scores, results, classes);
    predictions.boxes = matrix_view<const float>(predicted, results, 5);
    assign_rotated_task_aligned(
        predictions, matrix_view<const float>(points, count, 2),
        vector_view<const grid_size>(sizes), boxes, angles_of(angles, function),
        vector_view<index_t>(matches, results), vector_view<float>(targets, results),
        params_of<task_aligned_params>(params, function), memory.get<assigner_workspace>(), policy);
  });
}

/// SimOTA, arXiv 2107.08430. `logits` are images x count x classes, `objectness` images x count,
/// `predicted` corners, images x count x 4, `points` count x 2, `strides` one per level. Writes
/// matches and targets as vecdet_assign_task_aligned() does, and the number of assigned points of
/// all images to `foreground`, unless it is null. `params` null: YOLOX's.
VECDET_C vecdet_status vecdet_assign_sim_ota(
    const float* logits, const float* objectness, const float* predicted, int64_t classes,
    const float* points, int64_t count, const vecdet_grid_size* features, const double* strides,
    int64_t levels, const vecdet_ground_truth* truth, const vecdet_sim_ota_params* params,
    vecdet_workspace* workspace, int64_t* matches, float* targets, int64_t* foreground) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    const ground_truth boxes = truth_of(truth, "assign_sim_ota");
    const auto sizes = grids_of(features, levels, "assign_sim_ota");
    const index_t results = product(images_in(truth), count, "assign_sim_ota", "count");
    sim_ota_predictions predictions;
    predictions.logits = matrix_view<const float>(logits, results, classes);
    predictions.objectness = vector_view<const float>(objectness, results);
    predictions.boxes = boxes_view<const float>(predicted, results);
    const index_t assigned = assign_sim_ota(
        predictions, matrix_view<const float>(points, count, 2),
        vector_view<const grid_size>(sizes), vector_view<const double>(strides, levels), boxes,
        vector_view<index_t>(matches, results), vector_view<float>(targets, results),
        params_of<sim_ota_params>(params, "assign_sim_ota"), memory.get<assigner_workspace>(),
        policy);
    if (foreground != nullptr) *foreground = assigned;
  });
}

/// Draws a sample of labels per image. The labels of image k are [image_offsets[k],
/// image_offsets[k + 1]). The sample of image k is [offsets[k], offsets[k + 1]) of `indices`; the
/// first positives[k] of them are positives. `indices` has memory for images x params->size, or for
/// all labels if these are fewer.
VECDET_C vecdet_status vecdet_sample_balanced(const int64_t* labels, const int64_t* image_offsets,
                                              int64_t images,
                                              const vecdet_balanced_sample_params* params,
                                              vecdet_workspace* workspace, int64_t* indices,
                                              int64_t* offsets, int64_t* positives) {
  return call_on_threads(workspace, [&](scratch& memory, threading policy) {
    check_pointer(image_offsets, "sample_balanced", "image_offsets");
    check_pointer(offsets, "sample_balanced", "offsets");
    check_pointer(positives, "sample_balanced", "positives", images);
    detail::check(images >= 0 && images < detail::max_elements<index_t>, "sample_balanced",
                  "images", images, "0 or more");
    const auto p = params_of<balanced_sample_params>(params, "sample_balanced");
    check_pointer(indices, "sample_balanced", "indices", images > 0 ? p.size : 0);
    const auto sample = sample_balanced(labels_view(labels, image_offsets[images]),
                                        vector_view<const index_t>(image_offsets, images + 1), p,
                                        memory.get<balanced_sample_workspace>(), policy);
    copy_view(sample.indices, indices);
    copy_view(sample.offsets, offsets);
    copy_view(sample.positives, positives);
  });
}
