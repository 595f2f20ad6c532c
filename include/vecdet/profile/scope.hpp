// SPDX-License-Identifier: Apache-2.0
// The timed scope, and the macros for it.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/registry.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <locale>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// A copy of the text that lives until the process ends, the same pointer for the same text: for
/// names that are not literals. Takes a lock: call it once a name, not once a scope.
inline const char* intern(const std::string& text) {
  detail::registry& r = detail::registry::get();
  const std::lock_guard<std::mutex> lock(r.mutex);
  return r.strings.insert(text).first->c_str();
}

/// "threshold0.05" for ("threshold", 0.05), for names that bear a parameter. Each thread knows its
/// last eight, so that a scope costs neither lock nor memory. The prefix alone where memory is
/// short, or as many names are interned as problems are kept.
inline const char* numbered_name(const char* prefix, double number) noexcept {
  struct known_name {
    const char* prefix;
    double number;
    const char* text;
    std::uint32_t unloads;  // since then another prefix may lie at the address
  };
  constexpr std::size_t names = 8;
  static thread_local known_name known[names] = {};
  static thread_local std::size_t next = 0;
  const std::uint32_t unloads = detail::unloads.load(std::memory_order_relaxed);
  for (const known_name& k : known) {
    if (k.prefix == prefix && std::equal_to<double>()(k.number, number) && k.unloads == unloads)
      return k.text;
  }
  try {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << prefix << number;
    const std::string name = text.str();
    detail::registry& r = detail::registry::get();
    const std::lock_guard<std::mutex> lock(r.mutex);
    const bool is_kept = r.strings.size() < problems_kept || r.strings.count(name) != 0;
    const char* const interned = is_kept ? r.strings.insert(name).first->c_str() : prefix;
    known[next++ % names] = {prefix, number, interned, unloads};
    return interned;
  } catch (...) {
    return prefix;
  }
}

#if defined(VECDET_PROFILE_DISABLE)

inline namespace disabled {

class scope {
 public:
  template <class Problem>
  explicit scope(Problem&&) noexcept {}
  // Not trivial, so that an otherwise unused scope gives no warning.
  ~scope() {}
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;
};

}  // namespace disabled

#else

/// Times the block it stands in, while the profiler is on; off, it costs one relaxed load.
/// Scopes nest, on any thread. One that ends on another thread than it began on, or before a scope
/// inside of it, as in coroutines, is not counted but as dropped. Throws nothing of its own, and
/// allocates only when a thread meets a problem for the first time at a place in the nesting.
///
/// Library functions give a callable, which runs only when the profiler is on, so that an off scope
/// computes no sizes and asks for no thread count:
///
///     const profile::scope timing([&] {
///       return profile::problem{"sigmoid_focal_loss", "labels", "f32", {rows, cols},
///                               "avx512", threads, bytes, flops};
///     });
class scope {
 public:
  explicit scope(const problem& p) noexcept {
    const std::uint32_t state = detail::state.load(std::memory_order_relaxed);
    if (__builtin_expect(detail::is_on(state), 0)) detail::enter(open_, p, state);
  }

  template <class MakeProblem,
            class = std::enable_if_t<std::is_invocable_r<problem, MakeProblem&>::value> >
  explicit scope(MakeProblem&& make_problem) noexcept(noexcept(make_problem())) {
    const std::uint32_t state = detail::state.load(std::memory_order_relaxed);
    if (__builtin_expect(detail::is_on(state), 0)) detail::enter(open_, make_problem(), state);
  }

  ~scope() {
    if (__builtin_expect(open_.log != nullptr, 0)) detail::leave(open_);
  }

  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

 private:
  detail::open_scope open_;
};

namespace detail {

template <class... Dimensions>
problem user_problem(const char* name, std::int64_t bytes, std::int64_t flops,
                     Dimensions... dimensions) noexcept {
  static_assert(sizeof...(Dimensions) <= 5, "a shape has five dimensions at most");
  problem p;
  p.function = name;
  p.shape = {static_cast<std::int64_t>(dimensions)...};
  p.bytes = bytes;
  p.flops = flops;
  return p;
}

inline problem waiting_problem(const char* name) noexcept {
  problem p;
  p.function = name;
  p.variant = waiting_variant;
  return p;
}

}  // namespace detail

#endif

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet

/// For the user's own code: times the rest of the block.
///   VECDET_PROFILE_SCOPE("backbone");
///   VECDET_PROFILE_WORK("conv1", bytes, flops, 64, 112, 112);
///   VECDET_PROFILE_WAIT("all_reduce");
/// The name is a literal, or comes from vecdet::profile::intern(). The second form adds the bytes
/// and operations of the call and up to five dimensions; its arguments are evaluated only when the
/// profiler is on, and what they throw passes on. The third is for where the process waits for
/// others, see waiting_variant. All compile to nothing where VECDET_PROFILE_DISABLE is defined, as
/// do the scopes inside the library's own functions.
#if defined(VECDET_PROFILE_DISABLE)
#define VECDET_PROFILE_SCOPE(name) static_cast<void>(0)
#define VECDET_PROFILE_WORK(...) static_cast<void>(0)
#define VECDET_PROFILE_WAIT(name) static_cast<void>(0)
#else
#define VECDET_PROFILE_JOIN_(a, b) a##b
#define VECDET_PROFILE_NAME_(n) VECDET_PROFILE_JOIN_(vecdet_profile_scope_, n)
#define VECDET_PROFILE_SCOPE(name)                                  \
  const ::vecdet::profile::scope VECDET_PROFILE_NAME_(__COUNTER__)( \
      [&] { return ::vecdet::profile::detail::user_problem(name, 0, 0); })
#define VECDET_PROFILE_WORK(...)                                    \
  const ::vecdet::profile::scope VECDET_PROFILE_NAME_(__COUNTER__)( \
      [&] { return ::vecdet::profile::detail::user_problem(__VA_ARGS__); })
#define VECDET_PROFILE_WAIT(name)                                   \
  const ::vecdet::profile::scope VECDET_PROFILE_NAME_(__COUNTER__)( \
      [&] { return ::vecdet::profile::detail::waiting_problem(name); })
#endif
