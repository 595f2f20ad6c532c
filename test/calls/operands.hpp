// SPDX-License-Identifier: Apache-2.0
// The arrays that calls work on. A driver decides where they are placed (memory) and what they
// contain (source). A family requests them by meaning: boxes, deltas, labels, logits.
#pragma once

#include "../support/values.hpp"
#include "memory.hpp"
#include <vecdet/box_format.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/ground_truth.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <bench/support/pyramid.hpp>
#include <bench/support/scene.hpp>
#include <bench/support/training.hpp>

namespace vecdet::test {

/// The contents of arrays: ordinary numbers; ordinary numbers mixed with special values, on which
/// kernels fail most easily; or numbers as in the training of a detector.
enum class source { ordinary, special, training };

/// An array. Views are made when a call runs, because drivers may move outputs between calls.
struct placed_bytes {
  void* address = nullptr;
  std::size_t bytes = 0, element = 1;  ///< element: size in bytes
};

template <class T>
class placed : public placed_bytes {
 public:
  using value_type = T;
  placed() = default;
  placed(memory& at, std::size_t count)
      : placed_bytes{at.take(count * sizeof(T), alignof(T)), count * sizeof(T), sizeof(T)} {}
  placed(placed&&) = default;  // not copyable, because calls hold its address
  placed& operator=(placed&&) = default;

  T* data() const { return static_cast<T*>(address); }
  std::size_t size() const { return bytes / sizeof(T); }
  T& operator[](index_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size(); }
  vector_view<const T> in() const { return {data(), size()}; }
  vector_view<T> out() const { return {data(), size()}; }
};

/// Boxes, deltas or distances, four numbers each.
template <class T>
struct placed_boxes : placed<T> {
  using placed<T>::placed;
  placed_boxes(placed<T> numbers) : placed<T>(std::move(numbers)) {}
  boxes_view<const T> in() const { return {this->data(), this->size() / 4}; }
  boxes_view<T> out() const { return {this->data(), this->size() / 4}; }
  /// The same numbers as four arrays, one per coordinate.
  boxes_soa_view<const T> in_planes() const { return planes<const T>(); }
  boxes_soa_view<T> out_planes() const { return planes<T>(); }

 private:
  template <class U>
  boxes_soa_view<U> planes() const {
    const auto n = static_cast<index_t>(this->size() / 4);
    T* const first = this->data();
    return {first, first + n, first + 2 * n, first + 3 * n, n};
  }
};

/// Rows with a stride. The memory between them must not change.
template <class T>
struct placed_matrix : placed<T> {
  index_t rows, cols, stride;
  placed_matrix(memory& at, index_t row_count, index_t col_count, index_t padding)
      : placed<T>(at,
                  static_cast<std::size_t>(
                      row_count == 0 ? 0 : (row_count - 1) * (col_count + padding) + col_count)),
        rows(row_count),
        cols(col_count),
        stride(col_count + padding) {}
  matrix_view<const T> in() const { return {this->data(), rows, cols, stride}; }
  matrix_view<T> out() const { return {this->data(), rows, cols, stride}; }
};

/// The inputs of NMS.
template <class T>
struct placed_detections {
  placed_boxes<T> boxes;
  placed<T> scores;
  placed<index_t> classes;
};

/// The sizes of a head's output: its levels and the number of anchors per location.
struct head_sizes {
  index_t images, anchors;
  std::vector<grid_size> levels;
};

/// A head's output, one array per level. If it has more channels than columns, the last channels
/// must stay unchanged.
template <class T>
struct placed_head {
  head_sizes sizes;
  index_t columns, channels;
  head_layout layout;
  std::vector<placed<T>> levels;

  placed_head(const head_sizes& of, index_t column_count, index_t channel_count, head_layout how)
      : sizes(of), columns(column_count), channels(channel_count), layout(how) {}

  head_view<const T> in() const { return view(inputs_); }
  head_view<T> out() const { return view(outputs_); }

 private:
  template <class Level>
  head_view<std::remove_pointer_t<decltype(Level::data)>> view(std::vector<Level>& at) const {
    at.resize(levels.size());
    for (std::size_t l = 0; l < levels.size(); ++l)
      at[l] = {levels[l].data(), sizes.levels[l].height, sizes.levels[l].width};
    return {at, sizes.images, sizes.anchors, columns, layout, channels};
  }
  mutable std::vector<head_level<const T>> inputs_;
  mutable std::vector<head_level<T>> outputs_;
};

struct placed_truth {
  placed_boxes<float> boxes;
  placed<index_t> classes, image_offsets;

