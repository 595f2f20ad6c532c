// SPDX-License-Identifier: Apache-2.0
// Every call of the catalogue on any number of threads, on AVX2 and on AVX-512; and calls from many
// threads, inside the caller's own oneTBB work, with exceptions and after fork(). Every result must
// be bit-identical to that of one thread.
#include "calls/catalogue.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/sanitizer.hpp"
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <unistd.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// Enough for more pieces than threads.
constexpr index_t rows = under_sanitizer ? 8000 : 24000;

/// The calls of a family and their expected results, those under `policy`.
class shared_family {
 public:
  explicit shared_family(const family& f, threading policy = threading::sequential) : family_(f) {
    const std::unique_ptr<instance> one = take();
    for (const call& c : one->set.calls) expected_.push_back(c.results_of(policy));
  }

  /// Whether the next call in turn returns the expected bits. Threads may call this at the same
  /// time.
  bool holds(threading policy) const { return holds(next_++ % expected_.size(), policy); }
  bool holds(std::size_t number, threading policy) const {
    std::unique_ptr<instance> one = take();
    const bool same = one->set.calls[number].results_of(policy) == expected_[number];
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(one));
    return same;
  }
  std::size_t size() const { return expected_.size(); }

 private:
  struct instance {
    plain_memory at;
    call_set set;
  };

  /// Operands that no other call uses.
  std::unique_ptr<instance> take() const {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<instance> one = std::move(idle_.back());
        idle_.pop_back();
        return one;
      }
    }
    auto one = std::make_unique<instance>();
    one->set = family_.make(one->at, {family_.sized(rows)});
    return one;
  }

  const family& family_;
  std::vector<results> expected_;
  mutable std::atomic<std::size_t> next_{0};
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<instance>> idle_;
};

/// test(family) for each family in float.
template <class Test>
void for_each_family(const Test& test, threading policy = threading::sequential) {
  for (const family& f : catalogue()) {
    if (f.type != "f32") continue;
    INFO(f.name);
    const shared_family p(f, policy);
    test(p);
  }
}

/// More threads than a small machine has, so that they compete on any machine.
const tbb::global_control eight_threads(tbb::global_control::max_allowed_parallelism, 8);

/// work(thread) on `count` threads at once.
template <class Work>
void on_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  std::atomic<int> waiting{count};
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct stop_here : std::runtime_error {
  stop_here() : std::runtime_error("the user's own") {}
};

}  // namespace

TEST_CASE("threads: chunks consist of whole blocks if blocks are small") {
  const auto chunks = [](index_t items, index_t smallest, index_t multiple) {
    const detail::chunking c(items, smallest, multiple);
    CHECK(c.begin(0) == 0);
    CHECK(c.end(c.count - 1) == items);
    CHECK(c.count <= detail::chunking::max_count);
    return std::make_pair(c.size, c.count);
  };
  CHECK(chunks(4096, 205, 8) == std::make_pair(index_t{208}, index_t{20}));
  CHECK(chunks(120087, 181, 128) == std::make_pair(index_t{512}, index_t{235}));
  // A block of wide rows has many elements. Such rows are spread over threads as well.
  CHECK(chunks(128, 2, 128) == std::make_pair(index_t{2}, index_t{64}));
  CHECK(chunks(1, 1, 1) == std::make_pair(index_t{1}, index_t{1}));
}

TEST_CASE("threads: equal items are divided so that no thread has much more than the others") {
  CHECK(detail::even_pieces(288, 28) == 112);  // four rounds of 3; one of 11 takes little less
  CHECK(detail::even_pieces(128, 28) == 28);   // one round of 5; four of 2 take 8
  CHECK(detail::even_pieces(4608, 128) == 256);
  CHECK(detail::even_pieces(5, 1) == 1);
  CHECK(detail::even_pieces(0, 7) == 1);
  for (const index_t threads : {1, 2, 3, 28, 64, 128, 256})
    for (index_t items = 1; items < 5000; items += 7) {
      CAPTURE(threads);
      CAPTURE(items);
      const index_t pieces = detail::even_pieces(items, threads);
      CHECK(pieces >= 1);
      CHECK(pieces <= detail::chunking::max_count);
      const index_t turns = (pieces + threads - 1) / threads;
      CHECK(8 * turns * ((items + pieces - 1) / pieces) <= 9 * ((items + threads - 1) / threads));
    }
}

