// SPDX-License-Identifier: Apache-2.0
#include "picture.hpp"

#include "orientation.hpp"

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <utility>

#include <jpeglib.h>
#include <png.h>

namespace detector {
namespace {

/// A picture takes 3 bytes per pixel in memory: at most 300 MB.
constexpr std::uint64_t most_pixels = 100'000'000;
constexpr std::uint64_t most_file_bytes = std::uint64_t{1} << 30;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what);
}

void check_size(const std::string& file, std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0 || width > most_pixels / height)
    fail(file, "its header states " + std::to_string(width) + " x " + std::to_string(height) +
                   " pixels, expected at least 1 and at most " + std::to_string(most_pixels) +
                   " in total");
}

std::vector<unsigned char> read_bytes(const std::string& file) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  // Opening a pipe would block until it has a writer.
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(file, "cannot be opened: it is not a regular file");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
  const std::uint64_t size = std::filesystem::file_size(file, error);
  if (error) fail(file, "cannot be read: " + error.message());
  if (size > most_file_bytes)
    fail(file, "has " + std::to_string(size) + " bytes, expected " +
                   std::to_string(most_file_bytes) + " at most");
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size));
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (stream.bad()) fail(file, std::string("cannot be read: ") + std::strerror(errno));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));  // the file may have shrunk
  return bytes;
}

/// By default, libjpeg's errors end the program; here they jump back to the caller.
struct jpeg_failure {
  jpeg_error_mgr manager;
  std::jmp_buf caller;
  char message[JMSG_LENGTH_MAX];
};

void jump_to_caller(j_common_ptr info) {
  auto* failure = reinterpret_cast<jpeg_failure*>(info->err);
  info->err->format_message(info, failure->message);
  std::longjmp(failure->caller, 1);
}

/// libjpeg only warns of truncated or damaged data and continues with grey; here, that is an error.
/// Higher levels are traces.
void stop_at_warnings(j_common_ptr info, int level) {
  if (level < 0) jump_to_caller(info);
}

/// Decodes in two steps, so that the caller can check the size in between. longjmp() skips
/// destructors: neither step has an object that needs one, and the class releases libjpeg's memory.
class jpeg_decoder {
 public:
  explicit jpeg_decoder(const std::vector<unsigned char>& bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = jump_to_caller;
    failure_.manager.emit_message = stop_at_warnings;
  }
  jpeg_decoder(const jpeg_decoder&) = delete;
  jpeg_decoder& operator=(const jpeg_decoder&) = delete;
  ~jpeg_decoder() {
    if (is_created_) jpeg_destroy_decompress(&info_);
  }

  /// Both return false on failure; message() has the reason.
  bool read_header() {
    if (setjmp(failure_.caller) != 0) return false;
    jpeg_create_decompress(&info_);
    is_created_ = true;
    jpeg_mem_src(&info_, bytes_.data(), bytes_.size());
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&info_, TRUE);
    return true;
  }
  /// Memory grows with the decoded rows; reading the header takes none.
  bool decode(unsigned part, picture& image) {
    if (setjmp(failure_.caller) != 0) return false;
    info_.out_color_space = JCS_RGB;
    info_.scale_num = 1;
    info_.scale_denom = part;
    jpeg_start_decompress(&info_);
    image.width = static_cast<int>(info_.output_width);
    image.height = static_cast<int>(info_.output_height);
    image.file_width = static_cast<int>(info_.image_width);
    image.file_height = static_cast<int>(info_.image_height);
    const std::size_t row_size = std::size_t{info_.output_width} * 3;
    while (info_.output_scanline < info_.output_height) {
      const std::size_t at = info_.output_scanline * row_size;
      image.pixels.resize(at + row_size);
      JSAMPROW row = image.pixels.data() + at;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  unsigned width() const noexcept { return info_.image_width; }
  unsigned height() const noexcept { return info_.image_height; }
  const char* message() const noexcept { return failure_.message; }
  /// A Huffman code has at least one bit, and an 8 x 8 block of pixels at least one code.
  std::uint64_t least_bytes() const noexcept {
    return info_.arith_code ? 0 : std::uint64_t{width()} * height() / (64 * 8);
  }
  int orientation() const {
    constexpr std::size_t name_size = 6;  // "Exif\0\0"
    for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next)
      if (marker->data_length > name_size && std::memcmp(marker->data, "Exif\0", name_size) == 0)
        return exif_orientation(marker->data + name_size, marker->data_length - name_size);
    return 1;
  }

 private:
  const std::vector<unsigned char>& bytes_;
  jpeg_decompress_struct info_{};
  jpeg_failure failure_{};
  bool is_created_ = false;
};

