// SPDX-License-Identifier: Apache-2.0
// The function of paste_masks.hpp: checks, plans of masks, the profiler's scope, chunks of masks.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/mask_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/paste_masks.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/value_of.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/masks/masks.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A side of a pasted mask.
struct paste_side {
  mask_span pixels{0, 0};
  double begin = 0, size = 0;  ///< of the whole map, of which `pixels` are in the picture

  paste_side(float from, float to, index_t picture, index_t locations) {
    if (locations == 0) return;
    const auto factor = static_cast<float>(
        quotient(static_cast<double>(locations + 2), static_cast<double>(locations)));
    // One rounding to float per operation, as torchvision computes it.
    const float half = rounded(rounded(rounded(to - from) * 0.5f) * factor);
    const float centre = rounded(rounded(to + from) * 0.5f);
    const auto first = static_cast<double>(rounded(centre - half));
    const auto last = static_cast<double>(rounded(centre + half));
    if (!is_finite(first) || !is_finite(last)) return;
    begin = std::trunc(first);
    const double end = std::trunc(last) + 1;
    size = end - begin;
    const auto within = [&](double x) {
      return static_cast<std::int32_t>(std::min(std::max(x, 0.0), static_cast<double>(picture)));
    };
    if (begin < end) pixels = {within(begin), within(end)};
  }
};

/// A call of paste_masks whose arguments have been checked.
template <class T>
class paste_masks_call {
 public:
  paste_masks_call(const feature_view<const T>& maps, const boxes_view<const float>& boxes,
                   const vector_view<const index_t>& image_offsets,
                   const vector_view<const grid_size>& sizes, const paste_masks_params& params,
                   masks_buffers& buffers)
      : boxes_(boxes), image_offsets_(image_offsets), sizes_(sizes), buffers_(buffers) {
    args_.maps = maps.data();
    args_.height = maps.height();
    args_.width = maps.width();
    args_.threshold = static_cast<float>(params.threshold);
    args_.kind = params.pixels;
  }

  masks_view run(const char* function, threading policy) {
    const index_t bytes = make_plans(function);
    const index_t count = boxes_.size(), map = args_.height * args_.width;
    const isa target = active_isa();
    const profile::scope timing([&] {
      profile::problem p;
      p.function = function;
      p.type = dtype_name<T>();
      p.shape = {profile::rounded_count(count), args_.height, args_.width, picture_.height,
                 picture_.width};
      p.implementation = isa_name(target);
      p.threads = policy.threads();
      // Without the masks, which depend on the boxes: replays get the number of objects from it.
      p.bytes = count * (map * index_t{sizeof(T)} + 4 * index_t{sizeof(float)});
      p.flops = operations_;
      return p;
    });
    if (bytes > 0) {
      const auto& kernels = detail::kernels<paste_masks_kernels<T>>(target);
      constexpr index_t least_cost = 1 << 18;  // some ten microseconds
      const chunking chunks(count, std::min(count, 1 + count * least_cost / operations_));
      const index_t lines = lines_for<float>(args_.scratch_size());
      for_each_chunk_with_memory(policy, chunks, buffers_.scratch, lines,
                                 [&](index_t first, index_t last, cache_line* memory) {
                                   kernels.run(args_, first, last,
                                               reinterpret_cast<float*>(memory));
                                 });
    }
    return {{buffers_.boxes.data(), count},
            {buffers_.offsets.data(), count + 1},
            {args_.pixels, bytes},
            args_.kind};
  }

 private:
  /// Returns the number of bytes of all pixels.
  index_t make_plans(const char* function) {
    const index_t count = boxes_.size();
    paste_plan* const plans = grown(buffers_.pastes, count);
    buffers_.make_rectangles(count);
    index_t image = 0;
    for (index_t i = 0; i < count; ++i) {
      if (!image_offsets_.empty())
        while (i >= image_offsets_[image + 1]) ++image;
      const grid_size size = sizes_[sizes_.size() == 1 ? 0 : image];
      picture_ = {std::max(picture_.height, size.height), std::max(picture_.width, size.width)};
      paste_side x(boxes_(i, 0), boxes_(i, 2), size.width, args_.width);
      paste_side y(boxes_(i, 1), boxes_(i, 3), size.height, args_.height);
      if (x.pixels.empty() || y.pixels.empty()) x.pixels = y.pixels = {0, 0};
      const index_t width = x.pixels.size(), height = y.pixels.size();
      const index_t row_bytes = args_.kind == mask_pixels::bits ? (width + 7) / 8 : width;
      const index_t offset =
          buffers_.set_rectangle(function, i, count, x.pixels, y.pixels, row_bytes);
      plans[i] = {x.pixels, y.pixels, x.begin, y.begin, x.size, y.size, offset, row_bytes};
      args_.most_columns = std::max(args_.most_columns, width);
      args_.most_rows = std::max(args_.most_rows, height);
      operations_ += 3 * width * height + 3 * (args_.height + 2) * width;
    }
    args_.masks = plans;
    const index_t bytes = buffers_.offsets.data()[count];
    args_.pixels = reinterpret_cast<std::uint8_t*>(
        grown_scratch(buffers_.pixels, lines_for<std::uint8_t>(bytes)));
    return bytes;
  }

  boxes_view<const float> boxes_;
  vector_view<const index_t> image_offsets_;
  vector_view<const grid_size> sizes_;
  masks_buffers& buffers_;
  paste_masks_args<T> args_{};
  grid_size picture_{};  ///< the greatest sides of all pictures
  index_t operations_ = 0;
};

}  // namespace detail

template <class T>
masks_view paste_masks(feature_view<T> maps, boxes_view<const float> boxes,
                       vector_view<const index_t> image_offsets, vector_view<const grid_size> sizes,
                       const paste_masks_params& params, masks_workspace& workspace,
                       threading policy) {
  constexpr const char* function = "paste_masks";
  const index_t count = boxes.size();
  detail::check_mask_pixels(function, params.pixels);
  detail::check_member(detail::fits_float(params.threshold), function, "params", "threshold",
                       params.threshold, "a number that is finite in float");
  detail::check_size(function, "maps.images()", maps.images(), count, "the number of boxes");
  if (count > 0)
    detail::check_size(function, "maps.channels()", maps.channels(), 1, "one map per object");
  for (const index_t side : {maps.height(), maps.width()})
    detail::check(side <= detail::longest_mask_side, function, "a side of the maps", side,
                  "at most 2^20 locations");
  const index_t images = image_offsets.empty() ? 1 : image_offsets.size() - 1;
  detail::check_pictures(function, image_offsets, sizes, images, count);
  return detail::paste_masks_call<value_of<T>>(maps, boxes, image_offsets, sizes, params,
                                               detail::workspace_access::buffers(workspace))
      .run(function, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
