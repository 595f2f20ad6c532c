// SPDX-License-Identifier: Apache-2.0
// Data for benchmarks: anchors as in detectors, ground truth of a real or a built-in picture,
// labels from matching the two, and head outputs with the statistics of trained models. Everything
// is seeded and independent of libm. Coordinates are multiples of 1/16 and factors have few bits,
// so products are exact and the numbers are identical with every compiler, with or without
// contraction.
#pragma once

#include "../../test/support/random.hpp"
#include <vecdet/dtype.hpp>
#include <vecdet/reference/matching.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace vecdet::bench {

using test::random_generator;

/// Numbers between -most and most.
template <class T>
std::vector<T> uniform_numbers(index_t size, std::uint64_t seed, double most) {
  random_generator random(seed);
  std::vector<T> values(static_cast<std::size_t>(size));
  for (T& v : values) v = T(static_cast<float>(random.uniform(-most, most)));
  return values;
}

/// Ground truth: boxes x1 y1 x2 y2 in pixels and their classes.
struct picture {
  double width = 800;
  double height = 800;
  std::vector<float> boxes;
  std::vector<index_t> classes;

  index_t size() const { return static_cast<index_t>(classes.size()); }

  void add(double x1, double y1, double x2, double y2, index_t category) {
    for (const double coordinate : {x1, y1, x2, y2})
      boxes.push_back(static_cast<float>(coordinate));
    classes.push_back(category);
  }
};

/// Scaled so that the longer side is `side` pixels.
inline picture scaled(const picture& source, double side) {
  const double factor = side / std::max(source.width, source.height);
  picture out{source.width * factor, source.height * factor, source.boxes, source.classes};
  for (float& coordinate : out.boxes)
    coordinate = static_cast<float>(static_cast<double>(coordinate) * factor);
  return out;
}

namespace detail {

/// Rounds down to a multiple of 1/16.
inline double snapped(double value) { return std::floor(value * 16) / 16; }

/// The value at `position` in [0, 1] of a piecewise linear table over equal steps.
template <std::size_t N>
double interpolate(const std::array<double, N>& table, double position) {
  const double at = position * static_cast<double>(N - 1);
  const std::size_t low = std::min(static_cast<std::size_t>(at), N - 2);
  return table[low] + (table[low + 1] - table[low]) * (at - static_cast<double>(low));
}

}  // namespace detail

/// A picture of 800 x 800 with COCO's average number of objects. Their sizes and shapes are spread
/// over the deciles of 839 objects in 100 pictures of the validation set, scaled alike.
inline picture built_in_picture(index_t objects = 8, std::uint64_t seed = 1) {
  // Deciles of sqrt(width * height) and of sqrt(width / height).
  constexpr std::array<double, 11> sizes = {5.7,  18.2,  26.7,  32.7, 42.6, 57.9,
                                            88.1, 132.1, 193.2, 321,  717.7};
  constexpr std::array<double, 11> shapes = {0.27, 0.58, 0.66, 0.75, 0.83, 0.90,
                                             1.00, 1.11, 1.25, 1.47, 3.68};
  random_generator generator(seed);
  picture out;
  for (index_t i = 0; i < objects; ++i) {
    const double position =
        (static_cast<double>(i) + generator.uniform()) / static_cast<double>(objects);
    const double size = detail::interpolate(sizes, position);
    const double shape = detail::interpolate(shapes, generator.uniform());
    const double width = detail::snapped(std::min(size * shape, out.width));
    const double height = detail::snapped(std::min(size / shape, out.height));
    const double x = detail::snapped(generator.uniform(0, out.width - width));
    const double y = detail::snapped(generator.uniform(0, out.height - height));
    out.add(x, y, x + width, y + height, 1 + generator.below(90));
  }
  return out;
}

/// The picture for the run's problems. Set it, from a file for instance, before the first problem
/// is created.
inline picture& scene() {
  static picture current = built_in_picture();
  return current;
}

