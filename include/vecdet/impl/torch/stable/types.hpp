// SPDX-License-Identifier: Apache-2.0
// Lists, element types and options of tensors: the part of ATen's vocabulary that the functions of
// operators use, with its names.
#pragma once

#include <vecdet/impl/torch/stable/shim.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#define TORCH_CHECK(holds, ...)                                                \
  do {                                                                         \
    if (!(holds)) throw std::runtime_error(::vecdet::at::joined(__VA_ARGS__)); \
  } while (false)

namespace vecdet {
inline namespace VECDET_ABI {
namespace at {

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// A list that is stored elsewhere.
template <class T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, std::size_t size) : data_(data), size_(size) {}
  ArrayRef(const T& one) : data_(&one), size_(1) {}
  ArrayRef(const std::vector<T>& list) : data_(list.data()), size_(list.size()) {}
  template <std::size_t N>
  ArrayRef(const T (&list)[N]) : data_(list), size_(N) {}
  template <std::size_t N>
  ArrayRef(const std::array<T, N>& list) : data_(list.data()), size_(N) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // as an argument, the list outlives the call
#endif
  ArrayRef(std::initializer_list<T> list) : data_(list.begin()), size_(list.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  /// The count is of any integer type: callers pass sizes and dimensions.
  template <class Count>
  ArrayRef slice(std::size_t first, Count count) const {
    return {data_ + first, static_cast<std::size_t>(count)};
  }
  ArrayRef slice(std::size_t first) const { return slice(first, size_ - first); }
  std::vector<T> vec() const { return {begin(), end()}; }

  friend bool operator==(const ArrayRef& a, const ArrayRef& b) {
    bool are_equal = a.size_ == b.size_;
    for (std::size_t i = 0; are_equal && i < a.size_; ++i) are_equal = a.data_[i] == b.data_[i];
    return are_equal;
  }
  friend std::ostream& operator<<(std::ostream& out, const ArrayRef& list) {
    out << '[';
    for (std::size_t i = 0; i < list.size_; ++i) out << (i == 0 ? "" : ", ") << list.data_[i];
    return out << ']';
  }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};
using IntArrayRef = ArrayRef<std::int64_t>;

/// The number of a type here; codes() has its number in libtorch.
enum class ScalarType : std::int8_t {
  Float,
  BFloat16,
  Half,
  Double,
  Float8_e5m2,
  Float8_e4m3fn,
  Float8_e5m2fnuz,
  Float8_e4m3fnuz,
  Long,
  Int,
  Short,
  Char,
  Byte,
  Bool,
  UInt16,
  UInt32,
  UInt64,
  ComplexHalf,
  ComplexFloat,
  ComplexDouble,
  Other
};
constexpr ScalarType kFloat = ScalarType::Float, kBFloat16 = ScalarType::BFloat16,
                     kHalf = ScalarType::Half, kDouble = ScalarType::Double,
                     kLong = ScalarType::Long, kInt = ScalarType::Int, kShort = ScalarType::Short,
                     kChar = ScalarType::Char, kByte = ScalarType::Byte, kBool = ScalarType::Bool;

constexpr bool isFloatingType(ScalarType type) { return type < ScalarType::Long; }
constexpr bool isComplexType(ScalarType type) {
  return type >= ScalarType::ComplexHalf && type <= ScalarType::ComplexDouble;
}
inline bool isIntegralType(ScalarType type, bool include_bool) {
  return (type >= ScalarType::Long && type <= ScalarType::Byte) ||
         (include_bool && type == ScalarType::Bool) ||
         (type >= ScalarType::UInt16 && type <= ScalarType::UInt64);
}

/// The numbers of the types in libtorch, in the order of ScalarType.
inline const std::array<std::int32_t, static_cast<std::size_t>(ScalarType::Other)>& codes() {
  using detail::stable::torch;
  static const std::array<std::int32_t, static_cast<std::size_t>(ScalarType::Other)> numbers{
      torch.aoti_torch_dtype_float32(),         torch.aoti_torch_dtype_bfloat16(),
      torch.aoti_torch_dtype_float16(),         torch.aoti_torch_dtype_float64(),
      torch.aoti_torch_dtype_float8_e5m2(),     torch.aoti_torch_dtype_float8_e4m3fn(),
      torch.aoti_torch_dtype_float8_e5m2fnuz(), torch.aoti_torch_dtype_float8_e4m3fnuz(),
      torch.aoti_torch_dtype_int64(),           torch.aoti_torch_dtype_int32(),
      torch.aoti_torch_dtype_int16(),           torch.aoti_torch_dtype_int8(),
      torch.aoti_torch_dtype_uint8(),           torch.aoti_torch_dtype_bool(),
      torch.aoti_torch_dtype_uint16(),          torch.aoti_torch_dtype_uint32(),
      torch.aoti_torch_dtype_uint64(),          torch.aoti_torch_dtype_complex32(),
      torch.aoti_torch_dtype_complex64(),       torch.aoti_torch_dtype_complex128()};
  return numbers;
}
inline std::int32_t code_of(ScalarType type) {
  TORCH_CHECK(type != ScalarType::Other, "vecdet: a tensor of a type that vecdet does not know");
  return codes()[static_cast<std::size_t>(type)];
}
inline ScalarType type_of(std::int32_t code) {
  std::size_t i = 0;
  while (i < codes().size() && codes()[i] != code) ++i;
  return static_cast<ScalarType>(i);
}

enum class MemoryFormat { Contiguous, ChannelsLast };
enum DeviceKind { kCPU, kMeta };
enum Layout { kStrided, kOtherLayout };
inline std::ostream& operator<<(std::ostream& out, Layout layout) {
  return out << (layout == kStrided ? "Strided" : "another layout");
}
namespace Reduction {
enum Reduction { None, Mean, Sum };
}

class Device {
 public:
  explicit Device(bool is_cpu) : is_cpu_(is_cpu) {}
  bool is_cpu() const { return is_cpu_; }
  friend std::ostream& operator<<(std::ostream& out, const Device& device) {
    return out << (device.is_cpu_ ? "cpu" : "another device");
  }

 private:
  bool is_cpu_;
};

class TensorOptions {
 public:
  struct type_meta {
    ScalarType type;
    ScalarType toScalarType() const { return type; }
  };

  TensorOptions() = default;
  TensorOptions(ScalarType type, DeviceKind device = kCPU) : type_(type), device_(device) {}
  TensorOptions dtype(ScalarType type) const { return {type, device_}; }
  TensorOptions device(DeviceKind device) const { return {type_, device}; }
  type_meta dtype() const { return {type_}; }
  DeviceKind device() const { return device_; }

 private:
  ScalarType type_ = kFloat;
  DeviceKind device_ = kCPU;
};

}  // namespace at

namespace c10 {

using SymInt = std::int64_t;
using SymIntArrayRef = at::IntArrayRef;

inline const char* toString(at::ScalarType type) {
  // clang-format off
  static constexpr const char* names[] = {
      "Float", "BFloat16", "Half", "Double", "Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz",
      "Float8_e4m3fnuz", "Long", "Int", "Short", "Char", "Byte", "Bool", "UInt16", "UInt32",
      "UInt64", "ComplexHalf", "ComplexFloat", "ComplexDouble", "another type"};
  // clang-format on
  return names[static_cast<std::size_t>(type)];
}

inline std::size_t elementSize(at::ScalarType type) {
  static constexpr std::size_t sizes[] = {4, 2, 2, 8, 1, 1, 1, 1, 8,  4, 2,
                                          1, 1, 1, 2, 4, 8, 4, 8, 16, 1};
  return sizes[static_cast<std::size_t>(type)];
}

/// The type of results of two floating-point types.
inline at::ScalarType promoteTypes(at::ScalarType a, at::ScalarType b) {
  if (a == b) return a;
  return a == at::kDouble || b == at::kDouble ? at::kDouble : at::kFloat;
}

inline std::int64_t multiply_integers(at::IntArrayRef sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}

}  // namespace c10
}  // namespace VECDET_ABI
}  // namespace vecdet
