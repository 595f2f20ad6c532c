// SPDX-License-Identifier: Apache-2.0
// The opt-in search for input that is legal but most likely a mistake: with the environment
// variable VECDET_CHECK=1, functions that take boxes or scores report boxes with x2 < x1 or y2 <
// y1, scores outside [0, 1] and logits that are all inside, on standard error, once for each place
// that calls. Results are the same. Without the variable it costs one relaxed load a call.
#pragma once

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

/// The return addresses on the stack, which tell calls apart; nothing where the system has no way
/// to ask for them.
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

/// Prints a finding, unless the same place has reported one about the same argument.
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

/// Reports boxes that are no corners.
template <class T>
void look_at_boxes(const char* function, const char* argument, const boxes_view<const T>& boxes) {
  if (!checks_input()) return;
  index_t count = 0, first = 0;
  for (index_t i = boxes.size(); i-- > 0;) {
    if (boxes(i, 2) < boxes(i, 0) || boxes(i, 3) < boxes(i, 1)) {
      ++count;
      first = i;
    }
  }
  if (count == 0) return;
  std::ostringstream text;
  text << count << " of " << boxes.size() << " boxes have x2 < x1 or y2 < y1, first " << first
       << ": " << boxes(first, 0) << " " << boxes(first, 1) << " " << boxes(first, 2) << " "
       << boxes(first, 3) << "; are they x, y, width, height? convert_boxes() makes corners";
  report_input(function, argument, text.str());
}

/// Reports scores outside [0, 1] among those i for which counts(i).
template <class T, class Count>
void look_at_scores(const char* function, const char* argument, const vector_view<const T>& scores,
                    const Count& counts) {
  if (!checks_input()) return;
  index_t count = 0, first = 0;
  for (index_t i = scores.size(); i-- > 0;) {
    if (counts(i) && !(scores[i] >= T(0.0f) && scores[i] <= T(1.0f))) {
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

/// Finds out whether all logits are in [0, 1], as probabilities are.
class logits_look {
 public:
  template <class T>
  void add(T logit) {
    ++count_;
    outside_ = outside_ || !(logit >= T(0.0f) && logit <= T(1.0f));
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

template <class T>
void look_at_logits(const char* function, const char* argument,
                    const matrix_view<const T>& logits) {
  if (!checks_input()) return;
  logits_look look;
  for (index_t i = 0; i < logits.rows(); ++i)
    for (index_t j = 0; j < logits.cols(); ++j) look.add(logits(i, j));
  look.report(function, argument);
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
