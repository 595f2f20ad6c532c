// SPDX-License-Identifier: Apache-2.0
// The functions of grouped_conv3x3.hpp: checks, the profiler's scope, tiles and parts.
#pragma once

#include <vecdet/args/grouped_conv3x3.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/grouped_conv3x3.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/conv3x3_call.hpp>
#include <vecdet/impl/conv3x3_operand.hpp>
#include <vecdet/impl/conv3x3_steps.hpp>
#include <vecdet/impl/optional_view.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/profile/scope.hpp>

#include <algorithm>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/grouped_conv3x3/grouped_conv3x3.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// The shape of a call. Input and output are named, with their sizes, because one of them is given
/// by its gradient.
struct grouped_call_shape {
  const char* function;
  const char *input_name, *output_name, *weights_name;
  feature_view<const float> input, output, weights;
  grouped_conv3x3_params params;

  index_t group_inputs() const { return weights.channels(); }
  index_t group_outputs() const { return weights.images() / params.groups; }

  void check_arguments() const {
    const auto check_number = [&](const char* argument, const char* member, index_t value,
                                  index_t expected, const char* meaning = "", const char* of = "",
                                  const char* rest = "") {
      // Texts are made only for errors: a call allocates no memory.
      if (value != expected)
        check_member(false, function, argument, member, value,
                     (std::to_string(expected) + meaning + of + rest).c_str());
    };
    check_member(params.groups >= 1, function, "params", "groups", params.groups, "1 or more");
    check_member(params.stride == 1 || params.stride == 2, function, "params", "stride",
                 params.stride, "1 or 2");
    check_member(weights.images() % params.groups == 0, function, weights_name, "images()",
                 weights.images(), "a multiple of params.groups");
    check_member(input.channels() % params.groups == 0, function, input_name, "channels()",
                 input.channels(), "a multiple of params.groups");
    check_number(weights_name, "channels()", weights.channels(), input.channels() / params.groups,
                 ", the channels of a group of ", input_name);
    check_number(weights_name, "height()", weights.height(), 3);
    check_number(weights_name, "width()", weights.width(), 3);
    const index_t inputs = group_inputs(), outputs = group_outputs();
    const bool is_narrow = inputs == outputs && (inputs == 4 || inputs == 8);
    const bool is_wide = inputs % grouped_lanes == 0 && outputs % grouped_lanes == 0;
    if (params.groups != 1 && !is_narrow && !is_wide)
      check_member(false, function, "params", "groups", params.groups,
                   ("1, or groups with 4 or 8 input and output channels, or multiples of 16; "
                    "a group has " +
                    std::to_string(inputs) + " and " + std::to_string(outputs) + " channels")
                       .c_str());
    check_number(output_name, "images()", output.images(), input.images(),
                 ", the number of images of ", input_name);
    check_number(output_name, "channels()", output.channels(), weights.images(),
                 ", the number of output channels of ", weights_name);
    const auto size = [&](index_t side) { return (side + params.stride - 1) / params.stride; };
    check_number(output_name, "height()", output.height(), size(input.height()), ", the height of ",
                 input_name, " by the stride, rounded up");
    check_number(output_name, "width()", output.width(), size(input.width()), ", the width of ",
                 input_name, " by the stride, rounded up");
  }
};

template <class T>
grouped_map<T> grouped_map_of(const feature_view<T>& map) {
  const index_t locations = map.height() * map.width(), channels = map.channels();
  const bool is_nhwc = map.layout() == feature_layout::nhwc;
  return {map.data(),           map.height(),           map.width(),
          locations * channels, is_nhwc ? channels : 1, is_nhwc ? 1 : locations};
}

/// Whether a call with this number of outputs per channel, in all images, computes by minimal
/// filtering. docs/families/grouped_conv3x3.md has the measurements.
constexpr bool is_filtered_stride2(const grouped_conv3x3_params& params, index_t inputs,
                                   index_t outputs, index_t locations) noexcept {
  return params.groups == 1 && params.stride == 2 && inputs >= 16 && outputs >= 16 &&
         locations >= 400;
}

