// SPDX-License-Identifier: Apache-2.0
// Boxes of a head's levels, four numbers per anchor. Losses compute them as N x 4. All boxes are
// copied block by block unless they are N x 4 in the level; selected boxes are gathered one by one.
// Their gradients are copied back.
#pragma once

#include <vecdet/args/head_boxes.hpp>
#include <vecdet/box_selection.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/head_boxes/head_boxes.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Anchors [begin, end) of a level in one image.
struct level_stretch {
  index_t image, level, begin, end;
  index_t first_anchor;  ///< index of `begin` among the image's anchors
  index_t first_label;   ///< index of `begin` among the batch's anchors
};

/// Calls use(stretch) for each level's part of the batch's anchors [first, last), in order.
template <class T, class Use>
void for_each_stretch(const head_view<T>& head, index_t first, index_t last, const Use& use) {
  const index_t per_image = head.anchors_per_image();
  while (first < last) {
    const index_t image = first / per_image;
    index_t level = 0, begin = first % per_image;
    for (; begin >= head.locations(level) * head.anchors(); ++level)
      begin -= head.locations(level) * head.anchors();
    const index_t end = std::min(head.locations(level) * head.anchors(), begin + (last - first));
    use(level_stretch{image, level, begin, end, first % per_image, first});
    first += end - begin;
  }
}

/// The boxes of a level of one image.
template <class T>
class level_boxes {
 public:
  template <class U>
  level_boxes(const head_view<U>& head, index_t image, index_t level)
      : steps_(head, level),
        anchors_(head.anchors()),
        size_(head.locations(level) * anchors_),
        data_(head.levels()[level].data + image * steps_.image) {}

  /// The first number of anchor i. Consecutive numbers are step() elements apart.
  T* operator[](index_t i) const {
    return data_ + i / anchors_ * steps_.location + i % anchors_ * steps_.anchor;
  }
  index_t step() const { return steps_.number; }

  /// Whether they are N x 4 in memory.
  bool are_flat() const { return steps_.number == 1 && steps_.anchor == 4; }

  void clear(index_t first, index_t last) const {
    if (are_flat()) return clear_elements((*this)[first], 4 * (last - first), 1);
    if (last - first == size_ && steps_.image == 4 * size_)
      return clear_elements(data_, 4 * size_, 1);
    for (index_t a = 0; a < anchors_; ++a) {
      const index_t begin = (first - a + anchors_ - 1) / anchors_;
      const index_t end = (last - a + anchors_ - 1) / anchors_;
      T* const plane = data_ + begin * steps_.location + a * steps_.anchor;
      for (index_t k = 0; k < 4; ++k)
        clear_elements(plane + k * steps_.number, end - begin, steps_.location);
    }
  }

  /// Copies boxes [first, last) to N x 4.
  void gather(const head_boxes_kernels<value_of<T>>& kernels, index_t first, index_t last,
              value_of<T>* boxes) const {
    kernels.gather(data_, steps(), first, last, boxes);
  }
  /// Copies N x 4 to boxes [first, last).
  void scatter(const head_boxes_kernels<value_of<T>>& kernels, const value_of<T>* boxes,
               index_t first, index_t last) const {
    kernels.scatter(boxes, steps(), first, last, data_);
  }

 private:
  level_box_steps steps() const {
    return {anchors_, steps_.location, steps_.anchor, steps_.number};
  }
  static void clear_elements(T* to, index_t count, index_t step) {
    if (step == 1) {
      std::memset(static_cast<void*>(to), 0, static_cast<std::size_t>(count) * sizeof(T));
    } else {
      for (index_t i = 0; i < count; ++i) to[i * step] = T(0.0f);
    }
  }

  level_steps steps_;
  index_t anchors_, size_;
  T* data_;
};

/// The end of the block from anchor `begin` on: at most 512 anchors, which stay in the L1 cache.
/// They are whole locations where possible, in sixteens that need no remainder.
constexpr index_t most_level_boxes = 512;
inline index_t end_of_block(index_t begin, index_t end, index_t anchors) {
  if (anchors > most_level_boxes) return std::min(end, begin + most_level_boxes);
  const index_t fitting = most_level_boxes / anchors;
  const index_t locations = fitting >= 16 ? fitting / 16 * 16 : fitting;
  return std::min(end, begin - begin % anchors + locations * anchors);
}

/// Boxes as N x 4 for a loss: of type T in the head; anchors and targets are of type Box.
template <class T, class Box>
struct loss_boxes {
  index_t count;
  const T* in;
  const Box *anchors, *targets;
  const float* weights;  ///< null: all 1
  T* grad;
};

/// Memory for a block of boxes.
template <class T, class Box>
struct level_block {
  index_t count = 0;
  alignas(64) T in[4 * most_level_boxes], grad[4 * most_level_boxes];
  alignas(64) Box anchors[4 * most_level_boxes], targets[4 * most_level_boxes];
  float weights[most_level_boxes];
  /// The destinations of the gradients of selected boxes.
  T* to[most_level_boxes];
  index_t step[most_level_boxes];
};

