// SPDX-License-Identifier: Apache-2.0
// A file to which JSON is appended line by line, and which stays readable if the program is killed
// or the disk is full while it writes.
#pragma once

#include "descriptor.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace detector {

class json_lines {
 public:
  /// Creates the file if it is missing. An incomplete last line, as a killed program leaves it, is
  /// cut off; one that lacks only its end is completed. Throws std::runtime_error that names the
  /// file, also if that line is no JSON.
  explicit json_lines(const std::string& file)
      : name_(file), file_(file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC) {
    if (!file_.is_open()) fail("cannot be opened for writing");
    struct stat status {};
    if (::fstat(file_.number(), &status) != 0) fail("cannot be opened for writing");
    is_regular_ = S_ISREG(status.st_mode);
    if (is_regular_) repair(status.st_size);
  }

  /// The bytes of the line that was cut off.
  std::int64_t cut() const noexcept { return cut_; }

  /// Writes the value as one line, or nothing and throws std::runtime_error. Bytes that are not
  /// UTF-8, which a path may contain, become U+FFFD.
  void write(const nlohmann::json& value) {
    const std::string line =
        value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    const off_t before = is_regular_ ? ::lseek(file_.number(), 0, SEEK_END) : 0;
    if (file_.write(line.data(), line.size())) return;
    const int reason = errno;
    const bool is_whole = !is_regular_ || (before >= 0 && ::ftruncate(file_.number(), before) == 0);
    errno = reason;
    fail(is_whole ? "cannot be written" : "cannot be written and has an incomplete line");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error(name_ + ": " + what + ": " + std::strerror(errno));
  }

  void repair(off_t size) {
    std::string last;  // the incomplete line
    for (off_t at = size; at > 0 && last.find('\n') == std::string::npos;) {
      constexpr off_t block = 4096;
      const off_t from = at > block ? at - block : 0;
      std::string part(static_cast<std::size_t>(at - from), '\0');
      if (::pread(file_.number(), &part[0], part.size(), from) != static_cast<ssize_t>(part.size()))
        fail("cannot be read");
      last.insert(0, part);
      at = from;
    }
    last.erase(0, last.find_last_of('\n') + 1);
    if (last.empty()) return;
    if (nlohmann::json::accept(last)) {
      if (!file_.write("\n", 1)) fail("cannot be written");
      return;
    }
    // A crash of the machine leaves zeros.
    if (last.front() != '{' && last.front() != '\0')
      throw std::runtime_error(name_ + ": its last line is not JSON, expected JSON in each line");
    cut_ = static_cast<std::int64_t>(last.size());
    if (::ftruncate(file_.number(), size - static_cast<off_t>(last.size())) != 0)
      fail("cannot be written");
  }

  std::string name_;
  descriptor file_;
  bool is_regular_ = false;
  std::int64_t cut_ = 0;
};

}  // namespace detector
