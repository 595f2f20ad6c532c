// SPDX-License-Identifier: Apache-2.0
// Deformable attention with 2 heads of 32 channels on levels of 16 x 16, 8 x 8 and 4 x 4 with 4
// points each: an encoder's layer, whose queries are the locations, and a decoder's of 60 queries.
#include "../../plain/deformable_attention.hpp"

#include "../module/problem.hpp"
#include "random.hpp"
#include "sequential.hpp"
#include <vecdet/deformable_attention.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vecdet::gate {
namespace {

constexpr std::int64_t heads = 2, channels = 32, locations = 16 * 16 + 8 * 8 + 4 * 4;
constexpr std::int64_t points = 12;  // of a query and head

template <std::int64_t Queries>
struct layer {
  std::vector<float> value, upstream, out, value_grad, places, weights, place_grad, weight_grad;

  layer()
      : value(uniform<float>(locations * heads * channels, -1, 1, 1)),
        upstream(uniform<float>(Queries * heads * channels, -1, 1, 2)),
        out(upstream.size()),
        value_grad(value.size()),
        weights(uniform<float>(Queries * heads * points, 0, 2.0f / points, 3)),
        place_grad(2 * weights.size()),
        weight_grad(weights.size()) {
    // Around a place of each query: those of an encoder follow each other, a decoder's are
    // anywhere.
    const auto starts = uniform<float>(2 * Queries, 0, 1, 4);
    const auto away = uniform<float>(Queries * heads * points * 2, -0.1f, 0.1f, 5);
    for (std::int64_t i = 0; i < Queries * heads * points * 2; ++i) {
      const std::int64_t query = i / (heads * points * 2), axis = i % 2;
      const float ordered = axis == 0 ? static_cast<float>(query % 16) / 16
                                      : static_cast<float>(query) / static_cast<float>(Queries);
      const float start =
          Queries == locations ? ordered : starts[static_cast<std::size_t>(2 * query + axis)];
      places.push_back(start + away[static_cast<std::size_t>(i)]);
    }
  }
};

template <std::int64_t Queries>
void run(layer<Queries>& d, bool backward) {
  static const std::vector<attention_level> levels{{16, 16, 4}, {8, 8, 4}, {4, 4, 4}};
  attention_shape shape;
  shape.images = 1;
  shape.queries = Queries;
  shape.heads = heads;
  shape.channels = channels;
  shape.levels = levels;
  auto& workspace = own<deformable_attention_workspace>();
  if (!backward) {
    deformable_attention(vector_view<const float>(d.value), d.places, d.weights,
                         vector_view<float>(d.out), shape, workspace, sequential);
    return;
  }
  deformable_attention_grads<float> grads;
  grads.value = d.value_grad;
  grads.points = d.place_grad;
  grads.weights = d.weight_grad;
  deformable_attention_grad(vector_view<const float>(d.upstream), d.value, d.places, d.weights,
                            grads, shape, workspace, sequential);
}

template <std::int64_t Queries>
void plain(layer<Queries>& d, bool backward) {
  const bench::plain_attention_level levels[] = {{16, 16, 4}, {8, 8, 4}, {4, 4, 4}};
  if (backward) {
    bench::native::plain_deformable_attention_grad(
        d.upstream.data(), d.value.data(), d.places.data(), d.weights.data(), levels, 3, locations,
        Queries, heads, channels, d.value_grad.data(), d.place_grad.data(), d.weight_grad.data());
  } else {
    bench::native::plain_deformable_attention(d.value.data(), d.places.data(), d.weights.data(),
                                              levels, 3, Queries, heads, channels, d.out.data());
  }
}

using encoder = layer<locations>;
using decoder = layer<60>;

const problems added{
    {"deformable_attention/f32/336x2x32x12", make<encoder>(), VECDET_GATE_CALL(run(d, false)),
     VECDET_GATE_CALL(plain(d, false))},
    {"deformable_attention/f32/60x2x32x12", make<decoder>(), VECDET_GATE_CALL(run(d, false)),
     VECDET_GATE_CALL(plain(d, false))},
    {"deformable_attention_grad/f32/336x2x32x12", make<encoder>(), VECDET_GATE_CALL(run(d, true)),
     VECDET_GATE_CALL(plain(d, true))},
    {"deformable_attention_grad/f32/60x2x32x12", make<decoder>(), VECDET_GATE_CALL(run(d, true)),
     VECDET_GATE_CALL(plain(d, true))},
};

}  // namespace
}  // namespace vecdet::gate
