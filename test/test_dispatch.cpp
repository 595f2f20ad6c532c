// SPDX-License-Identifier: Apache-2.0
// Selection of the instruction set: detection on simulated processors, VECDET_ISA and set_isa().
// The ctest entries isa_baseline, isa_avx2 and isa_avx512 run this file with that value of
// VECDET_ISA.
#include "support/isa.hpp"
#include <vecdet/args/focal_loss.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/profile.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

/// A simulated processor that reports these values.
struct simulated_cpu {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, extended1_ecx = 0;
  std::uint32_t xcr0 = 0;
  mutable bool xgetbv_called = false;

  detail::cpuid_registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) const {
    if (leaf == 1) return {0, 0, leaf1_ecx, 0};
    if (leaf == 7 && subleaf == 0) return {0, leaf7_ebx, 0, 0};
    if (leaf == 0x80000001u) return {0, 0, extended1_ecx, 0};
    return {0, 0, 0, 0};
  }
  std::uint32_t xgetbv() const {
    xgetbv_called = true;
    return xcr0;
  }
};

constexpr int osxsave = 27;
const std::vector<int> v3_leaf1 = {0, 9, 12, 13, 19, 20, 22, 23, 28, 29};
const std::vector<int> v3_leaf7 = {3, 5, 8};
const std::vector<int> v3_extended1 = {0, 5};
const std::vector<int> v4_leaf7 = {16, 17, 28, 30, 31};

/// Every feature of x86-64-v4, enabled by the operating system.
simulated_cpu v4_cpu() {
  simulated_cpu cpu;
  for (const int n : v3_leaf1) cpu.leaf1_ecx |= bit(n);
  for (const int n : v3_leaf7) cpu.leaf7_ebx |= bit(n);
  for (const int n : v4_leaf7) cpu.leaf7_ebx |= bit(n);
  for (const int n : v3_extended1) cpu.extended1_ecx |= bit(n);
  cpu.leaf1_ecx |= bit(osxsave);
  cpu.xcr0 = 0xe7;
  return cpu;
}

simulated_cpu v3_cpu() {
  simulated_cpu cpu = v4_cpu();
  for (const int n : v4_leaf7) cpu.leaf7_ebx &= ~bit(n);
  cpu.xcr0 = 0x07;
  return cpu;
}

/// Sets VECDET_ISA for one scope.
class environment_isa {
 public:
  explicit environment_isa(const char* value) {
    if (const char* before = std::getenv("VECDET_ISA")) before_ = before;
    set(value);
  }
  ~environment_isa() {
#if !defined(_WIN32)
    if (before_.empty()) {
      unsetenv("VECDET_ISA");
      return;
    }
#endif
    set(before_.c_str());
  }

 private:
  /// On Windows, an empty value removes the variable.
  static void set(const char* value) {
#if defined(_WIN32)
    _putenv_s("VECDET_ISA", value);
#else
    setenv("VECDET_ISA", value, 1);
#endif
  }

  std::string before_;
};

}  // namespace

// First in this file, before anything calls set_isa().
TEST_CASE("dispatch: VECDET_ISA takes effect from the first call") {
  const char* wanted = std::getenv("VECDET_ISA");
  if (wanted == nullptr || *wanted == '\0') {
    CHECK(active_isa() == detected_isa());
    return;
  }
  CHECK(std::string(isa_name(active_isa())) == wanted);
  std::vector<isa> tested;
  test::for_each_isa([&](isa set) { tested.push_back(set); });
  CHECK(tested == std::vector<isa>{active_isa()});
}

TEST_CASE("dispatch: each instruction set has its own kernels") {
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    REQUIRE((detail::is_compiled_in(set) || !isa_available(set)));
    for (const isa other : {isa::baseline, isa::avx2, isa::avx512}) {
      if (other == set || !detail::is_compiled_in(set) || !detail::is_compiled_in(other)) continue;
      using detail::focal_loss_kernels;
      CHECK((detail::kernels<focal_loss_kernels<float>>(set).compute_rows !=
             detail::kernels<focal_loss_kernels<float>>(other).compute_rows));
      CHECK((detail::kernels<focal_loss_kernels<bfloat16>>(set).compute_rows !=
             detail::kernels<focal_loss_kernels<bfloat16>>(other).compute_rows));
    }
  }
}

TEST_CASE("dispatch: detection needs every feature of x86-64-v3 and v4") {
  CHECK(detail::detect_isa(v4_cpu()) == isa::avx512);
  CHECK(detail::detect_isa(v3_cpu()) == isa::avx2);
  CHECK(detail::detect_isa(simulated_cpu{}) == isa::baseline);
  for (const int n : v3_leaf1) {
    simulated_cpu cpu = v4_cpu();
    cpu.leaf1_ecx &= ~bit(n);
    INFO("leaf 1 ecx without bit ", n);
    CHECK(detail::detect_isa(cpu) == isa::baseline);
  }
  for (const int n : v3_leaf7) {
    simulated_cpu cpu = v4_cpu();
    cpu.leaf7_ebx &= ~bit(n);
    INFO("leaf 7 ebx without bit ", n);
    CHECK(detail::detect_isa(cpu) == isa::baseline);
  }
  for (const int n : v3_extended1) {
    simulated_cpu cpu = v4_cpu();
    cpu.extended1_ecx &= ~bit(n);
    INFO("leaf 0x80000001 ecx without bit ", n);
    CHECK(detail::detect_isa(cpu) == isa::baseline);
  }
  for (const int n : v4_leaf7) {
    simulated_cpu cpu = v4_cpu();
    cpu.leaf7_ebx &= ~bit(n);
    INFO("leaf 7 ebx without bit ", n);
    CHECK(detail::detect_isa(cpu) == isa::avx2);
  }
}