TEST_CASE("threads: a thread keeps its scratch memory, apart from that of others") {
  detail::slot_pool pool(8);
  const index_t first = pool.take();
  const index_t second = pool.take();
  CHECK(first != second);
  pool.give_back(second);
  pool.give_back(first);
  for (int i = 0; i < 3; ++i) {
    CHECK(pool.take() == first);
    pool.give_back(first);
  }
  CHECK(sizeof pool >= 64 * detail::chunking::max_count);
  index_t numbers[8];
  std::atomic<int> moved{0};
  on_threads(8, [&](int t) {
    numbers[t] = detail::this_thread_number() % 8;
    const index_t own = pool.take();
    for (int i = 0; i < 1000; ++i) {
      pool.give_back(own);
      if (pool.take() != own) ++moved;
    }
    pool.give_back(own);
  });
  std::sort(numbers, numbers + 8);
  // Threads that start together have successive numbers, unless others start meanwhile.
  if (std::adjacent_find(numbers, numbers + 8) == numbers + 8) CHECK(moved.load() == 0);
}

TEST_CASE("threads: scratch memory is first written by the threads that use it") {
  const auto resident_bytes = [] {
    std::ifstream statm("/proc/self/statm");
    std::size_t all = 0, resident = 0;
    statm >> all >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  };
  constexpr std::size_t size = std::size_t{256} << 20, lines = size / sizeof(detail::cache_line);
  const std::size_t before = resident_bytes();
  REQUIRE(before > 0);
  detail::aligned_vector<detail::cache_line> memory;
  detail::cache_line* const first = detail::grown_scratch(memory, static_cast<index_t>(lines));
  CHECK(resident_bytes() < before + size / 4);
  std::memset(static_cast<void*>(first), 1, size);
  CHECK(resident_bytes() > before + size / 2);
}

TEST_CASE("threads: calls that take less time than threads need to start use no loop") {
  int loops = 0;
  const auto loop = [&](index_t count, const task& work) {
    ++loops;
    for (index_t i = 0; i < count; ++i) work(i);
  };
  const threading on_loop = threading::on(loop, 2);
  const auto loops_of = [&](const char* name, const test::shape& sizes) {
    plain_memory at;
    loops = -1;
    for (const family& f : catalogue()) {
      if (f.type != "f32") continue;
      const std::vector<call> names = f.make(at, {f.sized(16)}).calls;
      const auto is_wanted = [&](const call& c) { return c.name == name; };
      if (std::none_of(names.begin(), names.end(), is_wanted) || !f.takes({sizes})) continue;
      const call_set set = f.make(at, {sizes});
      loops = 0;
      std::find_if(set.calls.begin(), set.calls.end(), is_wanted)->run(on_loop);
    }
    return loops;
  };
  CHECK(loops_of("batched_nms/", {1000}) == 0);
  CHECK(loops_of("batched_nms/", {5000}) == 1);  // the groups
  CHECK(loops_of("batched_nms/", {100000}) > 1);
  CHECK(loops_of("box_areas/boxes", {1000}) == 0);
}

TEST_CASE("threads: every call is bit-identical on any number of threads, on AVX2 and AVX-512") {
  const isa before = active_isa();
  const std::vector<int> thread_counts = under_sanitizer ? std::vector<int>{3}
                                         : full_tests()  ? std::vector<int>{1, 2, 3, 8}
                                                         : std::vector<int>{3, 8};
  std::map<std::string, results> expected;
  for (const isa set : {isa::avx2, isa::avx512}) {
    if (!isa_under_test(set)) continue;
    set_isa(set);
    INFO(std::string(isa_name(set)));
    plain_memory at;
    for_each_call(at, rows, source::ordinary, [&](const family& f, const call& c) {
      INFO(f.type, " ", c.name);
      const results one_thread = c.results_of(threading::sequential);
      CHECK(expected.emplace(f.name + f.type + c.name, one_thread).first->second == one_thread);
      for (const int threads : thread_counts) {
        CAPTURE(threads);
        tbb::task_arena arena(threads);
        arena.execute([&] { CHECK(c.results_of(threading::parallel) == one_thread); });
      }
    });
  }
  set_isa(before);
}

TEST_CASE("threads: a loop of the caller's own gives the same bits") {
  // A loop that runs the pieces in reverse order, on `threads` threads.
  const auto thread_counts = under_sanitizer ? std::vector<int>{3} : std::vector<int>{1, 3, 8};
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    std::atomic<int> loops{0};
    const auto counted_backwards = [&](index_t count, const task& work) {
      ++loops;
      std::atomic<index_t> left{count};
      on_threads(threads, [&](int) {
        for (index_t i = left.fetch_sub(1); i > 0; i = left.fetch_sub(1)) work(i - 1);
      });
    };
    const threading on_loop = threading::on(counted_backwards, threads);
    CHECK(on_loop.threads() == threads);
    for_each_family([&](const shared_family& p) {
      for (std::size_t k = 0; k < p.size(); ++k) CHECK(p.holds(k, on_loop));
    });
    CHECK(loops > 5);
  }
}

