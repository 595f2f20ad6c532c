// SPDX-License-Identifier: Apache-2.0
// Selects the instruction set that the kernels run on.
//
// With the CMake target vecdet::dispatch (macro VECDET_DISPATCH), all instruction sets are compiled
// in, except those that VECDET_INSTRUCTION_SETS leaves out. (It defines the macros
// VECDET_WITHOUT_AVX512 and VECDET_WITHOUT_AVX2, which must be the same in the whole program.) The
// best one that the processor and the operating system support is active. To select a lower one,
// set the environment variable VECDET_ISA (baseline, avx2 or avx512), which is read at the first
// call, or call set_isa(). With the headers alone (vecdet::vecdet), the active instruction set is
// the one that the including file is compiled for.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/cpu_features.hpp>
#include <vecdet/detail/environment_variable.hpp>
#include <vecdet/detail/target.hpp>
#include <vecdet/isa.hpp>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/profile/missing_writers.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {

/// "baseline", "avx2" or "avx512".
inline const char* isa_name(isa set) noexcept {
  return set == isa::avx512 ? "avx512" : set == isa::avx2 ? "avx2" : "baseline";
}

/// The best instruction set that this processor and the operating system support, even if it is not
/// compiled in.
inline isa detected_isa() noexcept {
#if defined(__x86_64__)
  static const isa detected = detail::detect_isa(detail::this_cpu{});
  return detected;
#else
  return isa::baseline;
#endif
}

}  // namespace VECDET_ABI

#if defined(VECDET_DISPATCH)
// Instantiated for the kernels of every family in the units of each instruction set: isa/unit.hpp.
namespace baseline {
template <class Kernels>
const Kernels& kernels() noexcept;
}
#if defined(__x86_64__)
namespace avx2 {
template <class Kernels>
const Kernels& kernels() noexcept;
}
namespace avx512 {
template <class Kernels>
const Kernels& kernels() noexcept;
}
#endif
#endif

inline namespace VECDET_ABI {
namespace detail {

/// The kernels of a family and its types for an instruction set, which must be compiled in. A
/// public function calls active_isa() once and passes the result on, so one call uses one
/// instruction set. The loss of a whole head calls public functions, and each of them calls
/// active_isa() again.
template <class Kernels>
const Kernels& kernels(isa set) noexcept {
#if !defined(VECDET_DISPATCH)
  static_cast<void>(set);
  return VECDET_TARGET::kernels<Kernels>();
#elif defined(__x86_64__)
#if !defined(VECDET_WITHOUT_AVX512)
  if (set == isa::avx512) return avx512::kernels<Kernels>();
#endif
#if !defined(VECDET_WITHOUT_AVX2)
  if (set == isa::avx2) return avx2::kernels<Kernels>();
#endif
  static_cast<void>(set);
  return baseline::kernels<Kernels>();
#else
  static_cast<void>(set);
  return baseline::kernels<Kernels>();
#endif
}

inline bool is_compiled_in(isa set) noexcept {
#if !defined(VECDET_DISPATCH)
  return set == isa::VECDET_TARGET_ISA;
#else
#if defined(__x86_64__) && !defined(VECDET_WITHOUT_AVX512)
  if (set == isa::avx512) return true;
#endif
#if defined(__x86_64__) && !defined(VECDET_WITHOUT_AVX2)
  if (set == isa::avx2) return true;
#endif
  return set == isa::baseline;
#endif
}

/// The best of the compiled instruction sets that this machine supports.
inline isa best_isa() noexcept {
  for (const isa set : {isa::avx512, isa::avx2})
    if (is_compiled_in(set) && set <= detected_isa()) return set;
  return isa::baseline;
}

/// The active instruction set as a number; -1 until the first call chooses it.
inline std::atomic<int> isa_in_force{-1};

/// Throws an error that names `function`, unless kernels for `set` are compiled in and can run
/// here.
inline void check_runnable(isa set, const char* function, const char* argument) {
  check(is_compiled_in(set), function, argument, isa_name(set),
        "an instruction set that is compiled in (vecdet::dispatch has those of CMake's "
        "VECDET_INSTRUCTION_SETS, by default all)");
  check(set <= detected_isa(), function, argument, isa_name(set),
        detected_isa() == isa::avx2 ? "at most avx2, the best that this machine supports"
                                    : "at most baseline, the best that this machine supports");
}

inline isa choose_isa() {
#if defined(VECDET_DISPATCH)
  isa chosen = best_isa();
#else
  isa chosen = isa::VECDET_TARGET_ISA;
#endif
  const char* wanted = environment_variable("VECDET_ISA");
  if (wanted != nullptr && *wanted != '\0') {
    bool is_known = false;
    for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
      if (std::strcmp(wanted, isa_name(set)) != 0) continue;
      check_runnable(set, "active_isa", "environment variable VECDET_ISA");
      chosen = set;
      is_known = true;
    }
    check(is_known, "active_isa", "environment variable VECDET_ISA", wanted,
          "baseline, avx2 or avx512");
  }
  // If another thread has called set_isa() in the meantime, keep its choice.
  int before = -1;
  return isa_in_force.compare_exchange_strong(before, static_cast<int>(chosen))
             ? chosen
             : static_cast<isa>(before);
}

}  // namespace detail

/// The active instruction set.
/// @throws std::invalid_argument at the first call if VECDET_ISA is not one of the three names, or
/// names a set that is not compiled in or not supported by this machine.
inline isa active_isa() {
  const int set = detail::isa_in_force.load(std::memory_order_acquire);
  return set >= 0 ? static_cast<isa>(set) : detail::choose_isa();
}

/// Whether set_isa(set) would succeed.
inline bool isa_available(isa set) noexcept {
  return detail::is_compiled_in(set) && set <= detected_isa();
}

/// Makes `set` active for all later calls, on every thread. Calls in progress finish on the
/// previous one, except that the loss of a whole head, e.g. retinanet_loss_and_grad(), switches
/// after its current part.
/// @throws std::invalid_argument if `set` is not compiled in or not supported by this machine.
inline void set_isa(isa set) {
  detail::check_runnable(set, "set_isa", "set");
  detail::isa_in_force.store(static_cast<int>(set), std::memory_order_release);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
