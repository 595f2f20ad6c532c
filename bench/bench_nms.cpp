// SPDX-License-Identifier: Apache-2.0
// NMS of clustered detections, of extreme scenes and of recorded detections, over the number of
// boxes; NMS by class; with every framework's rules; soft-NMS. The plots nms_<scene>.svg and
// batched_nms_<scene>.svg show time over the number of boxes. The counters sort_ms, index_ms and
// compare_ms split the time of a call.
#include "bench_nms.hpp"

#include "plain/nms.hpp"
#include "support/coco.hpp"
#include "support/implementations.hpp"
#include "support/npy.hpp"
#include "support/operands.hpp"
#include "support/plots.hpp"
#if defined(VECDET_BENCH_LIBTORCH)
#include "peers/libtorch.hpp"
#endif
#if defined(VECDET_BENCH_OPENCV)
#include "peers/opencv.hpp"
#endif
#include <vecdet/nms.hpp>
#include <vecdet/reference/nms.hpp>
#include <vecdet/soft_nms.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::bench {
namespace {

struct problem_data : nms_operands<float> {
  plain_nms_memory plain;
  plain_batched_nms_memory plain_batched;
  std::vector<index_t> is_kept;  ///< 1 or 0 per box, to check the plain loop

  using nms_operands::nms_operands;
  void keep(vector_view<const index_t> kept) {
    is_kept.assign(scores.size(), 0);
    for (index_t i = 0; i < kept.size(); ++i) is_kept[static_cast<std::size_t>(kept[i])] = 1;
  }
};

/// The recorded detections, by variant.
std::map<std::string, detections>& recorded() {
  static std::map<std::string, detections> by_variant;
  return by_variant;
}

/// Clustered detections, recorded ones, or the scene that the variant names: all boxes equal, no
/// two touching, or boxes in one place that never overlap another by half.
detections make_detections(const std::string& variant, index_t count, index_t classes) {
  if (const auto known = recorded().find(variant); known != recorded().end()) return known->second;
  detections input = clustered_detections(count, classes);
  if (variant == "clustered_degenerate")
    for (std::size_t i = 228; i < input.boxes.size(); i += 400) input.boxes[i + 2] = input.boxes[i];
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

/// The data of the current problem.
std::shared_ptr<problem_data> make_problem(const std::string& variant, index_t count,
                                           index_t classes) {
  static std::string which;
  static std::shared_ptr<problem_data> current;
  const std::string name = variant + "/" + std::to_string(count) + "/" + std::to_string(classes);
  if (current != nullptr && which == name) return current;
  current = std::make_shared<problem_data>(make_detections(variant, count, classes));
  which = name;
  return current;
}

/// A loop that is also timed for the scene's plot: <function>_<scene>.svg.
auto loop_of(const std::string& function, const std::string& variant, index_t count) {
  return [=](benchmark::State& state, const std::string& line, const auto& call) {
    line_plot& plot =
        plots()
            .try_emplace(function + "_" + variant + ".svg",
                         function + " of " + variant + " boxes, IoU 0.5", "boxes", "ms")
            .first->second;
    plotted_loop(state, plot, line, static_cast<double>(count), call);
  };
}

/// Milliseconds of the steps of a call with one group: the best of several runs.
void count_steps(benchmark::State& state, problem_data& data, index_t count) {
  const auto& kernels =
      vecdet::detail::kernels<vecdet::detail::nms_kernels<float>>(vecdet::active_isa());
  vecdet::detail::nms_buffers& buffers = vecdet::detail::workspace_access::buffers(data.workspace);
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
    args.boxes = data.boxes.data();
    args.least_overlap = std::nextafter(0.5f, 1.0f);
    args.max_kept = count;
    vecdet::detail::nms_state nms{};
    nms.order = buffers.records.data();
    nms.count = count;
    nms.kept = buffers.kept.data();
    nms.scratch = buffers.scratch.data();
    time(0, [&] {
      kernels.select(data.scores.data(), 0, count, -infinity, false, buffers.records.data());
      kernels.sort(data.scores.data(), buffers.records.data(), buffers.spare.data(), count);
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

#if defined(VECDET_BENCH_OPENCV)
/// Whether OpenCV keeps the same boxes as vecdet under OpenCV's rules; if not, the benchmark fails.
/// The counter other_kept is the number of boxes kept by only one of OpenCV and the timed rules,
/// which are torchvision's.
bool agrees_with_vecdet(benchmark::State& state, const std::vector<int>& kept, problem_data& data,
                        const nms_groups& groups) {
  const auto kept_by_vecdet = [&](const nms_params& params) {
    const auto view =
        batched_nms(data.b(), data.s(), groups, params, data.workspace, threading::sequential);
    return std::vector<index_t>(view.data(), view.data() + view.size());
  };
  std::vector<index_t> theirs(kept.begin(), kept.end());
  if (theirs != kept_by_vecdet(nms_params::opencv(0.5, 0))) {
    state.SkipWithError("OpenCV keeps other boxes than vecdet does under OpenCV's rules");
    return false;
  }
  std::vector<index_t> timed = kept_by_vecdet(nms_params{}), other;
  std::sort(theirs.begin(), theirs.end());
  std::sort(timed.begin(), timed.end());
  std::set_symmetric_difference(theirs.begin(), theirs.end(), timed.begin(), timed.end(),
                                std::back_inserter(other));
  state.counters["other_kept"] = static_cast<double>(other.size());
  return true;
}
#endif

work amount_of(index_t count) {
  return {static_cast<double>(count), 20.0 * static_cast<double>(count)};
}

void register_nms(const std::string& variant, index_t count) {
  const std::string problem = "nms/" + variant + "/f32/" + std::to_string(count);
  const auto prepare = [=] { return make_problem(variant, count, 91); };
  const auto timed_loop = loop_of("nms", variant, count);
  if (count <= 5000) {
    register_implementation(
        problem, "reference", 1, amount_of(count), [=](benchmark::State& state) {
          const auto data = prepare();
          timed_loop(state, "reference", [&] {
            benchmark::DoNotOptimize(reference::nms(data->b(), data->s(), nms_params{}));
          });
        });
  }
  if (count <= 20000) {
    const auto run_plain = [=](problem_data& data) {
      return VECDET_PLAIN(plain_nms)(data.boxes.data(), data.scores.data(), count, 0.5f,
                                     data.plain);
    };
    register_plain(
        problem, amount_of(count), prepare,
        [=](problem_data& data) {
          check_plain(
              problem, data,
              [](problem_data& d, threading policy) {
                d.keep(nms(d.b(), d.s(), nms_params{}, d.workspace, policy));
              },
              [=](problem_data& d) {
                const index_t kept = run_plain(d);
                d.keep({d.plain.kept.data(), kept});
              },
              &problem_data::is_kept);
        },
        [=](benchmark::State& state, problem_data& data) {
          timed_loop(state, plain_name(), [&] { benchmark::DoNotOptimize(run_plain(data)); });
        });
  }
#if defined(VECDET_BENCH_OPENCV)
  if (count <= 20000) {
    register_implementation(problem, "opencv", 1, amount_of(count), [=](benchmark::State& state) {
      const auto data = prepare();
      opencv_nms_problem peer(data->boxes, data->scores, data->classes);
      if (!agrees_with_vecdet(state, peer.run(0.5f), *data, nms_groups{})) return;
      timed_loop(state, "opencv", [&] { benchmark::DoNotOptimize(peer.run(0.5f)); });
    });
  }
#endif
#if defined(VECDET_BENCH_LIBTORCH)
  if (count <= 5000) {  // for the matrix of IoUs
    register_implementation(problem, "libtorch", 1, amount_of(count), [=](benchmark::State& state) {
      const auto data = prepare();
      const auto run = [&] {
        return libtorch_nms(data->boxes.data(), data->scores.data(), count, 0.5);
      };
      const auto kept = nms(data->b(), data->s(), nms_params{});
      if (run() != std::vector<std::int64_t>(kept.begin(), kept.end())) {
        state.SkipWithError("libtorch keeps other boxes than vecdet does");
        return;
      }
      timed_loop(state, "libtorch", [&] { benchmark::DoNotOptimize(run()); });
    });
  }
#endif
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    register_implementation(
        problem, isa_name(set), 1, amount_of(count), [=](benchmark::State& state) {
          const auto data = prepare();
          set_isa(set);
          timed_loop(state, isa_name(set), [&] {
            benchmark::DoNotOptimize(
                nms(data->b(), data->s(), nms_params{}, data->workspace, threading::sequential));
          });
          count_steps(state, *data, count);
        });
  }
}

/// A framework's rules on clustered boxes, and on boxes of which one in a hundred has no width, as
/// after clipping.
void register_preset(const std::string& name, const nms_params& params, index_t count) {
  for (const char* degenerate : {"", "_degenerate"}) {
    const std::string variant = "clustered" + std::string(degenerate);
    register_vecdet(
        "nms/" + name + degenerate + "/f32/" + std::to_string(count), amount_of(count),
        [=] { return make_problem(variant, count, 91); },
        [params](problem_data& data, threading policy) {
          benchmark::DoNotOptimize(nms(data.b(), data.s(), params, data.workspace, policy));
        });
  }
}

void register_batched_nms(const std::string& variant, index_t count, index_t classes) {
  const std::string problem = "batched_nms/" + variant + "/f32/" + std::to_string(count);
  const auto timed_loop = loop_of("batched_nms", variant, count);
#if defined(VECDET_BENCH_OPENCV)
  register_implementation(problem, "opencv", 1, amount_of(count), [=](benchmark::State& state) {
    const auto data = make_problem(variant, count, classes);
    opencv_nms_problem peer(data->boxes, data->scores, data->classes);
    if (!agrees_with_vecdet(state, peer.run_batched(0.5f), *data, data->by_class())) return;
    timed_loop(state, "opencv", [&] { benchmark::DoNotOptimize(peer.run_batched(0.5f)); });
  });
#endif
  const auto prepare = [=] { return make_problem(variant, count, classes); };
  // The classes of recorded boxes are not below `classes`.
  if (variant.rfind("clustered", 0) == 0) {
    const auto run_plain = [=](problem_data& data) {
      VECDET_PLAIN(plain_batched_nms)
      (data.boxes.data(), data.scores.data(), data.classes.data(), classes, count, 0.5f, count,
       data.plain_batched);
    };
    register_plain(
        problem, amount_of(count), prepare,
        [=](problem_data& data) {
          check_plain(
              problem, data,
              [](problem_data& d, threading policy) {
                d.keep(batched_nms(d.b(), d.s(), d.by_class(), nms_params{}, d.workspace, policy));
              },
              [=](problem_data& d) {
                run_plain(d);
                d.keep(d.plain_batched.all_kept);
              },
              &problem_data::is_kept);
        },
        [=](benchmark::State& state, problem_data& data) {
          timed_loop(state, plain_name(), [&] { run_plain(data); });
        });
  }
  register_instruction_sets(
      problem, amount_of(count), [=](benchmark::State& state, threading policy) {
        const auto data = prepare();
        const char* const threads = policy.threads() == 1 ? "" : ", all threads";
        timed_loop(state, std::string(isa_name(active_isa())) + threads, [&] {
          benchmark::DoNotOptimize(batched_nms(data->b(), data->s(), data->by_class(), nms_params{},
                                               data->workspace, policy));
        });
      });
}

void register_soft_nms(const std::string& variant, soft_nms_method method, index_t count) {
  soft_nms_params params;
  params.method = method;
  register_vecdet(
      "soft_nms/" + variant + "/f32/" + std::to_string(count), amount_of(count),
      [=] { return make_problem("clustered91", count, 91); },
      [params](problem_data& data, threading policy) {
        benchmark::DoNotOptimize(
            soft_nms(data.b(), data.s(), data.by_class(), params, data.soft_workspace, policy));
      });
}

const bool registered = [] {
  for (const index_t count : {1000, 2500, 5000, 10000, 20000, 40000, 80000, 100000, 160000})
    register_nms("clustered", count);
  for (const char* variant : {"same", "disjoint", "overlapping"})
    for (const index_t count : {1000, 5000, 20000, 40000}) register_nms(variant, count);
  const std::pair<const char*, nms_params> presets[] = {
      {"torchvision", nms_params::torchvision(0.5)},
      {"onnxruntime", nms_params::onnx(0.5, no_limit)},
      {"opencv", nms_params::opencv(0.5, 0)},
      {"mmcv", nms_params::mmcv(0.5, true)},
      {"ipex", nms_params::ipex(0.5)}};
  for (const auto& preset : presets) register_preset(preset.first, preset.second, 20000);
  for (const index_t count : {1000, 5000, 20000, 80000}) {
    register_batched_nms("clustered91", count, 91);
    register_batched_nms("clustered1200", count, 1200);
  }
  register_soft_nms("linear", soft_nms_method::linear, 5000);
  register_soft_nms("gaussian", soft_nms_method::gaussian, 5000);
  show_in_figures("nms/clustered/f32/[0-9]+");
  show_in_figures("batched_nms/clustered91/f32/[0-9]+");
  return true;
}();

}  // namespace

void register_recorded_nms(const std::string& folder) {
  // Region proposals of the first of two images, all with one class.
  detections& proposals = recorded()["rpn"];
  proposals.boxes = load_npy<float>(folder + "/ipex_real/rpn_nms_proposals.npy").values;
  proposals.scores = load_npy<float>(folder + "/ipex_real/rpn_nms_objectness.npy").values;
  proposals.scores.resize(proposals.scores.size() / 2);
  proposals.boxes.resize(4 * proposals.scores.size());
  proposals.classes.resize(proposals.scores.size());
  register_nms("rpn", static_cast<index_t>(proposals.scores.size()));

  // Mask R-CNN's box head: two images with 1000 boxes for each of 81 classes; 0 is background.
  detections& head = recorded()["box_head"];
  const auto boxes = load_npy<float>(folder + "/ipex_real/box_head_nms_proposals.npy").values;
  const auto scores = load_npy<float>(folder + "/ipex_real/box_head_nms_class_prob.npy").values;
  for (std::size_t i = 0; i < scores.size() && 4 * i < boxes.size(); ++i) {
    if (i % 81 == 0 || scores[i] <= 0.05f) continue;
    head.scores.push_back(scores[i]);
    head.boxes.insert(head.boxes.end(), &boxes[4 * i], &boxes[4 * i] + 4);
    head.classes.push_back(static_cast<index_t>(i / 81000 * 81 + i % 81));  // image and class
  }
  register_batched_nms("box_head", static_cast<index_t>(head.scores.size()), 162);

  // Detections of 100 images in COCO's format.
  detections& results = recorded()["coco"];
  for (const coco_box& box :
       load_coco_results(folder + "/coco100/instances_val2014_fakebbox100_results.json")) {
    for (const double coordinate : {box.x, box.y, box.x + box.width, box.y + box.height})
      results.boxes.push_back(static_cast<float>(coordinate));
    results.scores.push_back(static_cast<float>(box.score));
    results.classes.push_back(1000 * box.image_id + box.category_id);
  }
  register_batched_nms("coco", static_cast<index_t>(results.scores.size()), 80);
}

}  // namespace vecdet::bench
