// SPDX-License-Identifier: Apache-2.0
// The output of a run: a line of progress for people, and a log of JSON lines for programs.
#pragma once

#include "json_lines.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
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
  /// Appends to `file`; no file if it is empty. A silent log prints nothing.
  explicit run_log(const std::string& file, bool is_silent = false) : is_silent_(is_silent) {
    if (file.empty()) return;
    file_ = std::make_unique<json_lines>(file);
    if (file_->cut() > 0)
      say(file + ": its last line was incomplete, " + std::to_string(file_->cut()) +
          " bytes were cut off");
  }

  /// Writes an event as one line of the file.
  void write(const nlohmann::json& event) {
    if (file_ != nullptr) file_->write(event);
  }

  /// Prints a permanent line.
  void say(const std::string& text) {
    if (is_silent_) return;
    std::fprintf(stderr, "%s%s\n", is_terminal_ ? "\r\033[K" : "", text.c_str());
  }
  /// Prints a line that the next one replaces; if the output is not a terminal, one every ten
  /// seconds.
  void show(const std::string& text) {
    if (is_silent_ || (!is_terminal_ && shown_.seconds() < 10)) return;
    shown_ = stopwatch();
    std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  }

 private:
  bool is_silent_;
  std::unique_ptr<json_lines> file_;
  bool is_terminal_ = ::isatty(2) != 0;
  stopwatch shown_;
};

}  // namespace detector
