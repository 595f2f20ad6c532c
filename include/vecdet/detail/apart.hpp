// SPDX-License-Identifier: Apache-2.0
// Outputs that may not be the memory of an input: as their elements are of another size, they would
// be written where other threads still read.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Addresses [begin, end).
struct address_range {
  std::uintptr_t begin, end;

  template <class T>
  address_range(const T* data, index_t size)
      : begin(reinterpret_cast<std::uintptr_t>(data)),
        end(begin + static_cast<std::uintptr_t>(size) * sizeof(T)) {}
  template <class T>
  address_range(const vector_view<T>& view) : address_range(view.data(), view.size()) {}
  template <class T>
  address_range(const boxes_view<T>& view) : address_range(view.data(), 4 * view.size()) {}
  template <class T>
  address_range(const matrix_view<T>& view)
      : address_range(view.data(), view.rows() * view.stride()) {}

  bool empty() const { return begin == end; }
};

/// Throws where an output shares memory with an input.
inline void check_apart(const char* function, const char* output, const address_range& out,
                        const char* input, const address_range& in) {
  check(out.empty() || in.empty() || out.end <= in.begin || in.end <= out.begin, function, output,
        input, "memory apart from it");
}
template <class T>
void check_apart(const char* function, const char* output, const address_range& out,
                 const char* input, const boxes_soa_view<T>& in) {
  for (int k = 0; k < 4; ++k)
    check_apart(function, output, out, input, address_range(in.data().at(k), in.size()));
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
