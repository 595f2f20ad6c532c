// SPDX-License-Identifier: Apache-2.0
// Calls from many threads, inside the caller's own oneTBB work, around exceptions and after fork().
// Every result must be the bits that one thread alone computes.
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
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

/// A problem of some thirty chunks and its right answer.
class focal_problem {
 public:
  explicit focal_problem(execution policy = execution::sequential)
      : labels_(random_labels(rows, cols, 1)), logits_(static_cast<std::size_t>(rows * cols)) {
    random_generator generator(2);
    for (float& x : logits_) x = to<float>(generator.uniform(-8, 8));
    expected_loss_ = run(policy, expected_grad_);
  }

  /// Whether a call gives the bits that are expected.
  bool holds(execution policy) const {
    std::vector<float> grad;
    const double loss = run(policy, grad);
    return loss == expected_loss_ && same(grad, expected_grad_);
  }

  double run(execution policy, std::vector<float>& grad) const {
    grad.assign(logits_.size(), -1.0f);
    return sigmoid_focal_loss_and_grad(matrix_view<const float>(logits_.data(), rows, cols),
                                       labels_, {grad.data(), rows, cols}, {}, policy);
  }

  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

 private:
  static constexpr index_t rows = 6000, cols = 80;
  std::vector<index_t> labels_;
  std::vector<float> logits_, expected_grad_;
  double expected_loss_ = 0;
};

/// More threads than a small machine has, so that they meet on any.
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

TEST_CASE("threads: many callers at once") {
  const focal_problem problem;
  std::atomic<int> wrong{0};
  on_threads(8, [&](int thread) {
    const execution policy = thread % 2 == 0 ? execution::parallel : execution::sequential;
    for (int i = 0; i < 10; ++i) wrong += problem.holds(policy) ? 0 : 1;
  });
  CHECK(wrong.load() == 0);
}

TEST_CASE("threads: the first call, from many threads") {
  // What the first call sets up, it sets up anew here.
  const isa before = active_isa();
  for (int round = 0; round < 20; ++round) {
    detail::active_kernels = nullptr;
    std::atomic<int> wrong{0};
    on_threads(4, [&](int) { wrong += active_isa() == before ? 0 : 1; });
    CHECK(wrong.load() == 0);
  }
}

TEST_CASE("threads: a first call does not undo set_isa() on another thread") {
  const isa before = active_isa();
  for (int round = 0; round < 100; ++round) {
    detail::active_kernels = nullptr;
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
  if (!isa_under_test(isa::avx2)) return;  // the sets under test have one and the same result
  const isa before = active_isa();
  set_isa(isa::avx2);
  const focal_problem problem;
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
    const execution policy = thread % 2 == 0 ? execution::parallel : execution::sequential;
    for (int i = 0; i < 20; ++i) wrong += problem.holds(policy) ? 0 : 1;
  });
  done = true;
  switcher.join();
  set_isa(before);
  CHECK(wrong.load() == 0);
}

TEST_CASE("threads: inside the caller's own arena and parallel loops") {
  const focal_problem problem;
  std::atomic<int> wrong{0};
  for (const int threads : {1, 2, 5}) {
    tbb::task_arena arena(threads);
    arena.execute([&] {
      tbb::parallel_for(0, 20, [&](int i) {
        const execution policy = i % 3 == 0 ? execution::sequential : execution::parallel;
        wrong += problem.holds(policy) ? 0 : 1;
      });
    });
  }
  tbb::task_group group;
  for (int i = 0; i < 8; ++i) {
    group.run([&] { wrong += problem.holds(execution::parallel) ? 0 : 1; });
  }
  group.wait();
  CHECK(wrong.load() == 0);
}

TEST_CASE("threads: while a call waits, its thread takes none of the caller's tasks") {
  // Such a task would find the caller's locks held and its thread-local state half changed.
  const focal_problem problem;
  static thread_local bool inside;
  std::atomic<int> reentered{0};
  tbb::task_arena arena(4);
  arena.execute([&] {
    tbb::parallel_for(0, 100, [&](int) {
      reentered += inside ? 1 : 0;
      inside = true;
      std::vector<float> grad;
      problem.run(execution::parallel, grad);
      inside = false;
    });
  });
  CHECK(reentered.load() == 0);
}

TEST_CASE("threads: cancelling the caller's tasks never leaves a call half done") {
  const focal_problem problem;
  std::atomic<int> wrong{0};
  for (int round = 0; round < 10; ++round) {
    tbb::task_arena arena(4);
    arena.execute([&] {
      CHECK_THROWS_AS(tbb::parallel_for(0, 40,
                                        [&](int i) {
                                          if (i == 7) throw stop_here();
                                          wrong += problem.holds(execution::parallel) ? 0 : 1;
                                        }),
                      stop_here);
      // In a context that is cancelled already.
      tbb::task_group_context context;
      tbb::parallel_for(
          0, 1,
          [&](int) {
            context.cancel_group_execution();
            wrong += problem.holds(execution::parallel) ? 0 : 1;
          },
          context);
    });
  }
  CHECK(wrong.load() == 0);
  CHECK(problem.holds(execution::parallel));
}

TEST_CASE("threads: a call's own exception leaves the caller's loop as any other") {
  const focal_problem problem;
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
    CHECK(problem.holds(execution::parallel));
  }
}

TEST_CASE("threads: a forked child calls sequentially") {
  const focal_problem problem(execution::parallel);  // the parent's oneTBB threads are running
  const pid_t child = fork();
  if (child == 0) _exit(problem.holds(execution::sequential) ? 0 : 1);
  REQUIRE(child > 0);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(problem.holds(execution::parallel));
}
