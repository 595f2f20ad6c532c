// SPDX-License-Identifier: Apache-2.0
// Calls from many threads, inside the caller's own oneTBB work, around exceptions and after fork().
// Every result must be the bits that one thread alone computes.
#include "support/isa.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <atomic>
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

using bytes = std::vector<char>;

template <class T>
void add(bytes& to, const T* values, index_t count) {
  const char* const first = reinterpret_cast<const char*>(values);
  to.insert(to.end(), first, first + count * static_cast<index_t>(sizeof(T)));
}

/// Some chunks of boxes (of logits thirty), and all that the kernels take beside them.
struct inputs {
  static constexpr index_t boxes = 24000, classes = 20, nms_boxes = 2000;
  std::vector<float> a = random_boxes<float>(boxes, 1), b = random_boxes<float>(boxes, 2);
  std::vector<float> deltas, logits, scores;
  std::vector<index_t> labels = random_labels(boxes, classes, 3);

  inputs() {
    random_generator generator(4);
    const auto fill = [&](std::vector<float>& to, index_t size, double low, double high) {
      for (index_t i = 0; i < size; ++i)
        to.push_back(test::to<float>(generator.uniform(low, high)));
    };
    fill(deltas, 4 * boxes, -1, 1);
    fill(logits, boxes * classes, -8, 8);
    fill(scores, nms_boxes, 0, 1);
  }

  matrix_view<const float> x() const { return {logits.data(), boxes, classes}; }
  boxes_view<const float> of_nms() const { return {a.data(), nms_boxes}; }
  vector_view<const float> s() const { return scores; }
  nms_groups groups() const {
    nms_groups groups;
    groups.classes = {labels.data(), nms_boxes};
    return groups;
  }
};
const inputs in;

/// The gradient, or whatever else a call writes for each of the boxes, and its sum.
template <class Call>
bytes written(index_t size, const Call& call) {
  std::vector<float> out(static_cast<std::size_t>(size), -1.0f);
  bytes result;
  const double sum = call(out);
  add(result, &sum, 1);
  add(result, out.data(), size);
  return result;
}

