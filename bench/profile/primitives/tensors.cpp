// SPDX-License-Identifier: Apache-2.0
// Parses memory descriptors in a log.
#include "parts.hpp"

#include <algorithm>

#include <oneapi/dnnl/dnnl_debug.h>

namespace vecdet::profile::primitives {
namespace {

/// oneDNN's layouts by the names that it prints.
const std::map<std::string, dnnl::memory::format_tag>& layouts() {
  static const std::map<std::string, dnnl::memory::format_tag> all = [] {
    std::map<std::string, dnnl::memory::format_tag> found;
    for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; ++tag)
      found.emplace(dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(tag)),
                    static_cast<dnnl::memory::format_tag>(tag));
    return found;
  }();
  return all;
}

/// Whether the layout is a plain order of the dimensions, with the right number of them.
bool is_plain(const std::string& layout, std::size_t dimensions) {
  std::string sorted = layout;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<char>('a' + i)) return false;
  }
  return sorted.size() == dimensions;
}

/// Whether it has the form aBcd16b: an order of dimensions, then sizes of their blocks.
bool is_blocked(const std::string& layout) {
  bool in_size = false, in_blocks = false;
  for (const char letter : layout) {
    const bool is_digit = letter >= '0' && letter <= '9';
    const bool is_small = letter >= 'a' && letter <= 'l';
    if (!is_digit && !is_small && (in_blocks || letter < 'A' || letter > 'L')) return false;
    if (!is_digit && in_blocks && !in_size) return false;
    in_size = is_digit;
    in_blocks = in_blocks || is_digit;
  }
  return in_blocks && !in_size;
}

dims dense_strides(const std::string& layout, const dims& dimensions) {
  dims strides(dimensions.size());
  std::int64_t stride = 1;
  for (std::size_t i = layout.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(layout[i] - 'a');
    strides[d] = stride;
    stride *= std::max<std::int64_t>(dimensions[d], 1);
  }
  return strides;
}

}  // namespace

const onednn_tensor& tensor_of(const onednn_problem& problem, const char* name) {
  const onednn_tensor* const found = problem.find(name);
  if (found == nullptr) cannot("the log names no tensor \"" + std::string(name) + "\" of it");
  return *found;
}

dnnl::memory::data_type type_of(const std::string& name) {
  using type = dnnl::memory::data_type;
  static const std::map<std::string, type> types{{"f32", type::f32}, {"bf16", type::bf16},
                                                 {"f16", type::f16}, {"s32", type::s32},
                                                 {"s8", type::s8},   {"u8", type::u8}};
  const auto found = types.find(name);
  if (found == types.end()) cannot("the type " + name + " is not known to replay");
  return found->second;
}

dnnl::memory::data_type type_of(const descriptor& tensor) {
#if DNNL_VERSION_MAJOR >= 3
  return tensor.get_data_type();
#else
  return tensor.data_type();
#endif
}

dims dimensions_of(const std::string& text) {
  const dims found = onednn_dimensions(text);
  if (found.empty() || found.size() > DNNL_MAX_NDIMS)
    cannot("its shape \"" + text + "\" is not known to replay");
  return found;
}

descriptor any_layout(const std::string& type, const dims& dimensions) {
  return {dimensions, type_of(type), dnnl::memory::format_tag::any};
}

descriptor descriptor_of(const onednn_tensor& tensor, const dims& dimensions) {
  double elements = 1;
  for (const std::int64_t dimension : dimensions)
    elements *= std::max(1.0, static_cast<double>(dimension));
  if (elements > 1e12) cannot("too large for this machine");
  if (!tensor.extra.empty()) cannot("its " + tensor.name + " holds compensation of integers");
  if (tensor.format == "any" || tensor.format == "wino" || tensor.layout == "any")
    return any_layout(tensor.type, dimensions);
  if (is_plain(tensor.layout, dimensions.size())) {
    const dims strides = tensor.strides.empty() ? dense_strides(tensor.layout, dimensions)
                                                : dimensions_of(tensor.strides);
    if (strides.size() != dimensions.size()) cannot("its strides are not those of its dimensions");
    return {dimensions, type_of(tensor.type), strides};
  }
  const auto found = layouts().find(tensor.layout);
  if (!is_blocked(tensor.layout) || !tensor.strides.empty())
    cannot("the layout \"" + tensor.layout + "\" of its " + tensor.name +
           " is not known to replay");
  // A layout without a name was oneDNN's own choice, and it chooses again.
  if (found == layouts().end()) return any_layout(tensor.type, dimensions);
  return {dimensions, type_of(tensor.type), found->second};
}

window window_of(const std::map<std::string, std::int64_t>& sizes, bool upwards) {
  window w;
  for (const char dimension : {'d', 'h', 'w'}) {
    const auto size = [&](char of) {
      const auto found = sizes.find({of, dimension});
      if (found == sizes.end()) cannot("its problem lacks " + std::string{of, dimension});
      if (found->second > 1 << 30) cannot("too large for this machine");
      return found->second;
    };
    if (sizes.count({'i', dimension}) == 0) {
      if (dimension == 'w') cannot("its problem lacks iw");
      continue;
    }
    w.in.push_back(size('i'));
    w.out.push_back(size('o'));
    w.kernel.push_back(size('k'));
    w.strides.push_back(size('s'));
    w.dilates.push_back(size('d'));
    w.padding_left.push_back(size('p'));
    const std::int64_t extent = (w.kernel.back() - 1) * (w.dilates.back() + 1) + 1;
    const std::int64_t small = upwards ? w.in.back() : w.out.back();
    const std::int64_t large = upwards ? w.out.back() : w.in.back();
    const std::int64_t left = w.padding_left.back(), stride = w.strides.back();
    // Equal padding on both ends if that gives the size, as programs request it.
    const bool symmetric = !upwards && stride > 0 && large + 2 * left >= extent &&
                           (large + 2 * left - extent) / stride + 1 == small;
    w.padding_right.push_back(symmetric ? left : (small - 1) * stride + extent - large - left);
    // oneDNN misbehaves for windows that are entirely outside their source.
    if (std::max(left, w.padding_right.back()) > extent + stride)
      cannot("its output is larger than its windows give");
  }
  return w;
}

}  // namespace vecdet::profile::primitives