TEST_CASE("dispatch: detection asks the operating system") {
  simulated_cpu no_osxsave = v4_cpu();
  no_osxsave.leaf1_ecx &= ~bit(osxsave);
  CHECK(detail::detect_isa(no_osxsave) == isa::baseline);
  CHECK_FALSE(no_osxsave.xgetbv_called);  // it would be an illegal instruction there

  simulated_cpu sse_state_only = v4_cpu();
  sse_state_only.xcr0 = 0x03;
  CHECK(detail::detect_isa(sse_state_only) == isa::baseline);

  simulated_cpu avx512_not_enabled = v4_cpu();
  avx512_not_enabled.xcr0 = 0x07;
  CHECK(detail::detect_isa(avx512_not_enabled) == isa::avx2);

  // Opmask, upper halves of ZMM0-15 and ZMM16-31: each of them is required.
  for (const std::uint32_t state : {0x20u, 0x40u, 0x80u}) {
    simulated_cpu cpu = v4_cpu();
    cpu.xcr0 &= ~state;
    CHECK(detail::detect_isa(cpu) == isa::avx2);
  }
  simulated_cpu no_ymm_state = v4_cpu();
  no_ymm_state.xcr0 = 0xe3;
  CHECK(detail::detect_isa(no_ymm_state) == isa::baseline);
}

#if defined(__x86_64__) && defined(__GNUC__)
TEST_CASE("dispatch: detection agrees with the compiler's own runtime") {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  CHECK(detected_isa() == (v4 ? isa::avx512 : v3 ? isa::avx2 : isa::baseline));
}
#endif

TEST_CASE("dispatch: the error names a bad VECDET_ISA") {
  const auto fails_with = [](const char* value, const char* message) {
    const environment_isa environment(value);
    CHECK_THROWS_WITH_AS(detail::choose_isa(), doctest::Contains(message), std::invalid_argument);
  };
  fails_with("avx1024",
             "active_isa: environment variable VECDET_ISA is avx1024, expected baseline, avx2 or "
             "avx512");
  fails_with("AVX2", "VECDET_ISA is AVX2");
  fails_with("avx2 ", "VECDET_ISA is avx2 ");
  const isa before = active_isa();
  {
    const environment_isa empty("");
    CHECK_NOTHROW(detail::choose_isa());
  }
  for (const isa set : {isa::avx2, isa::avx512}) {
    if (isa_available(set)) continue;
    fails_with(isa_name(set),
               (std::string("VECDET_ISA is ") + isa_name(set) + ", expected at most").c_str());
    CHECK_THROWS_WITH_AS(set_isa(set), doctest::Contains("set_isa: set is avx"),
                         std::invalid_argument);
  }
  CHECK(active_isa() == before);
}

TEST_CASE("dispatch: a call runs to its end on one instruction set") {
  if (!isa_available(isa::avx2)) return;
  // Candidates in three levels of two images: search, decoding and NMS are separate calls.
  constexpr index_t anchors = 300, classes = 4;
  std::vector<float> boxes, logits, deltas(2 * anchors * 4, 0.0f);
  for (index_t i = 0; i < anchors; ++i) {
    const auto x = static_cast<float>(i % 30);
    for (const float side : {x, x, x + 20, x + 20}) boxes.push_back(side);
  }
  for (index_t i = 0; i < 2 * anchors * classes; ++i)
    logits.push_back(static_cast<float>(i % 17) / 4 - 2);
  const std::vector<index_t> levels{200, 75, 25};
  const std::vector<image_size> images(2, image_size::height_width(480, 640));
  const head_outputs<float> outputs{{logits.data(), 2 * anchors, classes},
                                    boxes_view<const float>(deltas.data(), 2 * anchors)};

  const isa before = active_isa();
  profile::reset();
  profile::enable();
  std::atomic<bool> done{false};
  std::thread changes([&] {
    while (!done) {
      set_isa(isa::avx2);
      set_isa(isa::baseline);
    }
  });
  postprocess_workspace workspace;
  for (int i = 0; i < 2000; ++i) {
    postprocess(outputs, boxes_view<const float>(boxes), levels, images, postprocess_params{},
                workspace, threading::sequential);
  }
  done = true;
  changes.join();
  profile::disable();
  set_isa(before);
  std::set<std::string> began_with;
  std::uint64_t inner_calls = 0;
  const profile::report recorded = profile::snapshot();
  for (const profile::path& path : recorded.paths) {
    const profile::entry& outer = recorded.entries[path.entries.front()];
    if (outer.function != "postprocess") continue;
    began_with.insert(outer.implementation);
    for (const std::size_t e : path.entries) {
      const profile::entry& inner = recorded.entries[e];
      if (inner.implementation.empty()) continue;  // a step of NMS
      inner_calls += path.count;
      CHECK(inner.implementation == outer.implementation);
    }
  }
  CHECK(began_with.size() >= 2);
  CHECK(inner_calls > 4000);
  profile::reset();
}

TEST_CASE("dispatch: set_isa activates any available set") {
  const isa before = active_isa();
  for (const isa set : {isa::avx512, isa::baseline, isa::avx2}) {
    CHECK(isa_available(set) == (set <= detected_isa() && detail::is_compiled_in(set)));
    if (!isa_available(set)) {
      CHECK_THROWS_AS(set_isa(set), std::invalid_argument);
      continue;
    }
    set_isa(set);
    CHECK(active_isa() == set);
  }
  set_isa(before);
}
