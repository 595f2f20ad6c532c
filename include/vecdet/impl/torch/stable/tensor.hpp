// SPDX-License-Identifier: Apache-2.0
// Tensors on PyTorch's stable ABI, with the names and the meaning of ATen's.
#pragma once

#include <vecdet/impl/torch/stable/types.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace at {

namespace stable = detail::stable;
using stable::torch;

/// Whether elements lie without gaps, channels last if `is_last`. As in libtorch, the strides of
/// dimensions of one element do not count.
inline bool are_dense(IntArrayRef sizes, IntArrayRef strides, bool is_last) {
  static constexpr std::size_t last[] = {0, 2, 3, 1};
  if (is_last && sizes.size() != 4) return false;
  std::int64_t expected = 1;
  for (std::size_t k = sizes.size(); k-- > 0;) {
    const std::size_t d = is_last ? last[k] : k;
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

/// A tensor of libtorch. Copies refer to the same one.
class Tensor {
 public:
  Tensor() = default;
  /// Takes ownership.
  explicit Tensor(stable::tensor_handle handle) : owner_(std::make_shared<owner>(handle)) {}

  stable::tensor_handle handle() const { return owner_->handle; }
  /// A handle that the caller owns.
  stable::tensor_handle released() && {
    if (owner_ == nullptr)
      return stable::get<stable::tensor_handle>(torch.aoti_torch_new_uninitialized_tensor);
    if (owner_.use_count() == 1) return std::exchange(owner_->handle, nullptr);
    return stable::get<stable::tensor_handle>(torch.aoti_torch_new_tensor_handle, handle());
  }

  bool defined() const {
    return owner_ != nullptr && stable::get<bool>(torch.aoti_torch_is_defined, handle());
  }
  bool is_same(const Tensor& other) const { return owner_ == other.owner_; }
  std::int64_t dim() const { return stable::get<std::int64_t>(torch.aoti_torch_get_dim, handle()); }
  std::int64_t numel() const {
    return stable::get<std::int64_t>(torch.aoti_torch_get_numel, handle());
  }
  IntArrayRef sizes() const {
    return {stable::get<std::int64_t*>(torch.aoti_torch_get_sizes, handle()),
            static_cast<std::size_t>(dim())};
  }
  IntArrayRef strides() const {
    return {stable::get<std::int64_t*>(torch.aoti_torch_get_strides, handle()),
            static_cast<std::size_t>(dim())};
  }
  std::int64_t size(std::int64_t d) const { return sizes()[index(d)]; }
  std::int64_t stride(std::int64_t d) const { return strides()[index(d)]; }
  IntArrayRef sym_sizes() const { return sizes(); }
  std::int64_t sym_size(std::int64_t d) const { return size(d); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return format == MemoryFormat::Contiguous
               ? stable::get<bool>(torch.aoti_torch_is_contiguous, handle())
               : are_dense(sizes(), strides(), true);
  }
  ScalarType scalar_type() const {
    return type_of(stable::get<std::int32_t>(torch.aoti_torch_get_dtype, handle()));
  }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  std::size_t element_size() const;
  TensorOptions options() const { return {scalar_type()}; }
  Device device() const {
    return Device(stable::get<std::int32_t>(torch.aoti_torch_get_device_type, handle()) ==
                  torch.aoti_torch_device_type_cpu());
  }
  Layout layout() const {
    return stable::get<std::int32_t>(torch.aoti_torch_get_layout, handle()) ==
                   torch.aoti_torch_layout_strided()
               ? kStrided
               : kOtherLayout;
  }
  void* data_ptr() const { return stable::get<void*>(torch.torch_get_mutable_data_ptr, handle()); }

  const Tensor& copy_(const Tensor& from) const;
  const Tensor& resize_(IntArrayRef sizes) const;
  Tensor to(ScalarType type) const;
  Tensor permute(IntArrayRef dimensions) const;
  Tensor movedim(std::int64_t from, std::int64_t to) const;
  Tensor new_empty_symint(IntArrayRef sizes) const;
  Tensor new_empty_symint(IntArrayRef sizes, const TensorOptions& options) const;

 private:
  struct owner {
    stable::tensor_handle handle;

    explicit owner(stable::tensor_handle given) : handle(given) {}
    ~owner() {
      if (handle != nullptr) torch.aoti_torch_delete_tensor_object(handle);
    }
    owner(const owner&) = delete;
    owner& operator=(const owner&) = delete;
  };

  std::size_t index(std::int64_t d) const {
    return static_cast<std::size_t>(d < 0 ? d + dim() : d);
  }

  std::shared_ptr<owner> owner_;
};
using TensorList = ArrayRef<Tensor>;

// Values on a stack.

inline stable::value as_value(const Tensor& tensor) {
  return reinterpret_cast<stable::value>(Tensor(tensor).released());
}
inline stable::value as_value(Tensor&& tensor) {
  return reinterpret_cast<stable::value>(std::move(tensor).released());
}
template <class Number, class = std::enable_if_t<std::is_arithmetic<Number>::value>>
stable::value as_value(Number number) {
  stable::value bits = 0;
  std::memcpy(&bits, &number, sizeof(number));
  return bits;
}
template <class T>
stable::value as_value(ArrayRef<T> list) {
  const auto handle =
      stable::get<stable::list_handle>(torch.torch_new_list_reserve_size, list.size());
  for (const T& each : list) stable::checked(torch.torch_list_push_back(handle, as_value(each)));
  return reinterpret_cast<stable::value>(handle);
}
/// A value of an optional type.
template <class T>
stable::value as_present(const T& given) {
  stable::value* place = nullptr;
  if (torch.torch_new_stable_ivalue != nullptr)
    stable::checked(torch.torch_new_stable_ivalue(&place));
  else
    place = new stable::value;
  *place = as_value(given);
  return reinterpret_cast<stable::value>(place);
}
constexpr stable::value absent = 0;

inline Tensor taken(stable::value given) {
  return Tensor(reinterpret_cast<stable::tensor_handle>(given));
}

/// Calls an operator and returns its first result.
template <class... Values>
Tensor call(const char* name, const char* overload, Values... values) {
  stable::value stack[] = {values...};
  stable::checked(torch.torch_call_dispatcher(name, overload, stack, stable::abi_version));
  return taken(stack[0]);
}

inline std::size_t Tensor::element_size() const { return c10::elementSize(scalar_type()); }
inline const Tensor& Tensor::copy_(const Tensor& from) const {
  call("aten::copy_", "", as_value(*this), as_value(from), as_value(false));
  return *this;
}
inline const Tensor& Tensor::resize_(IntArrayRef sizes) const {
  call("aten::resize_", "", as_value(*this), as_value(sizes), absent);
  return *this;
}
inline Tensor Tensor::permute(IntArrayRef dimensions) const {
  return call("aten::permute", "", as_value(*this), as_value(dimensions));
}
inline Tensor Tensor::movedim(std::int64_t from, std::int64_t to) const {
  std::vector<std::int64_t> order;
  const auto moved = static_cast<std::int64_t>(index(from));
  for (std::int64_t d = 0; d < dim(); ++d)
    if (d != moved) order.push_back(d);
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(index(to)), moved);
  return permute(order);
}

// New tensors.

/// The CPU has no index; cpu:0 is another device to from_blob().
constexpr std::int32_t no_index = -1;

inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return Tensor(stable::get<stable::tensor_handle>(
      torch.aoti_torch_empty_strided, static_cast<std::int64_t>(sizes.size()), sizes.data(),
      strides.data(), code_of(options.dtype().toScalarType()),
      options.device() == kMeta ? torch.aoti_torch_device_type_meta()
                                : torch.aoti_torch_device_type_cpu(),
      no_index));
}
inline Tensor empty(IntArrayRef sizes, const TensorOptions& options,
                    MemoryFormat format = MemoryFormat::Contiguous) {
  static constexpr std::size_t last[] = {0, 2, 3, 1};
  std::array<std::int64_t, 8> few{};
  std::vector<std::int64_t> many(sizes.size() > few.size() ? sizes.size() : 0);
  std::int64_t* const strides = many.empty() ? few.data() : many.data();
  std::int64_t next = 1;
  for (std::size_t k = sizes.size(); k-- > 0;) {
    const std::size_t d = format == MemoryFormat::ChannelsLast && sizes.size() == 4 ? last[k] : k;
    strides[d] = next;
    next *= sizes[d] > 0 ? sizes[d] : 1;
  }
  return empty_strided(sizes, {strides, sizes.size()}, options);
}
/// With the strides of `like`, or with dense ones in the same order if it has gaps.
inline Tensor empty_like(const Tensor& like, const TensorOptions& options) {
  const IntArrayRef sizes = like.sizes();
  if (like.is_contiguous()) return empty(sizes, options);
  if (are_dense(sizes, like.strides(), true))
    return empty(sizes, options, MemoryFormat::ChannelsLast);
  const Tensor same =
      call("aten::empty_like", "", as_value(like), absent, absent, absent, absent, absent);
  return options.dtype().toScalarType() == like.scalar_type() && options.device() == kCPU
             ? same
             : empty_strided(sizes, same.strides(), options);
}
inline Tensor empty_like(const Tensor& like) { return empty_like(like, like.options()); }
inline Tensor empty_like(const Tensor& like, const TensorOptions&, MemoryFormat format) {
  return empty(like.sizes(), like.options(), format);
}
inline Tensor empty_symint(IntArrayRef sizes, const TensorOptions& options,
                           MemoryFormat format = MemoryFormat::Contiguous) {
  return empty(sizes, options, format);
}
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options) {
  const Tensor made = empty(sizes, options);
  std::memset(made.data_ptr(), 0, static_cast<std::size_t>(made.numel()) * made.element_size());
  return made;
}
inline Tensor Tensor::to(ScalarType type) const {
  if (type == scalar_type()) return *this;
  Tensor converted = empty_like(*this, type);
  converted.copy_(*this);
  return converted;
}
inline Tensor Tensor::new_empty_symint(IntArrayRef sizes, const TensorOptions& options) const {
  return empty(sizes, options);
}
inline Tensor Tensor::new_empty_symint(IntArrayRef sizes) const { return empty(sizes, options()); }

}  // namespace at