/// A call whose arguments have been checked.
class grouped_conv3x3_call {
 public:
  grouped_conv3x3_call(const grouped_call_shape& shape, bool is_input_grad,
                       grouped_conv3x3_workspace& workspace, threading policy)
      : shape_(shape),
        is_input_grad_(is_input_grad),
        buffers_(workspace_access::buffers(workspace)),
        policy_(policy),
        kernels_(kernels<grouped_conv3x3_kernels>(target_)) {
    args_.targets = is_input_grad ? shape.input.channels() : shape.output.channels();
    args_.group_sources = is_input_grad ? shape.group_outputs() : shape.group_inputs();
    args_.group_targets = is_input_grad ? shape.group_inputs() : shape.group_outputs();
    args_.steps = shape.params.stride == 1 ? grouped_steps::one
                  : is_input_grad          ? grouped_steps::two_back
                                           : grouped_steps::two;
  }

  /// The convolution, or the gradient of the input: the source is the output's gradient then, and
  /// the target that of the input.
  void run(const float* bias, const feature_view<float>& target) {
    if (target.size() == 0) return;
    const profile::scope timing([&] { return problem(); });
    if (is_filtered()) return run_filtered(bias, target);
    args_.source = grouped_map_of(is_input_grad_ ? shape_.output : shape_.input);
    args_.target = grouped_map_of(target);
    args_.bias = bias;
    divide(args_.chunks(), target.height(), target.width());
    args_.weights = arranged();
    const index_t items = target.images() * args_.tiles.in_image() * args_.blocks();
    const index_t size =
        args_.chunks() * source_size() + grouped_target_size(1, args_.tiles.columns);
    run_pieces(items, size, [&](index_t first, index_t last, float* scratch) {
      kernels_.run(args_, first, last, scratch);
    });
  }

  void run_weight_grad(const feature_view<float>& weight_grad,
                       const vector_view<float>& bias_grad) {
    if (weight_grad.size() == 0 && bias_grad.empty()) return;
    const profile::scope timing([&] { return problem(); });
    const conv3x3_steps steps = conv3x3_steps_of(weight_grad);
    if (is_filtered()) {
      conv3x3_call<float>(shape_.input, conv3x3_operand<const float>(shape_.output),
                          kernels_.filtering.sizes, kernels_.filtering.of, buffers_.filtering,
                          policy_)
          .weight_grad(shape_.output, {weight_grad.data(), steps.output, steps.input, steps.tap,
                                       data_or_null(bias_grad)});
      return;
    }
    args_.source = grouped_map_of(shape_.input);
    divide(1, shape_.output.height(), shape_.output.width());
    grouped_weight_grad grad{};
    grad.upstream = grouped_map_of(shape_.output);
    grad.images = shape_.output.images();
    grad.data = weight_grad.data();
    grad.target_step = steps.output;
    grad.source_step = steps.input;
    grad.tap_step = steps.tap;
    grad.bias = data_or_null(bias_grad);
    const index_t chunks = args_.chunks(), blocks = args_.blocks();
    // As many parts as keep 64 threads busy. Their number depends on sizes alone.
    constexpr index_t enough = 64;
    const index_t items = blocks * chunks;
    grad.parts =
        std::max(index_t{1}, std::min((enough + items - 1) / items, grad.all_tiles(args_.tiles)));
    const index_t sums = grad.parts * items * args_.chunk_sources() * 9 * grouped_lanes;
    const index_t bias_sums = grad.parts * blocks * grouped_lanes;
    grad.sums = reinterpret_cast<double*>(
        grown_scratch(buffers_.sums, lines_for<double>(sums + bias_sums)));
    grad.bias_sums = grad.bias == nullptr ? nullptr : grad.sums + sums;
    const index_t size = source_size() + grouped_target_size(args_.tiles.rows, args_.tiles.columns);
    run_pieces(grad.parts * items, size, [&](index_t first, index_t last, float* scratch) {
      while (first < last) {
        const index_t part = first / items, begin = first % items;
        const index_t end = std::min(items, begin + last - first);
        kernels_.add_products(args_, grad, part, begin, end, scratch);
        first += end - begin;
      }
    });
    run_pieces(blocks, 0, [&](index_t first, index_t last, float*) {
      kernels_.finish(args_, grad, first, last);
    });
  }

