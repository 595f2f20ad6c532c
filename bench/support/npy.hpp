// SPDX-License-Identifier: Apache-2.0
// Reads arrays written by numpy.save: little-endian, C order, with the requested element type.
// Truth values are read as bytes.
#pragma once

#include <vecdet/views.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

namespace vecdet::bench {

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

/// numpy's name of T, such as "<f4".
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

/// The text after `'key':` in a header, which is a Python dictionary on one line: a tuple with its
/// parentheses, or everything before the next comma.
inline std::string npy_field(const std::string& header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) throw std::runtime_error("no field '" + key + "' in the header");
  const std::size_t begin = header.find_first_not_of(' ', at + key.size() + 3);
  const bool is_tuple = begin != std::string::npos && header[begin] == '(';
  const std::size_t end = header.find(is_tuple ? ')' : ',', begin);
  if (begin == std::string::npos || end == std::string::npos)
    throw std::runtime_error("the field '" + key + "' in the header is cut off");
  return header.substr(begin, end + (is_tuple ? 1 : 0) - begin);
}

/// The extents in a Python tuple: "()", "(7,)", "(2, 3)".
inline std::vector<index_t> npy_shape(const std::string& tuple) {
  std::vector<index_t> shape;
  const auto fail = [&] {
    throw std::runtime_error("the shape is " + tuple + ", expected extents of 0 or more");
  };
  if (tuple.size() < 2 || tuple.front() != '(' || tuple.back() != ')') fail();
  const char* at = tuple.data() + 1;
  const char* const end = tuple.data() + tuple.size() - 1;
  const auto skip_blanks = [&] { at = std::find_if(at, end, [](char c) { return c != ' '; }); };
  for (skip_blanks(); at != end; skip_blanks()) {
    index_t extent = -1;
    const auto number = std::from_chars(at, end, extent);
    if (number.ec != std::errc() || extent < 0) fail();
    shape.push_back(extent);
    at = number.ptr;
    skip_blanks();
    if (at != end && *at != ',') fail();
    if (at == end && shape.size() == 1) fail();  // "(7)" is a number
    if (at != end) ++at;
  }
  return shape;
}

template <class T>
npy_array<T> parse_npy(const std::string& bytes) {
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0)
    throw std::runtime_error("not a .npy file");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const bool old = byte(6) == 1;  // in version 1, the header's length has 2 bytes; in later ones, 4
  std::size_t length = byte(8) + std::size_t{256} * byte(9);
  if (!old) length += (std::size_t{1} << 16) * byte(10) + (std::size_t{1} << 24) * byte(11);
  const std::size_t begin = old ? 10 : 12;
  if (begin + length > bytes.size()) throw std::runtime_error("the header is cut off");
  const std::string header = bytes.substr(begin, length);

  const std::string descr = npy_field(header, "descr");
  const bool is_truth = std::is_same<T, std::uint8_t>::value && descr == "'|b1'";
  if (descr != "'" + npy_descr<T>() + "'" && !is_truth)
    throw std::runtime_error("elements are " + descr + ", wanted " + npy_descr<T>());
  if (npy_field(header, "fortran_order") != "False") throw std::runtime_error("not in C order");

  npy_array<T> array;
  array.shape = npy_shape(npy_field(header, "shape"));
  const std::size_t payload = bytes.size() - begin - length;
  const bool is_empty = std::count(array.shape.begin(), array.shape.end(), 0) > 0;
  std::size_t size = is_empty ? 0 : 1;
  bool fits = true;
  for (const index_t extent : array.shape) {
    // Checked before the product can wrap: it is then larger than the file.
    fits = fits && (is_empty || size <= payload / static_cast<std::size_t>(extent));
    if (fits) size *= static_cast<std::size_t>(extent);
  }
  if (!fits || size > payload / sizeof(T) || payload != size * sizeof(T))
    throw std::runtime_error("the file's size does not fit its shape");
  array.values.resize(size);
  if (size > 0) std::memcpy(array.values.data(), bytes.data() + begin + length, size * sizeof(T));
  return array;
}

}  // namespace detail

/// Reads the array in the file `path`; throws std::runtime_error that names the file and the
/// problem.
template <class T>
npy_array<T> load_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  try {
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return detail::parse_npy<T>(bytes);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace vecdet::bench