namespace c10 {

/// Memory with what frees it.
class DataPtr {
 public:
  using deleter = void (*)(void*);

  DataPtr() = default;
  DataPtr(void* data, void* context, deleter free, at::DeviceKind)
      : memory_(context, free), data_(data) {}
  void* get() const { return data_; }
  void* release_context() { return memory_.release(); }
  deleter get_deleter() const { return memory_.get_deleter(); }

 private:
  std::unique_ptr<void, deleter> memory_{nullptr, [](void*) {}};
  void* data_ = nullptr;
};

}  // namespace c10

namespace at {

struct cpu_allocator {
  c10::DataPtr allocate(std::size_t bytes) const {
    void* const data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (data == nullptr) throw std::bad_alloc();
    return {data, data, [](void* memory) { std::free(memory); }, kCPU};
  }
};
inline const cpu_allocator* getCPUAllocator() {
  static constexpr cpu_allocator allocator;
  return &allocator;
}

/// A tensor on memory that `free` gives back.
template <class Free>
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const Free& free,
                 const TensorOptions& options) {
  auto context = std::make_unique<Free>(free);
  stable::tensor_handle handle = nullptr;
  const stable::status result = torch.torch_from_blob(
      data, static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(), 0,
      code_of(options.dtype().toScalarType()), torch.aoti_torch_device_type_cpu(), no_index,
      &handle, torch.aoti_torch_layout_strided(), nullptr, 0,
      [](void* memory, void* of) {
        const std::unique_ptr<Free> owned(static_cast<Free*>(of));
        (*owned)(memory);
      },
      context.get());
  if (result != 0) free(data);
  stable::checked(result);
  context.release();
  return Tensor(handle);
}

