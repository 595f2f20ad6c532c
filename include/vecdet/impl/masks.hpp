// SPDX-License-Identifier: Apache-2.0
// The functions of masks.hpp: checks, the axes of pictures, plans of masks, the profiler's scope,
// bands of rows.
#pragma once

#include <vecdet/args/masks.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/mask_checks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/masks/masks.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The name of a rule, for the profiler.
/// @param params the argument's name in messages
inline const char* mask_rule_name(const char* function, mask_rule rule,
                                  const char* params = "params") {
  switch (rule) {
    case mask_rule::native:
      return "native";
    case mask_rule::upsampled:
      return "upsampled";
    case mask_rule::cropped:
      return "cropped";
  }
  throw_invalid_argument(function, std::string(params) + ".rule", static_cast<int>(rule),
                         "a mask_rule");
}

/// The whole numbers i with begin <= i and i < end, of those in [0, size). In double, which holds
/// every size.
inline mask_span mask_span_of(float begin, float end, index_t size) {
  const auto most = static_cast<double>(size);
  const auto first = static_cast<double>(begin), last = static_cast<double>(end);
  if (is_nan(begin) || is_nan(end) || first >= last || first >= most || last <= 0) return {0, 0};
  const auto whole = [&](double x) {
    return static_cast<std::int32_t>(std::ceil(std::min(std::max(x, 0.0), most)));
  };
  return {whole(first), whole(last)};
}

/// The locations of a map of which a picture's side, scaled to fit and centred, covers `covered`.
inline mask_span without_letterbox(index_t locations, double covered) {
  const double padding = (static_cast<double>(locations) - covered) / 2;
  const auto whole = [&](double x) {
    return std::min(static_cast<index_t>(std::max(std::nearbyint(x), 0.0)), locations);
  };
  const index_t begin = std::min(whole(padding - 0.1), locations - 1);
  const index_t end = std::max(locations - whole(padding + 0.1), begin + 1);
  return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
}

/// Describes `pixels` along the locations of `span`, which are some of `locations`.
inline mask_axis make_mask_axis(index_t pixels, index_t locations, mask_span span,
                                std::int32_t*& memory, float*& weights) {
  std::int32_t* const location = memory;
  std::int32_t* const begin = location + pixels + mask_axis_padding;
  float* const weight = weights;
  memory = begin + locations + 1;
  weights += pixels + mask_axis_padding;
  const double scale = quotient(static_cast<double>(span.size()), static_cast<double>(pixels));
  index_t next = 0;
  for (index_t i = 0; i < pixels; ++i) {
    const double at = std::max(rounded((static_cast<double>(i) + 0.5) * scale) - 0.5, 0.0);
    const index_t before = std::min(static_cast<index_t>(at), span.size() - 1);
    location[i] = static_cast<std::int32_t>(span.begin + before);
    weight[i] = before + 1 < span.size() ? static_cast<float>(at - static_cast<double>(before)) : 0;
    for (; next <= location[i]; ++next) begin[next] = static_cast<std::int32_t>(i);
  }
  for (; next <= locations; ++next) begin[next] = static_cast<std::int32_t>(pixels);
  for (index_t i = pixels; i < pixels + mask_axis_padding; ++i) {
    location[i] = location[pixels - 1];
    weight[i] = 0;
  }
  return {location, weight, begin};
}

/// A side of a mask's plan.
struct mask_side {
  mask_span pixels{0, 0}, locations{0, 0}, counted{0, 0};

  mask_side(mask_rule rule, float from, float to, index_t size, index_t map,
            const mask_axis& axis) {
    if (size == 0) return;
    if (rule == mask_rule::native) {
      pixels = mask_span_of(from, to, size);
    } else {
      const auto ratio =
          static_cast<float>(quotient(static_cast<double>(map), static_cast<double>(size)));
      counted = mask_span_of(from * ratio, to * ratio, map);
      if (rule == mask_rule::cropped)
        pixels = counted;
      else if (!counted.empty())
        pixels = {axis.begin[std::max(counted.begin - 1, 0)], axis.begin[counted.end]};
    }
    if (pixels.empty()) return;
    if (rule == mask_rule::cropped) {
      locations = pixels;
      return;
    }
    const std::int32_t last = axis.location[pixels.end - 1];
    const bool has_next = axis.weight[pixels.end - 1] > 0;
    locations = {axis.location[pixels.begin], last + (has_next ? 2 : 1)};
    if (rule == mask_rule::native) counted = locations;
  }
};

