// SPDX-License-Identifier: Apache-2.0
// Reads arrays that numpy.save wrote: little-endian, C order, element type as asked for.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <vecdet/views.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace vecdet {
namespace bench {

template <class T>
struct npy_array {
  std::vector<index_t> shape;
  std::vector<T> values;

  index_t size() const { return static_cast<index_t>(values.size()); }

  /// As rows of `shape[1]` elements.
  matrix_view<const T> matrix() const {
    if (shape.size() != 2) throw std::runtime_error("npy_array: not a matrix");
    return {values.data(), shape[0], shape[1]};
  }
};

/// "<f4" and the like: numpy's name of T.
template <class T>
std::string npy_descr() {
  static_assert(std::is_arithmetic<T>::value, "arrays hold plain numbers");
  const char kind = std::is_same<T, bool>::value       ? 'b'
                    : std::is_floating_point<T>::value ? 'f'
                    : std::is_signed<T>::value         ? 'i'
                                                       : 'u';
  return std::string(1, sizeof(T) == 1 ? '|' : '<') + kind + std::to_string(sizeof(T));
}

namespace detail {

/// What follows `'key':` in a header, a Python dictionary in one line.
inline std::string npy_field(const std::string& header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) throw std::runtime_error("no field '" + key + "' in the header");
  const std::size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
  const char close = header.at(begin) == '(' ? ')' : ',';
  return header.substr(begin, header.find(close, begin) - begin);
}

inline std::vector<index_t> npy_shape(const std::string& tuple) {
  std::vector<index_t> shape;
  for (std::size_t at = tuple.find_first_of("0123456789"); at < tuple.size();) {
    shape.push_back(std::strtoll(tuple.c_str() + at, nullptr, 10));
    at = tuple.find_first_of("0123456789", tuple.find(',', at));
  }
  return shape;
}

template <class T>
npy_array<T> parse_npy(const std::string& bytes) {
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0)
    throw std::runtime_error("not a .npy file");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const bool old = byte(6) == 1;  // version 1 holds the header's length in 2 bytes, later ones in 4
  std::size_t length = byte(8) + std::size_t{256} * byte(9);
  if (!old) length += (std::size_t{1} << 16) * byte(10) + (std::size_t{1} << 24) * byte(11);
  const std::size_t begin = old ? 10 : 12;
  if (begin + length > bytes.size()) throw std::runtime_error("the header is cut off");
  const std::string header = bytes.substr(begin, length);

  const std::string descr = npy_field(header, "descr");
  if (descr != "'" + npy_descr<T>() + "'")
    throw std::runtime_error("elements are " + descr + ", wanted " + npy_descr<T>());
  if (npy_field(header, "fortran_order") != "False") throw std::runtime_error("not in C order");

  npy_array<T> array;
  array.shape = npy_shape(npy_field(header, "shape"));
  std::size_t size = 1;
  for (const index_t extent : array.shape) size *= static_cast<std::size_t>(extent);
  if (bytes.size() - begin - length != size * sizeof(T))
    throw std::runtime_error("the file's size does not fit its shape");
  array.values.resize(size);
  if (size > 0) std::memcpy(array.values.data(), bytes.data() + begin + length, size * sizeof(T));
  return array;
}

}  // namespace detail

/// The array in the file `path`; std::runtime_error names the file and what is wrong with it.
template <class T>
npy_array<T> load_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    return detail::parse_npy<T>(bytes);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace bench
}  // namespace vecdet
