// SPDX-License-Identifier: Apache-2.0
// What replaces single operators of a trace: convolutions and RoIAlign. What replaces chains of
// operators is in replaceable.hpp.
#pragma once

#include "torch_rules.hpp"
#include "torch_trace.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::profile {

/// All calls of one operator, or of one chain, with the same shapes.
struct replaceable {
  std::string what;  ///< in the trace
  std::string by;    ///< vecdet's functions
  /// vecdet's problems that replace one call, without implementation and threads.
  std::vector<entry> problems;
  std::string why_unknown;  ///< why they are not known; empty if they are
  std::uint64_t calls = 0;
  double observed_ns = 0;  ///< forward, and backward if it is tied to it
  bool has_backward = false;
};

inline entry entry_of(const char* function, std::string variant, const std::string& type,
                      tensor_sizes shape) {
  entry e;
  e.function = function;
  e.variant = std::move(variant);
  e.type = type;
  e.shape = std::move(shape);
  return e;
}

inline std::string type_of(const torch_operator& o) {
  return o.inputs.empty() ? std::string() : short_type(o.inputs[0].type);
}

/// The shape of a map of images x channels x height x width, and whether it is channels_last.
/// Empty for other tensors, and for layouts that vecdet's functions do not read in place.
inline tensor_sizes map_of(const torch_operator& o, bool& is_channels_last) {
  const tensor_sizes& sizes = o.sizes(0);
  if (sizes.size() != 4 || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) {
        return size < 1 || size > std::int64_t{1} << 15;
      }))
    return {};
  const tensor_sizes none, &strides = o.inputs[0].strides.empty() ? none : o.inputs[0].strides[0];
  is_channels_last = !are_dense(sizes, strides);
  return !is_channels_last || are_dense(sizes, strides, true) ? sizes : tensor_sizes();
}

/// What computes a convolution in vecdet.
struct vecdet_convolution {
  std::string function;  ///< of the output; empty: none
  std::string variant;
  tensor_sizes shape;
};

/// The sizes after `prefix` in the variant, up to the next comma.
inline tensor_sizes sizes_after(const std::string& variant, char prefix) {
  for (const std::string& word : split_text(variant, ','))
    if (!word.empty() && word[0] == prefix) return onednn_dimensions(word.substr(1));
  return {};
}

inline vecdet_convolution convolution_of(const torch_operator& o, const entry& e) {
  const std::vector<std::string> shapes = split_text(e.implementation, ',');
  const std::size_t first = is_forward_convolution(o) ? 0 : 1;
  if (shapes.size() < first + 2 || e.type != "f32" ||
      e.variant.find("transposed") != e.variant.npos)
    return {};
  const tensor_sizes source = onednn_dimensions(shapes[first]),
                     weights = onednn_dimensions(shapes[first + 1]), one{1};
  const tensor_sizes stride = sizes_after(e.variant, 's'), groups = sizes_after(e.variant, 'g');
  if (source.size() != 4 || weights.size() != 4 || weights[2] != 3 || weights[3] != 3 ||
      sizes_after(e.variant, 'p') != one || sizes_after(e.variant, 'd') != one ||
      stride.size() != 1 || stride[0] < 1 || groups.size() != 1 || groups[0] < 1 ||
      source[1] / groups[0] != weights[1] || source[1] % groups[0] != 0)
    return {};
  const auto output = [&](std::int64_t side) {
    return std::ceil(static_cast<double>(side) / static_cast<double>(stride[0]));
  };
  const conv_layer layer{source[1],
                         weights[0],
                         groups[0],
                         stride[0],
                         e.variant.find("channels_last") != e.variant.npos,
                         static_cast<double>(source[0]) * output(source[2]) * output(source[3])};
  const tensor_sizes shape{source[0], source[1], source[2], source[3], weights[0]};
  if (is_for_conv3x3(layer)) return {"conv3x3", layer.is_channels_last ? "nhwc" : "", shape};
  if (!is_for_grouped_conv3x3(layer)) return {};
  return {"grouped_conv3x3",
          std::string(layer.is_channels_last ? "nhwc_" : "") +
              (layer.stride == 2 ? "stride2_" : "") + "groups" + std::to_string(layer.groups),
          shape};
}

inline void describe_convolution(const torch_operator& o, const entry& e,
                                 const vecdet_convolution& by, replaceable& made) {
  const std::size_t gradients = e.variant.find("grads");
  const auto add = [&](const char* suffix) {
    const std::string function = by.function + suffix;
    made.by += (made.by.empty() ? "" : ", ") + function;
    made.problems.push_back(entry_of(function.c_str(), by.variant, e.type, by.shape));
  };
  if (is_forward_convolution(o)) return add("");
  if (gradients == e.variant.npos || gradients + 7 > e.variant.size()) return;
  if (e.variant[gradients + 5] == '1') add("_input_grad");
  if (e.variant[gradients + 6] == '1') add("_weight_grad");
}

inline void describe_roi_align(const torch_operator& o, const std::string& type, bool forward,
                               replaceable& made) {
  made.by = forward ? "roi_align" : "roi_align_grad";
  const std::size_t sampling_at = forward ? 5 : 9;
  std::int64_t rows = 0, columns = 0;
  if (o.concrete(sampling_at + 1).empty() || !parse_size(o.concrete(3), rows) ||
      !parse_size(o.concrete(4), columns)) {
    made.why_unknown = "its arguments were not recorded, which PyTorch does since 2.1";
    return;
  }
  const tensor_sizes& boxes = o.sizes(1);
  const tensor_sizes& channels_of = o.sizes(0);
  if (boxes.size() != 2 || channels_of.size() != 4) return;
  std::int64_t sampling = 0;
  const bool fixed = parse_size(o.concrete(sampling_at), sampling) && sampling > 0;
  made.problems.push_back(
      entry_of(made.by.c_str(),
               std::string(o.concrete(sampling_at + 1) == "True" ? "aligned1_" : "aligned0_") +
                   (fixed ? "sampling" + std::to_string(sampling) : "adaptive"),
               type, {boxes[0], channels_of[1], rows, columns}));
}

}  // namespace vecdet::profile