/// A call of masks_from_prototypes whose arguments have been checked.
template <class T>
class prototype_masks_call {
 public:
  prototype_masks_call(const feature_view<const T>& prototypes,
                       const matrix_view<const float>& coefficients,
                       const boxes_view<const float>& boxes,
                       const vector_view<const index_t>& image_offsets,
                       const vector_view<const grid_size>& sizes,
                       const prototype_masks_params& params, masks_buffers& buffers)
      : prototypes_(prototypes),
        boxes_(boxes),
        image_offsets_(image_offsets),
        sizes_(sizes),
        rule_(params.rule),
        buffers_(buffers) {
    args_.prototypes = prototypes.data();
    args_.channels = prototypes.channels();
    args_.height = prototypes.height();
    args_.width = prototypes.width();
    args_.coefficients = coefficients.data();
    args_.coefficient_stride = coefficients.stride();
    args_.is_small = rule_ == mask_rule::cropped;
    args_.kind = params.pixels;
  }

  masks_view run(const char* function, const char* variant, threading policy) {
    make_pictures();
    const index_t bytes = make_plans(function);
    const index_t count = boxes_.size();
    const masks_view result{{buffers_.boxes.data(), count},
                            {buffers_.offsets.data(), count + 1},
                            {args_.pixels, bytes},
                            args_.kind};
    const isa target = active_isa();
    const profile::scope timing([&] {
      profile::problem p;
      p.function = function;
      p.variant = variant;
      p.type = dtype_name<T>();
      p.shape = {profile::rounded_count(count), args_.channels, args_.height, args_.width,
                 args_.picture_width};
      p.implementation = isa_name(target);
      p.threads = policy.threads();
      // Without the masks, which depend on the boxes: replays get the number of objects from it.
      p.bytes = prototypes_.size() * index_t{sizeof(T)} +
                count * (args_.channels + 4) * index_t{sizeof(float)};
      p.flops = operations_;
      return p;
    });
    if (bytes == 0) return result;
    const auto& kernels = detail::kernels<prototype_masks_kernels<T>>(target);
    // Bands of rows that fit into the second-level cache. Neighbouring bands both compute the row
    // between them.
    constexpr index_t cached = 1 << 17;
    const index_t row = std::max(args_.channels * args_.channel_stride(), index_t{1});
    const index_t rows = std::min(std::max(cached / row, index_t{4}), index_t{16});
    const index_t bands = (args_.height + rows - 1) / rows;
    const index_t all_bands = prototypes_.images() * bands;
    // Chunks take some ten microseconds.
    constexpr index_t least_cost = 1 << 18;
    const index_t cost = operations_ + prototypes_.size();
    const chunking chunks(all_bands, std::min(all_bands, 1 + all_bands * least_cost / cost));
    const index_t lines = lines_for<float>(args_.scratch_size(rows));
    const auto run = [&](index_t first, index_t last, cache_line* memory) {
      for (index_t i = first; i < last; ++i) {
        const index_t begin = i % bands * rows;
        kernels.run(args_, i / bands, begin, std::min(begin + rows, args_.height),
                    reinterpret_cast<float*>(memory));
      }
    };
    for_each_chunk_with_memory(policy, chunks, buffers_.scratch, lines, run);
    return result;
  }

 private:
  const grid_size& size_of(index_t image) const { return sizes_[sizes_.size() == 1 ? 0 : image]; }

  void make_pictures() {
    const index_t images = prototypes_.images(), height = args_.height, width = args_.width;
    const bool has_axes = !args_.is_small && height > 0 && width > 0;
    index_t integers = 0, weights = 0;
    for (index_t k = 0; k < sizes_.size(); ++k) {
      const index_t padded = sizes_[k].height + sizes_[k].width + 2 * mask_axis_padding;
      weights += padded;
      integers += padded + height + width + 2;
    }
    std::int32_t* memory = has_axes ? grown(buffers_.locations, integers) : nullptr;
    float* weight = has_axes ? grown(buffers_.weights, weights) : nullptr;
    mask_picture* const pictures = grown(buffers_.pictures, images);
    for (index_t n = 0; n < images; ++n) {
      const bool is_only = image_offsets_.empty();
      mask_picture& picture = pictures[n];
      picture = {};
      picture.first = is_only ? 0 : image_offsets_[n];
      picture.last = is_only ? boxes_.size() : image_offsets_[n + 1];
      const grid_size& size = size_of(n);
      args_.picture_width = std::max(args_.picture_width, size.width);
      if (!has_axes || size.height == 0 || size.width == 0) continue;
      if (n > 0 && sizes_.size() == 1) {
        picture.x = pictures[0].x;
        picture.y = pictures[0].y;
        continue;
      }
      mask_span columns{0, static_cast<std::int32_t>(width)};
      mask_span rows{0, static_cast<std::int32_t>(height)};
      if (rule_ == mask_rule::native) {
        const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
        const double gain = std::min(quotient(static_cast<double>(height), h),
                                     quotient(static_cast<double>(width), w));
        columns = without_letterbox(width, rounded(w * gain));
        rows = without_letterbox(height, rounded(h * gain));
      }
      picture.x = make_mask_axis(size.width, width, columns, memory, weight);
      picture.y = make_mask_axis(size.height, height, rows, memory, weight);
    }
    args_.pictures = pictures;
  }

