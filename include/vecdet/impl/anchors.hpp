// SPDX-License-Identifier: Apache-2.0
// The functions of anchors.hpp.
#pragma once

#include <vecdet/anchors.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks_of_cost.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

inline bool is_positive_float(double x) {
  return x > 0 && fits_float(x) && static_cast<float>(x) > 0;
}

/// The index, in messages, of a value that is not an element of a list.
constexpr index_t no_index = -1;

/// "<list>" or "<list>[<level>]", with or without a member. Only called to throw.
inline std::string level_name(const char* list, index_t level, const char* member = "") {
  return (level == no_index ? std::string(list) : element(list, level)) + member;
}

/// Throws unless all numbers of "<list>[<level>]<member>" are positive floats.
inline void check_positive(const char* function, const char* list, index_t level,
                           const char* member, const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (is_positive_float(numbers[i])) continue;
    throw_invalid_argument(
        function, element(level_name(list, level, member).c_str(), static_cast<std::int64_t>(i)),
        numbers[i], "a positive finite float");
  }
}

inline void check_side(const char* function, const char* list, index_t level, const char* member,
                       index_t side, index_t most, const char* expected) {
  if (side >= 0 && side <= most) return;
  throw_invalid_argument(function, level_name(list, level, member), side, expected);
}

inline void check_grid(const char* function, const char* list, index_t level,
                       const grid_size& size) {
  constexpr index_t most = index_t{1} << 27;  // so that their product does not wrap
  check_side(function, list, level, ".height", size.height, most, "0 to 2^27");
  check_side(function, list, level, ".width", size.width, most, "0 to 2^27");
}

/// Throws unless the features are at most as large as the image, so that strides are 1 or more.
inline void check_features(const char* function, const char* list, index_t level,
                           const grid_size& features, const grid_size& image) {
  check_grid(function, list, level, features);
  check_side(function, list, level, ".height", features.height, image.height,
             "at most the image's");
  check_side(function, list, level, ".width", features.width, image.width, "at most the image's");
}

inline index_t locations(const grid_size& features) { return features.height * features.width; }

/// An anchor relative to its location.
struct cell_anchor {
  float x1, y1, x2, y2;
};

inline std::vector<cell_anchor> cell_anchors(const anchor_shapes& shapes) {
  std::vector<cell_anchor> cells;
  for (const double ratio : shapes.ratios) {
    const float h_ratio = square_root(static_cast<float>(ratio));
    const float w_ratio = quotient(1.0f, h_ratio);
    for (const double size : shapes.sizes) {
      const float half_w = w_ratio * static_cast<float>(size) / 2;
      const float half_h = h_ratio * static_cast<float>(size) / 2;
      cells.push_back({std::nearbyint(-half_w), std::nearbyint(-half_h), std::nearbyint(half_w),
                       std::nearbyint(half_h)});
    }
  }
  return cells;
}

inline void check_shapes(const char* function, index_t level, const anchor_shapes& shapes) {
  check_positive(function, "shapes", level, ".sizes", shapes.sizes);
  check_positive(function, "shapes", level, ".ratios", shapes.ratios);
}
inline void check_shapes(const char* function, const std::vector<anchor_shapes>& shapes) {
  for (std::size_t k = 0; k < shapes.size(); ++k)
    check_shapes(function, static_cast<index_t>(k), shapes[k]);
}

/// Calls write(k, first, last, before) for all locations: [first, last) are some of level k, and
/// `before` is the number of anchors of the levels before it. A location has per_location(k)
/// anchors; all have `anchors`. Threads divide the locations of all levels.
template <class PerLocation, class Write>
void for_each_location_range(const vector_view<const grid_size>& features, index_t anchors,
                             threading policy, const PerLocation& per_location,
                             const Write& write) {
  constexpr index_t least_anchors = 32768;  // ten and more microseconds of work
  // Levels without anchors may have any size.
  const auto locations_of = [&](index_t k) {
    return per_location(k) > 0 ? locations(features[k]) : 0;
  };
  index_t all = 0;
  for (index_t k = 0; k < features.size(); ++k) all += locations_of(k);
  for_each_chunk(policy, chunks_of_cost(all, anchors, least_anchors),
                 [&](index_t, index_t begin, index_t end) {
                   index_t before = 0, first = 0;
                   for (index_t k = 0; k < features.size(); ++k) {
                     const index_t here = locations_of(k);
                     const index_t from = std::max(begin, first), to = std::min(end, first + here);
                     if (from < to) write(k, from - first, to - first, before);
                     first += here;
                     before += here * per_location(k);
                   }
                 });
}

