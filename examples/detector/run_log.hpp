// SPDX-License-Identifier: Apache-2.0
// What a run tells: a line of progress for people, and a log of JSON lines for programs.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace detector {

class stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// "1 h 05 min", "12 min 30 s", "7 s"
inline std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::lround(seconds));
  char text[48];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%d h %02d min", static_cast<int>(whole / 3600),
                  static_cast<int>(whole / 60 % 60));
  else if (whole >= 60)
    std::snprintf(text, sizeof text, "%d min %02d s", static_cast<int>(whole / 60),
                  static_cast<int>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%d s", static_cast<int>(whole));
  return text;
}

class run_log {
 public:
  /// Adds to `file`; no file where it is empty. A silent one tells people nothing.
  explicit run_log(const std::string& file, bool is_silent = false)
      : name_(file), is_silent_(is_silent) {
    if (file.empty()) return;
    file_.open(file, std::ios::app);
    if (!file_) throw std::runtime_error(file + ": cannot be opened for writing");
  }

  /// An event is a line of the file. What is not UTF-8, as a path may be, becomes U+FFFD.
  void write(const nlohmann::json& event) {
    if (name_.empty()) return;
    const std::string line = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!(file_ << line << std::endl)) throw std::runtime_error(name_ + ": cannot be written");
  }

  /// A line that stays.
  void say(const std::string& text) {
    if (is_silent_) return;
    std::fprintf(stderr, "%s%s\n", is_terminal_ ? "\r\033[K" : "", text.c_str());
  }
  /// A line that the next one replaces; on what is no terminal, one every ten seconds.
  void show(const std::string& text) {
    if (is_silent_ || (!is_terminal_ && shown_.seconds() < 10)) return;
    shown_ = stopwatch();
    std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  }

 private:
  std::string name_;
  bool is_silent_;
  std::ofstream file_;
  bool is_terminal_ = ::isatty(2) != 0;
  stopwatch shown_;
};

}  // namespace detector
