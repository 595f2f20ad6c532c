// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/letterbox.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct letterbox_calls {
  index_t height, width;
  grid_size input;
  placed<std::uint8_t> pixels;
  std::vector<byte_image> images;
  placed<T> batch;
  letterbox_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, 5, length, 32}}; }
  static shape sized(index_t rows) { return {2, 60, rows / 60 + 1, 32}; }
  static bool takes(const problem& p) { return input_width(p) >= 1; }
  /// The width of the input, which the shape does not contain.
  static index_t input_width(const problem& p) {
    if (p.bytes == 0) return 48;
    const double per_image = p.bytes / static_cast<double>(p.shape[0]);
    return std::llround((per_image - 3.0 * static_cast<double>(p.shape[1] * p.shape[2])) /
                        (12.0 * static_cast<double>(p.shape[3])));
  }

  letterbox_calls(operands& make, const problem& p)
      : height(p.shape[1]),
        width(p.shape[2]),
        input{p.shape[3], input_width(p)},
        pixels(make.room<std::uint8_t>(3 * height * width)),
        images(static_cast<std::size_t>(p.shape[0]), byte_image{pixels.data(), height, width, 0}),
        batch(make.room<T>(3 * p.shape[0] * input.height * input.width)) {
    std::uint32_t state = 1;
    for (std::uint8_t& pixel : pixels)
      pixel = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  }

  void list(call_list& c) {
    c.add("letterbox/", reads(pixels).writes(batch), [this](threading policy) {
      letterbox(vector_view<const byte_image>(images), batch, input, {}, workspace, policy);
    });
  }
};

const registered_family registered = calls_of<letterbox_calls, float>("letterbox");

}  // namespace
}  // namespace vecdet::test
