// SPDX-License-Identifier: Apache-2.0
// Memory of gradients. A large gradient that is freed keeps its memory here for the next one:
// malloc would return it to the system, and every page of the next gradient would fault.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/impl/torch/aten.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// Buffers that are not in use, max_bytes in total at most. A buffer is reused for gradients of at
/// least four fifths of its size. If the total would exceed the limit, the buffers that have been
/// unused for longest are freed. May be used by any number of threads.
class gradient_buffers {
 public:
  /// For smaller gradients, malloc itself reuses memory.
  static constexpr std::size_t min_bytes = std::size_t(1) << 20;
  /// RetinaNet's gradients of 264 classes for four images of 800 x 800.
  static constexpr std::size_t max_bytes = std::size_t(512) << 20;

  static gradient_buffers& get() {
    // Never destroyed: tensors may be freed after static objects.
    static auto* const buffers = new gradient_buffers;
    return *buffers;
  }

  /// Whether a tensor of this size gets its memory here.
  static bool keeps(std::int64_t elements, at::ScalarType type) {
    return static_cast<std::size_t>(elements) * c10::elementSize(type) >= min_bytes &&
           can_adopt_memory();
  }

  /// A tensor with the type, sizes and strides of `like`, which needs no data.
  at::Tensor make(const at::Tensor& like) {
    const at::TensorOptions options = like.options().device(at::kCPU);
    const std::size_t bytes = static_cast<std::size_t>(like.numel()) * like.element_size();
    buffer taken = take(bytes);
    if (taken.bytes == 0) taken = {at::getCPUAllocator()->allocate(bytes), bytes};
    void* const data = taken.memory.get();
    const auto give_back = [size = taken.bytes, context = taken.memory.release_context(), data,
                            deleter = taken.memory.get_deleter()](void*) {
      get().keep({c10::DataPtr(data, context, deleter, at::kCPU), size});
    };
    return at::from_blob(data, like.sizes(), like.strides(), give_back, options);
  }

  /// Frees the unused buffers.
  /// @return their size in bytes
  std::size_t free() {
    std::deque<buffer> freed;
    const std::lock_guard<std::mutex> lock(mutex_);
    freed.swap(unused_);
    return std::exchange(bytes_, 0);
  }

 private:
  struct buffer {
    c10::DataPtr memory;
    std::size_t bytes = 0;
  };

  /// The smallest suitable buffer, or an empty one.
  buffer take(std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto best = unused_.end();
    for (auto each = unused_.begin(); each != unused_.end(); ++each) {
      if (each->bytes >= bytes && each->bytes / 5 * 4 <= bytes &&
          (best == unused_.end() || each->bytes < best->bytes))
        best = each;
    }
    if (best == unused_.end()) return {};
    buffer taken = std::move(*best);
    unused_.erase(best);
    bytes_ -= taken.bytes;
    return taken;
  }

  void keep(buffer given) {
    if (given.bytes > max_bytes) return;
    std::deque<buffer> freed;  // after the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_ += given.bytes;
    unused_.push_back(std::move(given));
    while (bytes_ > max_bytes) {
      bytes_ -= unused_.front().bytes;
      freed.push_back(std::move(unused_.front()));
      unused_.pop_front();
    }
  }

  std::mutex mutex_;
  std::deque<buffer> unused_;  ///< longest unused first
  std::size_t bytes_ = 0;
};

/// Memory for the gradient with respect to `input`: with its strides, or with dense strides if it
/// has gaps.
inline at::Tensor gradient_like(const at::Tensor& input, at::ScalarType type) {
  const at::TensorOptions options = input.options().dtype(type);
  if (!gradient_buffers::keeps(input.numel(), type)) return at::empty_like(input, options);
  return gradient_buffers::get().make(at::empty_like(input, options.device(at::kMeta)));
}
inline at::Tensor gradient_like(const at::Tensor& input) {
  return gradient_like(input, input.scalar_type());
}
/// The same if only the sizes of the input are known.
inline at::Tensor gradient_of(at::IntArrayRef sizes, at::ScalarType type,
                              at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  const at::TensorOptions options(type);
  if (!gradient_buffers::keeps(c10::multiply_integers(sizes), type))
    return at::empty(sizes, options, format);
  return gradient_buffers::get().make(at::empty(sizes, options.device(at::kMeta), format));
}

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