/// Calls write(y, x) for the locations [first, last), row by row.
template <class Write>
void for_each_location(const grid_size& features, index_t first, index_t last, const Write& write) {
  for (index_t y = first / features.width, x = first % features.width; first < last; ++y, x = 0)
    for (; x < features.width && first < last; ++x, ++first) write(y, x);
}

/// Writes the anchors of the locations [first, last) of a level.
inline void write_anchors(const std::vector<cell_anchor>& cells, const grid_size& image,
                          const grid_size& features, index_t first, index_t last, float* out) {
  const index_t stride_y = image.height / features.height, stride_x = image.width / features.width;
  for_each_location(features, first, last, [&](index_t y, index_t x) {
    const float at_y = static_cast<float>(y * stride_y), at_x = static_cast<float>(x * stride_x);
    for (const cell_anchor& cell : cells) {
      out[0] = at_x + cell.x1;
      out[1] = at_y + cell.y1;
      out[2] = at_x + cell.x2;
      out[3] = at_y + cell.y2;
      out += 4;
    }
  });
}

/// Writes the anchors of all levels. Everything has been checked.
inline void write_anchors(const anchor_shapes* shapes, const grid_size& image,
                          const vector_view<const grid_size>& features,
                          const boxes_view<float>& anchors, threading policy) {
  std::vector<std::vector<cell_anchor>> cells;
  for (index_t k = 0; k < features.size(); ++k) cells.push_back(cell_anchors(shapes[k]));
  for_each_location_range(
      features, anchors.size(), policy, [&](index_t k) { return shapes[k].count(); },
      [&](index_t k, index_t first, index_t last, index_t before) {
        write_anchors(cells[static_cast<std::size_t>(k)], image, features[k], first, last,
                      anchors[before + first * shapes[k].count()]);
      });
}

inline void check_levels(const char* function, std::size_t shapes,
                         const vector_view<const grid_size>& features) {
  check_size(function, "features.size()", features.size(), static_cast<index_t>(shapes),
             "the number of levels of the shapes");
  for (index_t k = 0; k < features.size(); ++k) check_grid(function, "features", k, features[k]);
}

/// Throws unless make_anchors() accepts these arguments. The shapes have been checked before.
inline void check_layout(const char* function, const std::vector<anchor_shapes>& shapes,
                         const grid_size& image, const vector_view<const grid_size>& features) {
  check_grid(function, "image", no_index, image);
  check_levels(function, shapes.size(), features);
  for (index_t k = 0; k < features.size(); ++k)
    check_features(function, "features", k, features[k], image);
}

/// `count` plus the number of anchors of a level with `per_location` anchors per location. Throws
/// if that is more than memory can address.
inline index_t add_anchors(const char* function, index_t count, index_t level,
                           const grid_size& features, index_t per_location) {
  constexpr index_t most = max_elements<float> / 4;
  const index_t here = locations(features);
  if (here > 0 && per_location > (most - count) / here) {
    throw_invalid_argument(function, level_name("features", level),
                           std::to_string(features.height) + " x " + std::to_string(features.width),
                           "at most as many locations as memory can address");
  }
  return count + here * per_location;
}

inline index_t count_of(const char* function, const std::vector<anchor_shapes>& shapes,
                        const vector_view<const grid_size>& features) {
  index_t count = 0;
  for (index_t k = 0; k < features.size(); ++k)
    count =
        add_anchors(function, count, k, features[k], shapes[static_cast<std::size_t>(k)].count());
  return count;
}

/// A size, that size plus one third of an octave, and plus two thirds, rounded down.
inline std::vector<double> thirds_of_octave(double size) {
  return {size, std::floor(size * 1.2599210498948732), std::floor(size * 1.5874010519681994)};
}