/// A call of each kernel family, and the bytes of its results.
const struct {
  const char* family;
  bytes (*run)(execution);
} kernel_calls[] = {
    {"focal loss",
     [](execution policy) {
       return written(in.x().size(), [&](std::vector<float>& grad) {
         return sigmoid_focal_loss_and_grad(in.x(), in.labels, {grad.data(), in.boxes, in.classes},
                                            {}, policy);
       });
     }},
    {"soft targets",
     [](execution policy) {
       return written(in.x().size(), [&](std::vector<float>& grad) {
         const std::vector<float> scores(static_cast<std::size_t>(in.boxes), 0.7f);
         return varifocal_loss_and_grad(in.x(), {in.labels, scores},
                                        {grad.data(), in.boxes, in.classes}, {}, policy);
       });
     }},
    {"smooth L1",
     [](execution policy) {
       return written(4 * in.boxes, [&](std::vector<float>& grad) {
         return smooth_l1_loss_and_grad(boxes_view<const float>(in.a), in.b, in.labels, grad, {},
                                        policy);
       });
     }},
    {"box coding",
     [](execution policy) {
       return written(4 * in.boxes, [&](std::vector<float>& out) {
         decode_boxes(boxes_view<const float>(in.deltas), in.a, out, {}, policy);
         encode_boxes(boxes_view<const float>(out), in.a, out, {}, policy);
         std::vector<index_t> large(static_cast<std::size_t>(in.boxes));
         return static_cast<double>(large_boxes(boxes_view<const float>(in.a), 100, large, policy));
       });
     }},
    {"IoU",
     [](execution policy) {
       return written(5 * in.boxes, [&](std::vector<float>& out) {
         pairwise_iou(boxes_view<const float>(in.a.data(), 5), in.b,
                      matrix_view<float>(out.data(), 5, in.boxes), {}, policy);
         return 0.0;
       });
     }},
    {"IoU loss",
     [](execution policy) {
       return written(4 * in.boxes, [&](std::vector<float>& grad) {
         return iou_loss_and_grad(boxes_view<const float>(in.a), in.b, grad, iou_kind::ciou, {},
                                  policy);
       });
     }},
    {"regression loss",
     [](execution policy) {
       return written(4 * in.boxes, [&](std::vector<float>& grad) {
         regression_loss_params params;
         params.loss = box_loss::giou;
         return regression_loss_and_grad(boxes_view<const float>(in.deltas), in.a, in.b, in.labels,
                                         grad, params, policy);
       });
     }},
    {"matching",
     [](execution policy) {
       // The same boxes as three images' ground truth.
       const std::vector<index_t> offsets{0, 20, 20, 50};
       ground_truth truth;
       truth.boxes = boxes_view<const float>(in.b.data(), 50);
       truth.image_offsets = offsets;
       std::vector<index_t> matches(static_cast<std::size_t>(3 * in.boxes));
       std::vector<float> ious(matches.size());
       match_results results;
       results.matches = matches;
       results.best_ious = ious;
       match_workspace workspace;
       match_anchors(boxes_view<const float>(in.a), truth, results, {}, workspace, policy);
       bytes result;
       add(result, matches.data(), 3 * in.boxes);
       add(result, ious.data(), 3 * in.boxes);
       return result;
     }},
    {"distribution focal loss",
     [](execution policy) {
       return written(in.x().size(), [&](std::vector<float>& grad) {
         return distribution_focal_loss_and_grad(in.x(), {in.deltas.data(), in.boxes},
                                                 {grad.data(), in.boxes, in.classes}, {}, policy);
       });
     }},
    {"softmax cross entropy",
     [](execution policy) {
       return written(in.x().size(), [&](std::vector<float>& grad) {
         hard_negative_mining mining;
         mining.images = 4;
         softmax_cross_entropy_params params;
         params.ignore = -1;
         std::vector<index_t> labels = in.labels;
         for (index_t& label : labels) label = label < 0 ? -1 - label : label;
         softmax_cross_entropy_workspace workspace;
         return softmax_cross_entropy_loss_and_grad(in.x(), labels, mining,
                                                    {grad.data(), in.boxes, in.classes}, params,
                                                    workspace, policy);
       });
     }},
    {"RoIAlign",
     [](execution policy) {
       constexpr index_t channels = 20, side = 60, boxes = 300;
       roi_boxes<float> all;
       all.boxes = boxes_view<const float>(in.a.data(), boxes);
       roi_align_params params;
       params.spatial_scale = 0.1;
       const feature_layout nhwc = feature_layout::nhwc;
       roi_align_workspace workspace;
       std::vector<float> bins(boxes * channels * 49);
       const feature_view<float> of_boxes(bins.data(), boxes, channels, 7, 7, nhwc);
       roi_align(feature_view<const float>(in.logits.data(), 1, channels, side, side, nhwc), all,
                 of_boxes, params, workspace, policy);
       bytes result = written(channels * side * side, [&](std::vector<float>& grad) {
         roi_align_grad(of_boxes, all,
                        feature_view<float>(grad.data(), 1, channels, side, side, nhwc), params,
                        workspace, policy);
         return 0.0;
       });
       add(result, bins.data(), static_cast<index_t>(bins.size()));
       return result;
     }},
    {"assigners",
     [](execution policy) {
       constexpr index_t side = 60, points = side * side, boxes = 400;
       const std::vector<grid_size> levels{{side, side}};
       std::vector<float> where, about;
       for (index_t i = 0; i < points; ++i) {
         const float x = 12 * static_cast<float>(i % side), y = 12 * static_cast<float>(i / side);
         where.insert(where.end(), {x, y});
         about.insert(about.end(), {x - 40, y - 40, x + 40, y + 40});
       }
       const std::vector<index_t> classes(boxes, 1), offsets{0, 150, 150, boxes};
       ground_truth truth;
       truth.boxes = boxes_view<const float>(in.b.data(), boxes);
       truth.classes = classes;
       truth.image_offsets = offsets;
       std::vector<index_t> matches(3 * points);
       task_aligned_predictions said;
       said.scores = {in.logits.data(), 3 * points, in.classes};
       said.boxes = boxes_view<const float>(in.a.data(), 3 * points);
       assigner_workspace workspace;
       bytes result = written(3 * points, [&](std::vector<float>& targets) {
         assign_task_aligned(said, {where.data(), points, 2}, levels, truth, matches, targets, {},
                             workspace, policy);
         return 0.0;
       });
       add(result, matches.data(), 3 * points);
       assign_atss(boxes_view<const float>(about), levels, truth, matches, {}, workspace, policy);
       add(result, matches.data(), 3 * points);
       return result;
     }},
    {"nms",
     [](execution policy) {
       const std::vector<index_t> kept = nms(in.of_nms(), in.s(), {}, policy);
       bytes result;
       add(result, kept.data(), static_cast<index_t>(kept.size()));
       return result;
     }},
    {"batched_nms",
     [](execution policy) {
       const std::vector<index_t> kept =
           batched_nms(in.of_nms(), in.s(), in.groups(), nms_params{}, policy);
       bytes result;
       add(result, kept.data(), static_cast<index_t>(kept.size()));
       return result;
     }},
    {"soft_nms",
     [](execution policy) {
       soft_nms_workspace<float> workspace;
       soft_nms_params params;
       params.score_floor = 0.3;
       const auto found = soft_nms(in.of_nms(), in.s(), in.groups(), params, workspace, policy);
       bytes result;
       add(result, found.kept.data(), found.kept.size());
       add(result, found.scores.data(), found.scores.size());
       return result;
     }},
    {"filter_topk",
     [](execution policy) {
       filter_topk_workspace workspace;
       const auto best = filter_topk(in.x(), 0.5, 500, workspace, policy);
       bytes result;
       add(result, best.elements.data(), best.elements.size());
       add(result, best.logits.data(), best.logits.size());
       return result;
     }},
    {"postprocess", [](execution policy) {
       // Three images of levels of 6000 and 2000 anchors.
       const head_outputs<float> heads{in.x(), boxes_view<const float>(in.deltas), {}};
       const std::vector<index_t> levels{6000, 2000};
       const std::vector<image_size> images(3, image_size::height_width(800, 800));
       postprocess_params params;
       params.max_candidates = 300;
       postprocess_workspace workspace;
       const detections_view found = postprocess(heads, boxes_view<const float>(in.a.data(), 8000),
                                                 levels, images, params, workspace, policy);
       bytes result;
       add(result, found.boxes.data(), 4 * found.boxes.size());
       add(result, found.scores.data(), found.scores.size());
       add(result, found.labels.data(), found.labels.size());
       add(result, found.offsets.data(), found.offsets.size());
       return result;
     }}};