/// A loss of a head's boxes and its gradient.
template <class Input, class T, class Box>
class level_boxes_loss {
 public:
  using block = level_block<T, Box>;

  level_boxes_loss(isa target, const head_view<Input>& in, const head_view<T>& grad,
                   const box_selection& selection, const vector_view<const float>& image_scales,
                   const vector_view<const float>& box_weights)
      : kernels_(kernels<head_boxes_kernels<T>>(target)),
        in_(in),
        grad_(grad),
        selection_(selection),
        image_scales_(image_scales),
        box_weights_(box_weights) {}

  /// The losses of all boxes. fill(block, boxes, anchor, label) sets the pointers to the anchors
  /// and targets of `boxes.count` consecutive boxes, to memory of the block if they are copied:
  /// `anchor` is the number of the first box among those of its image, `label` among those of the
  /// batch. compute(boxes) returns the sum of their losses.
  template <class Fill, class Compute>
  double run_all(threading policy, const Fill& fill, const Compute& compute) const {
    return sum_over_stretches(policy, [&](const level_stretch& s) {
      const places at(*this, s);
      block memory;
      double sum = 0;
      for (index_t begin = s.begin, end; begin < s.end; begin = end) {
        end = end_of_block(begin, s.end, in_.anchors());
        const index_t label = s.first_label + (begin - s.begin);
        loss_boxes<T, Box> boxes{end - begin, memory.in, nullptr, nullptr, nullptr, memory.grad};
        if (at.in.are_flat()) {
          boxes.in = at.in[begin];
        } else {
          at.in.gather(kernels_, begin, end, memory.in);
        }
        if (at.grad.are_flat()) boxes.grad = at.grad[begin];
        if (is_weighted()) {
          for (index_t k = 0; k < boxes.count; ++k) memory.weights[k] = weight(s.image, label + k);
          boxes.weights = memory.weights;
        }
        fill(memory, boxes, s.first_anchor + (begin - s.begin), label);
        sum += compute(boxes);
        if (!at.grad.are_flat()) at.grad.scatter(kernels_, memory.grad, begin, end);
      }
      return sum;
    });
  }

  /// The losses of the boxes that labels or a list select. fill(block, k, anchor, label) sets the
  /// anchor and the target of the k-th box of a block.
  template <class Fill, class Compute>
  double run_selected(threading policy, const Fill& fill, const Compute& compute) const {
    if (selection_.is_list()) return run_list(policy, fill, compute);
    const selected_boxes selected = selected_by(selection_);
    return sum_over_stretches(policy, [&](const level_stretch& s) {
      const places at(*this, s);
      const index_t first_label = s.first_label - s.begin;
      block gathered;
      double sum = 0;
      for (index_t begin = s.begin, end; begin < s.end; begin = end) {
        index_t found[most_level_boxes], count;
        end = kernels_.find(selected, first_label + begin, first_label + s.end, most_level_boxes,
                            found, count) -
              first_label;
        for (index_t k = 0; k < count; ++k) add(gathered, at, s, found[k] - first_label, fill);
        // After the boxes have been read, which the gradient may overwrite.
        at.grad.clear(begin, end);
        sum += finish(gathered, compute);
      }
      return sum;
    });
  }

  /// The losses against `targets`, one box per anchor of the batch.
  template <class Compute>
  double run_against(threading policy, const boxes_view<const Box>& targets,
                     const Compute& compute) const {
    if (selection_.is_all()) {
      return run_all(
          policy,
          [&](block&, loss_boxes<T, Box>& boxes, index_t, index_t label) {
            boxes.targets = targets[label];
          },
          compute);
    }
    return run_selected(
        policy,
        [&](block& to, index_t k, index_t, index_t label) {
          std::copy(targets[label], targets[label] + 4, to.targets + 4 * k);
        },
        compute);
  }

 private:
  /// The boxes and gradients of a stretch's level.
  struct places {
    level_boxes<Input> in;
    level_boxes<T> grad;

    places(const level_boxes_loss& loss, const level_stretch& s)
        : in(loss.in_, s.image, s.level), grad(loss.grad_, s.image, s.level) {}
  };

  bool is_weighted() const { return !image_scales_.empty() || !box_weights_.empty(); }
  float weight(index_t image, index_t label) const {
    return (image_scales_.empty() ? 1.0f : image_scales_[image]) *
           (box_weights_.empty() ? 1.0f : box_weights_[label]);
  }

  template <class Sum>
  double sum_over_stretches(threading policy, const Sum& sum_of) const {
    return sum_over_chunks(policy, chunks(), [&](index_t first, index_t last) {
      double sum = 0;
      for_each_stretch(in_, first, last, [&](const level_stretch& s) { sum += sum_of(s); });
      return sum;
    });
  }
  chunking chunks() const {
    return chunking(in_.images() * in_.anchors_per_image(), smallest_box_chunk);
  }