TEST_CASE("threads: a loop that runs another number of pieces at a time than stated") {
  const auto on_three = [](index_t count, const task& work) {
    on_threads(3, [&](int thread) {
      for (index_t i = thread; i < count; i += 3) work(i);
    });
  };
  const auto said_counts =
      under_sanitizer ? std::vector<int>{1000000} : std::vector<int>{1, 7, 1000000};
  for (const int said : said_counts) {
    CAPTURE(said);
    for_each_family([&](const shared_family& p) {
      for (std::size_t k = 0; k < p.size(); ++k) CHECK(p.holds(k, threading::on(on_three, said)));
    });
  }
}

TEST_CASE("threads: calls inside the pieces of a caller's loop") {
  const auto loop = [](index_t count, const task& work) {
    std::atomic<index_t> next{0};
    on_threads(3, [&](int) {
      for (index_t i = next++; i < count; i = next++) work(i);
    });
  };
  const threading on_loop = threading::on(loop, 3);
  for_each_family([&](const shared_family& p) {
    std::atomic<int> wrong{0};
    const auto call = [&](index_t i) {
      wrong += p.holds(i % 2 == 0 ? on_loop : threading::parallel) ? 0 : 1;
    };
    loop(6, task(call));
    CHECK(wrong.load() == 0);
  });
}

TEST_CASE("threads: a caller's loop that omits pieces, or runs them twice, is an error") {
  const auto leaves_out = [](index_t count, const task& work) {
    for (index_t i = 1; i < count; ++i) work(i);
  };
  const auto repeats = [](index_t count, const task& work) {
    for (index_t i = 0; i <= count; ++i) work(i % count);
  };
  const auto repeats_and_leaves_out = [](index_t count, const task& work) {
    for (index_t i = 0; i < count; ++i) work(i / 2);
  };
  const auto goes_beyond = [](index_t count, const task& work) {
    for (index_t i = -1; i <= count; ++i) work(i);
  };
  // Calls with one piece use no loop.
  int refused = 0;
  const auto is_refused_or_holds = [&](const shared_family& p, const threading& policy) {
    for (std::size_t k = 0; k < p.size(); ++k) {
      bool is_same = false;
      std::string refusal;
      try {
        is_same = p.holds(k, policy);
      } catch (const std::logic_error& error) {
        refusal = error.what();
        ++refused;
      }
      CHECK((is_same || refusal.find("did not run every piece exactly once") != refusal.npos));
    }
  };
  for_each_family([&](const shared_family& p) {
    is_refused_or_holds(p, threading::on(leaves_out, 2));
    is_refused_or_holds(p, threading::on(repeats, 2));
    is_refused_or_holds(p, threading::on(repeats_and_leaves_out, 2));
    is_refused_or_holds(p, threading::on(goes_beyond, 2));
  });
  CHECK(refused > 50);
  CHECK_THROWS_WITH_AS(threading::on(repeats, 0),
                       doctest::Contains("vecdet::threading::on: threads is 0, expected 1 or more"),
                       std::invalid_argument);
}

TEST_CASE("threads: an exception in a piece leaves the call, not the caller's loop") {
  bool threw_in_loop = false;
  const auto loop = [&](index_t count, const task& work) {
    for (index_t i = 0; i < count; ++i) {
      try {
        work(i);
      } catch (...) {
        threw_in_loop = true;
      }
    }
  };
  for (const threading policy : {threading::on(loop, 2), threading::parallel}) {
    std::atomic<int> run{0};
    CHECK_THROWS_AS(detail::for_each_chunk(policy, detail::chunking(40, 1),
                                           [&](index_t c, index_t, index_t) {
                                             ++run;
                                             if (c % 7 == 3) throw stop_here();
                                           }),
                    stop_here);
    CHECK(run == 40);
  }
  CHECK(!threw_in_loop);
}

template <class Loop, class = void>
constexpr bool makes_threading = false;
template <class Loop>
constexpr bool
    makes_threading<Loop, decltype(static_cast<void>(threading::on(std::declval<Loop>(), 1)))> =
        true;
struct any_loop {
  void operator()(index_t, const task&) const {}
};
static_assert(makes_threading<const any_loop&> && makes_threading<any_loop&>,
              "a loop that outlives the policy");
static_assert(!makes_threading<any_loop>, "a temporary would be gone before the call");

TEST_CASE("threads: many callers at once") {
  for_each_family([](const shared_family& p) {
    std::atomic<int> wrong{0};
    on_threads(8, [&](int thread) {
      const threading policy = thread % 2 == 0 ? threading::parallel : threading::sequential;
      for (int i = 0; i < 10; ++i) wrong += p.holds(policy) ? 0 : 1;
    });
    CHECK(wrong.load() == 0);
  });
}

TEST_CASE("threads: the first call, from many threads") {
  // Resets what the first call sets up.
  const isa before = active_isa();
  for (int round = 0; round < 20; ++round) {
    detail::isa_in_force = -1;
    std::atomic<int> wrong{0};
    on_threads(4, [&](int) { wrong += active_isa() == before ? 0 : 1; });
    CHECK(wrong.load() == 0);
  }
}

