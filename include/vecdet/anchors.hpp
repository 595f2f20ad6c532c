// SPDX-License-Identifier: Apache-2.0
// Generates the anchors of dense detectors, bit-identical to torchvision's: those of RetinaNet and
// the RPN (AnchorGenerator), FCOS, SSD's default boxes, and the points of YOLO's heads.
//
// RetinaNet, arXiv 1708.02002, section 4; Faster R-CNN, arXiv 1506.01497, section 3.1.1; FCOS,
// arXiv 1904.01355; SSD, arXiv 1512.02325, section 2.2.
//
// The anchors of a level are ordered by row, column, ratio and size; the size varies fastest. An
// anchor with size s and ratio r (height to width) is s sqrt(r) high and s / sqrt(r) wide. Its
// corners, relative to the location, are rounded half to even to whole pixels. Locations are
// multiples of the stride, which is image / features rounded down. Everything is computed in float
// with the same operations as in torchvision.
//
// Results are written to the caller's memory: N x 4 corners of float, or N x 2 points. Every
// function throws std::invalid_argument, and writes nothing, if its output's size differs from
// count_anchors(), a size is negative or above 2^27, there are more anchors than memory can
// address, features are larger than the image (except SSD's), a size, ratio, scale or stride is not
// a positive finite float, or the output shares memory with an input.
#pragma once

#include <vecdet/grid_size.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

/// The shapes of a level's anchors: each combination of a size and a ratio.
struct anchor_shapes {
  std::vector<double> sizes;   ///< sides in pixels of the square anchor
  std::vector<double> ratios;  ///< height / width

  /// The number of anchors per location.
  index_t count() const noexcept {
    return static_cast<index_t>(sizes.size()) * static_cast<index_t>(ratios.size());
  }

  /// RetinaNet's five levels: sizes 32 to 512, each in three steps of a third of an octave, and
  /// three ratios.
  static std::vector<anchor_shapes> retinanet();
  /// The RPN's five levels on a feature pyramid: one size per level, 32 to 512, and three ratios.
  static std::vector<anchor_shapes> rpn();
  /// FCOS's five levels: one square per level, whose side is the stride, 8 to 128.
  static std::vector<anchor_shapes> fcos();
};

/// The number of anchors on levels of these feature sizes.
index_t count_anchors(const std::vector<anchor_shapes>& shapes,
                      vector_view<const grid_size> features);

/// Writes the anchors of one level.
void make_anchors(const anchor_shapes& shapes, grid_size image, grid_size features,
                  boxes_view<float> anchors, threading policy = threading::parallel);

/// Writes the anchors of all levels, level after level.
void make_anchors(const std::vector<anchor_shapes>& shapes, grid_size image,
                  vector_view<const grid_size> features, boxes_view<float> anchors,
                  threading policy = threading::parallel);

/// The default boxes of SSD, in fractions of the image: level k has one box of scale s_k, one of
/// scale sqrt(s_k s_(k+1)), and for each ratio r one of s_k sqrt(r) x s_k / sqrt(r) and the same
/// rotated by 90 degrees.
struct ssd_shapes {
  std::vector<std::vector<double>> ratios = {{2}, {2, 3}, {2, 3}, {2, 3}, {2}, {2}};
  /// s_k: one per level, and one more.
  std::vector<double> scales = {0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05};
  std::vector<double> steps = {8, 16, 32, 64, 100, 300};  ///< pixels between locations
  bool clip = true;  ///< clips widths and heights to the image's; boxes may still extend beyond it
};

/// The number of default boxes on levels of these feature sizes.
index_t count_anchors(const ssd_shapes& shapes, vector_view<const grid_size> features);

/// Writes the default boxes of all levels, corners in pixels.
void make_anchors(const ssd_shapes& shapes, grid_size image, vector_view<const grid_size> features,
                  boxes_view<float> anchors, threading policy = threading::parallel);

/// Writes the points ((x + 0.5) stride, (y + 0.5) stride) of a level's locations, N x 2, row by
/// row.
void make_points(grid_size features, double stride, vector_view<float> points);

/// The same for all levels, level after level.
void make_points(vector_view<const grid_size> features, vector_view<const double> strides,
                 vector_view<float> points);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/anchors.hpp>