  ground_truth view() const { return {boxes, classes, image_offsets}; }
};

/// Options per class: wanted classes, thresholds and groups.
struct placed_class_lists {
  placed<index_t> classes, groups;
  placed<double> thresholds;

  template <class Params>
  void give_limits(Params& params) const {
    params.classes = classes.in();
    params.class_thresholds = thresholds.in();
  }
  template <class Params>
  void give(Params& params) const {
    give_limits(params);
    params.class_groups = groups.in();
  }
};

/// Makes operands, each from its own seed.
class operands {
 public:
  operands(memory& at, source from) : at_(at), from_(from) {}

  bool in_training() const { return from_ == source::training; }
  bool has_special() const { return from_ == source::special; }

  /// An output.
  template <class T>
  placed<T> room(index_t count) {
    return {at_, static_cast<std::size_t>(count)};
  }
  template <class T>
  placed<T> copy(const std::vector<T>& values) {
    placed<T> to(at_, values.size());
    if (!values.empty()) std::memcpy(to.address, values.data(), to.bytes);
    return to;
  }

  template <class T, class From>
  placed<T> converted(const placed<From>& values) {
    placed<T> to(at_, values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      to.data()[i] = test::to<T>(static_cast<double>(values.data()[i]));
    return to;
  }

  /// Anchors in training.
  template <class T>
  placed_boxes<T> boxes(index_t count, double extent = 800) {
    if (in_training()) return copy(bench::converted<T>(bench::training_anchors(count)));
    std::vector<T> values = random_boxes<T>(count, ++seed_, extent);
    add_special(values, special_boxes_as<T>());
    return copy(values);
  }
  /// Boxes that overlap those that boxes() makes.
  template <class T>
  placed_boxes<T> boxes_near(index_t count) {
    if (!in_training()) return boxes<T>(count);
    return copy(bench::converted<T>(bench::predicted_boxes(bench::training_anchors(count))));
  }
  template <class T>
  placed_boxes<T> truth_boxes(index_t count) {
    if (!in_training()) return boxes<T>(count);
    return copy(bench::converted<T>(bench::built_in_picture(count).boxes));
  }
  /// The same boxes, turned: centre, width, height and an angle in degrees; each ninth is upright.
  template <class T>
  placed_matrix<T> turned(const placed_boxes<T>& corners) {
    const auto count = static_cast<index_t>(corners.size() / 4);
    placed_matrix<T> boxes = matrix<T>(count, 5);
    const placed<T> angles = numbers<T>(count, -180, 180);
    for (index_t i = 0; i < count; ++i) {
      const T* const box = corners.data() + 4 * i;
      T* const row = boxes.data() + i * boxes.stride;
      row[0] = (box[0] + box[2]) / 2, row[1] = (box[1] + box[3]) / 2;
      row[2] = box[2] - box[0], row[3] = box[3] - box[1];
      row[4] = i % 9 == 0 ? T(90 * (i % 5)) : angles.data()[i];
    }
    return boxes;
  }
  placed<image_size> images(index_t count) {
    std::vector<image_size> sizes(static_cast<std::size_t>(count),
                                  image_size::height_width(800, 800));
    if (!in_training())
      for (std::size_t i = 0; i < sizes.size(); ++i)
        sizes[i] = image_size::height_width(400, i % 2 == 0 ? 500 : 300);
    return copy(sizes);
  }
  template <class T>
  placed_boxes<T> deltas(index_t count) {
    ++seed_;
    if (in_training()) return copy(bench::head_deltas<T>(count, seed_));
    std::vector<T> values = random_deltas<T>(count, seed_, 0.4);
    add_special(values, special_logits<T>());
    return copy(values);
  }
  /// In [low, high).
  template <class T>
  placed<T> numbers(index_t count, double low, double high) {
    random_generator generator(++seed_);
    placed<T> to = room<T>(count);
    for (T& number : to) number = test::to<T>(generator.uniform(low, high));
    return to;
  }
  /// Labels: -1 for background, -2 for ignored, or a class in [0, classes).
  placed<index_t> labels(index_t rows, index_t classes) {
    return copy(in_training() ? bench::training_labels(rows, classes)
                              : random_labels(rows, classes, ++seed_));
  }
  template <class Label>
  placed<Label> labels_as(index_t rows, index_t classes) {
    const placed<index_t> wide = labels(rows, classes);
    return copy(std::vector<Label>(wide.begin(), wide.end()));
  }
  /// Options for `count` classes. Those before the first are not wanted.
  placed_class_lists class_lists(index_t count, index_t first = 0) {
    std::vector<index_t> classes, groups;
    std::vector<double> thresholds;
    for (index_t c = 0; c < count && first < count; ++c) {
      if (c >= first && (c - first) % 3 != 1) classes.push_back(c);
      groups.push_back(c % 4 - 1);
      thresholds.push_back(0.25 + 0.125 * static_cast<double>(c % 3));
    }
    return {copy(classes), copy(groups), copy(thresholds)};
  }
  /// Divides `count` among the images.
  placed<index_t> offsets(index_t images, index_t count) {
    std::vector<index_t> all;
    for (index_t k = 0; k <= images; ++k)
      all.push_back(count / images * k + count % images * k / images);
    return copy(all);
  }
  /// Logits of rows with these labels.
  template <class T>
  placed_matrix<T> logits(const placed<index_t>& labels, index_t classes) {
    const auto rows = static_cast<index_t>(labels.size());
    placed_matrix<T> to = matrix<T>(rows, classes);
    std::vector<T> values;
    if (in_training()) {
      values = bench::head_logits<T>({labels.begin(), labels.end()}, classes);
    } else {
      values = from_ == source::special ? random_logits<T>(rows * classes, ++seed_)
                                        : random_logits_without_special<T>(rows * classes);
    }
    for (index_t i = 0; i < rows; ++i)
      std::memcpy(to.data() + i * to.stride, values.data() + i * classes,
                  static_cast<std::size_t>(classes) * sizeof(T));
    return to;
  }
  template <class T>
  placed_detections<T> detections(index_t count) {
    if (!in_training()) return {boxes<T>(count), numbers<T>(count, 0, 1), labels(count, 5)};
    const bench::detections found = bench::clustered_detections(count);
    return {copy(bench::converted<T>(found.boxes)), copy(bench::converted<T>(found.scores)),
            copy(found.classes)};
  }
  /// The labels as dense targets: 1 for the labelled class in training, any number in [0, 1] in
  /// tests.
  template <class T>
  placed_matrix<T> dense_targets(const placed<index_t>& labels, index_t classes) {
    const auto rows = static_cast<index_t>(labels.size());
    placed_matrix<T> to = matrix<T>(rows, classes);
    random_generator generator(++seed_);
    for (T& t : to) t = test::to<T>(0);
    for (index_t i = 0; i < rows; ++i) {
      if (!in_training()) {
        for (index_t c = 0; c < classes; ++c)
          if (generator.chance(0.1)) to[i * to.stride + c] = test::to<T>(generator.uniform());
      } else if (labels[i] >= 0) {
        to[i * to.stride + labels[i]] = test::to<T>(1);
      }
    }
    return to;
  }
  /// An output of rows. With special values, there is space between the rows.
  template <class T>
  placed_matrix<T> matrix(index_t rows, index_t cols) {
    return {at_, rows, cols, from_ == source::special && cols % 2 != 0 ? 1 + cols % 5 : 0};
  }
  /// Numbers of rows in [low, high).
  template <class T>
  placed_matrix<T> matrix(index_t rows, index_t cols, double low, double high) {
    placed_matrix<T> to = matrix<T>(rows, cols);
    random_generator generator(++seed_);
    for (T& number : to) number = test::to<T>(generator.uniform(low, high));
    return to;
  }

  /// A head with this number of anchors per image: two levels with two anchors per location, or in
  /// training one level with one anchor per location.
  head_sizes head(index_t images, index_t anchors) const {
    const index_t locations = anchors / 2;
    if (in_training() || anchors % 2 != 0 || locations < 7) return {images, 1, {{anchors, 1}}};
    return {images, 2, {{1, locations - 6}, {2, 3}}};
  }
  /// A head with this total number of rows.
  head_sizes head_of_rows(index_t rows) const {
    return in_training() || rows % 2 != 0 ? head(1, rows) : head(2, rows / 2);
  }
  /// Numbers in [low, high), or an output.
  template <class T>
  placed_head<T> head(const head_sizes& sizes, index_t columns, head_layout layout, double low = 0,
                      double high = 1) {
    const index_t others = from_ == source::special && sizes.levels[0].width % 2 != 0 ? 2 : 0;
    placed_head<T> head(sizes, columns, columns + others, layout);
    for (const grid_size& level : sizes.levels)
      head.levels.push_back(numbers<T>(
          sizes.images * sizes.anchors * head.channels * level.height * level.width, low, high));
    return head;
  }
  /// The logits of an NHWC head whose rows have these labels. In training, NCHW has the same
  /// numbers.
  template <class T>
  placed_head<T> logits_head(const head_sizes& sizes, const placed<index_t>& labels,
                             index_t classes, head_layout layout) {
    placed_head<T> to = head<T>(sizes, classes, layout, -6, 3);
    if (in_training()) to.levels[0] = std::move(logits<T>(labels, classes));
    return to;
  }
  template <class T>
  placed_head<T> deltas_head(const head_sizes& sizes, head_layout layout) {
    placed_head<T> to = head<T>(sizes, 4, layout, -0.5, 0.5);
    if (in_training())
      to.levels[0] = std::move(deltas<T>(static_cast<index_t>(to.levels[0].size() / 4)));
    return to;
  }

  /// `count` boxes, spread over the images.
  placed_truth truth(index_t images, index_t count, index_t first_class, index_t classes,
                     double extent = 800) {
    const bench::picture picture = bench::built_in_picture(count, ++seed_);
    std::vector<index_t> ids;
    for (const index_t id : picture.classes) ids.push_back(first_class + id % classes);
    return {in_training() ? copy(picture.boxes) : placed<float>(boxes<float>(count, extent)),
            copy(ids), offsets(images, count)};
  }

  /// Boxes around the points, for each image.
  placed_boxes<float> predictions(const bench::pyramid& of, index_t images) {
    random_generator generator(++seed_);
    const double extent = 8 * std::sqrt(static_cast<double>(of.size()));
    std::vector<float> corners;
    for (index_t n = 0; n < images; ++n) {
      for (std::size_t i = 0; i < 4 * (of.points.size() / 2); ++i) {
        const float at = of.points[i / 4 * 2 + i % 2];
        const auto distance = static_cast<float>(generator.uniform(0.01, 0.2) * extent);
        corners.push_back(i % 4 < 2 ? at - distance : at + distance);
      }
    }
    return copy(corners);
  }
  /// Boxes within a map, on its border and outside, some of them large.
  template <class T>
  placed_boxes<T> rois(index_t count, double height, double width) {
    std::vector<T> corners;
    random_generator generator(++seed_);
    const double margin = in_training() ? 0 : 9;
    for (index_t i = 0; i < count; ++i) {
      const double shape_of_w = generator.uniform(), shape_of_h = generator.uniform();
      const double w = std::min(width, 4 + 60 * shape_of_w * shape_of_w * shape_of_w);
      const double h = std::min(height, 4 + 60 * shape_of_h * shape_of_h * shape_of_h);
      const double x = generator.uniform(-margin, width - w + margin);
      const double y = generator.uniform(-margin, height - h + margin);
      for (const double v : {x, y, x + w, y + h}) corners.push_back(to<T>(v));
    }
    return copy(corners);
  }
  placed_matrix<float> matrix_of(const std::vector<float>& values, index_t cols) {
    placed_matrix<float> to = matrix<float>(static_cast<index_t>(values.size()) / cols, cols);
    std::memcpy(to.address, values.data(), to.bytes);
    return to;
  }

  /// A pyramid with this number of points.
  bench::pyramid pyramid(index_t points) const {
    if (from_ != source::special || points % 4 != 0) return bench::pyramid_of_points(points);
    bench::pyramid thin;
    thin.add(3, points / 4, 8);
    thin.add(points / 4, 1, 16);
    return thin;
  }

 private:
  template <class T>
  void add_special(std::vector<T>& values, const std::vector<T>& special) const {
    if (from_ != source::special) return;
    for (std::size_t i = 0; i + 7 < values.size(); i += 37) values[i] = special[i % special.size()];
  }
  template <class T>
  std::vector<T> random_logits_without_special(index_t count) {
    random_generator generator(++seed_);
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& x : values) x = to<T>(generator.uniform(-30, 30));
    return values;
  }

  memory& at_;
  source from_;
  std::uint64_t seed_ = 0;
};

}  // namespace vecdet::test
