// SPDX-License-Identifier: Apache-2.0
// Boxes of a head's levels, four numbers an anchor: those that a loss selects are gathered into
// blocks, computed as boxes that lie together, and their gradients go back to where they belong.
#pragma once

#include <vecdet/box_selection.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/box_selection.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Anchors [begin, end) of a level in one image.
struct level_stretch {
  index_t image, level, begin, end;
  index_t first_anchor;  ///< of `begin`, among the image's anchors
  index_t first_label;   ///< among those of the batch
};

/// use(stretch) for the levels' parts of the batch's anchors [first, last), in order.
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

/// The boxes of a level in one image.
template <class T>
class level_boxes {
 public:
  template <class U>
  level_boxes(const head_view<U>& head, index_t image, index_t level)
      : steps_(head, level),
        anchors_(head.anchors()),
        data_(head.levels()[level].data + image * steps_.image) {}

  /// Number 0 of anchor i; the others lie step() from each other.
  T* operator[](index_t i) const {
    return data_ + i / anchors_ * steps_.location + i % anchors_ * steps_.anchor;
  }
  index_t step() const { return steps_.number; }

  bool are_flat() const { return steps_.number == 1 && steps_.anchor == 4; }

  /// For each anchor at a location and each of its four numbers, use(pointer to the first, step,
  /// count, number of the first anchor, k) over the anchors [first, last).
  template <class Use>
  void for_each_plane(index_t first, index_t last, const Use& use) const {
    for (index_t a = 0; a < anchors_; ++a) {
      const index_t p = (first - a + anchors_ - 1) / anchors_;
      const index_t end = (last - a + anchors_ - 1) / anchors_;
      if (p >= end) continue;
      T* const from = data_ + p * steps_.location + a * steps_.anchor;
      for (index_t k = 0; k < 4; ++k)
        use(from + k * steps_.number, steps_.location, end - p, p * anchors_ + a, k);
    }
  }

  void clear(index_t first, index_t last) const {
    if (are_flat()) {
      std::fill((*this)[first], (*this)[first] + 4 * (last - first), T(0.0f));
    } else {
      for_each_plane(first, last, [](T* to, index_t step, index_t count, index_t, index_t) {
        if (step == 1) {
          std::fill(to, to + count, T(0.0f));
        } else {
          for (index_t i = 0; i < count; ++i) to[i * step] = T(0.0f);
        }
      });
    }
  }

  /// Copies them to N x 4.
  void copy(index_t first, index_t last, value_of<T>* out) const {
    const index_t every = 4 * anchors_;
    for_each_plane(first, last,
                   [&](const T* from, index_t step, index_t count, index_t anchor, index_t k) {
                     value_of<T>* const to = out + 4 * (anchor - first) + k;
                     for (index_t i = 0; i < count; ++i) to[i * every] = from[i * step];
                   });
  }

 private:
  level_steps steps_;
  index_t anchors_;
  T* data_;
};

/// Anchors that are worked on together: whole locations, where more than one fits.
constexpr index_t most_level_boxes = 512;
inline index_t end_of_block(index_t begin, index_t end, index_t anchors) {
  const index_t whole =
      anchors <= most_level_boxes ? most_level_boxes / anchors * anchors : most_level_boxes;
  return std::min(end, begin - begin % std::min(anchors, whole) + whole);
}

/// Boxes of levels, gathered: of type T in the head; anchors and targets are of type Box.
template <class T, class Box>
struct level_block {
  index_t count = 0;
  alignas(64) T in[4 * most_level_boxes], grad[4 * most_level_boxes];
  alignas(64) Box anchors[4 * most_level_boxes], targets[4 * most_level_boxes];
  float weights[most_level_boxes];
  /// Where the gradients go.
  T* to[most_level_boxes];
  index_t step[most_level_boxes];
};

/// A loss of a head's boxes and its gradient.
template <class Input, class T, class Box>
class level_boxes_loss {
 public:
  using block = level_block<T, Box>;

  level_boxes_loss(const head_view<Input>& in, const head_view<T>& grad,
                   const box_selection& selection, const vector_view<const float>& image_scales,
                   const vector_view<const float>& box_weights)
      : in_(in),
        grad_(grad),
        selection_(selection),
        image_scales_(image_scales),
        box_weights_(box_weights) {}

  bool is_weighted() const { return !image_scales_.empty() || !box_weights_.empty(); }

