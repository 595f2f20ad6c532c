// SPDX-License-Identifier: Apache-2.0
// Recording: nesting, threads, reset, memory limits, the clock, and reading while others record.
#include "support/allocations.hpp"
#include <vecdet/profile.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace profile = vecdet::profile;

namespace {

/// Starts each test with an empty profile and disables the profiler at the end.
struct recording {
  recording() {
    profile::enable();
    profile::reset();
  }
  ~recording() {
    profile::disable();
    profile::keep_events(0);
    profile::reset();
  }
};

const profile::entry* find(const profile::report& r, const std::string& name) {
  for (const profile::entry& e : r.entries) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

void wait_microseconds(int us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
  while (std::chrono::steady_clock::now() < end) {
  }
}

profile::problem named(const char* name) {
  profile::problem p;
  p.function = name;
  return p;
}

/// For the thread that met the problem last.
profile::detail::statistics& statistics_of(const std::string& name) {
  profile::detail::registry& r = profile::detail::registry::get();
  const std::lock_guard<std::mutex> lock(r.mutex);
  const auto found = std::find_if(r.problems.begin(), r.problems.end(), [&](const auto* p) {
    return profile::problem_text(p->key) == name;
  });
  REQUIRE(found != r.problems.end());
  return *(*found)->first.load();
}

void recurse(int depth) {
  VECDET_PROFILE_SCOPE("recursive");
  wait_microseconds(20);
  if (depth > 1) recurse(depth - 1);
}

}  // namespace

TEST_CASE("profile: the text of a problem") {
  CHECK(profile::problem_text(profile::problem{
            "sigmoid_focal_loss", "labels", "f32", {120087, 91}, "avx512", 1, 5, 6}) ==
        "sigmoid_focal_loss/labels/f32/120087x91/avx512/threads:1");
  profile::problem p;
  p.function = "backbone";
  CHECK(profile::problem_text(p) == "backbone");
  p.shape = {3, 0, 7, 0};  // ends at the first 0
  CHECK(profile::problem_text(p) == "backbone/3");
}

TEST_CASE("profile: counts rounded to one digit") {
  for (const std::int64_t kept : {0, 1, 9, 10, 20, 90, 100, 300, 1000, 2000, 10000})
    CHECK(profile::rounded_count(kept) == kept);
  CHECK(profile::rounded_count(11) == 20);
  CHECK(profile::rounded_count(91) == 100);
  CHECK(profile::rounded_count(1001) == 2000);
  CHECK(profile::rounded_count(8732) == 9000);
  CHECK(profile::rounded_count(9001) == 10000);
  CHECK(profile::rounded_count(0xffffffff) == 5000000000);
}

TEST_CASE("profile: nothing is recorded and no problem created while it is off") {
  profile::disable();
  profile::reset();
  bool made = false;
  {
    const profile::scope timing([&] {
      made = true;
      return profile::problem{};
    });
    VECDET_PROFILE_SCOPE("off");
  }
  CHECK_FALSE(made);
  CHECK_FALSE(profile::enabled());
  CHECK(profile::snapshot().entries.empty());
}

TEST_CASE("profile: nested scopes, self and inclusive time, work") {
  const recording on;
  for (int i = 0; i < 5; ++i) {
    VECDET_PROFILE_SCOPE("outer");
    wait_microseconds(200);
    for (int j = 0; j < 2; ++j) {
      VECDET_PROFILE_WORK("inner", 1000, 3000, 4, 5u, std::size_t{6});
      wait_microseconds(100);
    }
  }
  const profile::report r = profile::snapshot();
  const profile::entry* outer = find(r, "outer");
  const profile::entry* inner = find(r, "inner/4x5x6");
  REQUIRE(outer != nullptr);
  REQUIRE(inner != nullptr);
  CHECK(outer->count == 5);
  CHECK(inner->count == 10);
  CHECK(inner->total_ns >= 10 * 99e3);
  CHECK(outer->self_ns >= 5 * 199e3);
  CHECK(outer->total_ns >= outer->self_ns + inner->total_ns - 100);
  CHECK(outer->self_ns <= outer->total_ns - inner->total_ns + 100);
  CHECK(inner->bytes == 10000);
  CHECK(inner->flops == 30000);
  CHECK(inner->intensity() == doctest::Approx(3));
  CHECK(inner->gigabytes_per_second() == doctest::Approx(10000 / inner->total_ns));
  REQUIRE(r.paths.size() == 2);
  std::set<std::size_t> lengths;
  for (const profile::path& p : r.paths) lengths.insert(p.entries.size());
  CHECK(lengths == std::set<std::size_t>{1, 2});
  CHECK(r.whole_ns() == doctest::Approx(outer->self_ns + inner->self_ns));
}

TEST_CASE("profile: no allocation once a problem is known") {
  const recording on;
  profile::keep_events(128);
  const auto some_scopes = [] {
    VECDET_PROFILE_SCOPE("allocates nothing");
    for (std::int64_t i = 1; i <= 100; ++i) VECDET_PROFILE_WORK("inside", 1, 2, i);
  };
  some_scopes();
  const vecdet::test::allocation_count allocations;
  for (int i = 0; i < 1000; ++i) some_scopes();
  CHECK(allocations.since() == 0);
}

TEST_CASE("profile: recursion counts once in inclusive time") {
  const recording on;
  recurse(4);
  const profile::report r = profile::snapshot();
  const profile::entry* e = find(r, "recursive");
  REQUIRE(e != nullptr);
  CHECK(e->count == 4);
  CHECK(e->inclusive_ns == e->max_ns);
  // The calls inside the outermost one wait for 3, 2 and 1 times 20 microseconds, however long it
  // is interrupted.
  CHECK(e->total_ns - e->inclusive_ns >= 6 * 19e3);
  CHECK(e->self_ns <= e->inclusive_ns + 4);
  CHECK(r.paths.size() == 4);
}

TEST_CASE("profile: a scope ends with an exception") {
  const recording on;
  try {
    VECDET_PROFILE_SCOPE("around");
    VECDET_PROFILE_SCOPE("throws");
    throw std::runtime_error("expected");
  } catch (const std::runtime_error&) {
  }
  { VECDET_PROFILE_SCOPE("after"); }
  const profile::report r = profile::snapshot();
  CHECK(find(r, "around")->count == 1);
  CHECK(find(r, "throws")->count == 1);
  for (const profile::path& p : r.paths) {
    if (r.entries[p.entries.back()].name == "after") CHECK(p.entries.size() == 1);
  }
}

TEST_CASE("profile: the same text at different addresses is one entry, intern keeps one pointer") {
  const recording on;
  const std::string a = "dynamic name", b = "dynamic name";
  static const char copy_one[] = "copied", copy_two[] = "copied";
  { VECDET_PROFILE_SCOPE(copy_one); }
  { VECDET_PROFILE_SCOPE(copy_two); }
  CHECK(profile::intern(a) == profile::intern(b));
  { VECDET_PROFILE_SCOPE(profile::intern(a)); }
  const profile::report r = profile::snapshot();
  CHECK(find(r, "copied")->count == 2);
  CHECK(find(r, "dynamic name")->count == 1);
}

TEST_CASE("profile: names with a number") {
  CHECK(std::string(profile::numbered_name("threshold", 0.05)) == "threshold0.05");
  CHECK(profile::numbered_name("threshold", 1) == profile::intern("threshold1"));
  for (int i = 0; i < 20; ++i) profile::numbered_name("number", i);  // more than a thread caches
  CHECK(profile::numbered_name("threshold", 0.05) == profile::intern("threshold0.05"));
  const vecdet::test::allocation_count allocations;
  for (int i = 0; i < 1000; ++i) {
    profile::numbered_name("threshold", 0.05);
    profile::numbered_name("number", 19);
  }
  CHECK(allocations.since() == 0);
}

#if !defined(_WIN32)  // docs/portability.md: GCC frees thread_local memory too early there
TEST_CASE("profile: logs of ended threads are reused by later threads") {
  const recording on;
  const std::size_t logs_before = profile::detail::registry::get().logs.size();
  for (int round = 0; round < 50; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 10; ++i) VECDET_PROFILE_SCOPE("on a thread");
      });
    }
    for (std::thread& t : threads) t.join();
  }
  const profile::report r = profile::snapshot();
  CHECK(find(r, "on a thread")->count == 50 * 4 * 10);
  CHECK(profile::detail::registry::get().logs.size() <= logs_before + 4);
}

