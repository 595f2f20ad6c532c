// SPDX-License-Identifier: Apache-2.0
// The problem that a profiled scope runs. The profiler aggregates by problem.
#pragma once

#include <vecdet/detail/target.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// The variant of scopes in which a process waits for other processes, the ranks of its job.
/// Reports compare their time with all other time. It is identified by its text.
inline constexpr char waiting_variant[] = "waiting";

/// One problem. The strings are literals or come from intern(), because scopes compare their
/// addresses. The profiler keeps its own copies, so a library with such literals may be unloaded if
/// it includes the profiler itself.
/// `function` is required. A null string, an empty shape or threads = 0 mean "does not apply" and
/// are left out of the text.
struct problem {
  const char* function = nullptr;
  const char* variant = nullptr;
  const char* type = nullptr;
  /// Up to five dimensions, ended by the first value of 0 or less. Pass dimensions that depend on
  /// the data and change with each call through rounded_count().
  std::array<std::int64_t, 5> shape{};
  const char* implementation = nullptr;
  int threads = 0;
  /// Memory traffic and floating-point operations of this call; 0 if unknown. They may vary between
  /// calls of the same problem.
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};

/// A count rounded up to one significant digit: 7 for 7, 20 for 13, 1000 for 1000, 2000 for 1001.
/// Functions whose number of boxes depends on the data record this: with exact counts, nearly every
/// call would be a new problem. Bytes stay exact.
inline std::int64_t rounded_count(std::int64_t count) noexcept {
  std::int64_t unit = 1;
  for (const std::int64_t most = count / 10; unit <= most;) unit *= 10;
  return (count + unit - 1) / unit * unit;
}

namespace detail {
inline std::string text_or_empty(const char* s) { return s != nullptr ? s : ""; }
}  // namespace detail

/// "120087x91" for {120087, 91, 0, 0}; empty for an empty shape.
template <class Dimensions>
std::string shape_text(const Dimensions& shape) {
  std::string text;
  for (const std::int64_t dimension : shape) {
    if (dimension <= 0) break;
    if (!text.empty()) text += 'x';
    text += std::to_string(dimension);
  }
  return text;
}

/// `<function>/<variant>/<type>/<shape>/<implementation>/threads:<n>`, without the parts that do
/// not apply. The text of a scope that only has a name is that name.
inline std::string problem_text(const std::string& function, const std::string& variant,
                                const std::string& type, const std::string& shape,
                                const std::string& implementation, int threads) {
  std::string text = function;
  for (const std::string* part : {&variant, &type, &shape, &implementation}) {
    if (!part->empty()) text += '/' + *part;
  }
  if (threads > 0) text += "/threads:" + std::to_string(threads);
  return text;
}

inline std::string problem_text(const problem& p) {
  using detail::text_or_empty;
  return problem_text(text_or_empty(p.function), text_or_empty(p.variant), text_or_empty(p.type),
                      shape_text(p.shape), text_or_empty(p.implementation), p.threads);
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
