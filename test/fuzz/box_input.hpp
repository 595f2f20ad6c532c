// SPDX-License-Identifier: Apache-2.0
// Boxes, scores and selections of boxes from a fuzzer's bytes.
#pragma once

#include "fuzz_input.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/reference/sum.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace vecdet::fuzz {

enum class box_kind {
  tame,  ///< sides of 1 to 300 pixels: formulas are well conditioned
  grid,  ///< corners at small integers: ties, touching, equal and empty boxes abound
  any    ///< any numbers at all
};

inline box_kind any_box_kind(input& in) {
  return in.one_of({box_kind::tame, box_kind::grid, box_kind::any});
}

template <class T>
tensor<T> some_boxes(input& in, index_t boxes, box_kind kind) {
  if (kind == box_kind::any) return in.numbers<T>(4 * boxes);
  std::vector<T> values;
  for (index_t i = 0; i < boxes; ++i) {
    double box[4];
    if (kind == box_kind::tame) {
      for (int k = 0; k < 2; ++k) box[k] = in.tame(0, 500);
      for (int k = 2; k < 4; ++k) box[k] = box[k - 2] + in.tame(1, 300);
    } else {
      const auto at = in.bits<std::uint16_t>();
      for (int k = 0; k < 2; ++k) box[k] = (at >> (4 * k)) % 16 - 4;
      for (int k = 2; k < 4; ++k) box[k] = box[k - 2] + (at >> (4 * k)) % 16;
    }
    for (const double coordinate : box) values.push_back(test::to<T>(coordinate));
  }
  return tensor<T>(values);
}

/// Boxes with one array per coordinate, each ending at an inaccessible page.
template <class T>
class planes {
 public:
  explicit planes(index_t boxes)
      : of_{tensor<T>(boxes), tensor<T>(boxes), tensor<T>(boxes), tensor<T>(boxes)} {}
  explicit planes(const tensor<T>& boxes) : planes(boxes.size() / 4) {
    for (index_t i = 0; i < boxes.size(); ++i) of_[i % 4].data()[i / 4] = boxes.data()[i];
  }
  /// The first `boxes` of them, or all.
  boxes_soa_view<T> view(index_t boxes) const {
    return {of_[0].data(), of_[1].data(), of_[2].data(), of_[3].data(), boxes};
  }
  boxes_soa_view<T> view() const { return view(of_[0].size()); }

 private:
  tensor<T> of_[4];
};

/// The numbers of boxes in either layout, box by box.
template <class Boxes>
void add_boxes(results& to, const Boxes& boxes) {
  for (index_t i = 0; i < boxes.size(); ++i)
    for (index_t k = 0; k < 4; ++k) to.add(static_cast<double>(boxes(i, k)));
}

/// The same selection of boxes expressed in three ways; all() if every box is selected.
struct some_selection {
  std::vector<index_t> labels;  ///< at least 0 where the box counts
  tensor<index_t> wide, list;
  tensor<std::int32_t> narrow;  ///< with other values of background and ignore

  some_selection(const std::vector<index_t>& label_of_box, bool reversed)
      : labels(label_of_box),
        wide(labels),
        list(indices(labels, reversed)),
        narrow(renamed(labels)) {}

  bool counts(index_t i) const { return labels[static_cast<std::size_t>(i)] >= 0; }

  std::vector<box_selection> all_ways() const {
    std::vector<box_selection> ways{box_selection(wide),
                                    box_selection(narrow, other_background, other_ignore),
                                    box_selection::list(list)};
    if (list.size() == wide.size()) ways.push_back(box_selection::all());
    return ways;
  }

 private:
  static tensor<index_t> indices(const std::vector<index_t>& labels, bool reversed) {
    std::vector<index_t> list;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] >= 0) list.push_back(static_cast<index_t>(i));
    if (reversed) std::reverse(list.begin(), list.end());
    return tensor<index_t>(list);
  }
};

/// Labels below `classes`.
inline some_selection any_selection(input& in, index_t boxes, index_t classes) {
  const int foreground = in.one_of({16, 128, 256});
  std::vector<index_t> labels;
  for (index_t i = 0; i < boxes; ++i) {
    const int kind = in.byte();
    labels.push_back(kind < foreground && classes > 0 ? kind % classes : -1 - kind % 2);
  }
  return {labels, in.flag()};
}

inline coder_params any_coder(input& in) {
  coder_params params;
  params.weight_x = params.weight_y = in.one_of({1.0, 10.0, in.tame(0.1, 20)});
  params.weight_w = params.weight_h = in.one_of({1.0, 5.0, in.tame(0.1, 20)});
  params.clamp = in.one_of({size_clamp::above, size_clamp::both, size_clamp::none});
  params.size_limit = in.one_of({4.135166556742356, 0.5, 0.0});
  return params;
}

/// Factors of boxes, or none: moderate ones, or any.
inline tensor<float> any_weights(input& in, index_t boxes) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (in.byte() >= 96) return some_weights(in, boxes);
  std::vector<float> weights;
  for (index_t i = 0; i < boxes; ++i)
    weights.push_back(in.one_of({1.0f, 0.5f, -3.0f, 0.0f, -0.0f, 1e-42f, 1e-30f, 1e-9f, 1e9f, 1e30f,
                                 3e38f, inf, -inf, nan, 1.0f, 2.0f}));
  return tensor<float>(weights);
}
/// Factors for everything.
inline double any_scale(input& in) {
  return in.one_of({1.0, 1.0, 1.0 / 37, -2.0, 0.0, 1e-30, 1e30, 3e38});
}

/// Whether a product is well inside float's range: neither near its largest number nor subnormal.
/// 0, infinities and NaN count as inside.
inline bool is_in_range(double x) {
  return x == 0 || !std::isfinite(x) || (std::abs(x) > 1e-30 && std::abs(x) < 1e37);
}

/// A box's weight and the scale, as used in its loss and its gradient.
struct box_factor {
  double weight, scale;

  /// The gradient's factor.
  double both() const { return reference::vanishing_product(scale, weight); }
  /// The expected interval of a loss in [0, 2] or of a gradient that is `value` in float. Before
  /// multiplication, it is `exact` within `within`; an infinite, zero or NaN factor is applied.
  template <class What>
  void expect_limit(const What& what, double value, double exact, double within) const {
    const double factor = both();
    if (factor == 0 || std::isnan(factor)) {
      if (is_in_range(weight)) expect_near(what, value, exact * factor, 0, 0);
    } else if (std::isinf(factor) && std::abs(exact) > within) {
      expect_near(what, value, exact * factor, 0, 0);
    }
  }
  double weighted_loss(double loss) const {
    return reference::vanishing_product(reference::vanishing_product(loss, weight), scale);
  }
  double weighted_grad(double grad) const { return reference::vanishing_product(grad, both()); }
  /// Whether every intermediate result is within float's range.
  bool holds_loss(double loss) const { return is_in_range(loss * weight) && is_in_range(both()); }
  bool is_plain() const {
    return std::isfinite(weight) && is_in_range(weight) && is_in_range(both());
  }
};

}  // namespace vecdet::fuzz
