// SPDX-License-Identifier: Apache-2.0
// The layout of feature maps: contiguous or channels last.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/impl/torch/aten.hpp>

#include <cstddef>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Whether most of the maps are channels last. If so, all maps are read and the results are written
/// in this layout.
inline bool are_channels_last(at::TensorList maps) {
  std::size_t last = 0, first = 0;
  for (const at::Tensor& map : maps) {
    if (map.is_contiguous())
      ++first;
    else if (map.is_contiguous(at::MemoryFormat::ChannelsLast))
      ++last;
  }
  return last > first;
}

inline at::MemoryFormat feature_format(bool channels_last) {
  return channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

/// A contiguous or channels-last tensor, images x channels x height x width.
template <class T>
feature_view<T> features_of(const at::Tensor& tensor, bool channels_last) {
  return {static_cast<T*>(tensor.data_ptr()),
          tensor.size(0),
          tensor.size(1),
          tensor.size(2),
          tensor.size(3),
          channels_last ? feature_layout::nhwc : feature_layout::nchw};
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