TEST_CASE("profile: a thread ends during the life of thread-local scopes") {
  const recording on;
  { VECDET_PROFILE_SCOPE("before"); }
  const std::size_t logs_before = profile::detail::registry::get().logs.size();
  constexpr int threads = 20;
  for (int i = 0; i < threads; ++i) {
    std::thread([] {
      struct late {
        ~late() { VECDET_PROFILE_SCOPE("in a destructor"); }
      };
      static thread_local late before;  // destroyed after the profiler's thread-local objects
      static_cast<void>(before);
      VECDET_PROFILE_SCOPE("in the thread");
    }).join();
  }
  CHECK(find(profile::snapshot(), "in the thread")->count == threads);
  CHECK(find(profile::snapshot(), "in a destructor")->count == threads);
  CHECK(profile::detail::registry::get().logs.size() <= logs_before + 1);
}
#endif

TEST_CASE("profile: exceptions from a scope's arguments propagate") {
  const recording on;
  const std::vector<std::int64_t> sizes{1, 2};
  const auto work = [&](std::size_t i) {
    VECDET_PROFILE_WORK("throws", sizes.at(i), 0);
    VECDET_PROFILE_SCOPE("inside");
  };
  CHECK_THROWS_AS(work(3), std::out_of_range);
  work(1);
  const profile::report r = profile::snapshot();
  CHECK(find(r, "throws")->count == 1);
  CHECK(find(r, "throws")->bytes == 2);
  CHECK(find(r, "inside")->count == 1);
}

