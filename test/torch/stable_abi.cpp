// SPDX-License-Identifier: Apache-2.0
// The functions of PyTorch's stable ABI have the types that vecdet declares. Compiling this file
// with the headers of PyTorch 2.11 or newer is the test; compatibility_torch.sh does so.
#include <vecdet/impl/torch/stable/shim.hpp>

#include <type_traits>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h>
#include <torch/csrc/stable/c/shim.h>

namespace vecdet::detail::stable {

#define CHECK(name, type) \
  static_assert(std::is_same_v<decltype(&::name), std::add_pointer_t<type>>, #name);
VECDET_SHIM_FUNCTIONS(CHECK)
VECDET_SHIM_NEWER_FUNCTIONS(CHECK)

static_assert(std::is_same_v<tensor_handle, AtenTensorHandle>);
static_assert(std::is_same_v<library_handle, TorchLibraryHandle>);
static_assert(std::is_same_v<list_handle, StableListHandle>);
static_assert(std::is_same_v<value, StableIValue>);
static_assert(std::is_same_v<status, AOTITorchError>);

}  // namespace vecdet::detail::stable
