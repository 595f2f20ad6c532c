// SPDX-License-Identifier: Apache-2.0
#include "picture.hpp"

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <jpeglib.h>
#include <png.h>

namespace detector {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what);
}

std::vector<unsigned char> read_bytes(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/// libjpeg's errors, which by its default would end the program, jump back to the caller instead.
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

/// Data that end too early or are damaged are warnings to libjpeg, which goes on with grey: here
/// they are errors. Higher levels are traces.
void stop_at_warnings(j_common_ptr info, int level) {
  if (level < 0) jump_to_caller(info);
}

/// Nothing in it has a destructor: longjmp passes over it. False where it failed.
bool decode_jpeg(const std::vector<unsigned char>& bytes, int width, int height, picture& image,
                 jpeg_failure& failure) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = jump_to_caller;
  failure.manager.emit_message = stop_at_warnings;
  jpeg_create_decompress(&info);
  if (setjmp(failure.caller) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.scale_num = info.scale_denom = 1;
  for (unsigned part = 8; part > 1 && info.scale_denom == 1; part /= 2)
    if (width > 0 && height > 0 &&
        (info.image_width / part >= static_cast<unsigned>(width) ||
         info.image_height / part >= static_cast<unsigned>(height)))
      info.scale_denom = part;
  jpeg_start_decompress(&info);
  image = picture(static_cast<int>(info.output_width), static_cast<int>(info.output_height));
  image.file_width = static_cast<int>(info.image_width);
  image.file_height = static_cast<int>(info.image_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.row(static_cast<int>(info.output_scanline));
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return true;
}

picture read_png(const std::vector<unsigned char>& bytes, const std::string& file) {
  png_image info;
  std::memset(&info, 0, sizeof info);
  info.version = PNG_IMAGE_VERSION;
  picture image;
  bool is_read = png_image_begin_read_from_memory(&info, bytes.data(), bytes.size()) != 0;
  if (is_read) {
    info.format = PNG_FORMAT_RGB;
    image = picture(static_cast<int>(info.width), static_cast<int>(info.height));
    const png_color black = {0, 0, 0};  // behind what is transparent
    is_read = png_image_finish_read(&info, &black, image.pixels.data(), 0, nullptr) != 0;
  }
  const std::string message = info.message;
  png_image_free(&info);
  if (!is_read) fail(file, "broken PNG: " + message);
  return image;
}

}  // namespace

picture read_picture(const std::string& file, int width, int height) {
  const std::vector<unsigned char> bytes = read_bytes(file);
  if (bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0) return read_png(bytes, file);
  if (bytes.size() < 2 || bytes[0] != 0xff || bytes[1] != 0xd8) fail(file, "no JPEG or PNG");
  picture image;
  jpeg_failure failure;
  if (!decode_jpeg(bytes, width, height, image, failure))
    fail(file, std::string("broken JPEG: ") + failure.message);
  return image;
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