/// RetinaNet's anchors x1 y1 x2 y2 on a square image, as in torchvision: strides 8 to 128, 3 sizes
/// from 4 strides up, 3 shapes; 120,087 at 800 x 800.
inline std::vector<float> retinanet_anchors(index_t side = 800) {
  const double size_factors[] = {1, 1.2599210498948732, 1.5874010519681994};  // 2^(0, 1/3, 2/3)
  std::vector<float> anchors;
  for (index_t nominal = 8; nominal <= 128; nominal *= 2) {
    const index_t cells = (side + nominal - 1) / nominal;
    const index_t stride = side / cells;
    std::vector<std::array<double, 2>> halves;
    for (const double aspect : {0.5, 1.0, 2.0}) {
      for (const double factor : size_factors) {
        const double size = std::floor(4 * static_cast<double>(nominal) * factor);
        const double root = std::sqrt(aspect);
        halves.push_back({std::nearbyint(size / root / 2), std::nearbyint(size * root / 2)});
      }
    }
    for (index_t y = 0; y < cells; ++y) {
      for (index_t x = 0; x < cells; ++x) {
        const double cx = static_cast<double>(x * stride);
        const double cy = static_cast<double>(y * stride);
        for (const auto& half : halves)
          for (const double coordinate : {cx - half[0], cy - half[1], cx + half[0], cy + half[1]})
            anchors.push_back(static_cast<float>(coordinate));
      }
    }
  }
  return anchors;
}

/// The number of anchors on each level.
inline std::vector<index_t> retinanet_level_sizes(index_t side = 800) {
  std::vector<index_t> sizes;
  for (index_t nominal = 8; nominal <= 128; nominal *= 2) {
    const index_t cells = (side + nominal - 1) / nominal;
    sizes.push_back(9 * cells * cells);
  }
  return sizes;
}

/// SSD300's 8732 priors as centre x, centre y, width, height, in pixels of a 300 x 300 image
/// (arXiv 1512.02325, section 2.2, with the sizes used for COCO).
inline std::vector<float> ssd300_priors() {
  struct level {
    index_t cells;
    double step, size, next_size;
    std::vector<double> aspects;
  };
  const level levels[] = {{38, 8, 21, 45, {2}},      {19, 16, 45, 99, {2, 3}},
                          {10, 32, 99, 153, {2, 3}}, {5, 64, 153, 207, {2, 3}},
                          {3, 100, 207, 261, {2}},   {1, 300, 261, 315, {2}}};
  std::vector<float> priors;
  for (const level& at : levels) {
    std::vector<std::array<double, 2>> shapes;
    shapes.push_back({at.size, at.size});
    const double between = std::sqrt(at.size * at.next_size);
    shapes.push_back({between, between});
    for (const double aspect : at.aspects) {
      const double root = std::sqrt(aspect);
      shapes.push_back({at.size * root, at.size / root});
      shapes.push_back({at.size / root, at.size * root});
    }
    for (index_t y = 0; y < at.cells; ++y)
      for (index_t x = 0; x < at.cells; ++x)
        for (const auto& shape : shapes)
          for (const double number : {(static_cast<double>(x) + 0.5) * at.step,
                                      (static_cast<double>(y) + 0.5) * at.step, shape[0], shape[1]})
            priors.push_back(static_cast<float>(number));
  }
  return priors;
}

/// Converts boxes from centre and size to x1 y1 x2 y2.
inline std::vector<float> corners_of_centres(const std::vector<float>& centres) {
  std::vector<float> corners(centres.size());
  for (std::size_t i = 0; i + 3 < centres.size(); i += 4) {
    for (std::size_t k = 0; k < 2; ++k) {
      corners[i + k] = centres[i + k] - centres[i + 2 + k] / 2;
      corners[i + 2 + k] = centres[i + k] + centres[i + 2 + k] / 2;
    }
  }
  return corners;
}

/// The ground-truth box of every anchor in a picture, and the resulting labels.
struct assignment {
  std::vector<index_t> matches;  ///< Index of the ground-truth box, -1 or -2.
  std::vector<index_t> labels;   ///< Its class, -1 background, -2 ignored.
  index_t foreground = 0;
};

/// Matches anchors (x1 y1 x2 y2) with RetinaNet's training thresholds: positive from IoU 0.5,
/// background below 0.4. Classes are taken modulo `classes`.
inline assignment assign(const std::vector<float>& anchors, const picture& truth, index_t classes) {
  assignment out;
  out.matches.resize(anchors.size() / 4);
  reference::match_anchors(boxes_view<const float>(anchors), boxes_view<const float>(truth.boxes),
                           vector_view<index_t>(out.matches));
  for (const index_t match : out.matches) {
    out.labels.push_back(match < 0 ? match
                                   : truth.classes[static_cast<std::size_t>(match)] % classes);
    out.foreground += match >= 0;
  }
  return out;
}

/// The indices of labels that are classes.
inline std::vector<index_t> foreground_indices(const std::vector<index_t>& labels) {
  std::vector<index_t> out;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= 0) out.push_back(static_cast<index_t>(i));
  return out;
}

