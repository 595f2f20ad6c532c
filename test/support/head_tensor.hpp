// SPDX-License-Identifier: Apache-2.0
// A head's outputs for each anchor, in either layout, and the same numbers as rows of all anchors.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/head_levels.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::test {

/// Levels of images x anchors x channels; only `columns` channels, from `before` on, are used.
template <class T>
struct head_tensor {
  struct size {
    index_t height, width;
  };

  head_layout layout;
  index_t images, anchors, columns, channels, before;
  std::vector<size> sizes;
  std::vector<std::vector<T>> data;
  std::vector<head_level<T>> levels;
  std::vector<head_level<const T>> const_levels;

  head_tensor(head_layout how, index_t n, index_t a, index_t c,
              const std::vector<size>& level_sizes, index_t others = 0, T value = T(0.0f))
      : layout(how),
        images(n),
        anchors(a),
        columns(c),
        channels(c + others),
        before(others / 2),
        sizes(level_sizes) {
    for (const size& s : sizes)
      data.emplace_back(static_cast<std::size_t>(n * a * channels * s.height * s.width), value);
    point();
  }
  head_tensor(const head_tensor& other) { *this = other; }
  head_tensor& operator=(const head_tensor& other) {
    layout = other.layout;
    images = other.images;
    anchors = other.anchors;
    columns = other.columns;
    channels = other.channels;
    before = other.before;
    sizes = other.sizes;
    data = other.data;
    point();
    return *this;
  }

  head_view<T> view() { return {levels, images, anchors, columns, layout, channels}; }
  head_view<const T> const_view() const {
    return {const_levels, images, anchors, columns, layout, channels};
  }
  index_t anchors_per_image() const { return const_view().anchors_per_image(); }
  index_t rows() const { return images * anchors_per_image(); }

  /// Calls each(element, row, column), row by row.
  template <class Each>
  void for_each(const Each& each) {
    index_t row = 0;
    for (index_t n = 0; n < images; ++n) {
      for (std::size_t l = 0; l < sizes.size(); ++l) {
        const index_t plane = sizes[l].height * sizes[l].width;
        for (index_t p = 0; p < plane; ++p) {
          for (index_t a = 0; a < anchors; ++a, ++row) {
            for (index_t c = 0; c < columns; ++c) {
              const index_t at = layout == head_layout::nhwc
                                     ? ((n * plane + p) * anchors + a) * channels + before + c
                                     : ((n * anchors + a) * channels + before + c) * plane + p;
              each(data[l][static_cast<std::size_t>(at)], row, c);
            }
          }
        }
      }
    }
  }
  /// The used channels, as rows x columns.
  std::vector<T> flat() {
    std::vector<T> result;
    for_each([&](T& x, index_t, index_t) { result.push_back(x); });
    return result;
  }
  void set(const std::vector<T>& rows_of_columns) {
    std::size_t i = 0;
    for_each([&](T& x, index_t, index_t) { x = rows_of_columns[i++]; });
  }

 private:
  void point() {
    levels.clear();
    const_levels.clear();
    for (std::size_t l = 0; l < sizes.size(); ++l) {
      const index_t plane = sizes[l].height * sizes[l].width;
      T* const first = data[l].data() + before * (layout == head_layout::nhwc ? 1 : plane);
      levels.push_back({first, sizes[l].height, sizes[l].width});
      const_levels.push_back({first, sizes[l].height, sizes[l].width});
    }
  }
};

constexpr head_layout all_layouts[] = {head_layout::nhwc, head_layout::nchw};

}  // namespace vecdet::test
