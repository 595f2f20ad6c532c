// SPDX-License-Identifier: Apache-2.0
// The function of letterbox.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/letterbox.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/letterbox.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/letterbox/letterbox.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

inline letterbox_params letterbox_params::yolo() { return {}; }

inline letterbox_params letterbox_params::yolox() {
  letterbox_params params;
  params.swap_channels = false;
  params.centred = false;
  params.scale = 1;
  return params;
}

namespace detail {

constexpr index_t max_image_side = 1 << 15;

inline index_t row_bytes(const byte_image& image) {
  return image.stride == 0 ? 3 * image.width : image.stride;
}

/// The conversion of a pixel to channel `c` of the input.
struct pixel_formula {
  float scale, shift;

  pixel_formula(const letterbox_params& params, int c)
      : scale(static_cast<float>(quotient(params.scale, params.deviation[c]))),
        shift(static_cast<float>(quotient(-params.mean[c], params.deviation[c]))) {}
  float operator()(float pixel) const { return rounded(pixel * scale) + shift; }
};

inline void check_letterbox(vector_view<const byte_image> images, vector_view<float> batch,
                            grid_size input, const letterbox_params& params) {
  constexpr const char* function = "letterbox";
  const auto is_side = [](index_t side) { return side > 0 && side <= max_image_side; };
  constexpr const char* a_side = "1 to 32768 pixels";
  check(is_side(input.height), function, "input.height", input.height, a_side);
  check(is_side(input.width), function, "input.width", input.width, a_side);
  check(batch.size() == images.size() * 3 * input.height * input.width, function, "batch.size()",
        batch.size(), "images x 3 x input.height x input.width");
  for (index_t i = 0; i < images.size(); ++i) {
    const byte_image& image = images[i];
    for (const index_t side : {image.height, image.width})
      check_element(is_side(side), function, "images", i, side, a_side);
    check_element(row_bytes(image) >= 3 * image.width, function, "images", i, image.stride,
                  "a stride of 0, or of 3 * width bytes or more");
    check_element(image.data != nullptr, function, "images", i, "null", "memory of pixels");
    const address_range pixels(image.data, (image.height - 1) * row_bytes(image) + 3 * image.width);
    if (!are_apart(batch, pixels))
      check_apart(function, "batch", batch, element("images", i).c_str(), pixels);
  }
  check(fits_float(params.fill), function, "params.fill", params.fill, "a finite number");
  check(fits_float(params.scale), function, "params.scale", params.scale, "a finite number");
  for (int c = 0; c < 3; ++c) {
    const double deviation = params.deviation[c];
    check(fits_float(params.mean[c]), function, "params.mean", params.mean[c], "a finite number");
    check(fits_float(params.scale / deviation) && fits_float(params.mean[c] / deviation), function,
          "params.deviation", deviation,
          "a number other than 0 by which scale and mean can be divided without overflow");
    const pixel_formula formula(params, c);
    constexpr const char* expected =
        "a number with which (pixel * scale - mean) / deviation fits a float";
    check(is_finite(formula(255)), function, "params.scale", params.scale, expected);
    check(is_finite(formula(static_cast<float>(params.fill))), function, "params.fill", params.fill,
          expected);
  }
}

/// The size and position of one image in its input.
inline letterbox_args place_image(const byte_image& image, grid_size input,
                                  const letterbox_params& params, letterbox_transform& transform) {
  const image_size size =
      image_size::height_width(static_cast<double>(image.height), static_cast<double>(image.width));
  const double height = static_cast<double>(input.height);
  const double width = static_cast<double>(input.width);
  double scale = std::min(quotient(height, size.height), quotient(width, size.width));
  if (!params.upscale) scale = std::min(scale, 1.0);
  const auto resized = [&](double side, double most) {
    return std::min(std::max(std::nearbyint(side * scale), 1.0), most);
  };
  const double rows = resized(size.height, height), cols = resized(size.width, width);
  transform = {scale, scale, 0, 0, size};
  if (params.centred) {
    transform.pad_x = centred_padding(width, cols);
    transform.pad_y = centred_padding(height, rows);
  }
  letterbox_args args{};
  args.image = image.data;
  args.stride = row_bytes(image);
  args.height = image.height;
  args.width = image.width;
  args.out_height = input.height;
  args.out_width = input.width;
  args.top = static_cast<index_t>(transform.pad_y);
  args.left = static_cast<index_t>(transform.pad_x);
  args.rows = static_cast<index_t>(rows);
  args.cols = static_cast<index_t>(cols);
  return args;
}

/// Clamps columns to the image, adjusts their weights, and converts them to byte offsets. Also sets
/// the number of leading columns that may be read 8 bytes at a time.
inline void finish_columns(letterbox_args& args, axis_weights* x) {
  index_t readable = 0;
  for (index_t i = 0; i < args.cols; ++i) {
    axis_weights& w = x[i];
    const bool is_outside = w.at < 0 || w.at >= args.width - 1;
    if (is_outside) w = {w.at < 0 ? 0 : static_cast<std::int32_t>(args.width) - 1, 2048};
    w.at *= 3;
    if (index_t{w.at} + 8 <= 3 * args.width) readable = i + 1;
  }
  args.vector_cols = readable / 8 * 8;
}

}  // namespace detail