/// A call and what it gives on one thread, or by `policy`.
class problem {
 public:
  explicit problem(bytes (*call)(execution), execution policy = execution::sequential)
      : call_(call), expected_(call(policy)) {}

  /// Whether a call gives the bits that are expected.
  bool holds(execution policy) const { return call_(policy) == expected_; }

 private:
  bytes (*call_)(execution);
  bytes expected_;
};

/// test(problem) for each kernel family.
template <class Test>
void for_each_problem(const Test& test, execution policy = execution::sequential) {
  for (const auto& call : kernel_calls) {
    INFO(std::string(call.family));
    test(problem(call.run, policy));
  }
}

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

TEST_CASE("threads: chunks are of whole blocks where those are small") {
  const auto chunks = [](index_t items, index_t smallest, index_t multiple) {
    const detail::chunking c(items, smallest, multiple);
    CHECK(c.begin(0) == 0);
    CHECK(c.end(c.count - 1) == items);
    CHECK(c.count <= detail::chunking::max_count);
    return std::make_pair(c.size, c.count);
  };
  CHECK(chunks(4096, 205, 8) == std::make_pair(index_t{208}, index_t{20}));
  CHECK(chunks(120087, 181, 128) == std::make_pair(index_t{512}, index_t{235}));
  // Of wide rows a block has many: they are spread over threads all the same.
  CHECK(chunks(128, 2, 128) == std::make_pair(index_t{2}, index_t{64}));
  CHECK(chunks(1, 1, 1) == std::make_pair(index_t{1}, index_t{1}));
}

TEST_CASE("threads: a loop of the caller's own gives the same bits") {
  // On so many threads, the pieces from the last to the first.
  for (const int threads : {1, 2, 3, 8}) {
    CAPTURE(threads);
    std::atomic<int> loops{0};
    const auto backwards = [&](index_t count, const task& work) {
      ++loops;
      std::atomic<index_t> left{count};
      on_threads(threads, [&](int) {
        for (index_t i = left.fetch_sub(1); i > 0; i = left.fetch_sub(1)) work(i - 1);
      });
    };
    const execution on_loop = execution::on(backwards, threads);
    CHECK(on_loop.threads() == threads);
    for_each_problem([&](const problem& p) { CHECK(p.holds(on_loop)); });
    CHECK(loops > 5);
  }
}

TEST_CASE("threads: calls inside the pieces of a caller's loop") {
  const auto loop = [](index_t count, const task& work) {
    std::atomic<index_t> next{0};
    on_threads(3, [&](int) {
      for (index_t i = next++; i < count; i = next++) work(i);
    });
  };
  const execution on_loop = execution::on(loop, 3);
  for_each_problem([&](const problem& p) {
    std::atomic<int> wrong{0};
    const auto call = [&](index_t i) {
      wrong += p.holds(i % 2 == 0 ? on_loop : execution::parallel) ? 0 : 1;
    };
    loop(6, task(call));
    CHECK(wrong.load() == 0);
  });
}