 private:
  bool is_filtered() const {
    return is_filtered_stride2(
        shape_.params, shape_.input.channels(), shape_.output.channels(),
        shape_.output.images() * shape_.output.height() * shape_.output.width());
  }

  /// The convolution, or the gradient of the input, by minimal filtering.
  void run_filtered(const float* bias, const feature_view<float>& target) {
    const auto& filtering = is_input_grad_ ? kernels_.input_grad_filtering : kernels_.filtering;
    const conv3x3_steps steps = conv3x3_steps_of(shape_.weights);
    conv3x3_weights_args<float> weights{};
    weights.weights = shape_.weights.data();
    weights.targets = args_.targets;
    weights.sources = args_.group_sources;
    weights.target_step = is_input_grad_ ? steps.input : steps.output;
    weights.source_step = is_input_grad_ ? steps.output : steps.input;
    weights.tap_step = steps.tap;
    weights.turned = is_input_grad_;
    transform_conv_weights(weights, filtering.sizes, filtering.of, buffers_.weights, policy_);
    const conv3x3_operand<float> to(target);
    conv3x3_call<float>(is_input_grad_ ? shape_.output : shape_.input, to, filtering.sizes,
                        filtering.of, buffers_.filtering, policy_)
        .run(buffers_.weights.data(), bias, false, to);
  }

  index_t source_size() const {
    return grouped_source_size(args_.steps, args_.tiles.rows, args_.tiles.columns);
  }

  /// Chooses tiles of the target so that the sources of a tile, in this number of chunks, stay in
  /// the second-level cache. A tile has up to 8 x 48 targets: larger tiles would read fewer sources
  /// twice, and smaller ones would stay in the first-level cache. The documented error of the
  /// weights' gradient allows no larger ones.
  void divide(index_t chunks, index_t height, index_t width) {
    constexpr index_t most_numbers = 96 * 1024;
    index_t rows = 8, columns = 48;
    const auto numbers = [&] { return chunks * grouped_source_size(args_.steps, rows, columns); };
    while (numbers() > most_numbers && (rows > 2 || columns > 16)) {
      if (rows > 2)
        rows /= 2;
      else
        columns -= 16;
    }
    args_.tiles.rows = rows;
    args_.tiles.columns = std::min(columns, (width + 3) / 4 * 4);
    args_.tiles.in_row = width == 0 ? 0 : (width + columns - 1) / columns;
    args_.tiles.in_column = (height + rows - 1) / rows;
  }

  const float* arranged() {
    // Without source channels, the caller's weights may be null.
    if (args_.group_sources == 0) return nullptr;
    const conv3x3_steps steps = conv3x3_steps_of(shape_.weights);
    grouped_weights_args w{};
    w.weights = shape_.weights.data();
    w.group_step = shape_.group_outputs() * steps.output;
    w.target_step = is_input_grad_ ? steps.input : steps.output;
    w.source_step = is_input_grad_ ? steps.output : steps.input;
    w.tap_step = steps.tap;
    w.turned = args_.steps == grouped_steps::one && is_input_grad_;
    w.arranged = reinterpret_cast<float*>(
        grown_scratch(buffers_.weights, lines_for<float>(args_.blocks() * args_.block_weights())));
    run_pieces(args_.blocks(), 0, [&](index_t first, index_t last, float*) {
      kernels_.arrange(args_, w, first, last);
    });
    return w.arranged;
  }

  /// Calls run(first, last, scratch) for parts of `items` items, with `size` numbers of scratch
  /// memory.
  template <class Run>
  void run_pieces(index_t items, index_t size, const Run& run) {
    const index_t pieces = even_pieces(items, usable_threads(policy_));
    for_each_chunk_with_memory(policy_, chunking(pieces, 1), buffers_.scratch,
                               lines_for<float>(size),
                               [&](index_t piece, index_t, cache_line* memory) {
                                 run(items * piece / pieces, items * (piece + 1) / pieces,
                                     reinterpret_cast<float*>(memory));
                               });
  }