inline vector_view<const letterbox_transform> letterbox(vector_view<const byte_image> images,
                                                        vector_view<float> batch, grid_size input,
                                                        const letterbox_params& params,
                                                        letterbox_workspace& workspace,
                                                        threading policy) {
  detail::check_letterbox(images, batch, input, params);
  detail::letterbox_buffers& buffers = detail::workspace_access::buffers(workspace);
  const isa target = active_isa();
  const index_t count = images.size(), plane = input.height * input.width;
  const profile::scope timing([&] {
    index_t bytes = batch.size() * index_t{sizeof(float)};
    for (index_t i = 0; i < count; ++i) bytes += images[i].height * images[i].width * 3;
    return profile::problem{
        "letterbox",
        nullptr,
        "f32",
        {count, count == 0 ? 0 : images[0].height, count == 0 ? 0 : images[0].width, input.height},
        isa_name(target),
        policy.threads(),
        bytes};
  });
  const auto& kernels = detail::kernels<detail::letterbox_kernels>(target);
  letterbox_transform* const transforms = detail::grown(buffers.transforms, count);
  detail::letterbox_args* const args = detail::grown(buffers.images, count);
  const index_t sides = input.height + input.width;
  detail::axis_weights* const axes = detail::grown(buffers.axes, count * sides);
  for (index_t i = 0; i < count; ++i) {
    detail::letterbox_args& image_args = args[i];
    image_args = detail::place_image(images[i], input, params, transforms[i]);
    detail::axis_weights* const x = axes + i * sides;
    detail::axis_weights* const y = x + input.width;
    kernels.weigh_axis(image_args.width, image_args.cols, x);
    kernels.weigh_axis(image_args.height, image_args.rows, y);
    detail::finish_columns(image_args, x);
    image_args.x = x;
    image_args.y = y;
    for (int c = 0; c < 3; ++c) {
      const int to = params.swap_channels ? 2 - c : c;
      image_args.planes[c] = batch.data() + (3 * i + to) * plane;
      const detail::pixel_formula formula(params, to);
      image_args.scale[c] = formula.scale;
      image_args.shift[c] = formula.shift;
      image_args.fill[c] = formula(static_cast<float>(params.fill));
    }
  }
  // Bands of rows, several per thread. Each band resizes the image's row above it once more.
  constexpr index_t least_rows = 32;
  const index_t rows = count * input.height, bands = 4 * index_t{policy.threads()};
  const detail::chunking chunks(rows, std::max(least_rows, (rows + bands - 1) / bands));
  const index_t lines = (kernels.scratch_size(input.width) * 2 + 63) / 64;
  detail::cache_line* const scratch = detail::grown_scratch(buffers.scratch, chunks.count * lines);
  detail::for_each_chunk(policy, chunks, [&](index_t chunk, index_t first, index_t last) {
    auto* const memory = reinterpret_cast<std::uint16_t*>(scratch + chunk * lines);
    while (first < last) {
      const index_t image = first / input.height, begin = image * input.height;
      const index_t end = std::min(last, begin + input.height);
      kernels.fill_rows(args[image], first - begin, end - begin, memory);
      first = end;
    }
  });
  return {transforms, count};
}

}  // namespace VECDET_ABI
}  // namespace vecdet
