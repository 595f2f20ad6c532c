// SPDX-License-Identifier: Apache-2.0
// Optional checks for input that is legal but probably a mistake. With the environment variable
// VECDET_CHECK=1, functions that take boxes or scores report three things on standard error: boxes
// with x2 < x1 or y2 < y1, scores outside [0, 1], and logits that are all inside [0, 1]. Each call
// site reports once. Results do not change. Without the variable, the cost is one relaxed load per
// call.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/environment_variable.hpp>
#include <vecdet/views.hpp>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define VECDET_HAS_BACKTRACE 1
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// 1 or 0; -1 until the first call has read the environment.
inline std::atomic<int> input_checks{-1};

inline bool read_input_checks() {
  const char* value = environment_variable("VECDET_CHECK");
  const bool on = value != nullptr && std::string(value) == "1";
  input_checks.store(on ? 1 : 0, std::memory_order_relaxed);
  return on;
}

inline bool checks_input() {
  const int on = input_checks.load(std::memory_order_relaxed);
  return on > 0 || (on < 0 && read_input_checks());
}

/// The return addresses on the stack, which identify the call site. Empty if the system cannot
/// provide them.
inline std::vector<void*> calling_place() {
#if defined(VECDET_HAS_BACKTRACE)
  std::vector<void*> frames(16);
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  frames.resize(static_cast<std::size_t>(count > 0 ? count : 0));
  return frames;
#else
  return {};
#endif
}

/// Prints a finding, unless the same call site has already reported one about the same argument.
#if defined(__GNUC__)
__attribute__((noinline))
#endif
inline void
report_input(const char* function, const char* argument, const std::string& finding) {
  static std::mutex lock;
  static std::set<std::pair<std::string, std::vector<void*>>> known;
  const std::string where = std::string("vecdet::") + function + ": " + argument;
  const std::lock_guard<std::mutex> guard(lock);
  if (!known.emplace(where, calling_place()).second) return;
  std::fprintf(stderr, "%s: %s (VECDET_CHECK)\n", where.c_str(), finding.c_str());
}

/// Reports boxes that do not look like corners.
template <class T>
void look_at_boxes(const char* function, const char* argument, const boxes_view<const T>& boxes) {
  if (!checks_input()) return;
  const auto number = [&](index_t i, int k) { return static_cast<double>(boxes(i, k)); };
  index_t count = 0, first = 0;
  for (index_t i = boxes.size(); i-- > 0;) {
    if (is_above(number(i, 0), number(i, 2)) || is_above(number(i, 1), number(i, 3))) {
      ++count;
      first = i;
    }
  }
  if (count == 0) return;
  std::ostringstream text;
  text << count << " of " << boxes.size() << " boxes have x2 < x1 or y2 < y1, first " << first
       << ": " << boxes(first, 0) << " " << boxes(first, 1) << " " << boxes(first, 2) << " "
       << boxes(first, 3) << "; are they x, y, width, height? Convert them with convert_boxes()";
  report_input(function, argument, text.str());
}

/// Reports scores outside [0, 1] among those i for which counts(i).
template <class T, class Count>
void look_at_scores(const char* function, const char* argument, const vector_view<const T>& scores,
                    const Count& counts) {
  if (!checks_input()) return;
  index_t count = 0, first = 0;
  for (index_t i = scores.size(); i-- > 0;) {
    if (counts(i) && !is_within(static_cast<double>(scores[i]), 0, 1)) {
      ++count;
      first = i;
    }
  }
  if (count == 0) return;
  std::ostringstream text;
  text << count << " of " << scores.size() << " scores are outside [0, 1], first " << first << ": "
       << scores[first] << "; are they logits?";
  report_input(function, argument, text.str());
}

/// Detects whether all logits are in [0, 1], like probabilities.
class logits_look {
 public:
  template <class T>
  void add(T logit) {
    ++count_;
    outside_ = outside_ || !is_within(static_cast<double>(logit), 0, 1);
  }
  void report(const char* function, const char* argument) const {
    constexpr index_t enough = 16;
    if (outside_ || count_ < enough) return;
    report_input(function, argument,
                 "all " + std::to_string(count_) +
                     " logits are in [0, 1]; are they probabilities? Leave out sigmoid or softmax");
  }

 private:
  index_t count_ = 0;
  bool outside_ = false;
};

/// `logits` is a matrix_view or a quantised_matrix.
template <class Matrix>
void look_at_logits(const char* function, const char* argument, const Matrix& logits) {
  if (!checks_input()) return;
  logits_look look;
  for (index_t i = 0; i < logits.rows(); ++i)
    for (index_t j = 0; j < logits.cols(); ++j) look.add(logits(i, j));
  look.report(function, argument);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