TEST_CASE("profile: concurrency") {
  const recording on;
  std::atomic<int> entered{0}, leaving{0};
  const auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      VECDET_PROFILE_SCOPE("together");
      entered.fetch_add(1);
      while (entered.load() < 2 * (i + 1)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      leaving.fetch_add(1);
      while (leaving.load() < 2 * (i + 1)) std::this_thread::yield();
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (int i = 0; i < 20; ++i) {
    VECDET_PROFILE_SCOPE("alone");
    wait_microseconds(10);
  }
  const profile::report r = profile::snapshot();
  CHECK(find(r, "alone")->concurrency == 1);
  CHECK(find(r, "together")->concurrency > 1);
  CHECK(find(r, "together")->concurrency <= 2.01);
  CHECK(find(r, "together")->seen_on_threads == 2);
}

TEST_CASE("profile: reset discards records, also of open scopes; disable keeps them") {
  const recording on;
  { VECDET_PROFILE_SCOPE("before"); }
  {
    VECDET_PROFILE_SCOPE("open at reset");
    { VECDET_PROFILE_SCOPE("inside before"); }
    profile::reset();
    { VECDET_PROFILE_SCOPE("inside after"); }
  }
  { VECDET_PROFILE_SCOPE("after"); }
  profile::disable();
  { VECDET_PROFILE_SCOPE("when off"); }
  const profile::report r = profile::snapshot();
  CHECK(r.entries.size() == 2);
  CHECK(find(r, "inside after") != nullptr);
  CHECK(find(r, "after") != nullptr);
  CHECK(profile::snapshot().entries.size() == 2);
}

TEST_CASE("profile: the clock goes backwards") {
  const recording on;
  { VECDET_PROFILE_SCOPE("makes the log"); }
  profile::detail::open_scope open;
  profile::detail::enter(open, named("backwards"), profile::detail::state.load());
  REQUIRE(open.log != nullptr);
  open.log->leave(open, open.place->begin - 1000000);
  const profile::report r = profile::snapshot();
  const profile::entry* e = find(r, "backwards");
  REQUIRE(e != nullptr);
  CHECK(e->count == 1);
  CHECK(e->total_ns == 0);
  CHECK(e->max_ns == 0);
  CHECK(r.processes[0].clock_went_back == 1);
}

TEST_CASE("profile: a scope left on another thread is dropped and reported") {
  const recording on;
  {
    VECDET_PROFILE_SCOPE("around");
    auto wanders = std::make_unique<profile::scope>(named("wanders"));
    auto inside = std::make_unique<profile::scope>(named("inside"));
    { VECDET_PROFILE_SCOPE("meanwhile"); }
    std::thread([&] {
      inside.reset();
      wanders.reset();  // its memory is gone
    }).join();
    CHECK(profile::snapshot().processes[0].dropped_scopes == 2);
    { VECDET_PROFILE_SCOPE("after"); }
    CHECK(statistics_of("wanders").depth == 0);
    CHECK(statistics_of("wanders").active_begin.get() == 0);
  }
  const profile::report r = profile::snapshot();
  CHECK(r.processes[0].dropped_scopes == 2);
  CHECK(find(r, "wanders") == nullptr);
  CHECK(find(r, "around")->count == 1);
  for (const profile::path& p : r.paths) {
    if (r.entries[p.entries.back()].name == "after") CHECK(p.entries.size() == 2);
  }
}

TEST_CASE("profile: a scope ends in order after an inner one ended elsewhere") {
  const recording on;
  std::unique_ptr<profile::scope> wanders;
  {
    VECDET_PROFILE_SCOPE("around");
    wanders = std::make_unique<profile::scope>(named("wanders"));
    std::thread([&] { wanders.reset(); }).join();
  }
  const profile::report r = profile::snapshot();
  CHECK(r.processes[0].dropped_scopes == 1);
  CHECK(find(r, "around")->count == 1);
}

TEST_CASE("profile: scopes end on one thread while another continues inside them") {
  const recording on;
  constexpr int rounds = 2000;
  std::atomic<profile::scope*> given{nullptr};
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      profile::scope* taken = nullptr;
      while ((taken = given.exchange(nullptr)) == nullptr) std::this_thread::yield();
      delete taken;
    }
  });
  std::uint64_t nested = 0;
  for (int i = 0; i < rounds; ++i) {
    given = new profile::scope(named("wanders"));
    do {
      VECDET_PROFILE_SCOPE("outer");
      VECDET_PROFILE_SCOPE("inner");
      ++nested;
    } while (given.load() != nullptr);
  }
  other.join();
  const profile::report r = profile::snapshot();
  CHECK(r.processes[0].dropped_scopes == rounds);
  CHECK(find(r, "wanders") == nullptr);
  CHECK(find(r, "outer")->count == nested);
  CHECK(find(r, "inner")->count == nested);
}