picture read_jpeg(const std::vector<unsigned char>& bytes, const std::string& file, int width,
                  int height) {
  jpeg_decoder decoder(bytes);
  picture image;
  if (!decoder.read_header()) fail(file, std::string("broken JPEG: ") + decoder.message());
  check_size(file, decoder.width(), decoder.height());
  if (decoder.least_bytes() > bytes.size())
    fail(file, "broken JPEG: its " + std::to_string(bytes.size()) +
                   " bytes are too few for the pixels that its header states");
  const int orientation = decoder.orientation();
  if (swaps_sides(orientation)) std::swap(width, height);
  unsigned part = 1;
  for (unsigned candidate = 8; candidate > 1 && part == 1; candidate /= 2)
    if (width > 0 && height > 0 &&
        (decoder.width() / candidate >= static_cast<unsigned>(width) ||
         decoder.height() / candidate >= static_cast<unsigned>(height)))
      part = candidate;
  if (!decoder.decode(part, image)) fail(file, std::string("broken JPEG: ") + decoder.message());
  return upright(std::move(image), orientation);
}

/// The orientation from the chunks of a PNG. Throws if the chunks are too small for the pixels that
/// the header declares, before memory for the pixels is allocated.
int check_png(const std::vector<unsigned char>& bytes, const std::string& file) {
  const auto number = [&](std::size_t at) {
    return std::uint64_t{bytes[at]} << 24 | std::uint64_t{bytes[at + 1]} << 16 |
           std::uint64_t{bytes[at + 2]} << 8 | std::uint64_t{bytes[at + 3]};
  };
  constexpr std::size_t signature = 8, around = 12;  // a chunk's length, name and checksum
  constexpr std::size_t header_size = 13;
  int orientation = 1;
  bool is_whole = false;
  std::uint64_t data = 0, pixel_bytes = 0;
  for (std::size_t at = signature; !is_whole && bytes.size() - at >= around;) {
    const std::uint64_t length = number(at);
    if (length > bytes.size() - at - around) break;
    const auto is_named = [&](const char* name) {
      return std::memcmp(bytes.data() + at + 4, name, 4) == 0;
    };
    const unsigned char* const content = bytes.data() + at + 8;
    if (at == signature) {
      if (!is_named("IHDR") || length != header_size) fail(file, "broken PNG: no header");
      const std::uint64_t width = number(at + 8), height = number(at + 12);
      check_size(file, width, height);
      constexpr std::uint64_t channels[] = {1, 0, 3, 1, 2, 0, 4};  // by colour type
      const unsigned char depth = content[8], colour = content[9];
      if (colour < 7) pixel_bytes = (width * channels[colour] * depth + 7) / 8 * height;
    } else if (is_named("IDAT")) {
      data += length;
    } else if (is_named("eXIf")) {
      orientation = exif_orientation(content, static_cast<std::size_t>(length));
    }
    is_whole = is_named("IEND");
    at += around + static_cast<std::size_t>(length);
  }
  if (!is_whole) fail(file, "broken PNG: it ends too early");
  constexpr std::uint64_t best_compression = 1032;  // of deflate: zlib.net/zlib_tech.html
  if (pixel_bytes / best_compression > data)
    fail(file, "broken PNG: its " + std::to_string(data) +
                   " bytes of data are too few for the pixels that its header states");
  return orientation;
}

picture read_png(const std::vector<unsigned char>& bytes, const std::string& file) {
  const int orientation = check_png(bytes, file);
  struct reader {
    png_image info{};
    ~reader() { png_image_free(&info); }
  } png;
  png.info.version = PNG_IMAGE_VERSION;
  picture image;
  const auto check = [&](int is_read) {
    if (is_read == 0) fail(file, std::string("broken PNG: ") + png.info.message);
  };
  check(png_image_begin_read_from_memory(&png.info, bytes.data(), bytes.size()));
  png.info.format = PNG_FORMAT_RGB;
  image = picture(static_cast<int>(png.info.width), static_cast<int>(png.info.height));
  const png_color black = {0, 0, 0};  // background of transparent pixels
  check(png_image_finish_read(&png.info, &black, image.pixels.data(), 0, nullptr));
  return upright(std::move(image), orientation);
}

}  // namespace

picture read_picture(const std::string& file, int width, int height) try {
  const std::vector<unsigned char> bytes = read_bytes(file);
  if (bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0) return read_png(bytes, file);
  if (bytes.size() < 2 || bytes[0] != 0xff || bytes[1] != 0xd8) fail(file, "no JPEG or PNG");
  return read_jpeg(bytes, file, width, height);
} catch (const std::bad_alloc&) {
  fail(file, "not enough memory");
}

void write_png(const picture& image, const std::string& file) {
  png_image info;
  std::memset(&info, 0, sizeof info);
  info.version = PNG_IMAGE_VERSION;
  info.format = PNG_FORMAT_RGB;
  info.width = static_cast<png_uint_32>(image.width);
  info.height = static_cast<png_uint_32>(image.height);
  if (png_image_write_to_file(&info, file.c_str(), 0, image.pixels.data(), 0, nullptr) == 0)
    fail(file, std::string("cannot be written: ") + info.message);
}

}  // namespace detector
