// SPDX-License-Identifier: Apache-2.0
// Checks that outputs do not overlap inputs. Otherwise one thread could write what another still
// has to read. An output may be identical to an input only if each box is read before it is
// overwritten.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/feature_view.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <cstdint>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Addresses [begin, end).
struct address_range {
  std::uintptr_t begin, end;

  address_range(std::uintptr_t first, std::uintptr_t last) : begin(first), end(last) {}
  template <class T>
  address_range(const T* data, index_t size)
      : begin(reinterpret_cast<std::uintptr_t>(data)),
        end(begin + static_cast<std::uintptr_t>(size) * sizeof(T)) {}
  template <class T>
  address_range(const vector_view<T>& view) : address_range(view.data(), view.size()) {}
  template <class T>
  address_range(const boxes_view<T>& view) : address_range(view.data(), 4 * view.size()) {}
  template <class T>
  address_range(const feature_view<T>& map) : address_range(map.data(), map.size()) {}
  /// From the first element to the last, without the gap after the last row.
  template <class T>
  address_range(const matrix_view<T>& view)
      : address_range(view.data(),
                      view.empty() ? 0 : (view.rows() - 1) * view.stride() + view.cols()) {}
  address_range(const labels_view& labels)
      : begin(reinterpret_cast<std::uintptr_t>(labels_access::bits<std::int64_t>(labels).at(0))),
        end(begin + static_cast<std::uintptr_t>(labels.size()) *
                        (labels_access::are_wide(labels) ? 8 : 4)) {}

  bool empty() const { return begin == end; }
  bool operator==(const address_range& other) const {
    return begin == other.begin && end == other.end;
  }
};

inline bool are_apart(const address_range& a, const address_range& b) {
  return a.empty() || b.empty() || a.end <= b.begin || b.end <= a.begin;
}

/// Pieces of memory of the same size, at equal distances: some channels of each location of an NHWC
/// tensor, for example.
struct memory_runs {
  std::uintptr_t begin, size;  ///< of the first piece
  std::uintptr_t step, count;

  memory_runs(const address_range& first, index_t bytes_between, index_t pieces)
      : begin(first.begin),
        size(first.end - first.begin),
        step(static_cast<std::uintptr_t>(bytes_between)),
        count(static_cast<std::uintptr_t>(pieces)) {}
  memory_runs(const address_range& all) : memory_runs(all, 0, 1) {}
  template <class View>
  memory_runs(const View& view) : memory_runs(address_range(view)) {}

  address_range range() const {
    return {begin, size == 0 ? begin : begin + (count - 1) * step + size};
  }
};

/// Exact if one of the two is a single piece, or the steps are equal; otherwise, pieces count as
/// shared if their ranges overlap.
inline bool are_apart(const memory_runs& a, const memory_runs& b) {
  if (are_apart(a.range(), b.range())) return true;
  const std::uintptr_t step = a.count > 1 ? a.step : b.step;
  if (step == 0 || (a.count > 1 && b.count > 1 && a.step != b.step)) return false;
  // The ranges overlap, so the pieces share memory unless those of b fit between those of a.
  const std::uintptr_t offset =
      b.begin >= a.begin ? (b.begin - a.begin) % step : (step - (a.begin - b.begin) % step) % step;
  return offset >= a.size && offset + b.size <= step;
}

[[noreturn]] inline void throw_shared_memory(const char* function, const std::string& output,
                                             const std::string& input,
                                             const char* expected = "separate memory") {
  throw_invalid_argument(function, output, "in the memory of " + input, expected);
}

/// Throws if an output shares memory with an input.
inline void check_apart(const char* function, const char* output, const address_range& out,
                        const char* input, const address_range& in) {
  if (!are_apart(out, in)) throw_shared_memory(function, output, input);
}
/// The same, but the output may be identical to the input.
inline void check_apart_or_same(const char* function, const char* output, const address_range& out,
                                const char* input, const address_range& in) {
  if (!(out == in || are_apart(out, in)))
    throw_shared_memory(function, output, input, "separate memory or exactly the same");
}

// The same for boxes with one array per coordinate; each array is checked on its own.

template <class T>
address_range coordinate_range(const boxes_soa_view<T>& boxes, int k) {
  return {boxes.coordinates(k), boxes.size()};
}
template <class T>
void check_apart(const char* function, const char* output, const address_range& out,
                 const char* input, const boxes_soa_view<T>& in) {
  for (int k = 0; k < 4; ++k) check_apart(function, output, out, input, coordinate_range(in, k));
}
template <class T, class In>
void check_apart(const char* function, const char* output, const boxes_soa_view<T>& out,
                 const char* input, const In& in) {
  for (int k = 0; k < 4; ++k) check_apart(function, output, coordinate_range(out, k), input, in);
}
template <class T, class U>
void check_apart_or_same(const char* function, const char* output, const boxes_soa_view<T>& out,
                         const char* input, const boxes_soa_view<U>& in) {
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 4; ++k)
      check_apart_or_same(function, output, coordinate_range(out, i), input,
                          coordinate_range(in, k));
}

/// Throws if two coordinates of the output share memory. Boxes that are rows cannot.
template <class T>
void check_coordinates_apart(const char* function, const char* output,
                             const boxes_soa_view<T>& out) {
  for (int k = 0; k < 4; ++k)
    for (int i = 0; i < k; ++i)
      if (!are_apart(coordinate_range(out, k), coordinate_range(out, i)))
        throw_shared_memory(function,
                            std::string("coordinate ") + std::to_string(k) + " of " + output,
                            "coordinate " + std::to_string(i));
}
template <class T>
void check_coordinates_apart(const char*, const char*, const boxes_view<T>&) {}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
