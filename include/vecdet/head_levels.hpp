// SPDX-License-Identifier: Apache-2.0
// A view of the output of a dense detector's head: one tensor per level of the feature pyramid, for
// all images of a batch. Functions read it in place; nothing is copied, transposed or concatenated.
//
// Anchors are ordered by image, level, row, column, and anchor at the location, which varies
// fastest. Labels and other arrays with one element per anchor use this order.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <string>

namespace vecdet {
inline namespace VECDET_ABI {

/// The memory layout of a level. Class c of anchor a at (y, x) is in channel a * channels + c. By
/// default, `channels` is the number of classes.
enum class head_layout {
  nhwc,  ///< channels last: images x height x width x (anchors x channels)
  nchw,  ///< images x (anchors x channels) x height x width
};

/// One level: images x anchors x channels x height x width elements without gaps.
template <class T>
struct head_level {
  T* data = nullptr;  ///< class 0 of anchor 0 at (0, 0) in the first image
  index_t height = 0, width = 0;
};

/// All levels of a head. A list of levels must outlive the view; a single level is copied. As in
/// other views, it is an error if a size is negative or more than memory can address, or if data is
/// null although there are elements.
template <class T>
class head_view {
 public:
  /// No levels.
  head_view() noexcept = default;

  head_view(const lasting<vector_view<const head_level<T>>>& levels, index_t images,
            index_t anchors, index_t classes, head_layout layout)
      : head_view(levels, images, anchors, classes, layout, classes) {}
  head_view(const head_level<T>& level, index_t images, index_t anchors, index_t classes,
            head_layout layout)
      : head_view(level, images, anchors, classes, layout, classes) {}

  /// The same for a head with more outputs per anchor than these classes, e.g. if one convolution
  /// computes both boxes and classes. Each anchor has `channels` channels, at least `classes`. A
  /// level's data points to the first channel of the classes; other channels are never accessed.
  head_view(const lasting<vector_view<const head_level<T>>>& levels, index_t images,
            index_t anchors, index_t classes, head_layout layout, index_t channels)
      : list_(levels),
        images_(images),
        anchors_(anchors),
        classes_(classes),
        channels_(channels),
        layout_(layout) {
    check_sizes();
  }
  head_view(const head_level<T>& level, index_t images, index_t anchors, index_t classes,
            head_layout layout, index_t channels)
      : level_(level),
        is_one_level_(true),
        images_(images),
        anchors_(anchors),
        classes_(classes),
        channels_(channels),
        layout_(layout) {
    check_sizes();
  }

  /// Valid as long as this view.
  vector_view<const head_level<T>> levels() const VECDET_LIFETIMEBOUND {
    return is_one_level_ ? vector_view<const head_level<T>>(&level_, 1) : list_;
  }
  index_t images() const noexcept { return images_; }
  /// Anchors per location.
  index_t anchors() const noexcept { return anchors_; }
  index_t classes() const noexcept { return classes_; }
  /// Channels per anchor.
  index_t channels() const noexcept { return channels_; }
  head_layout layout() const noexcept { return layout_; }

  index_t locations(index_t level) const noexcept {
    const head_level<T>& sizes = (is_one_level_ ? &level_ : list_.data())[level];
    return sizes.height * sizes.width;
  }
  /// The number of anchors, and so of labels, of one image.
  index_t anchors_per_image() const noexcept {
    index_t count = 0;
    for (index_t l = 0; l < levels().size(); ++l) count += locations(l) * anchors_;
    return count;
  }
  /// The number of elements that count.
  index_t size() const noexcept { return images_ * anchors_per_image() * classes_; }

 private:
  index_t size_of(index_t level) const noexcept {
    return images_ * anchors_ * classes_ * locations(level);
  }

  void check_sizes() const {
    detail::check(images_ >= 0, "head_view", "images", images_, "0 or more");
    detail::check(anchors_ >= 0, "head_view", "anchors", anchors_, "0 or more");
    detail::check(classes_ >= 0, "head_view", "classes", classes_, "0 or more");
    detail::check(channels_ >= classes_, "head_view", "channels", channels_, "the classes or more");
    for (index_t l = 0; l < levels().size(); ++l) {
      const head_level<T>& level = levels()[l];
      index_t left = detail::max_elements<T> / 8 / (levels().size() + 1);  // sums must fit, too
      bool fits = level.height >= 0 && level.width >= 0;
      for (const index_t size : {level.height, level.width, images_, anchors_, channels_}) {
        fits = fits && size <= left;
        if (size > 0) left /= size;
      }
      if (!fits) {
        detail::throw_invalid_argument(
            "head_view", detail::element("levels", l),
            std::to_string(level.height) + " x " + std::to_string(level.width),
            "sizes of 0 or more, and at most as many elements as memory can address");
      }
      detail::check_element(level.data != nullptr || size_of(l) == 0, "head_view", "levels", l,
                            "null", "memory of all elements");
    }
  }

  vector_view<const head_level<T>> list_;
  head_level<T> level_;
  bool is_one_level_ = false;
  index_t images_ = 0, anchors_ = 0, classes_ = 0, channels_ = 0;
  head_layout layout_ = head_layout::nhwc;
};

}  // namespace VECDET_ABI
}  // namespace vecdet
