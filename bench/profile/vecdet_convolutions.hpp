// SPDX-License-Identifier: Apache-2.0
// Recorded 3x3 convolutions, run by vecdet instead of oneDNN.
#pragma once

#include "../support/conv_operands.hpp"
#include "onednn_log.hpp"
#include "primitives.hpp"
#include "torch_rules.hpp"
#include <vecdet/conv3x3.hpp>
#include <vecdet/parallel.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace vecdet::profile {
namespace detail {

/// Returns the whole pages of an array to the system. They then hold zeros.
inline void drop_pages(std::vector<float>& array) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(array.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + array.size() * sizeof(float)) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

/// Runs the function that `propagation` names. The caller's arena sets the threads.
template <class Operands>
runnable_primitive run_operands(const char* function, const std::string& propagation,
                                const std::shared_ptr<Operands>& operands) {
  runnable_primitive made;
  made.implementation = function;
  if (propagation == "backward_data") {
    made.run = [operands] { operands->backward_input(threading::parallel); };
    made.drop_output_pages = [operands] { drop_pages(operands->input_grad); };
  } else if (propagation == "backward_weights") {
    made.run = [operands] { operands->backward_weight(threading::parallel); };
    made.drop_output_pages = [operands] { drop_pages(operands->weight_grad); };
  } else {
    made.run = [operands] { operands->forward(threading::parallel); };
    made.drop_output_pages = [operands] { drop_pages(operands->output); };
  }
  return made;
}

}  // namespace detail

/// The convolution as conv3x3() or grouped_conv3x3() computes it, on float tensors of the layout,
/// nchw or channels_last. conv3x3() transforms the weights in every run, as in training. `run` is
/// empty where neither function can compute the problem, or is faster according to its rule.
inline runnable_primitive make_vecdet_convolution(const onednn_problem& problem,
                                                  const std::string& layout) {
  const std::map<std::string, std::int64_t> sizes = onednn_sizes(problem.shapes);
  const auto is = [&](const char* name, std::int64_t size) {
    const auto found = sizes.find(name);
    return found != sizes.end() && found->second == size;
  };
  const bool fits = problem.primitive == "convolution" && sizes.count("id") == 0 && is("kh", 3) &&
                    is("kw", 3) && is("dh", 0) && is("dw", 0) && is("ph", 1) && is("pw", 1) &&
                    sizes.count("oh") != 0 && sizes.count("ow") != 0 && sizes.count("sh") != 0 &&
                    is("sw", sizes.at("sh"));
  if (!fits) return {};
  const auto groups = sizes.find("g");
  const index_t images = sizes.at("mb"), height = sizes.at("ih"), width = sizes.at("iw");
  const conv_layer layer{sizes.at("ic"),
                         sizes.at("oc"),
                         groups == sizes.end() ? 1 : groups->second,
                         sizes.at("sh"),
                         layout == "channels_last",
                         static_cast<double>(images) * static_cast<double>(sizes.at("oh")) *
                             static_cast<double>(sizes.at("ow"))};
  const feature_layout maps = layer.is_channels_last ? feature_layout::nhwc : feature_layout::nchw;
  if (is_for_conv3x3(layer)) {
    if (!conv3x3_is_faster(layer.inputs, layer.outputs, images * height * width, true)) return {};
    const bench::conv_shape shape{images, layer.inputs, height, width, layer.outputs};
    return detail::run_operands(
        "conv3x3", problem.propagation,
        std::make_shared<bench::conv3x3_operands<>>(shape.with_layout(maps)));
  }
  const bench::grouped_conv_shape shape{images,        layer.inputs, height,      width,
                                        layer.outputs, layer.groups, layer.stride};
  // The sizes of the output tell the padding at the lower and right border, which has no name.
  if (!is_for_grouped_conv3x3(layer) || !is("oh", shape.output_height()) ||
      !is("ow", shape.output_width()))
    return {};
  return detail::run_operands(
      "grouped_conv3x3", problem.propagation,
      std::make_shared<bench::grouped_conv_operands>(shape.with_layout(maps)));
}

}  // namespace vecdet::profile
