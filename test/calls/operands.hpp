// SPDX-License-Identifier: Apache-2.0
// The arrays that calls work on. A driver decides where they are placed (memory) and what they hold
// (source); a family asks for them by what they mean: boxes, deltas, labels, logits.
#pragma once

#include "../support/values.hpp"
#include "memory.hpp"
#include <bench/support/scene.hpp>
#include <bench/support/training.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/views.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace vecdet {
namespace test {

/// What arrays hold: ordinary numbers; among them special values that kernels get wrong; or what a
/// detector has in training.
enum class source { ordinary, special, training };

/// An array. Views are made when a call runs: in between, drivers may move an output elsewhere.
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
  placed(placed&&) = default;  // calls hold its address: copies would be others
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
  /// The same numbers as four arrays, one a coordinate.
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

/// Rows at a stride; what lies between them must stay as it is.
template <class T>
struct placed_matrix : placed<T> {
  index_t rows, cols, stride;
  placed_matrix(memory& at, index_t row_count, index_t col_count, index_t padding)
      : placed<T>(at, static_cast<std::size_t>(row_count == 0
                                                   ? 0
                                                   : (row_count - 1) * (col_count + padding) +
                                                         col_count)),
        rows(row_count),
        cols(col_count),
        stride(col_count + padding) {}
  matrix_view<const T> in() const { return {this->data(), rows, cols, stride}; }
  matrix_view<T> out() const { return {this->data(), rows, cols, stride}; }
};

/// What NMS takes.
template <class T>
struct placed_detections {
  placed_boxes<T> boxes;
  placed<T> scores;
  placed<index_t> classes;
};

/// Makes operands, each from a seed of its own.
class operands {
 public:
  operands(memory& at, source from) : at_(at), from_(from) {}

  bool in_training() const { return from_ == source::training; }

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

  /// Anchors in training.
  template <class T>
  placed_boxes<T> boxes(index_t count, double extent = 800) {
    if (in_training()) return copy(bench::converted<T>(bench::training_anchors(count)));
    std::vector<T> values = random_boxes<T>(count, ++seed_, extent);
    add_special(values, special_boxes_as<T>());
    return copy(values);
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
  /// -1 background, -2 ignored, the others in [0, classes).
  placed<index_t> labels(index_t rows, index_t classes) {
    return copy(in_training() ? bench::training_labels(rows, classes)
                              : random_labels(rows, classes, ++seed_));
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
  /// An output of rows; with space between them except in training.
  template <class T>
  placed_matrix<T> matrix(index_t rows, index_t cols) {
    return {at_, rows, cols, in_training() || cols % 2 == 0 ? 0 : 1 + cols % 5};
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

}  // namespace test
}  // namespace vecdet
