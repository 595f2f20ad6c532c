// SPDX-License-Identifier: Apache-2.0
// Picture files that nobody's camera writes: chunk by chunk, and with EXIF data.
#pragma once

#include "../../examples/detector/picture.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <jpeglib.h>

namespace test {

inline void write_bytes(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}

/// A chunk of a PNG, with its length and CRC-32.
inline std::string png_chunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  std::uint32_t crc = 0xffffffff;
  for (const char byte : checked) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return big_endian(static_cast<std::uint32_t>(content.size())) + checked + big_endian(~crc);
}

/// A PNG of 8-bit RGB with these bytes for its pixels: 69 bytes long with 12 of them.
inline std::string png_of(std::uint32_t width, std::uint32_t height, const std::string& data) {
  const std::string header =
      big_endian(width) + big_endian(height) + std::string("\x08\x02\x00\x00\x00", 5);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + png_chunk("IDAT", data) +
         png_chunk("IEND", "");
}

/// TIFF's header and a directory of one entry, the orientation; "II" or "MM".
inline std::string exif_of(int orientation, bool is_little) {
  const auto value = static_cast<char>(orientation);
  if (is_little)
    return std::string("II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", 18) + value +
           std::string(7, '\0');
  return std::string("MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19) + value +
         std::string(6, '\0');
}

/// With EXIF data where they are given.
inline void write_jpeg(const detector::picture& image, const std::string& file,
                       const std::string& exif = "", bool is_progressive = false) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  std::FILE* const out = std::fopen(file.c_str(), "wb");
  jpeg_stdio_dest(&info, out);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  if (is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const std::string marker = std::string("Exif\0\0", 6) + exif;
  if (!exif.empty())
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()),
                      static_cast<unsigned>(marker.size()));
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::fclose(out);
}

/// A number in kB of /proc/self/status.
inline long memory_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, key.size() + 1, key + ":") == 0)
      return std::stol(line.substr(key.size() + 1));
  return -1;
}

/// The megabytes that an action takes at its peak beyond what is taken before; -1 where the system
/// does not say.
template <class Action>
long peak_megabytes(const Action& action) {
  std::ofstream("/proc/self/clear_refs") << 5;
  const long before = memory_status("VmRSS");
  action();
  const long peak = memory_status("VmHWM");
  return before < 0 || peak < 0 ? -1 : (peak - before) / 1024;
}

}  // namespace test
