// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels run on.
//
// With the CMake target vecdet::dispatch (macro VECDET_DISPATCH), all instruction sets are compiled
// in and the best one that the processor and its operating system support is in force. The
// environment variable VECDET_ISA (baseline, avx2 or avx512), read at the first call, or set_isa()
// caps it. With the headers alone (vecdet::vecdet), it is the one that the including file is
// compiled for.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/cpu_features.hpp>
#include <vecdet/detail/kernel_table.hpp>
#include <vecdet/detail/target.hpp>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/table.hpp>
#include <vecdet/profile/environment.hpp>
#endif

namespace vecdet {

/// "baseline", "avx2" or "avx512".
inline const char* isa_name(isa set) noexcept {
  return set == isa::avx512 ? "avx512" : set == isa::avx2 ? "avx2" : "baseline";
}

/// The best instruction set that this processor and its operating system support, whether compiled
/// in or not.
inline isa detected_isa() noexcept {
#if defined(__x86_64__)
  static const isa detected = detail::detect_isa(detail::this_cpu{});
  return detected;
#else
  return isa::baseline;
#endif
}

namespace detail {

#if defined(VECDET_DISPATCH)
extern const kernel_table kernels_baseline;
#if defined(__x86_64__)
extern const kernel_table kernels_avx2;
extern const kernel_table kernels_avx512;
#endif
#endif

inline namespace VECDET_ABI {

/// The kernels compiled in for `set`, or null.
inline const kernel_table* compiled_kernels(isa set) noexcept {
#if !defined(VECDET_DISPATCH)
  return set == VECDET_TARGET::kernels.target ? &VECDET_TARGET::kernels : nullptr;
#elif defined(__x86_64__)
  return set == isa::avx512 ? &kernels_avx512
         : set == isa::avx2 ? &kernels_avx2
                            : &kernels_baseline;
#else
  return set == isa::baseline ? &kernels_baseline : nullptr;
#endif
}

inline std::atomic<const kernel_table*> active_kernels{nullptr};

/// Throws, in the name of `function`, unless kernels for `set` are compiled in and can run here.
inline const kernel_table& runnable_kernels(isa set, const char* function, const char* argument) {
  const kernel_table* compiled = compiled_kernels(set);
  check(compiled != nullptr, function, argument, isa_name(set),
        "an instruction set that is compiled in (link vecdet::dispatch for all of them)");
  check(set <= detected_isa(), function, argument, isa_name(set),
        detected_isa() == isa::avx2 ? "at most avx2, the best that this machine supports"
                                    : "at most baseline, the best that this machine supports");
  return *compiled;
}

inline const kernel_table& choose_kernels() {
  const kernel_table* chosen = nullptr;
  const char* wanted = std::getenv("VECDET_ISA");
  if (wanted != nullptr && *wanted != '\0') {
    for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
      if (std::strcmp(wanted, isa_name(set)) == 0) {
        chosen = &runnable_kernels(set, "active_isa", "environment variable VECDET_ISA");
      }
    }
    check(chosen != nullptr, "active_isa", "environment variable VECDET_ISA", wanted,
          "baseline, avx2 or avx512");
  } else {
#if defined(VECDET_DISPATCH)
    chosen = compiled_kernels(detected_isa());
#else
    chosen = &VECDET_TARGET::kernels;
#endif
  }
  // A set_isa() on another thread meanwhile has the last word.
  const kernel_table* before = nullptr;
  return active_kernels.compare_exchange_strong(before, chosen) ? *chosen : *before;
}

/// The kernels in force.
inline const kernel_table& active_table() {
  const kernel_table* active = active_kernels.load(std::memory_order_acquire);
  return active != nullptr ? *active : choose_kernels();
}

}  // namespace VECDET_ABI
}  // namespace detail

inline namespace VECDET_ABI {

/// The instruction set in force.
/// @throws std::invalid_argument at the first call when VECDET_ISA is none of the three names, or
/// names a set that is not compiled in or not supported by this machine.
inline isa active_isa() { return detail::active_table().target; }

/// Whether set_isa(set) would succeed.
inline bool isa_available(isa set) noexcept {
  return detail::compiled_kernels(set) != nullptr && set <= detected_isa();
}

/// Runs the kernels of all later calls, on every thread, on `set`. Calls under way finish on the
/// old one.
/// @throws std::invalid_argument when `set` is not compiled in or not supported by this machine.
inline void set_isa(isa set) {
  detail::active_kernels.store(&detail::runnable_kernels(set, "set_isa", "set"),
                               std::memory_order_release);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
