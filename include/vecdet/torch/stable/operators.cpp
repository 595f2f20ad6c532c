// SPDX-License-Identifier: Apache-2.0
// The operators of vecdet::torch on PyTorch's stable ABI, in the library that the Python package
// loads: those that are not generated, and the registration of all. Gradients and autocast are in
// the package (python/vecdet/torch/_stable.py).
#include <vecdet/impl/torch/conv3x3.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/stable/kernel.hpp>
#include <vecdet/keep_memory.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace stable {

namespace cpu = aten::cpu;

void define_convolutions(library& library) {
  library.define(
      "conv3x3(Tensor input, Tensor weight, Tensor? bias=None, bool relu=False) -> Tensor");
  library.define(
      "conv3x3_levels(Tensor[] inputs, Tensor weight, Tensor? bias=None, bool relu=False) -> "
      "Tensor[]");
  library.define(
      "_conv3x3(Tensor[] inputs, Tensor weight, Tensor? bias, bool relu, bool keeps_weights) -> "
      "Tensor[]",
      &boxed<&cpu::conv3x3>::call);
  library.define(
      "_conv3x3_grad(Tensor[] upstream, Tensor[] relu_outputs, Tensor[] inputs, Tensor weight, "
      "bool needs_inputs, bool needs_weight, bool needs_bias) -> (Tensor[], Tensor, Tensor)",
      &boxed<&cpu::conv3x3_grad>::call);
  library.define(aten::watched_memory::schema);
}

namespace {

/// Finds PyTorch's functions and defines all operators.
void define_all() {
  torch.find();
  auto registered = std::make_unique<library>();
  define_assignment(*registered);
  define_attention(*registered);
  define_box_losses(*registered);
  define_boxes(*registered);
  define_class_losses(*registered);
  define_convolutions(*registered);
  define_ctc_loss(*registered);
  define_detections(*registered);
  define_grouped_convolution(*registered);
  define_head_losses(*registered);
  define_masks(*registered);
  define_normalization(*registered);
  define_pooling(*registered);
  define_queries(*registered);
  define_roi_align(*registered);
  define_softmax_losses(*registered);
  define_two_stage(*registered);
  registered.release();  // never removed: tensors may need it after static objects
}

}  // namespace
}  // namespace stable
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet

#define VECDET_EXPORT extern "C" __attribute__((visibility("default")))

namespace aten = vecdet::detail::aten;

/// Defines the operators torch.ops.vecdet.* in the PyTorch that the process has loaded. Call it
/// once.
/// @return null, or what is wrong; then nothing is defined. The text stays until the next call.
VECDET_EXPORT const char* vecdet_torch_register() {
  static std::string failure;
  try {
    vecdet::detail::stable::define_all();
    return nullptr;
  } catch (const std::exception& error) {
    failure = error.what();
    return failure.c_str();
  }
}

/// Frees the memory that the operators hold for later calls, and returns its size in bytes.
VECDET_EXPORT std::int64_t vecdet_torch_free_cached_memory() {
  return static_cast<std::int64_t>(aten::gradient_buffers::get().free() +
                                   aten::kept_weights::get().free());
}

/// As keep_memory().
VECDET_EXPORT int vecdet_torch_keep_memory() { return vecdet::keep_memory() ? 1 : 0; }

/// Frees the transformed weights of the tensor whose data is at the address.
VECDET_EXPORT void vecdet_torch_free_transformed_weights(const void* address) {
  aten::kept_weights::get().free_of(address);
}