  /// fill(block, k, anchor, label) sets the k-th box of a block but for its deltas, weight and
  /// place: `anchor` is its number among the image's, `label` among the batch's. compute(block)
  /// returns the sum of the losses.
  template <class Fill, class Compute>
  double run(execution policy, const Fill& fill, const Compute& compute) const {
    const index_t total = in_.images() * in_.anchors_per_image();
    const chunking chunks(total, smallest_box_chunk);
    if (!selection_.is_list()) {
      return sum_over_chunks(policy, chunks, [&](index_t first, index_t last) {
        double sum = 0;
        for_each_stretch(in_, first, last,
                         [&](const level_stretch& s) { sum += run_stretch(s, fill, compute); });
        return sum;
      });
    }
    for_each_chunk(policy, chunks, [&](index_t, index_t first, index_t last) {
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

  /// The same against `targets`, a box for each of the batch's anchors:
  /// compute(boxes, targets, weights or null, gradient, count).
  template <class Compute>
  double run_against(execution policy, const boxes_view<const Box>& targets,
                     const Compute& compute) const {
    return run(
        policy,
        [&](block& to, index_t k, index_t, index_t label) {
          std::copy(targets[label], targets[label] + 4, to.targets + 4 * k);
        },
        [&](block& of) {
          return compute(of.in, of.targets, is_weighted() ? of.weights : nullptr, of.grad,
                         of.count);
        });
  }

 private:
  /// Of a stretch's level.
  struct places {
    level_boxes<Input> in;
    level_boxes<T> grad;

    places(const level_boxes_loss& loss, const level_stretch& s)
        : in(loss.in_, s.image, s.level), grad(loss.grad_, s.image, s.level) {}
  };

  template <class Fill, class Compute>
  double run_stretch(const level_stretch& s, const Fill& fill, const Compute& compute) const {
    const selected_boxes selected = selected_by(selection_);
    const places at(*this, s);
    block gathered;
    double sum = 0;
    for (index_t begin = s.begin, end; begin < s.end; begin = end) {
      end = end_of_block(begin, s.end, in_.anchors());
      if (selection_.is_all()) {
        for (index_t i = begin; i < end; ++i) add(gathered, at, s, i, fill);
      } else {
        with_bits(selected.labels, [&](auto labels) {
          const skipped_labels<decltype(labels[0])> skipped(selected.labels, selected.background,
                                                            selected.ignore);
          const index_t first_label = s.first_label - s.begin;
          for (index_t i = begin; i < end; ++i) {
            const auto label = labels[first_label + i];
            if (skipped.none || (label != skipped.a && label != skipped.b))
              add(gathered, at, s, i, fill);
          }
        });
        // The gradient may be the boxes themselves: these have been read.
        at.grad.clear(begin, end);
      }
      sum += finish(gathered, compute);
    }
    return sum;
  }

  /// Anchor i of the stretch's level.
  template <class Fill>
  void add(block& to, const places& at, const level_stretch& s, index_t i, const Fill& fill) const {
    const index_t k = to.count++, label = s.first_label + (i - s.begin);
    const Input* const numbers = at.in[i];
    for (index_t n = 0; n < 4; ++n) to.in[4 * k + n] = numbers[n * at.in.step()];
    to.weights[k] = (image_scales_.empty() ? 1.0f : image_scales_[s.image]) *
                    (box_weights_.empty() ? 1.0f : box_weights_[label]);
    to.to[k] = at.grad[i];
    to.step[k] = at.grad.step();
    fill(to, k, s.first_anchor + (i - s.begin), label);
  }

  template <class Compute>
  double finish(block& gathered, const Compute& compute) const {
    if (gathered.count == 0) return 0;
    const double sum = compute(gathered);
    for (index_t k = 0; k < gathered.count; ++k)
      for (index_t n = 0; n < 4; ++n)
        gathered.to[k][n * gathered.step[k]] = gathered.grad[4 * k + n];
    gathered.count = 0;
    return sum;
  }

  const head_view<Input>& in_;
  const head_view<T>& grad_;
  const box_selection& selection_;
  const vector_view<const float> image_scales_, box_weights_;
};

/// What the profiler records of the boxes of levels.
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

/// Bytes that a loss of levels reads and writes: the gradient, and with all boxes selected the
/// boxes and what they are compared with, of `target_bytes`; otherwise the labels, as few boxes are
/// read.
template <class T>
index_t level_loss_bytes(const head_view<T>& head, const box_selection& selection,
                         index_t target_bytes) {
  const index_t boxes = head.images() * head.anchors_per_image();
  const index_t tensor = 4 * boxes * index_t{sizeof(T)};
  return tensor + (selection.is_all() ? tensor + target_bytes : boxes * index_t{sizeof(index_t)});
}

/// Throws unless there is a target for each of the batch's anchors, apart from the gradient.
template <class Input, class T>
void check_level_targets(const char* function, const head_view<Input>& in, const head_view<T>& grad,
                         const boxes_view<const T>& targets) {
  check_size(function, "targets.size()", targets.size(), in.images() * in.anchors_per_image(),
             "the anchors of all images");
  check_levels_apart(function, "grad", grad, "targets", targets);
}

/// Throws unless the gradient has the levels of the boxes called `name`, and shares memory with
/// nothing that is read after it is written.
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