inline void check_ssd(const char* function, const ssd_shapes& shapes,
                      const vector_view<const grid_size>& features) {
  const std::size_t levels = shapes.ratios.size();
  check_levels(function, levels, features);
  const auto check_list = [&](const char* name, const std::vector<double>& list,
                              std::size_t expected, const char* of) {
    check_size(function, name, static_cast<index_t>(list.size()), static_cast<index_t>(expected),
               of);
  };
  check_list("shapes.scales.size()", shapes.scales, levels + 1, "one more than there are levels");
  check_list("shapes.steps.size()", shapes.steps, levels, "the number of levels");
  check_positive(function, "shapes.scales", no_index, "", shapes.scales);
  check_positive(function, "shapes.steps", no_index, "", shapes.steps);
  for (std::size_t k = 0; k < levels; ++k)
    check_positive(function, "shapes.ratios", static_cast<index_t>(k), "", shapes.ratios[k]);
}

inline index_t count_of(const char* function, const ssd_shapes& shapes,
                        const vector_view<const grid_size>& features) {
  index_t count = 0;
  for (index_t k = 0; k < features.size(); ++k) {
    const std::size_t ratios = shapes.ratios[static_cast<std::size_t>(k)].size();
    count = add_anchors(function, count, k, features[k], 2 + 2 * static_cast<index_t>(ratios));
  }
  return count;
}

/// The widths and heights of the default boxes of an SSD level, in fractions of the image.
inline std::vector<std::pair<float, float>> ssd_sizes(const ssd_shapes& shapes, std::size_t level) {
  const double scale = shapes.scales[level];
  const double between = square_root(scale * shapes.scales[level + 1]);
  std::vector<std::pair<float, float>> sizes;
  const auto add = [&](double width, double height) {
    const auto w = static_cast<float>(width), h = static_cast<float>(height);
    sizes.push_back({shapes.clip ? std::min(w, 1.0f) : w, shapes.clip ? std::min(h, 1.0f) : h});
  };
  add(scale, scale);
  add(between, between);
  for (const double ratio : shapes.ratios[level]) {
    const double root = square_root(ratio), width = scale * root, height = quotient(scale, root);
    add(width, height);
    add(height, width);
  }
  return sizes;
}

/// The centre of a location on one axis, as a fraction of the image's side.
inline float ssd_centre(index_t at, index_t side, double step) {
  const auto locations = static_cast<float>(quotient(static_cast<double>(side), step));
  return quotient(static_cast<float>(at) + 0.5f, locations);
}

/// Writes the default boxes of the locations [first, last) of a level.
inline void write_ssd_anchors(const std::vector<std::pair<float, float>>& sizes, double step,
                              const grid_size& image, const grid_size& features, index_t first,
                              index_t last, float* out) {
  const float width = static_cast<float>(image.width), height = static_cast<float>(image.height);
  for_each_location(features, first, last, [&](index_t y, index_t x) {
    const float centre_y = ssd_centre(y, image.height, step);
    const float centre_x = ssd_centre(x, image.width, step);
    for (const auto& size : sizes) {
      const float half_w = 0.5f * size.first, half_h = 0.5f * size.second;
      out[0] = rounded(centre_x - half_w) * width;
      out[1] = rounded(centre_y - half_h) * height;
      out[2] = rounded(centre_x + half_w) * width;
      out[3] = rounded(centre_y + half_h) * height;
      out += 4;
    }
  });
}

inline void write_points(const grid_size& features, double stride, float* out) {
  const float step = static_cast<float>(stride);
  for (index_t y = 0; y < features.height; ++y) {
    const float at_y = (static_cast<float>(y) + 0.5f) * step;
    for (index_t x = 0; x < features.width; ++x) {
      *out++ = (static_cast<float>(x) + 0.5f) * step;
      *out++ = at_y;
    }
  }
}

}  // namespace detail

inline std::vector<anchor_shapes> anchor_shapes::retinanet() {
  std::vector<anchor_shapes> levels;
  for (const double size : {32.0, 64.0, 128.0, 256.0, 512.0})
    levels.push_back({detail::thirds_of_octave(size), {0.5, 1, 2}});
  return levels;
}

inline std::vector<anchor_shapes> anchor_shapes::rpn() {
  std::vector<anchor_shapes> levels;
  for (const double size : {32.0, 64.0, 128.0, 256.0, 512.0})
    levels.push_back({{size}, {0.5, 1, 2}});
  return levels;
}

inline std::vector<anchor_shapes> anchor_shapes::fcos() {
  std::vector<anchor_shapes> levels;
  for (const double size : {8.0, 16.0, 32.0, 64.0, 128.0}) levels.push_back({{size}, {1}});
  return levels;
}

