// SPDX-License-Identifier: Apache-2.0
// Recorded 3x3 convolutions, run by conv3x3() instead of oneDNN.
#pragma once

#include "../support/conv_operands.hpp"
#include "onednn_log.hpp"
#include "primitives.hpp"
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

}  // namespace detail

/// The convolution as conv3x3() computes it, on float tensors of the layout, nchw or channels_last.
/// It transforms the weights in every run, as in training. `run` is empty where conv3x3() cannot
/// compute the problem, or conv3x3_is_faster() says no. The caller's arena sets the threads.
inline runnable_primitive make_minimal_filtering(const onednn_problem& problem,
                                                 const std::string& layout) {
  const std::map<std::string, std::int64_t> sizes = onednn_sizes(problem.shapes);
  const auto is = [&](const char* name, std::int64_t size) {
    const auto found = sizes.find(name);
    return found != sizes.end() && found->second == size;
  };
  const bool fits = problem.primitive == "convolution" && sizes.count("g") == 0 &&
                    sizes.count("id") == 0 && is("kh", 3) && is("kw", 3) && is("sh", 1) &&
                    is("sw", 1) && is("dh", 0) && is("dw", 0) && is("ph", 1) && is("pw", 1);
  if (!fits) return {};
  const bench::conv_shape shape{
      sizes.at("mb"), sizes.at("ic"),
      sizes.at("ih"), sizes.at("iw"),
      sizes.at("oc"), layout == "nchw" ? feature_layout::nchw : feature_layout::nhwc};
  if (!conv3x3_is_faster(shape.inputs, shape.outputs, shape.images * shape.height * shape.width,
                         true))
    return {};
  const auto operands = std::make_shared<bench::conv_operands>(shape);
  runnable_primitive made;
  made.implementation = "conv3x3";
  if (problem.propagation == "backward_data") {
    made.run = [operands] { operands->backward_input(threading::parallel); };
    made.drop_output_pages = [operands] { detail::drop_pages(operands->input_grad); };
  } else if (problem.propagation == "backward_weights") {
    made.run = [operands] { operands->backward_weight(threading::parallel); };
    made.drop_output_pages = [operands] { detail::drop_pages(operands->weight_grad); };
  } else {
    made.run = [operands] { operands->forward(threading::parallel); };
    made.drop_output_pages = [operands] { detail::drop_pages(operands->output); };
  }
  return made;
}

}  // namespace vecdet::profile
