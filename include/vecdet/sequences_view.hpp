// SPDX-License-Identifier: Apache-2.0
// A view of the logits of a batch of sequences: steps x samples x classes, or samples x steps x
// classes.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/contiguous.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Class c of step t of sample n is data[t * step_stride + n * sample_stride + c]. Strides are in
/// elements. Memory between the rows of classes is never accessed.
///
/// It is an error if a size is negative or more than memory can address, if rows of classes
/// overlap, or if data is null although there are elements.
template <class T>
class sequences_view : detail::has_shape {
 public:
  constexpr sequences_view() noexcept = default;

  /// Any strides. That of an axis of 1 or 0 items does not matter.
  template <class Pointer, detail::require_pointers<T, Pointer> = 0>
  sequences_view(Pointer data, index_t steps, index_t samples, index_t classes, index_t step_stride,
                 index_t sample_stride)
      : data_(data), steps_(steps), samples_(samples), classes_(classes) {
    detail::check(steps >= 0, "sequences_view", "steps", steps, "0 or more");
    detail::check(samples >= 0, "sequences_view", "samples", samples, "0 or more");
    const index_t most = detail::max_elements<T> / 4;
    detail::check(classes >= 0 && classes <= most, "sequences_view", "classes", classes,
                  "0 or more, and at most what memory can address");
    // The axis whose items lie closer together is the inner one.
    const bool steps_are_inner = samples > 1 && (steps <= 1 || step_stride <= sample_stride);
    const index_t inner = steps_are_inner ? steps : samples;
    const index_t outer = steps_are_inner ? samples : steps;
    const index_t inner_stride =
        inner > 1 ? (steps_are_inner ? step_stride : sample_stride) : classes;
    detail::check(inner_stride >= classes, "sequences_view",
                  steps_are_inner ? "step_stride" : "sample_stride", inner_stride,
                  "the number of classes or more");
    detail::check(inner_stride <= most && (inner == 0 || inner_stride <= most / inner),
                  "sequences_view", steps_are_inner ? "steps" : "samples", inner,
                  "at most as many as memory can address with this stride");
    const index_t reach = inner > 0 ? (inner - 1) * inner_stride + classes : 0;
    const index_t outer_stride =
        outer > 1 ? (steps_are_inner ? sample_stride : step_stride) : reach;
    detail::check(outer_stride >= reach, "sequences_view",
                  steps_are_inner ? "sample_stride" : "step_stride", outer_stride,
                  "a distance at which rows of classes do not overlap");
    detail::check(outer_stride <= most && (outer == 0 || outer_stride <= most / outer),
                  "sequences_view", steps_are_inner ? "samples" : "steps", outer,
                  "at most as many as memory can address with this stride");
    step_stride_ = steps_are_inner ? inner_stride : outer_stride;
    sample_stride_ = steps_are_inner ? outer_stride : inner_stride;
    detail::check(data != nullptr || empty(), "sequences_view", "data", "null",
                  "memory of all elements");
  }

  /// Steps x samples x classes without gaps: PyTorch's order for CTC.
  template <class Pointer, detail::require_pointers<T, Pointer> = 0>
  static sequences_view steps_first(Pointer data, index_t steps, index_t samples, index_t classes) {
    return sequences_view(data, steps, samples, classes, product(samples, classes), classes);
  }
  /// Samples x steps x classes without gaps.
  template <class Pointer, detail::require_pointers<T, Pointer> = 0>
  static sequences_view samples_first(Pointer data, index_t samples, index_t steps,
                                      index_t classes) {
    return sequences_view(data, steps, samples, classes, classes, product(steps, classes));
  }

  template <class U, detail::require_seen_as<U, T> = 0>
  constexpr sequences_view(const sequences_view<U>& other) noexcept
      : data_(other.data()),
        steps_(other.steps()),
        samples_(other.samples()),
        classes_(other.classes()),
        step_stride_(other.step_stride()),
        sample_stride_(other.sample_stride()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr index_t steps() const noexcept { return steps_; }
  constexpr index_t samples() const noexcept { return samples_; }
  constexpr index_t classes() const noexcept { return classes_; }
  constexpr index_t step_stride() const noexcept { return step_stride_; }
  constexpr index_t sample_stride() const noexcept { return sample_stride_; }
  constexpr bool empty() const noexcept { return steps_ == 0 || samples_ == 0 || classes_ == 0; }
  /// The classes of step t of sample n.
  constexpr T* row(index_t t, index_t n) const noexcept {
    return data_ + t * step_stride_ + n * sample_stride_;
  }

 private:
  /// A stride without gaps. A product that is too large becomes a stride that is an error.
  static index_t product(index_t a, index_t b) noexcept {
    if (a <= 0 || b <= 0) return 0;  // nothing, or an error of its own
    return b > detail::max_elements<T> / a ? detail::max_elements<T> : a * b;
  }

  T* data_ = nullptr;
  index_t steps_ = 0, samples_ = 0, classes_ = 0, step_stride_ = 0, sample_stride_ = 0;
};

}  // namespace VECDET_ABI
}  // namespace vecdet