  template <class Fill, class Compute>
  double run_list(threading policy, const Fill& fill, const Compute& compute) const {
    for_each_chunk(policy, chunks(), [&](index_t, index_t first, index_t last) {
      for_each_stretch(grad_, first, last, [&](const level_stretch& s) {
        level_boxes<T>(grad_, s.image, s.level).clear(s.begin, s.end);
      });
    });
    const vector_view<const index_t>& list = selection_.indices();
    return sum_over_chunks(
        policy, chunking(list.size(), smallest_box_chunk), [&](index_t first, index_t last) {
          block gathered;
          double sum = 0;
          for (index_t k = first; k < last; ++k) {
            for_each_stretch(in_, list[k], list[k] + 1, [&](const level_stretch& s) {
              add(gathered, places(*this, s), s, s.begin, fill);
            });
            if (gathered.count == most_level_boxes) sum += finish(gathered, compute);
          }
          return sum + finish(gathered, compute);
        });
  }

  /// Anchor i of the stretch's level.
  template <class Fill>
  void add(block& to, const places& at, const level_stretch& s, index_t i, const Fill& fill) const {
    const index_t k = to.count++, label = s.first_label + (i - s.begin);
    const Input* const numbers = at.in[i];
    for (index_t n = 0; n < 4; ++n) to.in[4 * k + n] = numbers[n * at.in.step()];
    to.weights[k] = weight(s.image, label);
    to.to[k] = at.grad[i];
    to.step[k] = at.grad.step();
    fill(to, k, s.first_anchor + (i - s.begin), label);
  }

  template <class Compute>
  double finish(block& gathered, const Compute& compute) const {
    if (gathered.count == 0) return 0;
    const double sum =
        compute(loss_boxes<T, Box>{gathered.count, gathered.in, gathered.anchors, gathered.targets,
                                   is_weighted() ? gathered.weights : nullptr, gathered.grad});
    for (index_t k = 0; k < gathered.count; ++k)
      for (index_t n = 0; n < 4; ++n)
        gathered.to[k][n * gathered.step[k]] = gathered.grad[4 * k + n];
    gathered.count = 0;
    return sum;
  }

  const head_boxes_kernels<T>& kernels_;
  const head_view<Input>& in_;
  const head_view<T>& grad_;
  const box_selection& selection_;
  const vector_view<const float> image_scales_, box_weights_;
};

/// The profiler's problem for the boxes of levels.
template <class T>
profile::problem level_problem(const char* function, const char* variant, const head_view<T>& head,
                               isa target, int threads, index_t bytes, index_t flops) {
  return {function,
          variant,
          dtype_name<value_of<T>>(),
          {head.images(), head.anchors_per_image()},
          isa_name(target),
          threads,
          bytes,
          flops};
}

/// The bytes that a loss of levels reads and writes. It writes the gradient. If all boxes are
/// selected, it reads the boxes and their targets, `target_bytes`; otherwise it reads the labels,
/// and few boxes.
template <class T>
index_t level_loss_bytes(const head_view<T>& head, const box_selection& selection,
                         index_t target_bytes) {
  const index_t boxes = head.images() * head.anchors_per_image();
  const index_t tensor = 4 * boxes * index_t{sizeof(T)};
  return tensor + (selection.is_all() ? tensor + target_bytes : boxes * index_t{sizeof(index_t)});
}

/// Throws unless there is one target per anchor of the batch, in memory that does not overlap the
/// gradient.
template <class Input, class T>
void check_level_targets(const char* function, const head_view<Input>& in, const head_view<T>& grad,
                         const boxes_view<const T>& targets) {
  check_size(function, "targets.size()", targets.size(), in.images() * in.anchors_per_image(),
             "the anchors of all images");
  check_levels_apart(function, "grad", grad, "targets", targets);
}

/// Throws unless the gradient has the same levels as the boxes called `name`, and shares no memory
/// with anything that is read after the gradient is written.
template <class Input, class T>
void check_level_boxes(const char* function, const char* name, const head_view<Input>& in,
                       const head_view<T>& grad, const box_selection& selection,
                       const vector_view<const float>& image_scales,
                       const vector_view<const float>& box_weights) {
  check_member(in.classes() == 4, function, name, "classes()", in.classes(),
               "4, the numbers of a box");
  const index_t total = in.images() * in.anchors_per_image();
  check_head(function, "grad", grad, name, in, 4);
  check_image_scales(function, image_scales, in.images(), "the images of the head");
  check_optional_size(function, "params.box_weights.size()", box_weights.size(), total,
                      "the anchors of all images");
  check_selection(function, selection, total);
  check_levels_apart(function, "grad", grad);
  check_levels_apart(function, "grad", grad, name, in, !selection.is_list());
  check_levels_apart(function, "grad", grad, "labels", selection.labels());
  check_levels_apart(function, "grad", grad, "indices", selection.indices());
  check_levels_apart(function, "grad", grad, "image_scales", image_scales);
  check_levels_apart(function, "grad", grad, "params.box_weights", box_weights);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
