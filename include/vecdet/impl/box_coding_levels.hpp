// SPDX-License-Identifier: Apache-2.0
// Decoding of a head's levels. A level in channels last without gaps is an array of boxes. From any
// other level, a few hundred boxes at a time are copied to an array that stays in the cache.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/box_coding_call.hpp>
#include <vecdet/impl/head_boxes.hpp>
#include <vecdet/impl/head_levels.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

template <class T>
void check_decode_levels(const char* function, const char* input, const head_view<T>& in,
                         const boxes_view<const float>& anchors, const image_sizes_view& images,
                         const boxes_view<float>& boxes) {
  check_member(in.classes() == 4, function, input, "classes()", in.classes(),
               "4, the numbers of a box");
  check_size(function, "anchors.size()", anchors.size(), in.anchors_per_image(),
             "the anchors of one image");
  if (!images.is_same_for_all())
    check_optional_size(function, "images.size()", images.size(), in.images(),
                        "the images of the head");
  for (index_t n = 0; n < images.size(); ++n)
    check_image(function, images[n], images.is_same_for_all() ? -1 : n);
  check_size(function, "boxes.size()", boxes.size(), in.images() * anchors.size(),
             "the anchors of all images");
  for (index_t l = 0; l < in.levels().size(); ++l)
    if (!are_apart(boxes, level_range(in, l)))
      throw_shared_memory(function, "boxes", input + element(".levels()", l));
  check_apart(function, "boxes", boxes, "anchors", anchors);
}

/// Decodes the boxes of a stretch with a kernel and its arguments.
template <class S, class T>
void decode_stretch(const head_boxes_kernels<value_of<T>>& boxes, const head_view<T>& in,
                    const level_stretch& s, box_coding_function<S> kernel,
                    box_coding_args<S> args) {
  const level_boxes<T> from(in, s.image, s.level);
  if (from.are_flat()) {
    args.in = from[s.begin];
    kernel(args, 0, s.end - s.begin);
    return;
  }
  alignas(64) value_of<T> copies[4 * most_level_boxes];
  args.in = copies;
  for (index_t begin = s.begin, end; begin < s.end; begin = end) {
    end = end_of_block(begin, s.end, in.anchors());
    from.gather(boxes, begin, end, copies);
    kernel(args, 0, end - begin);
    args.anchors += 4 * (end - begin);
    args.out += 4 * (end - begin);
  }
}

template <class T, class Params>
void run_decode_levels(const char* function, const char* input, const head_view<T>& in,
                       const boxes_view<const float>& anchors, const image_sizes_view& images,
                       const boxes_view<float>& boxes, const Params& params, threading policy) {
  using stored = value_of<T>;
  static_assert(std::is_same<stored, float>::value || std::is_same<stored, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");
  using S = decoded_storage<stored, float>;
  constexpr bool is_deltas = std::is_same<Params, coder_params>::value;
  check_decode_levels(function, input, in, anchors, images, boxes);
  if (boxes.empty()) return;
  const isa target = active_isa();
  const profile::scope timing([&] {
    constexpr index_t coded = bytes_per_box<T*>, box = bytes_per_box<float*>;
    return level_problem(function, levels_variant(in.layout()), in, target, policy.threads(),
                         boxes.size() * (coded + box) + anchors.size() * box,
                         boxes.size() * decode_flops(params, !images.empty()));
  });
  const auto kernel =
      is_deltas ? coding_kernels<S>::decode(target) : coding_kernels<S>::decode_distances(target);
  const auto& box_kernels = kernels<head_boxes_kernels<stored>>(target);
  const box_coding_args<S> all_args = coding_args<S>(params);
  for_each_chunk(policy, chunking(boxes.size(), smallest_coding_chunk),
                 [&](index_t, index_t first, index_t last) {
                   for_each_stretch(in, first, last, [&](const level_stretch& s) {
                     box_coding_args<S> args = all_args;
                     if (!images.empty()) clip_to(args, images[s.image]);
                     args.anchors = anchors[s.first_anchor];
                     args.out = boxes[s.first_label];
                     decode_stretch(box_kernels, in, s, kernel, args);
                   });
                 });
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
