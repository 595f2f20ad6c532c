// SPDX-License-Identifier: Apache-2.0
// The functions of paste_masks.hpp: checks, plans of masks, the profiler's scope, chunks of masks.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
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

/// A call of paste_masks or paste_soft_masks whose arguments have been checked.
template <class T>
class paste_masks_call {
 public:
  paste_masks_call(const feature_view<const T>& maps, const boxes_view<const float>& boxes,
                   const vector_view<const index_t>& image_offsets,
                   const vector_view<const grid_size>& sizes, masks_buffers& buffers)
      : boxes_(boxes), image_offsets_(image_offsets), sizes_(sizes), buffers_(buffers) {
    args_.maps = maps.data();
    args_.height = maps.height();
    args_.width = maps.width();
  }

  masks_view run(const char* function, const paste_masks_params& params, threading policy) {
    args_.threshold = static_cast<float>(params.threshold);
    args_.kind = params.pixels;
    const index_t count = boxes_.size();
    buffers_.make_rectangles(count);
    make_plans([&](index_t i, const mask_span& x, const mask_span& y) {
      const index_t row_bytes = args_.kind == mask_pixels::bits ? (x.size() + 7) / 8 : x.size();
      return placed_rows{buffers_.set_rectangle(function, i, count, x, y, row_bytes), row_bytes};
    });
    const index_t bytes = buffers_.offsets.data()[count];
    args_.pixels = reinterpret_cast<std::uint8_t*>(
        grown_scratch(buffers_.pixels, lines_for<std::uint8_t>(bytes)));
    run_chunks(function, bytes > 0, 0, policy, [](index_t) {});
    return {{buffers_.boxes.data(), count},
            {buffers_.offsets.data(), count + 1},
            {args_.pixels, bytes},
            args_.kind};
  }

  void run_soft(const char* function, const feature_view<float>& pictures, threading policy) {
    const index_t width = pictures.width(), size = pictures.height() * width;
    args_.numbers = pictures.data();
    make_plans([&](index_t i, const mask_span& x, const mask_span& y) {
      return placed_rows{i * size + y.begin * width + x.begin, width};
    });
    run_chunks(function, pictures.size() > 0, size, policy,
               [&](index_t i) { clear_around(args_.masks[i], args_.numbers + i * size, size); });
  }

 private:
  /// Where the rows of a mask are written.
  struct placed_rows {
    index_t offset, distance;
  };

  /// Clears the pixels of a picture that lie outside a mask's rectangle.
  static void clear_around(const paste_plan& plan, float* picture, index_t size) {
    const index_t width = plan.row_bytes;
    float* at = picture;
    const auto clear_to = [&](float* end) { at = std::fill_n(at, end - at, 0.0f); };
    for (index_t y = plan.y.begin; y < plan.y.end; ++y) {
      clear_to(picture + y * width + plan.x.begin);
      at += plan.x.size();
    }
    clear_to(picture + size);
  }

  /// place(i, x, y) returns the place of mask i.
  template <class Place>
  void make_plans(const Place& place) {
    const index_t count = boxes_.size();
    paste_plan* const plans = grown(buffers_.pastes, count);
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
      const placed_rows rows = place(i, x.pixels, y.pixels);
      plans[i] = {x.pixels, y.pixels, x.begin, y.begin, x.size, y.size, rows.offset, rows.distance};
      args_.most_columns = std::max(args_.most_columns, width);
      args_.most_rows = std::max(args_.most_rows, height);
      operations_ += 3 * width * height + 3 * (args_.height + 2) * width;
    }
    args_.masks = plans;
  }

  /// Records the call and, if there are pixels, computes them, after clear(i) for mask i. That
  /// writes up to `cleared` numbers.
  template <class Clear>
  void run_chunks(const char* function, bool has_pixels, index_t cleared, threading policy,
                  const Clear& clear) {
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
      p.bytes = count * (map * index_t{sizeof(T)} + (4 + cleared) * index_t{sizeof(float)});
      p.flops = operations_;
      return p;
    });
    if (!has_pixels) return;
    const auto& kernels = detail::kernels<paste_masks_kernels<T>>(target);
    constexpr index_t least_cost = 1 << 18;  // some ten microseconds
    const index_t cost = std::max(operations_ + count * cleared, index_t{1});
    const chunking chunks(count, std::min(count, 1 + count * least_cost / cost));
    const index_t lines = lines_for<float>(args_.scratch_size());
    for_each_chunk_with_memory(policy, chunks, buffers_.scratch, lines,
                               [&](index_t first, index_t last, cache_line* memory) {
                                 for (index_t i = first; i < last; ++i) clear(i);
                                 kernels.run(args_, first, last, reinterpret_cast<float*>(memory));
                               });
  }

  boxes_view<const float> boxes_;
  vector_view<const index_t> image_offsets_;
  vector_view<const grid_size> sizes_;
  masks_buffers& buffers_;
  paste_masks_args<T> args_{};
  grid_size picture_{};  ///< the greatest sides of all pictures
  index_t operations_ = 0;
};

/// Checks the maps of `count` objects.
template <class T>
void check_pasted_maps(const char* function, const feature_view<T>& maps, index_t count) {
  check_size(function, "maps.images()", maps.images(), count, "the number of boxes");
  if (count > 0) check_size(function, "maps.channels()", maps.channels(), 1, "one map per object");
  for (const index_t side : {maps.height(), maps.width()})
    check(side <= longest_mask_side, function, "a side of the maps", side,
          "at most 2^20 locations");
}

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
  detail::check_pasted_maps(function, maps, count);
  const index_t images = image_offsets.empty() ? 1 : image_offsets.size() - 1;
  detail::check_pictures(function, image_offsets, sizes, images, count);
  return detail::paste_masks_call<value_of<T>>(maps, boxes, image_offsets, sizes,
                                               detail::workspace_access::buffers(workspace))
      .run(function, params, policy);
}

template <class T>
void paste_soft_masks(feature_view<T> maps, boxes_view<const float> boxes,
                      feature_view<float> pictures, masks_workspace& workspace, threading policy) {
  constexpr const char* function = "paste_soft_masks";
  const index_t count = boxes.size();
  detail::check_pasted_maps(function, maps, count);
  detail::check_size(function, "pictures.images()", pictures.images(), count,
                     "the number of boxes");
  if (count > 0)
    detail::check_size(function, "pictures.channels()", pictures.channels(), 1,
                       "one picture per object");
  const grid_size size{pictures.height(), pictures.width()};
  for (const index_t side : {size.height, size.width})
    detail::check(side <= detail::longest_mask_side, function, "a side of the pictures", side,
                  "at most 2^20 pixels");
  detail::check_apart(function, "pictures", pictures, "maps", maps);
  detail::check_apart(function, "pictures", pictures, "boxes", boxes);
  detail::paste_masks_call<value_of<T>>(maps, boxes, {}, vector_view<const grid_size>(&size, 1),
                                        detail::workspace_access::buffers(workspace))
      .run_soft(function, pictures, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
