// SPDX-License-Identifier: Apache-2.0
// Letterboxes bit-identical to the reference: sizes around the vector width, reductions and
// enlargements, strides, channels, normalisation, batches on any number of threads;
// nothing is read behind an image; and every documented error.
#include "support/isa.hpp"
#include "support/placed_memory.hpp"
#include "support/random.hpp"
#include <vecdet/letterbox.hpp>
#include <vecdet/reference/letterbox.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

std::vector<std::uint8_t> random_image(index_t height, index_t width, std::uint64_t seed) {
  random_generator generator(seed);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(3 * height * width));
  for (std::uint8_t& byte : image) byte = static_cast<std::uint8_t>(generator.below(256));
  return image;
}

vector_view<const byte_image> one(const byte_image& image) { return {&image, 1}; }

void check_letterbox(index_t height, index_t width, grid_size input,
                     const letterbox_params& params) {
  CAPTURE(height);
  CAPTURE(width);
  CAPTURE(input.height);
  CAPTURE(input.width);
  const auto pixels =
      random_image(height, width, static_cast<std::uint64_t>(height * 1000 + width));
  const auto expected = reference::letterbox(pixels, height, width, input, params);
  // The memory ends right behind the last pixel.
  placed_memory memory;
  memory.place = {placement::ends_at_guard};
  const byte_image image{memory.copy(pixels), height, width, 0};
  letterbox_workspace workspace;
  for_each_isa([&](isa) {
    std::vector<float> batch(expected.size(), -1);
    letterbox(one(image), vector_view<float>(batch), input, params, workspace,
              threading::sequential);
    CHECK(batch == expected);
  });
}

}  // namespace

TEST_CASE("letterbox: sizes") {
  const letterbox_params params = letterbox_params::yolo();
  for (const index_t side : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100}) {
    check_letterbox(side, 37, {32, 32}, params);
    check_letterbox(23, side, {33, 47}, params);
    check_letterbox(side, side, {side, side}, params);
    check_letterbox(2 * side, 2 * side, {side, side}, params);
    check_letterbox(side, 2 * side + 1, {70, 3}, params);
    check_letterbox(3 * side + 1, 5 * side, {side, 64}, params);
  }
  check_letterbox(270, 480, {160, 160}, params);
  check_letterbox(1, 400, {64, 64}, params);
  check_letterbox(400, 1, {64, 64}, params);
}

TEST_CASE("letterbox: options") {
  letterbox_params params = letterbox_params::yolox();
  check_letterbox(48, 64, {40, 50}, params);
  params.upscale = false;
  check_letterbox(20, 30, {40, 50}, params);
  check_letterbox(60, 30, {40, 50}, params);
  params = letterbox_params::yolo();
  params.fill = 0;
  const double mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
  std::copy(mean, mean + 3, params.mean);
  std::copy(deviation, deviation + 3, params.deviation);
  check_letterbox(48, 64, {40, 50}, params);
  params.swap_channels = false;
  check_letterbox(48, 64, {64, 50}, params);
}

TEST_CASE("letterbox: a batch of images with strides, and their positions") {
  const std::vector<std::pair<index_t, index_t>> sizes{{48, 64}, {120, 30}, {33, 33}, {7, 90}};
  const grid_size input{64, 96};
  std::vector<std::vector<std::uint8_t>> pixels;
  std::vector<byte_image> images;
  std::vector<float> expected;
  const letterbox_params params = letterbox_params::yolo();
  for (const auto& size : sizes) {
    const index_t height = size.first, width = size.second, stride = 3 * width + 5;
    const auto tight = random_image(height, width, static_cast<std::uint64_t>(height));
    pixels.emplace_back(static_cast<std::size_t>(height * stride), std::uint8_t{77});
    for (index_t y = 0; y < height; ++y)
      std::copy_n(tight.begin() + y * 3 * width, 3 * width, pixels.back().begin() + y * stride);
    images.push_back({pixels.back().data(), height, width, stride});
    const auto planes = reference::letterbox(tight, height, width, input, params);
    expected.insert(expected.end(), planes.begin(), planes.end());
  }
  for_each_isa([&](isa) {
    letterbox_workspace workspace;
    for (const int threads : {1, 2, 4}) {
      tbb::task_arena arena(threads);
      arena.execute([&] {
        std::vector<float> batch(expected.size(), -1);
        const auto transforms =
            letterbox(vector_view<const byte_image>(images), vector_view<float>(batch), input,
                      params, workspace, threading::parallel);
        CHECK(batch == expected);
        REQUIRE(transforms.size() == 4);
        CHECK(transforms[0].scale_x == 64.0 / 48);
        CHECK(transforms[0].pad_x == 5);  // 96 - 85 = 11: the odd pixel is on the right
        CHECK(transforms[0].pad_y == 0);
        CHECK(transforms[3].pad_y == 28);
        CHECK(transforms[1].pad_x == 40);
      });
    }
  });
}

TEST_CASE("letterbox: bad arguments throw errors that name them and write nothing") {
  const auto pixels = random_image(4, 5, 6);
  std::vector<byte_image> images(2, byte_image{pixels.data(), 4, 5, 0});
  std::vector<float> batch(2 * 3 * 8 * 8, -1);
  grid_size input{8, 8};
  letterbox_params params;
  letterbox_workspace workspace;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(letterbox(vector_view<const byte_image>(images), vector_view<float>(batch),
                                   input, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    CHECK(std::count(batch.begin(), batch.end(), -1.0f) == 384);
    images.assign(2, byte_image{pixels.data(), 4, 5, 0});
    input = {8, 8};
    params = {};
  };
  input.height = 9;
  fails("vecdet::letterbox: batch.size() is 384, expected images x 3 x input.height x input.width");
  input.width = 0;
  fails("input.width is 0, expected 1 to 32768 pixels");
  input.height = 40000;
  fails("input.height is 40000");
  images[1].height = -1;
  fails("images[1] is -1, expected 1 to 32768 pixels");
  images[1].width = 0;
  fails("images[1] is 0");
  images[0].stride = 14;
  fails("images[0] is 14, expected a stride of 0, or of 3 * width bytes or more");
  images[0].data = nullptr;
  fails("images[0] is null, expected memory of pixels");
  params.scale = std::numeric_limits<double>::infinity();
  fails("params.scale is inf");
  params.fill = std::nan("");
  fails("params.fill is nan");
  params.mean[1] = std::nan("");
  fails("params.mean is nan");
  params.deviation[2] = 0;
  fails("params.deviation is 0");
  params.deviation[2] = 1e-45;
  fails("params.deviation is ");
  // What overflows is the formula, not a parameter.
  params.fill = 3e38;
  params.scale = 2;
  fails("params.fill is 3.0000000000000001e+38, expected a number");
  params.scale = 3e38;
  params.fill = 0;
  fails("params.scale is 3.0000000000000001e+38, expected a number");
  params.mean[2] = 3e38;
  params.fill = -3e38;
  params.scale = 1;
  fails("params.fill is -3.0000000000000001e+38");
}
