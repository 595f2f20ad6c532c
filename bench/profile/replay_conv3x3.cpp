// SPDX-License-Identifier: Apache-2.0
// Replays 3x3 convolutions. Several levels are replayed as a square and a row with as many
// locations. Weights are transformed beforehand, in float.
#include "../../test/support/random.hpp"
#include "replay_inputs.hpp"
#include <vecdet/conv3x3.hpp>
#include <vecdet/head_levels.hpp>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace vecdet;

template <class T>
std::vector<T> uniform(index_t size, std::uint64_t seed) {
  test::random_generator random(seed);
  std::vector<T> values(static_cast<std::size_t>(size));
  for (T& v : values) v = static_cast<T>(random.uniform(-1, 1));
  return values;
}

/// The operands of a call on levels of these heights and widths.
template <class T>
struct operands {
  index_t images, inputs, outputs;
  head_layout layout;
  conv3x3_tile tile;
  std::vector<T> input, output, weights, bias;
  std::vector<head_level<T>> input_levels, output_levels;
  std::vector<head_level<const T>> const_output_levels;
  conv3x3_weights<T> transformed;
  conv3x3_workspace workspace;

  operands(index_t image_count, index_t input_channels, index_t output_channels, bool is_nhwc,
           conv3x3_tile tile_size, const std::vector<std::pair<index_t, index_t>>& sizes)
      : images(image_count),
        inputs(input_channels),
        outputs(output_channels),
        layout(is_nhwc ? head_layout::nhwc : head_layout::nchw),
        tile(tile_size),
        weights(uniform<T>(outputs * inputs * 9, 1)),
        bias(uniform<T>(outputs, 2)) {
    index_t locations = 0;
    for (const auto& [height, width] : sizes) locations += images * height * width;
    input = uniform<T>(locations * inputs, 3);
    output = uniform<T>(locations * outputs, 4);
    index_t before = 0;
    for (const auto& [height, width] : sizes) {
      input_levels.push_back({input.data() + before * inputs, height, width});
      output_levels.push_back({output.data() + before * outputs, height, width});
      const_output_levels.push_back({output.data() + before * outputs, height, width});
      before += images * height * width;
    }
  }

  feature_view<const T> weights_view() const {
    return {weights.data(), outputs, inputs, 3, 3, feature_layout::nchw};
  }
  template <class U>
  head_view<U> head(const std::vector<head_level<U>>& levels, index_t channels) const {
    return {vector_view<const head_level<U>>(levels), images, 1, channels, layout};
  }
};

template <class T>
profile::replay_call make_call(const profile::entry& e,
                               const std::vector<std::pair<index_t, index_t>>& sizes,
                               execution policy) {
  const auto has = [&](const char* part) { return e.variant.find(part) != std::string::npos; };
  const auto data =
      std::make_shared<operands<T>>(e.shape[0], e.shape[1], e.shape.back(), has("nhwc"),
                                    has("f2x2") ? conv3x3_tile::f2x2 : conv3x3_tile::f4x4, sizes);
  if (e.function == "conv3x3") {
    data->transformed.assign(data->weights_view(), conv3x3_use::forward, data->tile);
    return [=] {
      conv3x3_params<T> params;
      params.bias = data->bias;
      conv3x3(data->head(data->input_levels, data->inputs), data->transformed,
              data->head(data->output_levels, data->outputs), params, data->workspace, policy);
    };
  }
  if (e.function == "conv3x3_input_grad") {
    data->transformed.assign(data->weights_view(), conv3x3_use::input_grad, data->tile);
    return [=] {
      conv3x3_input_grad(data->head(data->const_output_levels, data->outputs), {},
                         data->transformed, data->head(data->input_levels, data->inputs),
                         data->workspace, policy);
    };
  }
  return [=] {
    conv3x3_weight_grad(data->head(data->input_levels, data->inputs),
                        data->head(data->const_output_levels, data->outputs), {},
                        feature_view<T>(data->weights.data(), data->outputs, data->inputs, 3, 3,
                                        feature_layout::nchw),
                        vector_view<T>(data->bias), data->tile, data->workspace, policy);
  };
}

bool is_one_of(const std::string& variant, std::initializer_list<const char*> known) {
  return std::find(known.begin(), known.end(), variant) != known.end();
}

profile::replay_call make(const profile::entry& e, execution policy) {
  std::vector<std::pair<index_t, index_t>> sizes;
  if (e.shape.size() == 5 && is_one_of(e.variant, {"", "f2x2", "nhwc", "nhwc_f2x2"})) {
    sizes = {{e.shape[2], e.shape[3]}};
  } else if (e.shape.size() == 4 &&
             is_one_of(e.variant, {"levels", "levels_f2x2", "levels_nhwc", "levels_nhwc_f2x2"})) {
    index_t side = 0;
    while ((side + 1) * (side + 1) <= e.shape[2]) ++side;
    sizes = {{side, side}, {1, e.shape[2] - side * side}};
  } else {
    return {};
  }
  return profile::for_type(e.type, [&](auto number) -> profile::replay_call {
    using type = decltype(number);
    if constexpr (std::is_same<type, bfloat16>::value)
      return {};
    else
      return make_call<type>(e, sizes, policy);
  });
}

const profile::replay_registration registered[] = {
    {"conv3x3", make},
    {"conv3x3_input_grad", make},
    {"conv3x3_weight_grad", make},
};

}  // namespace