inline index_t count_anchors(const std::vector<anchor_shapes>& shapes,
                             vector_view<const grid_size> features) {
  detail::check_levels("count_anchors", shapes.size(), features);
  return detail::count_of("count_anchors", shapes, features);
}

inline void make_anchors(const anchor_shapes& shapes, grid_size image, grid_size features,
                         boxes_view<float> anchors, threading policy) {
  detail::check_shapes("make_anchors", detail::no_index, shapes);
  detail::check_grid("make_anchors", "image", detail::no_index, image);
  detail::check_features("make_anchors", "features", detail::no_index, features, image);
  const index_t count =
      detail::add_anchors("make_anchors", 0, detail::no_index, features, shapes.count());
  detail::check_size("make_anchors", "anchors.size()", anchors.size(), count,
                     "the number of locations times that of shapes");
  detail::write_anchors(&shapes, image, {&features, 1}, anchors, policy);
}

inline void make_anchors(const std::vector<anchor_shapes>& shapes, grid_size image,
                         vector_view<const grid_size> features, boxes_view<float> anchors,
                         threading policy) {
  detail::check_shapes("make_anchors", shapes);
  detail::check_layout("make_anchors", shapes, image, features);
  detail::check_size("make_anchors", "anchors.size()", anchors.size(),
                     detail::count_of("make_anchors", shapes, features),
                     "count_anchors(shapes, features)");
  detail::check_apart("make_anchors", "anchors", anchors, "features", features);
  detail::write_anchors(shapes.data(), image, features, anchors, policy);
}

inline index_t count_anchors(const ssd_shapes& shapes, vector_view<const grid_size> features) {
  detail::check_ssd("count_anchors", shapes, features);
  return detail::count_of("count_anchors", shapes, features);
}

inline void make_anchors(const ssd_shapes& shapes, grid_size image,
                         vector_view<const grid_size> features, boxes_view<float> anchors,
                         threading policy) {
  detail::check_ssd("make_anchors", shapes, features);
  detail::check_grid("make_anchors", "image", detail::no_index, image);
  detail::check_size("make_anchors", "anchors.size()", anchors.size(),
                     detail::count_of("make_anchors", shapes, features),
                     "count_anchors(shapes, features)");
  detail::check_apart("make_anchors", "anchors", anchors, "features", features);
  std::vector<std::vector<std::pair<float, float>>> sizes;
  for (std::size_t k = 0; k < shapes.ratios.size(); ++k)
    sizes.push_back(detail::ssd_sizes(shapes, k));
  const auto per_location = [&](index_t k) {
    return static_cast<index_t>(sizes[static_cast<std::size_t>(k)].size());
  };
  detail::for_each_location_range(features, anchors.size(), policy, per_location,
                                  [&](index_t k, index_t first, index_t last, index_t before) {
                                    const auto level = static_cast<std::size_t>(k);
                                    detail::write_ssd_anchors(
                                        sizes[level], shapes.steps[level], image, features[k],
                                        first, last, anchors[before + first * per_location(k)]);
                                  });
}

inline void make_points(grid_size features, double stride, vector_view<float> points) {
  make_points({&features, 1}, {&stride, 1}, points);
}

inline void make_points(vector_view<const grid_size> features, vector_view<const double> strides,
                        vector_view<float> points) {
  detail::check_size("make_points", "strides.size()", strides.size(), features.size(),
                     "the number of levels");
  index_t count = 0;
  for (index_t k = 0; k < features.size(); ++k) {
    detail::check_grid("make_points", "features", k, features[k]);
    detail::check_element(detail::is_positive_float(strides[k]), "make_points", "strides", k,
                          strides[k], "a positive finite float");
    count = detail::add_anchors("make_points", count, k, features[k], 1);
  }
  detail::check_size("make_points", "points.size()", points.size(), 2 * count,
                     "twice the number of locations");
  detail::check_apart("make_points", "points", points, "features", features);
  detail::check_apart("make_points", "points", points, "strides", strides);
  float* out = points.data();
  for (index_t k = 0; k < features.size(); ++k) {
    detail::write_points(features[k], strides[k], out);
    out += 2 * detail::locations(features[k]);
  }
}

}  // namespace VECDET_ABI
}  // namespace vecdet
