// SPDX-License-Identifier: Apache-2.0
// NMS of clustered detections and of extreme scenes, over the number of boxes; per class; soft-NMS.
// Where the environment variable VECDET_BENCH_PLOTS names a folder, the run leaves a plot of time
// against the number of boxes there, nms.svg. The counters sort_ms, index_ms and compare_ms break a
// call down.
#include "plain_nms.hpp"
#include "support/implementations.hpp"
#include "support/line_plot.hpp"
#include "support/scene.hpp"
#if defined(VECDET_BENCH_OPENCV)
#include "peer_opencv.hpp"
#endif
#include <vecdet/nms.hpp>
#include <vecdet/reference/nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

struct problem_data {
  detections input;
  nms_workspace workspace;
  soft_nms_workspace<float> soft_workspace;
  plain_nms_memory plain;

  boxes_view<const float> boxes() const { return input.boxes; }
  vector_view<const float> scores() const { return input.scores; }
  nms_groups groups() const {
    nms_groups by_class;
    by_class.classes = input.classes;
    return by_class;
  }
};

/// Clustered detections, or the scene that the variant names: all boxes equal, no two touching, or
/// boxes in one place of which none overlaps another by half.
detections make_detections(const std::string& variant, index_t count, index_t classes) {
  detections input = clustered_detections(count, classes);
  if (variant.rfind("clustered", 0) == 0) return input;
  random_generator generator(7);
  for (index_t i = 0; i < count; ++i) {
    const auto row = static_cast<float>(i / 300), col = static_cast<float>(i % 300);
    float box[4] = {100, 100, 200, 200};
    if (variant == "disjoint") {
      box[0] = 10 * col;
      box[1] = 10 * row;
      box[2] = box[0] + 8;
      box[3] = box[1] + 8;
    } else if (variant == "overlapping") {
      const float w = static_cast<float>(generator.uniform(2, 400));
      const float h = static_cast<float>(generator.uniform(2, 400));
      box[0] = 400 - w;
      box[1] = 400 - h;
      box[2] = 400 + w;
      box[3] = 400 + h;
    }
    for (std::size_t k = 0; k < 4; ++k) input.boxes[4 * static_cast<std::size_t>(i) + k] = box[k];
  }
  return input;
}

/// The data of the problem that runs now.
std::shared_ptr<problem_data> make_problem(const std::string& variant, index_t count,
                                           index_t classes) {
  static std::string which;
  static std::shared_ptr<problem_data> current;
  const std::string name = variant + "/" + std::to_string(count) + "/" + std::to_string(classes);
  if (current != nullptr && which == name) return current;
  current = std::make_shared<problem_data>();
  current->input = make_detections(variant, count, classes);
  which = name;
  return current;
}

/// The plot of this run, written when the program ends.
line_plot& plot() {
  static line_plot of_run("NMS of clustered detections, IoU 0.5, one thread", "boxes", "ms");
  static const bool registered = std::atexit([] {
                                   const char* folder = std::getenv("VECDET_BENCH_PLOTS");
                                   if (folder != nullptr && *folder != '\0')
                                     plot().write(std::string(folder) + "/nms.svg");
                                 }) == 0;
  static_cast<void>(registered);
  return of_run;
}

/// Times the iterations of a benchmark for the plot as well.
template <class Call>
void timed_loop(benchmark::State& state, const std::string& line, index_t count, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) call();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  if (line.empty()) return;
  plot().add(line, static_cast<double>(count),
             1e3 * spent.count() / static_cast<double>(state.iterations()));
}

