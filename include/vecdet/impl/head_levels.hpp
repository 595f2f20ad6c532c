// SPDX-License-Identifier: Apache-2.0
// Shared by functions of a head's levels: strides and checks. Text is built only to throw, so that
// valid calls allocate nothing.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/head_levels.hpp>
#include <vecdet/impl/apart.hpp>

#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline const char* layout_name(head_layout layout) noexcept {
  return layout == head_layout::nhwc ? "nhwc" : "nchw";
}

/// The variant in the profiler's problem names.
inline const char* levels_variant(head_layout layout) noexcept {
  return layout == head_layout::nhwc ? "levels" : "nchw";
}

/// The strides of a level, in elements.
struct level_steps {
  index_t image, location, anchor, number;

  template <class T>
  level_steps(const head_view<T>& head, index_t level) {
    const index_t locations = head.locations(level),
                  per_location = head.anchors() * head.channels();
    const bool is_nhwc = head.layout() == head_layout::nhwc;
    image = locations * per_location;
    location = is_nhwc ? per_location : 1;
    number = is_nhwc ? 1 : locations;
    anchor = head.channels() * number;
  }
};

// ---- checks

/// Throws an error that names `function` unless the view called `name` has the given number of
/// classes, and the same numbers of images, anchors and levels, level sizes and layout as the view
/// called `model`.
template <class A, class B>
void check_head(const char* function, const char* name, const head_view<A>& view, const char* model,
                const head_view<B>& like, index_t classes) {
  const auto refuse = [&](const std::string& member, const auto& actual, const auto& expected) {
    throw_invalid_argument(function, name + member, actual,
                           std::string(expected) + ", as in " + model);
  };
  const auto check_number = [&](const char* member, index_t actual, index_t expected) {
    if (actual != expected) refuse(member, actual, std::to_string(expected));
  };
  if (view.layout() != like.layout())
    refuse(".layout()", layout_name(view.layout()), layout_name(like.layout()));
  check_number(".images()", view.images(), like.images());
  check_number(".anchors()", view.anchors(), like.anchors());
  if (view.classes() != classes) {
    throw_invalid_argument(function, name + std::string(".classes()"), view.classes(),
                           std::to_string(classes) +
                               (classes == like.classes() ? std::string(", as in ") + model : ""));
  }
  check_number(".levels().size()", view.levels().size(), like.levels().size());
  for (index_t l = 0; l < like.levels().size(); ++l) {
    const auto& level = view.levels()[l];
    const auto& expected = like.levels()[l];
    if (level.height == expected.height && level.width == expected.width) continue;
    const auto text = [](index_t height, index_t width) {
      return std::to_string(height) + " x " + std::to_string(width);
    };
    refuse(element(".levels()", l), text(level.height, level.width),
           text(expected.height, expected.width));
  }
}

/// The memory from a level's first element to its last.
template <class T>
address_range level_range(const head_view<T>& head, index_t level) {
  T* const data = head.levels()[level].data;
  if (head.images() * head.anchors() * head.classes() * head.locations(level) == 0)
    return {data, 0};
  const level_steps steps(head, level);
  return {data, 1 + (head.images() - 1) * steps.image +
                    (head.locations(level) - 1) * steps.location +
                    (head.anchors() - 1) * steps.anchor + (head.classes() - 1) * steps.number};
}

/// Whether the levels are different channels of one tensor.
template <class A, class B>
bool are_interleaved(const head_view<A>& a, index_t l, const head_view<B>& b, index_t m) {
  if (sizeof(A) != sizeof(B) || a.layout() != b.layout() || a.channels() != b.channels() ||
      a.locations(l) != b.locations(m))
    return false;
  const auto bytes = static_cast<index_t>(reinterpret_cast<std::uintptr_t>(b.levels()[m].data) -
                                          reinterpret_cast<std::uintptr_t>(a.levels()[l].data));
  const level_steps steps(a, l);
  const index_t size = index_t{sizeof(A)} * steps.number, period = size * a.channels();
  const index_t begin = (bytes % period + period) % period;  // offset of b's elements from a's
  return begin >= a.classes() * size && begin + b.classes() * size <= period;
}

/// Whether a level of one head shares memory with a level of another head, or of the same.
template <class A, class B>
bool levels_are_apart(const head_view<A>& a, index_t l, const head_view<B>& b, index_t m) {
  return are_apart(level_range(a, l), level_range(b, m)) || are_interleaved(a, l, b, m);
}

[[noreturn]] inline void refuse_level(const char* function, const char* output, index_t l,
                                      const std::string& input, bool may_be_same = false) {
  throw_shared_memory(function, output + element(".levels()", l), input,
                      may_be_same ? "separate memory or exactly the same" : "separate memory");
}

/// Throws if a level of an output shares memory with `in`.
template <class A>
void check_levels_apart(const char* function, const char* output, const head_view<A>& out,
                        const char* input, const address_range& in) {
  for (index_t l = 0; l < out.levels().size(); ++l)
    if (!are_apart(level_range(out, l), in)) refuse_level(function, output, l, input);
}

/// Throws if a level of an output shares memory with a level of an input or of another output. With
/// `may_be_same`, an output's level may be identical to the input's same level.
template <class A, class B>
void check_levels_apart(const char* function, const char* output, const head_view<A>& out,
                        const char* input, const head_view<B>& in, bool may_be_same = false) {
  for (index_t l = 0; l < out.levels().size(); ++l) {
    for (index_t m = 0; m < in.levels().size(); ++m) {
      const bool may_be_this = may_be_same && l == m;
      if (may_be_this && out.levels()[l].data == in.levels()[m].data &&
          out.channels() == in.channels())
        continue;
      if (!levels_are_apart(out, l, in, m))
        refuse_level(function, output, l, input + element(".levels()", m), may_be_this);
    }
  }
}

/// Throws if levels of an output share memory with each other.
template <class A>
void check_levels_apart(const char* function, const char* output, const head_view<A>& out) {
  for (index_t l = 0; l < out.levels().size(); ++l)
    for (index_t m = 0; m < l; ++m)
      if (!levels_are_apart(out, l, out, m))
        refuse_level(function, output, l, output + element(".levels()", m));
}

/// Throws unless there are no image scales or one finite scale per image.
inline void check_image_scales(const char* function, const vector_view<const float>& scales,
                               index_t images, const char* of) {
  check_optional_size(function, "image_scales.size()", scales.size(), images, of);
  for (index_t n = 0; n < scales.size(); ++n)
    check_element(is_finite(scales[n]), function, "image_scales", n, scales[n], "a finite float");
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
