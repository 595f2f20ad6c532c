// SPDX-License-Identifier: Apache-2.0
// Deformable attention with 8 heads of 32 channels, forward and backward: a layer of an encoder
// with 17,821 queries (800 x 1066, 4 levels of 4 points), and one of a decoder with 300 queries
// (640 x 640, 3 levels of 4 points). Elements are queries.
//
// Bounds for the encoder in float: its 2.3 million points read 4 locations of 128 bytes each, 1.2
// GB in all. From memory at 24 GB/s, this would take 50 ms. But neighbouring queries read the same
// locations: from the second-level cache, at one line per cycle, it takes 4.5 ms at 4.1 GHz. The 18
// million multiply-adds of 16 numbers take half of that. 18 MB of values, 27 MB of points and
// weights and 18 MB of outputs go through memory: 1.3 ms at 48 GB/s. The gradients read 3 times as
// much, and also store one line per cycle.
#include "plain/deformable_attention.hpp"
#include "support/attention_scene.hpp"
#include "support/implementations.hpp"

#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

using scene = attention_scene<float>;

template <class T>
auto make_scene(index_t queries) {
  return current_data<attention_scene<T>>(
      std::to_string(queries), queries > 0 ? scene::decoder_levels() : scene::encoder_levels(),
      queries);
}

std::vector<plain_attention_level> plain_levels(const scene& d) {
  std::vector<plain_attention_level> levels;
  for (const attention_level& level : d.levels)
    levels.push_back({level.height, level.width, level.points});
  return levels;
}

template <class T>
work work_of(index_t queries, index_t locations, index_t points) {
  return {static_cast<double>(queries),
          static_cast<double>((queries + locations) * 256 * index_t{sizeof(T)} +
                              queries * 8 * points * 3 * 4)};
}

void add(index_t queries, index_t locations, index_t points, const std::string& shape) {
  const std::string variant = "/f32/" + shape, narrow_variant = "/bf16/" + shape;
  const index_t count = queries > 0 ? queries : locations;
  const auto prepare = [=] { return make_scene<float>(queries); };
  register_with_plain(
      "deformable_attention" + variant, work_of<float>(count, locations, points), prepare,
      [](scene& d, threading policy) { d.forward(policy); },
      [](scene& d) {
        const std::vector<plain_attention_level> levels = plain_levels(d);
        VECDET_PLAIN(plain_deformable_attention)
        (d.value.data(), d.points.data(), d.weights.data(), levels.data(), d.shape.levels.size(),
         d.shape.queries, d.shape.heads, d.shape.channels, d.out.data());
      },
      &scene::out);
  register_with_plain(
      "deformable_attention_grad" + variant, work_of<float>(count, 2 * locations, 2 * points),
      prepare, [](scene& d, threading policy) { d.backward(policy); },
      [](scene& d) {
        const std::vector<plain_attention_level> levels = plain_levels(d);
        float* const by_weights = d.grad.data() + d.points.size();
        VECDET_PLAIN(plain_deformable_attention_grad)
        (d.upstream.data(), d.value.data(), d.points.data(), d.weights.data(), levels.data(),
         d.shape.levels.size(), d.shape.locations(), d.shape.queries, d.shape.heads,
         d.shape.channels, by_weights + d.weights.size(), d.grad.data(), by_weights);
      },
      &scene::grad);
  using narrow = attention_scene<bfloat16>;
  const auto prepare_narrow = [=] { return make_scene<bfloat16>(queries); };
  register_vecdet("deformable_attention" + narrow_variant,
                  work_of<bfloat16>(count, locations, points), prepare_narrow,
                  [](narrow& d, threading policy) { d.forward(policy); });
  register_vecdet("deformable_attention_grad" + narrow_variant,
                  work_of<bfloat16>(count, 2 * locations, 2 * points), prepare_narrow,
                  [](narrow& d, threading policy) { d.backward(policy); });
}

const bool registered = [] {
  add(0, 17821, 16, "17821x8x32x16");
  add(300, 8400, 12, "300x8x32x12");
  show_in_figures("deformable_attention(_grad)?/f32/[0-9x]+");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
