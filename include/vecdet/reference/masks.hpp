// SPDX-License-Identifier: Apache-2.0
// Masks from prototypes, by ultralytics' rules, and pasted masks, by torchvision's rule, one pixel
// at a time in double.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/masks_params.hpp>
#include <vecdet/reference/feature_at.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>

namespace vecdet {
inline namespace VECDET_ABI {
namespace reference {

/// A logit, and the greatest sum of its products' magnitudes at a location, in which its error is
/// measured. Outside the box, both are 0.
struct mask_logit {
  double value = 0, magnitude = 0;
};

/// The two locations beside a pixel, and the weight of the second: torch's interpolate() of `count`
/// locations to `pixels`, with half-pixel centres.
struct mask_neighbours {
  index_t before, after;
  double weight;

  mask_neighbours(index_t pixel, index_t pixels, index_t count) {
    const double scale = static_cast<double>(count) / static_cast<double>(pixels);
    const double at = std::max((static_cast<double>(pixel) + 0.5) * scale - 0.5, 0.0);
    before = std::min(static_cast<index_t>(std::floor(at)), count - 1);
    after = std::min(before + 1, count - 1);
    weight = at - static_cast<double>(before);
  }
};

/// The rows or columns of prototypes that ultralytics' scale_masks() keeps of a letterbox.
struct mask_region {
  index_t begin, end;

  mask_region(index_t locations, double covered) {
    const double padding = (static_cast<double>(locations) - covered) / 2;
    begin = std::max(index_t{0}, static_cast<index_t>(std::nearbyint(padding - 0.1)));
    end = locations - std::max(index_t{0}, static_cast<index_t>(std::nearbyint(padding + 0.1)));
    begin = std::min(begin, locations - 1);
    end = std::max(end, begin + 1);
  }
};

/// The masks of one image.
template <class T>
class prototype_masks {
 public:
  prototype_masks(const feature_view<const T>& prototypes, index_t image, grid_size size,
                  mask_rule rule)
      : prototypes_(prototypes),
        image_(image),
        size_(size),
        rule_(rule),
        rows_(prototypes.height(), static_cast<double>(prototypes.height())),
        columns_(prototypes.width(), static_cast<double>(prototypes.width())) {
    if (rule != mask_rule::native || size.height == 0 || size.width == 0) return;
    const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
    const double gain = std::min(static_cast<double>(prototypes.height()) / height,
                                 static_cast<double>(prototypes.width()) / width);
    rows_ = mask_region(prototypes.height(), height * gain);
    columns_ = mask_region(prototypes.width(), width * gain);
  }

  /// The size of the masks.
  grid_size size() const {
    return rule_ == mask_rule::cropped ? grid_size{prototypes_.height(), prototypes_.width()}
                                       : size_;
  }

  /// The logit of an object's pixel.
  mask_logit at(const float* coefficients, const float* box, index_t x, index_t y) const {
    if (rule_ == mask_rule::native)
      return is_inside(box[0], box[2], x) && is_inside(box[1], box[3], y)
                 ? enlarged(x, y, [&](index_t i, index_t j) { return logit(coefficients, i, j); })
                 : mask_logit{};
    const float across = ratio(prototypes_.width(), size_.width);
    const float down = ratio(prototypes_.height(), size_.height);
    const auto cropped = [&](index_t i, index_t j) {
      return is_inside(box[0] * across, box[2] * across, j) &&
                     is_inside(box[1] * down, box[3] * down, i)
                 ? logit(coefficients, i, j)
                 : mask_logit{};
    };
    return rule_ == mask_rule::cropped ? cropped(y, x) : enlarged(x, y, cropped);
  }

 private:
  static bool is_inside(float begin, float end, index_t i) {
    return static_cast<double>(begin) <= static_cast<double>(i) &&
           static_cast<double>(i) < static_cast<double>(end);
  }
  static float ratio(index_t locations, index_t pixels) {
    return static_cast<float>(static_cast<double>(locations) / static_cast<double>(pixels));
  }

  mask_logit logit(const float* coefficients, index_t row, index_t column) const {
    mask_logit sum;
    for (index_t c = 0; c < prototypes_.channels(); ++c) {
      const double product = static_cast<double>(coefficients[c]) *
                             static_cast<double>(feature_at(prototypes_, image_, c, row, column));
      sum.value += product;
      sum.magnitude += std::abs(product);
    }
    return sum;
  }

  template <class Logit>
  mask_logit enlarged(index_t x, index_t y, const Logit& logit_at) const {
    const mask_neighbours across(x, size_.width, columns_.end - columns_.begin);
    const mask_neighbours down(y, size_.height, rows_.end - rows_.begin);
    mask_logit sum;
    const auto add = [&](index_t row, index_t column, double weight) {
      const mask_logit one = logit_at(rows_.begin + row, columns_.begin + column);
      sum.value += weight * one.value;
      sum.magnitude = std::max(sum.magnitude, one.magnitude);
    };
    add(down.before, across.before, (1 - down.weight) * (1 - across.weight));
    add(down.before, across.after, (1 - down.weight) * across.weight);
    add(down.after, across.before, down.weight * (1 - across.weight));
    add(down.after, across.after, down.weight * across.weight);
    return sum;
  }

  feature_view<const T> prototypes_;
  index_t image_;
  grid_size size_;
  mask_rule rule_;
  mask_region rows_, columns_;
};

/// The rectangle to which torchvision's paste_masks_in_image enlarges an object's map, with its
/// border, along one side. Its pixels are [begin, begin + size); of inverted boxes, none is used.
struct pasted_side {
  bool is_empty = true;
  double begin = 0, size = 1;

  pasted_side(float from, float to, index_t locations) {
    if (locations == 0) return;
    const auto factor =
        static_cast<float>(static_cast<double>(locations + 2) / static_cast<double>(locations));
    volatile float half = (to - from) * 0.5f, centre = (to + from) * 0.5f;
    half = half * factor;
    const volatile float first = centre - half, last = centre + half;
    if (!std::isfinite(first) || !std::isfinite(last)) return;
    begin = std::trunc(static_cast<double>(first));
    const double end = std::trunc(static_cast<double>(last)) + 1;
    is_empty = end <= begin;
    size = std::max(end - begin, 1.0);
  }
  /// The position of a pixel's centre among `locations`, those of the border included.
  double at(index_t pixel, index_t locations) const {
    const double scale = static_cast<double>(locations) / size;
    const double position = (static_cast<double>(pixel) - begin + 0.5) * scale - 0.5;
    return std::min(std::max(position, 0.0), static_cast<double>(locations - 1));
  }
};

/// The number of a pixel by torchvision's rule; 0 outside the rectangle. `map` is height x width.
template <class T>
double pasted(const T* map, index_t height, index_t width, const float* box, index_t x, index_t y) {
  const pasted_side across(box[0], box[2], width), down(box[1], box[3], height);
  const auto is_inside = [](const pasted_side& side, index_t i) {
    const auto pixel = static_cast<double>(i);
    return !side.is_empty && pixel >= side.begin && pixel < side.begin + side.size;
  };
  if (!is_inside(across, x) || !is_inside(down, y)) return 0;
  const double left = across.at(x, width + 2), top = down.at(y, height + 2);
  const auto column = static_cast<index_t>(left), row = static_cast<index_t>(top);
  const double u = left - static_cast<double>(column), v = top - static_cast<double>(row);
  const auto at = [&](index_t i, index_t j) {  // with the border
    if (i < 1 || i > height || j < 1 || j > width) return 0.0;
    return static_cast<double>(map[(i - 1) * width + j - 1]);
  };
  const auto between = [&](index_t i) {
    return u > 0 ? (1 - u) * at(i, column) + u * at(i, column + 1) : at(i, column);
  };
  return v > 0 ? (1 - v) * between(row) + v * between(row + 1) : between(row);
}

}  // namespace reference
}  // namespace VECDET_ABI
}  // namespace vecdet