TEST_CASE("threads: a first call does not undo set_isa() on another thread") {
  const isa before = active_isa();
  for (int round = 0; round < 100; ++round) {
    detail::isa_in_force = -1;
    on_threads(3, [&](int thread) {
      if (thread == 0) {
        set_isa(isa::baseline);
      } else {
        active_isa();
      }
    });
    CHECK(active_isa() == isa::baseline);
  }
  set_isa(before);
}

TEST_CASE("threads: set_isa() while calls run") {
  if (!isa_under_test(isa::avx2)) return;  // the sets below must have the same results
  const isa before = active_isa();
  set_isa(isa::avx2);
  for_each_family([](const shared_family& p) {
    std::atomic<bool> done{false};
    std::thread switcher([&] {
      while (!done) {
        for (const isa set : {isa::avx2, isa::avx512}) {
          if (isa_available(set)) set_isa(set);
          std::this_thread::yield();
        }
      }
    });
    std::atomic<int> wrong{0};
    on_threads(4, [&](int thread) {
      const threading policy = thread % 2 == 0 ? threading::parallel : threading::sequential;
      for (int i = 0; i < 20; ++i) wrong += p.holds(policy) ? 0 : 1;
    });
    done = true;
    switcher.join();
    set_isa(isa::avx2);
    CHECK(wrong.load() == 0);
  });
  set_isa(before);
}

TEST_CASE("threads: inside the caller's own arena and parallel loops") {
  for_each_family([](const shared_family& p) {
    std::atomic<int> wrong{0};
    for (const int threads : {1, 2, 5}) {
      tbb::task_arena arena(threads);
      arena.execute([&] {
        tbb::parallel_for(0, 20, [&](int i) {
          const threading policy = i % 3 == 0 ? threading::sequential : threading::parallel;
          wrong += p.holds(policy) ? 0 : 1;
        });
      });
    }
    tbb::task_group group;
    for (int i = 0; i < 8; ++i) {
      group.run([&] { wrong += p.holds(threading::parallel) ? 0 : 1; });
    }
    group.wait();
    CHECK(wrong.load() == 0);
  });
}

TEST_CASE("threads: while a call waits, its thread takes none of the caller's tasks") {
  // Such a task would find the caller's locks held and its thread-local state half changed.
  for_each_family([](const shared_family& p) {
    static thread_local bool inside;
    std::atomic<int> reentered{0};
    tbb::task_arena arena(4);
    arena.execute([&] {
      tbb::parallel_for(0, 40, [&](int) {
        reentered += inside ? 1 : 0;
        inside = true;
        p.holds(threading::parallel);
        inside = false;
      });
    });
    CHECK(reentered.load() == 0);
  });
}

TEST_CASE("threads: cancelling the caller's tasks never leaves a call half done") {
  for_each_family([](const shared_family& p) {
    std::atomic<int> wrong{0};
    for (int round = 0; round < 2; ++round) {
      tbb::task_arena arena(4);
      arena.execute([&] {
        CHECK_THROWS_AS(tbb::parallel_for(0, 40,
                                          [&](int i) {
                                            if (i == 7) throw stop_here();
                                            wrong += p.holds(threading::parallel) ? 0 : 1;
                                          }),
                        stop_here);
        // In a context that is already cancelled.
        tbb::task_group_context context;
        tbb::parallel_for(
            0, 1,
            [&](int) {
              context.cancel_group_execution();
              wrong += p.holds(threading::parallel) ? 0 : 1;
            },
            context);
      });
    }
    CHECK(wrong.load() == 0);
    CHECK(p.holds(threading::parallel));
  });
}

TEST_CASE("threads: a call's exception leaves the caller's loop like any other exception") {
  const shared_family other(catalogue().front());
  const std::vector<float> logits(4, 0.5f);
  const std::vector<index_t> bad_labels{0, 9};
  for (int round = 0; round < 5; ++round) {
    CHECK_THROWS_AS(tbb::parallel_for(0, 40,
                                      [&](int) {
                                        sigmoid_focal_loss(
                                            matrix_view<const float>(logits.data(), 2, 2),
                                            bad_labels);
                                      }),
                    std::invalid_argument);
    CHECK(other.holds(threading::parallel));
  }
}

TEST_CASE("threads: a forked child calls sequentially") {
  // The expected results come from threading::parallel, so the parent's oneTBB threads are running.
  for_each_family(
      [](const shared_family& p) {
        const pid_t child = fork();
        if (child == 0) _exit(p.holds(threading::sequential) ? 0 : 1);
        REQUIRE(child > 0);
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
        CHECK(p.holds(threading::parallel));
      },
      threading::parallel);
}