  /// Returns the number of bytes of all pixels.
  index_t make_plans(const char* function) {
    const index_t count = boxes_.size();
    mask_plan* const plans = grown(buffers_.plans, count);
    buffers_.make_rectangles(count);
    for (index_t n = 0; n < prototypes_.images(); ++n) {
      const mask_picture& picture = args_.pictures[n];
      const grid_size& own = size_of(n);
      const bool is_empty = std::min({own.height, own.width, args_.height, args_.width}) == 0;
      const grid_size size = is_empty ? grid_size{} : own;
      for (index_t i = picture.first; i < picture.last; ++i) {
        mask_side x(rule_, boxes_(i, 0), boxes_(i, 2), size.width, args_.width, picture.x);
        mask_side y(rule_, boxes_(i, 1), boxes_(i, 3), size.height, args_.height, picture.y);
        if (x.pixels.empty() || y.pixels.empty()) x.pixels = y.pixels = {0, 0};
        const index_t width = x.pixels.size();
        const index_t row_bytes = args_.kind == mask_pixels::bits ? (width + 7) / 8 : width;
        const index_t offset =
            buffers_.set_rectangle(function, i, count, x.pixels, y.pixels, row_bytes);
        plans[i] = {x.pixels,  y.pixels,  x.locations, y.locations,
                    x.counted, y.counted, offset,      row_bytes};
        operations_ += 2 * args_.channels * x.locations.size() * y.locations.size() +
                       3 * width * y.pixels.size();
      }
    }
    args_.masks = plans;
    const index_t bytes = buffers_.offsets.data()[count];
    args_.pixels = reinterpret_cast<std::uint8_t*>(
        grown_scratch(buffers_.pixels, lines_for<std::uint8_t>(bytes)));
    return bytes;
  }

  feature_view<const T> prototypes_;
  boxes_view<const float> boxes_;
  vector_view<const index_t> image_offsets_;
  vector_view<const grid_size> sizes_;
  mask_rule rule_;
  masks_buffers& buffers_;
  prototype_masks_args<T> args_{};
  index_t operations_ = 0;
};

}  // namespace detail

template <class T>
masks_view masks_from_prototypes(feature_view<T> prototypes, matrix_view<const float> coefficients,
                                 boxes_view<const float> boxes,
                                 vector_view<const index_t> image_offsets,
                                 vector_view<const grid_size> sizes,
                                 const prototype_masks_params& params, masks_workspace& workspace,
                                 threading policy) {
  constexpr const char* function = "masks_from_prototypes";
  const index_t images = prototypes.images(), count = boxes.size();
  const char* const variant = detail::mask_rule_name(function, params.rule);
  detail::check_mask_pixels(function, params.pixels);
  detail::check_member(prototypes.layout() == feature_layout::nchw, function, "prototypes",
                       "layout()", "nhwc", "nchw");
  detail::check_size(function, "coefficients.rows()", coefficients.rows(), count,
                     "the number of boxes");
  if (count > 0)
    detail::check_size(function, "coefficients.cols()", coefficients.cols(), prototypes.channels(),
                       "the number of prototypes");
  if (image_offsets.empty())
    detail::check(images == 1 || (images == 0 && count == 0), function, "image_offsets.size()", 0,
                  "one more than there are images");
  else
    detail::check_size(function, "image_offsets.size()", image_offsets.size(), images + 1,
                       "one more than there are images");
  detail::check_pictures(function, image_offsets, sizes, images, count);
  return detail::prototype_masks_call<value_of<T>>(prototypes, coefficients, boxes, image_offsets,
                                                   sizes, params,
                                                   detail::workspace_access::buffers(workspace))
      .run(function, variant, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