// Threads.

inline int get_num_threads() {
  return static_cast<int>(stable::get<std::uint32_t>(torch.torch_get_num_threads));
}
inline bool& is_inside_loop() {
  static thread_local bool value = false;
  return value;
}
/// Whether the caller is in a loop of parallel_for(). Those of libtorch itself are not known here;
/// inside them, parallel_for() runs on the calling thread.
inline bool in_parallel_region() { return is_inside_loop(); }

template <class Body>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Body& body) {
  struct loop {
    const Body* body;
    std::mutex mutex;
    std::exception_ptr failure;
  } shared{&body, {}, {}};
  const stable::status result = torch.torch_parallel_for(
      begin, end, grain,
      [](std::int64_t from, std::int64_t to, void* context) {
        loop& run = *static_cast<loop*>(context);
        const bool before = std::exchange(is_inside_loop(), true);
        try {
          (*run.body)(from, to);
        } catch (...) {  // must not pass through functions of C
          const std::lock_guard<std::mutex> lock(run.mutex);
          run.failure = std::current_exception();
        }
        is_inside_loop() = before;
      },
      &shared);
  if (shared.failure != nullptr) std::rethrow_exception(shared.failure);
  stable::checked(result);
}

}  // namespace at

namespace detail {
namespace aten {

using optional_tensor = std::optional<at::Tensor>;

/// Whether tensors can own memory that was allocated here: from PyTorch 2.11 on.
inline bool can_adopt_memory() { return stable::torch.torch_from_blob != nullptr; }

inline std::int64_t known_size(std::int64_t size) { return size; }

/// The stable ABI has no weak references, but Python has: an operator in Python watches the
/// tensor's memory, and calls vecdet_torch_free_transformed_weights() for memory that is gone.
class watched_memory {
 public:
  static constexpr const char* schema = "_watch_weight(Tensor weight) -> ()";

  explicit watched_memory(const at::Tensor& tensor) {
    stable::value stack[] = {at::as_value(tensor)};
    stable::checked(stable::torch.torch_call_dispatcher("vecdet::_watch_weight", "", stack,
                                                        stable::abi_version));
  }
  bool is_gone() const { return false; }
};

}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
