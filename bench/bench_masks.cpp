// SPDX-License-Identifier: Apache-2.0
// Masks of a YOLO model for segmentation: objects x prototypes x height x width of the prototypes x
// side of the picture. Elements are masks.
//
// Bound for 50x32x160x160x640: 3.3 MB of prototypes are read; the boxes cover 50 maps of about 54 x
// 54 locations, each with 32 multiply-adds, 4.7 million; and 2.3 million pixels, with two
// operations each. On AVX-512 at two vectors per cycle, that is 0.15 million cycles for the
// products, whose operands come from the second-level cache, and 0.15 million for the pixels.
//
// Pasted masks: objects x side of the maps x height x width of the picture. Bound for
// 100x28x800x1066: 2.1 million pixels, with two operations each, 0.13 million cycles on AVX-512.
#include "plain/masks.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/masks.hpp>
#include <vecdet/paste_masks.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t objects = 50, channels = 32, map_side = 160, picture_side = 640;

template <class T>
struct mask_operands {
  std::vector<T> prototypes;
  std::vector<float> coefficients, boxes;
  std::vector<std::uint8_t> plain_pixels;
  std::vector<grid_size> size{{picture_side, picture_side}};
  masks_workspace workspace;
  plain_masks_memory plain_memory;
  prototype_masks_params params;
  masks_view found;
  vector_view<const std::uint8_t> written;

  explicit mask_operands(mask_rule rule) {
    random_generator random(1);
    params.rule = rule;
    for (index_t i = 0; i < channels * map_side * map_side; ++i)
      prototypes.push_back(T(static_cast<float>(random.normal())));
    for (index_t i = 0; i < objects * channels; ++i)
      coefficients.push_back(static_cast<float>(random.normal()));
    for (index_t i = 0; i < objects; ++i) {
      const double w = random.uniform(30, 400), h = random.uniform(30, 400);
      const double x = random.uniform(0, picture_side - w), y = random.uniform(0, picture_side - h);
      for (const double corner : {x, y, x + w, y + h}) boxes.push_back(static_cast<float>(corner));
    }
    run(threading::sequential);
    plain_pixels.resize(static_cast<std::size_t>(found.pixels.size()));
  }

  void run(threading policy) {
    found =
        masks_from_prototypes(feature_view<const T>(prototypes.data(), 1, channels, map_side,
                                                    map_side, feature_layout::nchw),
                              matrix_view<const float>(coefficients.data(), objects, channels),
                              boxes_view<const float>(boxes), {}, size, params, workspace, policy);
    written = found.pixels;
  }
};

template <class T>
void add(const char* name, mask_rule rule) {
  using operands = mask_operands<T>;
  const std::string problem =
      std::string("masks_from_prototypes/") + name + "/" + dtype_name<T>() + "/50x32x160x160x640";
  const auto prepare = [=] { return std::make_shared<operands>(rule); };
  constexpr double pixel_bytes = 280e3;  // of bits of all masks, about
  const work amount{objects, double{channels * map_side * map_side} * sizeof(T) + pixel_bytes};
  const auto run = [](operands& d, threading policy) { d.run(policy); };
  if constexpr (std::is_same<T, float>::value) {
    if (rule == mask_rule::native)
      return register_with_plain(
          problem, amount, prepare, run,
          [](operands& d) {
            VECDET_PLAIN(plain_masks_from_prototypes)
            (d.prototypes.data(), channels, map_side, map_side, d.coefficients.data(),
             d.found.boxes.data(), objects, picture_side, d.plain_memory, d.plain_pixels.data());
            d.written = d.plain_pixels;
          },
          [](operands& d) {
            return std::vector<std::uint8_t>(d.written.begin(), d.written.end());
          });
  }
  register_vecdet(problem, amount, prepare, run);
}

struct paste_operands {
  static constexpr index_t objects = 100, side = 28, height = 800, width = 1066;
  std::vector<float> maps, boxes;
  std::vector<std::uint8_t> plain_pixels;
  std::vector<grid_size> size{{height, width}};
  masks_workspace workspace;
  plain_masks_memory plain_memory;
  masks_view found;
  vector_view<const std::uint8_t> written;

  paste_operands() {
    random_generator random(2);
    // Blobs, as heads give them.
    for (index_t i = 0; i < objects; ++i) {
      const double x = random.uniform(10, 18), y = random.uniform(10, 18);
      const double radius = random.uniform(8, 13);
      for (index_t k = 0; k < side * side; ++k) {
        const double u = static_cast<double>(k % side) - x, v = static_cast<double>(k / side) - y;
        const double inside = radius - std::sqrt(u * u + v * v) + random.uniform(-1, 1);
        maps.push_back(static_cast<float>(1 / (1 + std::exp(-inside))));
      }
      const double w = random.uniform(20, 250), h = random.uniform(20, 250);
      const double left = random.uniform(0, width - w), top = random.uniform(0, height - h);
      for (const double corner : {left, top, left + w, top + h})
        boxes.push_back(static_cast<float>(corner));
    }
    run(threading::sequential);
    plain_pixels.resize(static_cast<std::size_t>(found.pixels.size()));
  }

  void run(threading policy) {
    const feature_view<const float> view(maps.data(), objects, 1, side, side, feature_layout::nchw);
    found = paste_masks(view, boxes_view<const float>(boxes), {}, size, {}, workspace, policy);
    written = found.pixels;
  }
};

void add_pasted() {
  using operands = paste_operands;
  constexpr double pixel_bytes = 269e3;  // of bits of all masks, about
  register_with_plain(
      "paste_masks/f32/100x28x800x1066",
      {operands::objects,
       operands::objects * (operands::side * operands::side + 4.0) * 4 + pixel_bytes},
      [] { return std::make_shared<operands>(); },
      [](operands& d, threading policy) { d.run(policy); },
      [](operands& d) {
        VECDET_PLAIN(plain_paste_masks)
        (d.maps.data(), operands::side, d.boxes.data(), operands::objects, operands::height,
         operands::width, 0.5f, d.plain_memory, d.plain_pixels.data());
        d.written = d.plain_pixels;
      },
      [](operands& d) { return std::vector<std::uint8_t>(d.written.begin(), d.written.end()); });
  show_in_figures("paste_masks/f32/100x28x800x1066");
}

/// Whole pictures of numbers. The bound is their memory: 341 MB are written.
void add_soft() {
  struct operands : paste_operands {
    std::vector<float> pictures =
        std::vector<float>(static_cast<std::size_t>(objects * height * width));
  };
  constexpr double picture = double{operands::height} * operands::width;
  register_vecdet(
      "paste_soft_masks/f32/100x28x800x1066",
      {operands::objects,
       operands::objects * (operands::side * operands::side + 4.0 + picture) * 4},
      [] { return std::make_shared<operands>(); },
      [](operands& d, threading policy) {
        const feature_view<const float> view(d.maps.data(), operands::objects, 1, operands::side,
                                             operands::side, feature_layout::nchw);
        paste_soft_masks(
            view, boxes_view<const float>(d.boxes),
            feature_view<float>(d.pictures.data(), operands::objects, 1, operands::height,
                                operands::width, feature_layout::nchw),
            d.workspace, policy);
      });
}

const bool registered = [] {
  add_pasted();
  add_soft();
  add<float>("native", mask_rule::native);
  add<bfloat16>("native", mask_rule::native);
  add<float>("upsampled", mask_rule::upsampled);
  add<float>("cropped", mask_rule::cropped);
  show_in_figures("masks_from_prototypes/native/(f32|bf16)/50x32x160x160x640");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