/// The ground-truth box of each anchor's match; zeros if it has none.
inline std::vector<float> matched_boxes(const std::vector<index_t>& matches,
                                        const std::vector<float>& truth) {
  std::vector<float> out;
  out.reserve(4 * matches.size());
  for (const index_t match : matches) {
    for (std::size_t k = 0; k < 4; ++k)
      out.push_back(match < 0 ? 0.0f : truth[4 * static_cast<std::size_t>(match) + k]);
  }
  return out;
}

/// The boxes (corners) with each side displaced by an eighth of the box's size, like a head's
/// predictions.
inline std::vector<float> predicted_boxes(const std::vector<float>& boxes, std::uint64_t seed = 9) {
  random_generator generator(seed);
  std::vector<float> out;
  out.reserve(boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::size_t box = i / 4 * 4, axis = i % 2;
    const float size = boxes[box + 2 + axis] - boxes[box + axis];
    out.push_back(boxes[i] + 0.125f * size * static_cast<float>(generator.normal()));
  }
  return out;
}

/// Converts to another element type.
template <class T>
std::vector<T> converted(const std::vector<float>& numbers) {
  std::vector<T> out(numbers.size());
  std::transform(numbers.begin(), numbers.end(), out.begin(),
                 [](float x) { return T(static_cast<compute_type<T>>(x)); });
  return out;
}

/// Logits of a RetinaNet in training, one row per label: around the prior log(0.01 / 0.99) = -4.6,
/// and around 0 at the label's class.
template <class T>
std::vector<T> head_logits(const std::vector<index_t>& labels, index_t classes,
                           std::uint64_t seed = 2) {
  std::vector<T> logits(labels.size() * static_cast<std::size_t>(classes));
  random_generator generator(seed);
  T* row = logits.data();
  for (const index_t label : labels) {
    for (index_t j = 0; j < classes; ++j)
      row[j] = T(static_cast<compute_type<T>>(-4.595 + 0.75 * generator.normal()));
    if (label >= 0) row[label] = T(static_cast<compute_type<T>>(1.5 * generator.normal()));
    row += classes;
  }
  return logits;
}

/// Deltas dx dy dw dh of `boxes` anchors with the spread of a trained head's, for weights of 1.
template <class T>
std::vector<T> head_deltas(index_t boxes, std::uint64_t seed = 3) {
  std::vector<T> deltas(static_cast<std::size_t>(4 * boxes));
  random_generator generator(seed);
  for (T& delta : deltas) delta = T(static_cast<compute_type<T>>(0.1875 * generator.normal()));
  return deltas;
}

struct detections {
  std::vector<float> boxes;   ///< x1 y1 x2 y2
  std::vector<float> scores;  ///< In (0, 1).
  std::vector<index_t> classes;
};

/// A dense detector's input to NMS: boxes jittered around 200 objects in an 800 x 800 image, and
/// one in five anywhere. Sides are 8 to 400 pixels; small ones are more frequent.
inline detections clustered_detections(index_t count, index_t classes = 91,
                                       std::uint64_t seed = 4) {
  constexpr index_t object_count = 200;
  constexpr double extent = 800;
  struct object {
    double cx, cy, width, height;
    index_t category;
  };
  random_generator generator(seed);
  const auto any_side = [&] {
    const double u = generator.uniform();
    return detail::snapped(8 + 392 * u * u);
  };
  const auto any_object = [&]() -> object {
    const double cx = detail::snapped(generator.uniform(0, extent));
    const double cy = detail::snapped(generator.uniform(0, extent));
    const double width = any_side();
    const double height = any_side();
    return {cx, cy, width, height, generator.below(classes)};
  };
  std::vector<object> objects;
  for (index_t i = 0; i < object_count; ++i) objects.push_back(any_object());

  detections out;
  for (index_t i = 0; i < count; ++i) {
    object one;
    if (generator.chance(0.2)) {
      one = any_object();
    } else {
      one = objects[static_cast<std::size_t>(generator.below(object_count))];
      one.cx += 0.125 * one.width * generator.normal();
      one.cy += 0.125 * one.height * generator.normal();
      one.width = std::clamp(one.width * (1 + 0.15625 * generator.normal()), 8.0, 400.0);
      one.height = std::clamp(one.height * (1 + 0.15625 * generator.normal()), 8.0, 400.0);
    }
    for (const double coordinate : {one.cx - one.width / 2, one.cy - one.height / 2,
                                    one.cx + one.width / 2, one.cy + one.height / 2})
      out.boxes.push_back(static_cast<float>(std::clamp(coordinate, 0.0, extent)));
    const double u = static_cast<double>(generator.bits() >> 40) * 0x1p-24;
    out.scores.push_back(static_cast<float>(0.0625 + 0.9375 * u * u));
    out.classes.push_back(one.category);
  }
  return out;
}

}  // namespace vecdet::bench