TEST_CASE("profile: scopes end in any order") {
  const char* const names[] = {"first", "second", "third"};
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    CAPTURE(order[0]);
    CAPTURE(order[1]);
    const recording on;
    {
      VECDET_PROFILE_SCOPE("around");
      std::array<std::unique_ptr<profile::scope>, 3> scopes;
      for (std::size_t i = 0; i < 3; ++i)
        scopes[i] = std::make_unique<profile::scope>(named(names[i]));
      for (const std::size_t i : order) scopes[i].reset();
      VECDET_PROFILE_SCOPE("after");
    }
    // A scope that ends before one inside it is dropped.
    std::array<bool, 3> open{true, true, true}, drops{};
    for (const std::size_t i : order) {
      for (std::size_t inner = i + 1; inner < 3; ++inner) drops[i] = drops[i] || open[inner];
      open[i] = false;
    }
    const profile::report r = profile::snapshot();
    CHECK(r.processes[0].dropped_scopes ==
          static_cast<std::uint64_t>(std::count(drops.begin(), drops.end(), true)));
    for (std::size_t i = 0; i < 3; ++i) CHECK((find(r, names[i]) == nullptr) == drops[i]);
    CHECK(find(r, "around")->count == 1);
    for (const profile::path& p : r.paths) {
      if (r.entries[p.entries.back()].name != "after") continue;
      REQUIRE(p.entries.size() == 2);
      CHECK(r.entries[p.entries[0]].name == "around");
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("profile: a dropped scope leaves its problem, and its time to the outer scope") {
  const recording on;
  {
    VECDET_PROFILE_SCOPE("around");
    auto outer = std::make_unique<profile::scope>(named("dropped once"));
    {
      VECDET_PROFILE_SCOPE("inside");
      wait_microseconds(300);
    }
    VECDET_PROFILE_SCOPE("inside");
    outer.reset();
    CHECK(statistics_of("dropped once").depth == 0);
    CHECK(statistics_of("dropped once").active_begin.get() == 0);
  }
  for (int i = 0; i < 3; ++i) {
    const profile::scope again(named("dropped once"));
    wait_microseconds(100);
  }
  const profile::report r = profile::snapshot();
  CHECK(find(r, "dropped once")->count == 3);
  CHECK(find(r, "dropped once")->inclusive_ns == find(r, "dropped once")->total_ns);
  CHECK(find(r, "dropped once")->inclusive_ns >= 3 * 99e3);
  CHECK(find(r, "inside")->total_ns >= 299e3);
  CHECK(find(r, "around")->self_ns <=
        find(r, "around")->total_ns - find(r, "inside")->total_ns + 100);
}

#if !defined(_WIN32)  // as above
TEST_CASE("profile: a thread ends inside scopes; the next thread of its log is outside") {
  const recording on;
  std::vector<std::unique_ptr<profile::scope>> left_open;
  std::thread([&] {
    for (int i = 0; i < 2; ++i)
      left_open.push_back(std::make_unique<profile::scope>(named("left open")));
  }).join();
  const profile::detail::statistics& stats = statistics_of("left open");
  CHECK(stats.depth == 0);
  CHECK(stats.active_begin.get() == 0);
  std::thread([&] {
    const profile::scope takes_the_log(named("left open"));
    CHECK(&statistics_of("left open") == &stats);
    wait_microseconds(100);
    left_open.clear();
    CHECK(stats.depth == 1);
  }).join();
  const profile::report r = profile::snapshot();
  CHECK(find(r, "left open")->count == 1);
  CHECK(find(r, "left open")->inclusive_ns >= 99e3);
  CHECK(r.processes[0].dropped_scopes == 2);
}
#endif

TEST_CASE("profile: events of the last calls, up to a limit") {
  const recording on;
  CHECK_THROWS_WITH_AS(
      profile::keep_events(SIZE_MAX),
      doctest::Contains(
          "vecdet::profile::keep_events: events is 18446744073709551615, expected at most"),
      std::invalid_argument);
  { VECDET_PROFILE_SCOPE("none kept"); }
  CHECK(profile::snapshot().events.empty());
  profile::reset();
  profile::keep_events(16);
  for (int i = 0; i < 100; ++i) {
    VECDET_PROFILE_SCOPE("outer");
    VECDET_PROFILE_SCOPE("inner");
  }
  const profile::report r = profile::snapshot();
  CHECK(r.events.size() == 16);
  CHECK(r.processes[0].events_lost == 200 - 16);
  for (std::size_t i = 1; i < r.events.size(); ++i) {
    const profile::event &before = r.events[i - 1], &e = r.events[i];
    CHECK(e.begin_ns + e.duration_ns >= before.begin_ns + before.duration_ns);
  }
}

TEST_CASE("profile: reading, resetting and switching while others record") {
  const recording on;
  profile::keep_events(64);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
        VECDET_PROFILE_SCOPE("outer");
        VECDET_PROFILE_WORK("inner", 10, 20, i % 50 + 1, t + 1);
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    const profile::report r = profile::snapshot();
    for (const profile::entry& e : r.entries) {
      std::uint64_t in_buckets = 0;
      for (const auto& bucket : e.histogram) in_buckets += bucket.second;
      REQUIRE(in_buckets == e.count);
    }
    for (const profile::path& p : r.paths) {
      for (const std::size_t index : p.entries) REQUIRE(index < r.entries.size());
    }
    for (const profile::event& e : r.events) REQUIRE(e.entry < r.entries.size());
    if (i % 20 == 10) profile::reset();
    if (i % 7 == 3) profile::disable();
    if (i % 7 == 5) profile::enable();
    if (i % 15 == 14) profile::keep_events(static_cast<std::size_t>(i));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

TEST_CASE("profile: its own cost is measured and subtracted from scopes and outer scopes") {
  const recording on;
  const auto& overhead = profile::detail::overhead;
  const std::int64_t inside = overhead.inside, whole = overhead.whole;
  CHECK(whole > 0);
  CHECK(inside <= whole);
  CHECK(profile::snapshot().processes[0].overhead_per_scope_ns > 0);
  // An outer scope around three inner ones with self times of 1000, 2000 and 3000 ticks.
  const std::uint32_t state = profile::detail::state.load();
  profile::detail::open_scope outer;
  profile::detail::enter(outer, named("outer"), state);
  for (std::int64_t i = 1; i <= 3; ++i) {
    profile::detail::open_scope inner;
    profile::detail::enter(inner, named("inner"), state);
    inner.log->leave(inner, inner.place->begin + inside + 1000 * i);
  }
  outer.log->leave(outer, outer.place->begin + inside + 3 * whole + 50000);
  const profile::report r = profile::snapshot();
  const double tick = profile::detail::rate.nanoseconds_per_tick;
  CHECK(find(r, "inner")->total_ns == doctest::Approx(6000 * tick).epsilon(0.001));
  CHECK(find(r, "outer")->total_ns == doctest::Approx(50000 * tick).epsilon(0.001));
  CHECK(find(r, "outer")->self_ns == doctest::Approx(44000 * tick).epsilon(0.001));
}
