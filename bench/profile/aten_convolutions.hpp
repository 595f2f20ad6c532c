// SPDX-License-Identifier: Apache-2.0
// PyTorch's convolutions, as recorded by the profiler's bridge (vecdet/torch/profile.hpp),
// converted to the oneDNN primitives that compute them:
//   aten::convolution/s2,p3,d1,g1/f32/1x3x224x224,64x3x7x7,64
//   aten::convolution_backward/s2,p3,d1,g1,channels_last,grads110/f32/<result>,<source>,<weights>
#pragma once

#include "onednn_log.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace vecdet::profile {

inline bool is_aten_convolution(const entry& e) {
  return e.function == "aten::convolution" || e.function == "aten::convolution_backward";
}

/// The primitives of one call and the layout of its tensors.
struct aten_convolution {
  std::vector<onednn_problem> problems;
  std::string layout;  ///< nchw or channels_last
};

namespace detail {

/// A record's variant: each value is for all dimensions or per dimension.
struct aten_window {
  std::vector<std::int64_t> strides{1}, padding{0}, dilation{1};
  std::int64_t groups = 1;
  bool transposed = false, channels_last = false, for_source = true, for_weights = true,
       for_bias = false;
};

inline aten_window read_aten_window(const std::string& variant) {
  aten_window w;
  bool has_strides = false;
  for (const std::string& word : split_text(variant, ',')) {
    const auto sizes = [&] {
      std::vector<std::int64_t> found = onednn_dimensions(word.substr(1));
      for (const std::int64_t size : found) {
        if (size > 1 << 20) found.clear();
      }
      if (found.empty()) throw std::runtime_error("\"" + word + "\" is not known to replay");
      return found;
    };
    if (word == "channels_last") {
      w.channels_last = true;
    } else if (word == "transposed") {
      w.transposed = true;
    } else if (starts_with(word, "grads") && word.size() == 8) {
      w.for_source = word[5] == '1';
      w.for_weights = word[6] == '1';
      w.for_bias = word[7] == '1';
    } else if (starts_with(word, "s")) {
      w.strides = sizes();
      has_strides = true;
    } else if (starts_with(word, "p")) {
      w.padding = sizes();
    } else if (starts_with(word, "d")) {
      w.dilation = sizes();
    } else if (starts_with(word, "g")) {
      w.groups = sizes()[0];
    } else if (starts_with(word, "o")) {
      sizes();
    } else {
      throw std::runtime_error("\"" + word + "\" is not known to replay");
    }
  }
  if (!has_strides) throw std::runtime_error("its strides and padding were not recorded");
  return w;
}

inline onednn_tensor aten_tensor(const char* name, const std::string& type) {
  onednn_tensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.format = tensor.layout = "any";
  return tensor;
}

}  // namespace detail

/// Parses the record; throws std::runtime_error that names the unknown part.
inline aten_convolution read_aten_convolution(const entry& e) {
  const detail::aten_window w = detail::read_aten_window(e.variant);
  if (w.transposed)
    throw std::runtime_error("transposed convolutions are replayed from oneDNN's log");
  const bool forward = e.function == "aten::convolution";
  std::vector<std::vector<std::int64_t>> shapes;
  // The writers and readers of profiles keep everything after the type in the list of shapes.
  for (const std::string& text : split_text(e.implementation, ','))
    shapes.push_back(onednn_dimensions(text));
  const std::size_t first = forward ? 0 : 1;
  const auto fail = [&]() -> std::runtime_error {
    return std::runtime_error("its shapes \"" + e.implementation + "\" are not known to replay");
  };
  if (shapes.size() < first + 2) throw fail();
  const std::vector<std::int64_t>& source = shapes[first];
  const std::vector<std::int64_t>& weights = shapes[first + 1];
  if (source.size() < 3 || source.size() > 5 || source.size() != weights.size() || w.groups < 1)
    throw fail();
  for (const auto& shape : shapes) {
    for (const std::int64_t size : shape) {
      if (size > 1 << 30) throw std::runtime_error("too large for this machine");
    }
  }
  // oneDNN counts dilation from 0.
  std::string text = (w.groups > 1 ? "g" + std::to_string(w.groups) : "") + "mb" +
                     std::to_string(source[0]) + "_ic" + std::to_string(source[1]) + "oc" +
                     std::to_string(weights[0]);
  const std::string letters = std::string("dhw").substr(5 - source.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    const auto of = [&](const std::vector<std::int64_t>& sizes) {
      return sizes[std::min(i, sizes.size() - 1)];
    };
    const std::int64_t in = source[i + 2], kernel = weights[i + 2], stride = of(w.strides);
    const std::int64_t left = of(w.padding), dilation = of(w.dilation);
    const std::int64_t extent = (kernel - 1) * dilation + 1;
    if (stride < 1 || dilation < 1 || in + 2 * left < extent) throw fail();
    const std::int64_t out = (in + 2 * left - extent) / stride + 1;
    const auto add = [&](const char* name, std::int64_t size) {
      text += name + std::string(1, letters[i]) + std::to_string(size);
    };
    text += '_';
    add("i", in), add("o", out), add("k", kernel), add("s", stride), add("d", dilation - 1);
    add("p", left);
  }
  aten_convolution found;
  found.layout = w.channels_last ? "channels_last" : "nchw";
  onednn_problem problem;
  problem.primitive = "convolution";
  problem.auxiliary = "alg:convolution_direct";
  problem.shapes = text;
  problem.threads = e.threads;
  for (const char* name : {"src", "wei", "dst"})
    problem.tensors.push_back(detail::aten_tensor(name, e.type));
  const auto add = [&](const char* propagation, bool with_bias) {
    found.problems.push_back(problem);
    found.problems.back().propagation = propagation;
    if (with_bias) found.problems.back().tensors.push_back(detail::aten_tensor("bia", e.type));
  };
  if (forward) add("forward_training", shapes.size() > 2);
  if (!forward && w.for_source) add("backward_data", false);
  if (!forward && w.for_weights) add("backward_weights", w.for_bias);
  if (found.problems.empty()) throw std::runtime_error("no gradient was asked of it");
  return found;
}

}  // namespace vecdet::profile
