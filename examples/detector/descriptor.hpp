// SPDX-License-Identifier: Apache-2.0
// An open file of the system.
#pragma once

#include <cerrno>
#include <cstddef>
#include <string>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace detector {

/// The destructor closes the file.
class descriptor {
 public:
  descriptor(const std::string& file, int flags) : number_(::open(file.c_str(), flags, 0644)) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  bool is_open() const noexcept { return number_ >= 0; }
  int number() const noexcept { return number_; }
  /// Whether all bytes were written; if not, errno has the reason.
  bool write(const char* data, std::size_t size) const {
    while (size > 0) {
      const ssize_t written = ::write(number_, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      data += written;
      size -= static_cast<std::size_t>(written);
    }
    return true;
  }
  bool sync() const { return ::fsync(number_) == 0; }

 private:
  int number_;
};

}  // namespace detector
