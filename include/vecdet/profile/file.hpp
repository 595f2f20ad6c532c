// SPDX-License-Identifier: Apache-2.0
// Writes a report's file safely, even into a folder that other users can write to.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/process_id.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/stat.h>
#include <unistd.h>
#elif defined(_WIN32)
// Instead of <windows.h>, which defines hundreds of macros.
extern "C" __declspec(dllimport) int __stdcall MoveFileExA(const char*, const char*, unsigned long);
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {
namespace detail {

/// Whether `path` is a pipe or a device, which is written directly, since moving a file there would
/// replace it. Pipes, devices and symbolic links of another user in a shared folder do not count,
/// so that nobody else can redirect a report.
inline bool is_pipe_or_device(const std::string& path) noexcept {
#if defined(__unix__) || defined(__APPLE__)
  struct stat named, folder;
  if (lstat(path.c_str(), &named) != 0 || S_ISREG(named.st_mode)) return false;
  const bool ours = named.st_uid == geteuid() || named.st_uid == 0;
  if (S_ISLNK(named.st_mode)) {
    if (path.compare(0, 5, "/dev/") == 0 && path.find('/', 5) == std::string::npos) return ours;
    struct stat target;
    return ours && stat(path.c_str(), &target) == 0 && !S_ISREG(target.st_mode);
  }
  if (ours) return true;
  const std::string parent = path.substr(0, path.find_last_of('/') + 1) + ".";
  return stat(parent.c_str(), &folder) == 0 && folder.st_uid == named.st_uid;
#else
  static_cast<void>(path);
  return false;
#endif
}

/// A stream buffer for a C file: C++17's file streams cannot require that the file is new.
class c_file : public std::streambuf {
 public:
  c_file(const char* path, const char* mode) : file_(std::fopen(path, mode)) {}
  c_file(const c_file&) = delete;
  c_file& operator=(const c_file&) = delete;
  ~c_file() override { close(); }

  bool is_open() const noexcept { return file_ != nullptr; }
  /// Returns 0 if everything has been written, else the system's error number.
  int close() noexcept {
    if (file_ != nullptr) note(std::fclose(file_) == 0);
    file_ = nullptr;
    return reason_;
  }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char one = traits_type::to_char_type(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::size_t done = std::fwrite(text, 1, static_cast<std::size_t>(size), file_);
    note(done == static_cast<std::size_t>(size));
    return static_cast<std::streamsize>(done);
  }

 private:
  void note(bool written) noexcept {
    if (!written && reason_ == 0) reason_ = errno != 0 ? errno : EIO;
  }

  std::FILE* file_;
  int reason_ = 0;
};

/// A name for a new file next to `path`, a different one for each attempt.
inline std::string partial_name(const std::string& path, int attempt) {
  const std::string name = path + ".partial." + std::to_string(process_id());
  return attempt == 0 ? name : name + "." + std::to_string(attempt);
}

/// Moves a file and replaces one that exists, unlike rename() on Windows. Returns 0 or the system's
/// error number.
inline int move_file(const std::string& from, const std::string& to) noexcept {
#if defined(_WIN32)
  constexpr unsigned long replace_existing = 1;
  return MoveFileExA(from.c_str(), to.c_str(), replace_existing) != 0 ? 0 : EACCES;
#else
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
#endif
}

}  // namespace detail

/// Calls `write_to(stream)` with a new file next to `path`, and moves it to `path` when it is
/// complete, so that no reader sees a partial file. A pipe or a device is written directly. An
/// existing file or symbolic link is replaced, not written to or followed. Throws
/// std::runtime_error with the system's reason.
template <class WriteTo>
void write_file(const std::string& path, const WriteTo& write_to) {
  const auto fail = [&](int reason) {
    throw std::runtime_error("vecdet::profile: cannot write \"" + path +
                             "\": " + std::strerror(reason));
  };
  const auto write_all = [&](detail::c_file& file) {
    std::ostream out(&file);
    write_to(out);
    return file.close();
  };
  if (detail::is_pipe_or_device(path)) {
    detail::c_file file(path.c_str(), "wb");
    const int reason = file.is_open() ? write_all(file) : errno;
    if (reason != 0) fail(reason);
    return;
  }
  constexpr int attempts = 100;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const std::string partial = detail::partial_name(path, attempt);
    detail::c_file file(partial.c_str(), "wbx");  // fails if the name exists
    if (!file.is_open()) {
      if (errno == EEXIST && attempt + 1 < attempts) continue;
      fail(errno);
    }
    int reason = 0;
    try {
      reason = write_all(file);
      if (reason == 0) reason = detail::move_file(partial, path);
    } catch (...) {
      file.close();  // Windows does not remove an open file
      std::remove(partial.c_str());
      throw;
    }
    if (reason == 0) return;
    std::remove(partial.c_str());
    fail(reason);
  }
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