  /// Images x input channels x height x width x output channels.
  profile::problem problem() const {
    static constexpr const char* variants[2][2] = {{"groups", "nhwc_groups"},
                                                   {"stride2_groups", "nhwc_stride2_groups"}};
    const auto &input = shape_.input, &output = shape_.output;
    profile::problem p;
    p.function = shape_.function;
    p.variant = profile::numbered_name(
        variants[shape_.params.stride - 1][input.layout() == feature_layout::nhwc ? 1 : 0],
        static_cast<double>(shape_.params.groups));
    p.type = dtype_name<float>();
    p.shape = {input.images(), input.channels(), input.height(), input.width(), output.channels()};
    p.implementation = isa_name(target_);
    p.threads = policy_.threads();
    p.bytes = (input.size() + output.size() + shape_.weights.size()) * index_t{sizeof(float)};
    p.flops = 18 * output.size() * shape_.group_inputs();
    return p;
  }

  grouped_call_shape shape_;
  bool is_input_grad_;
  grouped_conv3x3_buffers& buffers_;
  threading policy_;
  isa target_ = active_isa();
  const grouped_conv3x3_kernels& kernels_;
  grouped_conv3x3_args args_{};
};

}  // namespace detail

inline void grouped_conv3x3(feature_view<const float> input, feature_view<const float> weights,
                            vector_view<const float> bias, feature_view<float> output,
                            const grouped_conv3x3_params& params,
                            grouped_conv3x3_workspace& workspace, threading policy) {
  constexpr const char* function = "grouped_conv3x3";
  const detail::grouped_call_shape shape{function, "input", "output", "weights",
                                         input,    output,  weights,  params};
  shape.check_arguments();
  detail::check_optional_size(function, "bias.size()", bias.size(), weights.images(),
                              "the number of output channels of the weights");
  detail::check_apart(function, "output", output, "input", input);
  detail::check_apart(function, "output", output, "weights", weights);
  detail::check_apart(function, "output", output, "bias", bias);
  detail::grouped_conv3x3_call(shape, false, workspace, policy)
      .run(detail::data_or_null(bias), output);
}

inline void grouped_conv3x3_input_grad(feature_view<const float> upstream,
                                       feature_view<const float> weights, feature_view<float> grad,
                                       const grouped_conv3x3_params& params,
                                       grouped_conv3x3_workspace& workspace, threading policy) {
  constexpr const char* function = "grouped_conv3x3_input_grad";
  const detail::grouped_call_shape shape{function, "grad",   "upstream", "weights",
                                         grad,     upstream, weights,    params};
  shape.check_arguments();
  detail::check_apart(function, "grad", grad, "upstream", upstream);
  detail::check_apart(function, "grad", grad, "weights", weights);
  detail::grouped_conv3x3_call(shape, true, workspace, policy).run(nullptr, grad);
}

inline void grouped_conv3x3_weight_grad(feature_view<const float> input,
                                        feature_view<const float> upstream,
                                        feature_view<float> weight_grad,
                                        vector_view<float> bias_grad,
                                        const grouped_conv3x3_params& params,
                                        grouped_conv3x3_workspace& workspace, threading policy) {
  constexpr const char* function = "grouped_conv3x3_weight_grad";
  const detail::grouped_call_shape shape{function, "input",  "upstream",  "weight_grad",
                                         input,    upstream, weight_grad, params};
  shape.check_arguments();
  detail::check_optional_size(function, "bias_grad.size()", bias_grad.size(), weight_grad.images(),
                              "the number of output channels of weight_grad");
  detail::check_apart(function, "weight_grad", weight_grad, "input", input);
  detail::check_apart(function, "weight_grad", weight_grad, "upstream", upstream);
  detail::check_apart(function, "bias_grad", bias_grad, "input", input);
  detail::check_apart(function, "bias_grad", bias_grad, "upstream", upstream);
  detail::check_apart(function, "weight_grad", weight_grad, "bias_grad", bias_grad);
  detail::grouped_conv3x3_call(shape, false, workspace, policy)
      .run_weight_grad(weight_grad, bias_grad);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
