// SPDX-License-Identifier: Apache-2.0
// The buffers of mask_nms_workspace.
#pragma once

#include <vecdet/impl/mask_bits_buffers.hpp>
#include <vecdet/impl/nms_buffers.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

struct mask_nms_buffers {
  mask_bits_buffers masks;
  nms_buffers nms;
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