TEST_CASE("threads: a caller's loop that leaves pieces out, or runs them twice, is told") {
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
  CHECK_THROWS_WITH_AS(kernel_calls[0].run(execution::on(leaves_out, 2)),
                       doctest::Contains("did not run every piece exactly once"), std::logic_error);
  CHECK_THROWS_AS(kernel_calls[0].run(execution::on(repeats, 2)), std::logic_error);
  CHECK_THROWS_AS(kernel_calls[0].run(execution::on(repeats_and_leaves_out, 2)), std::logic_error);
  CHECK_THROWS_AS(kernel_calls[0].run(execution::on(goes_beyond, 2)), std::logic_error);
  CHECK_THROWS_WITH_AS(execution::on(repeats, 0),
                       doctest::Contains("vecdet::execution::on: threads is 0, expected 1 or more"),
                       std::invalid_argument);
}

TEST_CASE("threads: what a piece throws leaves the call, not the caller's loop") {
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
  for (const execution policy : {execution::on(loop, 2), execution::parallel}) {
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
constexpr bool makes_execution = false;
template <class Loop>
constexpr bool
    makes_execution<Loop, decltype(static_cast<void>(execution::on(std::declval<Loop>(), 1)))> =
        true;
struct any_loop {
  void operator()(index_t, const task&) const {}
};
static_assert(makes_execution<const any_loop&> && makes_execution<any_loop&>,
              "a loop that outlives the execution");
static_assert(!makes_execution<any_loop>, "a temporary would be gone before the call");

TEST_CASE("threads: many callers at once") {
  for_each_problem([](const problem& p) {
    std::atomic<int> wrong{0};
    on_threads(8, [&](int thread) {
      const execution policy = thread % 2 == 0 ? execution::parallel : execution::sequential;
      for (int i = 0; i < 10; ++i) wrong += p.holds(policy) ? 0 : 1;
    });
    CHECK(wrong.load() == 0);
  });
}

TEST_CASE("threads: the first call, from many threads") {
  // What the first call sets up, it sets up anew here.
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
  if (!isa_under_test(isa::avx2)) return;  // the sets under test have one and the same result
  const isa before = active_isa();
  set_isa(isa::avx2);
  for_each_problem([](const problem& p) {
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
  for_each_problem([](const problem& p) {
    std::atomic<int> wrong{0};
    for (const int threads : {1, 2, 5}) {
      tbb::task_arena arena(threads);
      arena.execute([&] {
        tbb::parallel_for(0, 20, [&](int i) {
          const execution policy = i % 3 == 0 ? execution::sequential : execution::parallel;
          wrong += p.holds(policy) ? 0 : 1;
        });
      });
    }
    tbb::task_group group;
    for (int i = 0; i < 8; ++i) {
      group.run([&] { wrong += p.holds(execution::parallel) ? 0 : 1; });
    }
    group.wait();
    CHECK(wrong.load() == 0);
  });
}

TEST_CASE("threads: while a call waits, its thread takes none of the caller's tasks") {
  // Such a task would find the caller's locks held and its thread-local state half changed.
  for (const auto& call : kernel_calls) {
    INFO(std::string(call.family));
    static thread_local bool inside;
    std::atomic<int> reentered{0};
    tbb::task_arena arena(4);
    arena.execute([&] {
      tbb::parallel_for(0, 100, [&](int) {
        reentered += inside ? 1 : 0;
        inside = true;
        call.run(execution::parallel);
        inside = false;
      });
    });
    CHECK(reentered.load() == 0);
  }
}

TEST_CASE("threads: cancelling the caller's tasks never leaves a call half done") {
  for_each_problem([](const problem& p) {
    std::atomic<int> wrong{0};
    for (int round = 0; round < (under_sanitizer ? 2 : 10); ++round) {
      tbb::task_arena arena(4);
      arena.execute([&] {
        CHECK_THROWS_AS(tbb::parallel_for(0, 40,
                                          [&](int i) {
                                            if (i == 7) throw stop_here();
                                            wrong += p.holds(execution::parallel) ? 0 : 1;
                                          }),
                        stop_here);
        // In a context that is cancelled already.
        tbb::task_group_context context;
        tbb::parallel_for(
            0, 1,
            [&](int) {
              context.cancel_group_execution();
              wrong += p.holds(execution::parallel) ? 0 : 1;
            },
            context);
      });
    }
    CHECK(wrong.load() == 0);
    CHECK(p.holds(execution::parallel));
  });
}

TEST_CASE("threads: a call's own exception leaves the caller's loop as any other") {
  const problem focal_loss(kernel_calls[0].run);
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
    CHECK(focal_loss.holds(execution::parallel));
  }
}

TEST_CASE("threads: a forked child calls sequentially") {
  // Problems by execution::parallel: the parent's oneTBB threads are running.
  for_each_problem(
      [](const problem& p) {
        const pid_t child = fork();
        if (child == 0) _exit(p.holds(execution::sequential) ? 0 : 1);
        REQUIRE(child > 0);
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
        CHECK(p.holds(execution::parallel));
      },
      execution::parallel);
}