/// Milliseconds of the steps of a call in one group: the best of some runs.
void count_steps(benchmark::State& state, problem_data& data, index_t count) {
  const auto& kernels = vecdet::detail::active_table().nms.f32;
  nms_workspace& ws = data.workspace;
  const double infinity = std::numeric_limits<double>::infinity();
  double best[3] = {infinity, infinity, infinity};
  for (int run = 0; run < 10; ++run) {
    double spent[3] = {};
    const auto time = [&](int step, const auto& call) {
      const auto start = std::chrono::steady_clock::now();
      call();
      spent[step] +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    vecdet::detail::nms_args<float> args{};
    args.boxes = data.input.boxes.data();
    args.least_overlap = std::nextafter(0.5f, 1.0f);
    args.max_kept = count;
    vecdet::detail::nms_state nms{};
    nms.order = ws.records.data();
    nms.count = count;
    nms.kept = ws.kept.data();
    nms.scratch = ws.scratch.data();
    time(0, [&] {
      kernels.select(data.input.scores.data(), 0, count, -infinity, false, ws.records.data());
      kernels.sort(data.input.scores.data(), ws.records.data(), ws.spare.data(), count);
    });
    time(2, [&] { kernels.begin(args, nms); });
    if (!nms.done) {
      time(1, [&] { kernels.build_index(args, nms); });
      time(2, [&] { kernels.finish(args, nms); });
    }
    for (int step = 0; step < 3; ++step) best[step] = std::min(best[step], spent[step]);
  }
  state.counters["sort_ms"] = 1e3 * best[0];
  state.counters["index_ms"] = 1e3 * best[1];
  state.counters["compare_ms"] = 1e3 * best[2];
}

work amount_of(index_t count) {
  return {static_cast<double>(count), 20.0 * static_cast<double>(count)};
}

void register_nms(const std::string& variant, index_t count) {
  const std::string problem = "nms/" + variant + "/f32/" + std::to_string(count);
  const bool plotted = variant == "clustered";
  const auto prepare = [=] { return make_problem(variant, count, 91); };
  const auto line = [=](const std::string& name) { return plotted ? name : std::string(); };
  if (count <= 5000) {
    register_implementation(
        problem, "reference", 1, amount_of(count), [=](benchmark::State& state) {
          const auto data = prepare();
          timed_loop(state, line("reference"), count, [&] {
            benchmark::DoNotOptimize(reference::nms(data->boxes(), data->scores(), nms_params{}));
          });
        });
  }
  if (count <= 20000) {
    register_implementation(problem, "plain", 1, amount_of(count), [=](benchmark::State& state) {
      const auto data = prepare();
      timed_loop(state, line("plain"), count, [&] {
        benchmark::DoNotOptimize(plain_nms(data->input.boxes.data(), data->input.scores.data(),
                                           count, 0.5f, data->plain));
      });
    });
  }
#if defined(VECDET_BENCH_OPENCV)
  if (count <= 20000) {
    register_implementation(problem, "opencv", 1, amount_of(count), [=](benchmark::State& state) {
      const auto data = prepare();
      const opencv_nms_problem peer(data->input.boxes, data->input.scores, data->input.classes);
      timed_loop(state, line("opencv"), count, [&] { benchmark::DoNotOptimize(peer.run(0.5f)); });
    });
  }
#endif
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    register_implementation(
        problem, isa_name(set), 1, amount_of(count), [=](benchmark::State& state) {
          const auto data = prepare();
          set_isa(set);
          timed_loop(state, line(isa_name(set)), count, [&] {
            benchmark::DoNotOptimize(nms(data->boxes(), data->scores(), nms_params{},
                                         data->workspace, execution::sequential));
          });
          count_steps(state, *data, count);
        });
  }
}

void register_batched_nms(const std::string& variant, index_t count, index_t classes) {
  const std::string problem = "batched_nms/" + variant + "/f32/" + std::to_string(count);
#if defined(VECDET_BENCH_OPENCV)
  register_implementation(problem, "opencv", 1, amount_of(count), [=](benchmark::State& state) {
    const auto data = make_problem(variant, count, classes);
    const opencv_nms_problem peer(data->input.boxes, data->input.scores, data->input.classes);
    for (auto _ : state) benchmark::DoNotOptimize(peer.run_batched(0.5f));
  });
#endif
  register_vecdet(
      problem, amount_of(count), [=] { return make_problem(variant, count, classes); },
      [](problem_data& data, execution policy) {
        benchmark::DoNotOptimize(batched_nms(data.boxes(), data.scores(), data.groups(),
                                             nms_params{}, data.workspace, policy));
      });
}

void register_soft_nms(const std::string& variant, soft_nms_method method, index_t count) {
  soft_nms_params params;
  params.method = method;
  register_vecdet(
      "soft_nms/" + variant + "/f32/" + std::to_string(count), amount_of(count),
      [=] { return make_problem("clustered91", count, 91); },
      [params](problem_data& data, execution policy) {
        benchmark::DoNotOptimize(soft_nms(data.boxes(), data.scores(), data.groups(), params,
                                          data.soft_workspace, policy));
      });
}

const bool registered = [] {
  for (const index_t count : {1000, 2500, 5000, 10000, 20000, 40000, 80000, 100000, 160000})
    register_nms("clustered", count);
  for (const char* variant : {"same", "disjoint", "overlapping"})
    for (const index_t count : {1000, 20000}) register_nms(variant, count);
  register_batched_nms("clustered91", 20000, 91);
  register_batched_nms("clustered1200", 20000, 1200);
  register_soft_nms("linear", soft_nms_method::linear, 5000);
  register_soft_nms("gaussian", soft_nms_method::gaussian, 5000);
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
