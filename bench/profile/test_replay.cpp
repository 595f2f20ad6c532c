// SPDX-License-Identifier: Apache-2.0
// Every call of the catalogue records a problem under its own name, the profile is written and read
// back, and each replay records the very problem that it stands for.
#include "projection.hpp"
#include "read.hpp"
#include "replay.hpp"
#include "write_projection.hpp"
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace profile = vecdet::profile;
using namespace vecdet;
using test::call;
using test::family;

namespace {

constexpr index_t rows = 2003;

template <class Call>
profile::report record(const Call& call) {
  profile::enable();
  profile::reset();
  call();
  profile::disable();
  return profile::snapshot();
}

profile::report written_and_read(const profile::report& r) {
  std::ostringstream out;
  write_json(out, r);
  return profile::read_profile(nlohmann::json::parse(out.str()));
}

/// visit(family, call) for every call of the catalogue.
void for_each_call(const std::function<void(const family&, const call&)>& visit) {
  test::plain_memory at;
  test::for_each_call(at, rows, test::source::training, visit);
}

/// Anchors are made once for each shape of image, and not recorded; the levels of boxes are a part
/// of the call that needs them.
bool is_recorded(const std::string& function) {
  for (const char* name : {"count_foreground", "make_anchors", "make_points", "pyramid_levels"})
    if (function == name) return false;
  return true;
}

/// What all calls with default options record.
profile::report recorded_calls(threading policy = threading::sequential) {
  return record([&] {
    for_each_call([&](const family&, const call& c) {
      if (c.has_defaults) c.run(policy);
    });
  });
}

/// Runs the replay once; it must record its problem, with its bytes.
void check_replay(const profile::entry& wanted) {
  CAPTURE(wanted.name);
  REQUIRE(profile::why_not_replayed(wanted) == "");
  tbb::task_arena arena(wanted.threads);
  const threading policy = wanted.threads == 1 ? threading::sequential : threading::parallel;
  const profile::replay_call call = profile::make_replay_call(wanted, policy);
  REQUIRE(call);
  const profile::report r = record([&] { arena.execute(call); });
  const auto same = std::find_if(r.entries.begin(), r.entries.end(),
                                 [&](const profile::entry& e) { return e.name == wanted.name; });
  REQUIRE(same != r.entries.end());
  // The mean of several calls of NMS is not a whole number of boxes.
  const double most = wanted.function == "batched_nms" ? 10 : 0;
  CHECK(std::fabs(profile::call_bytes(*same) - profile::call_bytes(wanted)) <= most);
}

}  // namespace

TEST_CASE("replay: labels are those of a training") {
  const std::vector<index_t> labels = bench::training_labels(100000, 7);
  CHECK(count_foreground(labels) == 100);
  CHECK(std::count(labels.begin(), labels.end(), index_t{-2}) == 3000);
  for (index_t c = 0; c < 7; ++c) CHECK(std::count(labels.begin(), labels.end(), c) >= 100 / 7);
}

TEST_CASE("replay: every call records a problem of its name, which its replay records again") {
  std::set<std::string> functions;
  for (const threading policy : {threading::sequential, threading::parallel}) {
    for_each_call([&](const family& f, const call& c) {
      functions.insert(c.function);
      if (!is_recorded(c.function)) return;
      INFO(f.type, " ", c.name);
      const profile::report r = written_and_read(record([&] { c.run(policy); }));
      bool has_name = false;
      for (const profile::entry& e : r.entries) {
        has_name |= e.function == c.function && e.variant == c.variant && e.type == f.type;
        if (c.has_defaults && !e.implementation.empty()) check_replay(e);
      }
      CHECK(has_name);
    });
  }

  // A public function names itself in errors: where its body is, its name stands as a text and
  // before a parenthesis.
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(VECDET_INCLUDE "/impl")) {
    const std::filesystem::path path = file.path();
    // PyTorch's operators and those on OpenCV's types call these functions.
    if (!file.is_regular_file() || path.filename().string().compare(0, 6, "opencv") == 0) continue;
    CAPTURE(path);
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const std::regex quoted("\"([a-z][a-z0-9_]*)\"");
    for (std::sregex_iterator i(text.begin(), text.end(), quoted), end; i != end; ++i) {
      const std::string name = (*i)[1];
      if (!std::regex_search(text, std::regex("[a-z0-9_>] " + name + "\\("))) continue;
      // A part of make_anchors' call, one that only computes sizes, and one of a few numbers.
      if (name == "count_anchors" || name == "max_pool_size" || name == "update_running_statistics")
        continue;
      CHECK_MESSAGE(functions.count(name) == 1, name << " is not in the catalogue");
      ++found;
    }
  }
  CHECK(found >= 20);
}

TEST_CASE("replay: profiles and benchmarks have the same names, also for distances") {
  std::set<std::string> names;
  for (const profile::entry& e : recorded_calls().entries)
    names.insert(e.function + "/" + e.variant + "/" + e.type + "/" + profile::shape_text(e.shape));
  for (const char* name :
       {"encode_boxes/weights1/f32/2003", "encode_boxes/boxes/f32/2003",
        "encode_boxes/soa_boxes/f32/2003", "decode_boxes/clip/f32/2003",
        "decode_distances/clip/f32/2003", "decode_distances/pixels_clip/f32/2003",
        "decode_distances/float_clip/bf16/2003", "decode_distances/float_pixels_clip/bf16/2003",
        "filter_topk/threshold0.05/f32/2003x20", "postprocess/retinanet/f32/2003x21",
        "postprocess/retinanet/f32/3x668x21", "nms//f32/3000", "nms.sort//f32/3000",
        "nms.compare//f32/3000", "nms.partition//f32/3000", "nms.merge//f32/3000"}) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}

TEST_CASE("replay: numbers in variants") {
  const auto is_replayed_as = [](const char* function, const char* variant, const char* type,
                                 std::vector<std::int64_t> shape) {
    profile::entry e;
    e.function = function;
    e.variant = variant;
    e.type = type;
    e.shape = std::move(shape);
    e.implementation = isa_name(active_isa());
    e.threads = 1;
    e = profile::moved_to(e, "", 0);
    CAPTURE(e.name);
    const profile::replay_call call = profile::make_replay_call(e, threading::sequential);
    REQUIRE(call);
    const profile::report r = record(call);
    CHECK(std::any_of(r.entries.begin(), r.entries.end(),
                      [&](const profile::entry& same) { return same.name == e.name; }));
  };
  is_replayed_as("filter_topk", "threshold0.3", "bf16", {500, 7});
  is_replayed_as("filter_topk", "probability0.25", "bf16", {500, 7});
  is_replayed_as("filter_topk", "threshold0.3", "u8", {500, 7});
  is_replayed_as("postprocess_yolo", "objectness", "i8", {1, 300, 3});
  is_replayed_as("postprocess_yolo", "channels", "f32", {1, 300, 3, 32});
  is_replayed_as("conv3x3", "nhwc_f2x2", "f32", {1, 7, 8, 9, 13});
  is_replayed_as("conv3x3_weight_grad", "levels", "f32", {2, 7, 84, 13});
  is_replayed_as("deformable_attention", "points13", "f32", {2, 50, 9, 3, 7});
  is_replayed_as("assign_atss", "k5", "f32", {9, 700});
  is_replayed_as("assign_task_aligned", "top13", "f32", {9, 700});
  is_replayed_as("assign_rotated_task_aligned", "top13", "f32", {9, 700});
  is_replayed_as("assign_sim_ota", "candidates13", "f32", {9, 700});
  is_replayed_as("softmax_cross_entropy_loss_and_grad", "mined7", "f32", {500, 7});
  is_replayed_as("roi_align", "nhwc_aligned1_sampling5", "f32", {20, 5, 3, 4});
}

TEST_CASE("replay: operations are known unless they depend on the data") {
  const std::set<std::string> decided_by_data{"nms",
                                              "batched_nms",
                                              "soft_nms",
                                              "rotated_nms",
                                              "mask_nms",
                                              "group_masks",
                                              "prob_iou_nms",
                                              "postprocess",
                                              "assign_atss",
                                              "assign_task_aligned",
                                              "assign_rotated_task_aligned",
                                              "assign_sim_ota",
                                              "match_anchors",
                                              "retinanet_loss_and_grad",
                                              "roi_align",
                                              "roi_align_grad",
                                              "multiscale_roi_align",
                                              "multiscale_roi_align_grad",
                                              "postprocess_box_head",
                                              "sample_balanced",
                                              "assign_fcos",
                                              "fcos_loss_and_grad",
                                              "postprocess_yolo",
                                              "postprocess_detr",
                                              "merge_boxes",
                                              "ssd_loss_and_grad",
                                              "match_queries",
                                              "assign_least_cost",
                                              "set_loss_and_grad"};
  // Labels select, and how many is not known.
  const auto labels_decide = [](const profile::entry& e) {
    return (e.function.compare(0, 9, "smooth_l1") == 0 && e.variant != "all" &&
            e.variant != "list") ||
           e.function == "regression_loss" || e.function == "regression_loss_and_grad";
  };
  const std::set<std::string> without_floats{"split_detections",
                                             "join_detections",
                                             "split_boxes",
                                             "join_boxes",
                                             "letterbox",
                                             "encode_masks",
                                             "decode_masks",
                                             "mask_areas",
                                             "mask_boxes",
                                             "mask_iou",
                                             "mask_polygons",
                                             "merge_masks",
                                             "run_lengths_to_strings",
                                             "run_lengths_from_strings",
                                             "run_lengths_from_polygons",
                                             "run_lengths_from_boxes"};
  for (const profile::entry& e : recorded_calls().entries) {
    if (e.implementation.empty()) continue;
    CAPTURE(e.name);
    CHECK((e.flops > 0) == (decided_by_data.count(e.function) == 0 &&
                            without_floats.count(e.function) == 0 && !labels_decide(e)));
  }
  const auto flops_a_call = [](const auto& call) {
    const profile::report once = record(call);
    REQUIRE(once.entries.size() == 1);
    return once.entries[0].flops;
  };
  const std::vector<float> a = bench::training_anchors(10);
  const std::vector<index_t> labels(10, 1), list{3, 5};
  const auto loss_of = [&](const box_selection& selection) {
    return flops_a_call([&] { regression_loss(boxes_view<const float>(a), a, a, selection); });
  };
  CHECK(loss_of(box_selection::all()) == 10 * 155);
  CHECK(loss_of(box_selection::list(list)) == 2 * 155);
  CHECK(loss_of(labels) == 0);
  std::vector<float> out(a.size());
  CHECK(flops_a_call([&] {
          convert_boxes(boxes_view<const float>(a), box_format::xyxy, box_format::xywh, out);
        }) == 10 * 2);
}

TEST_CASE("replay: other types and variants are unknown") {
  for (profile::entry e : recorded_calls().entries) {
    if (e.implementation.empty()) continue;
    CAPTURE(e.name);
    const std::string type = e.type;
    e.type = "f16";
    CHECK_FALSE(profile::make_replay_call(e, threading::sequential));
    e.type = type;
    for (const char* variant : {"unheard of", "levels_unheard of"}) {
      e.variant = variant;
      CHECK_FALSE(profile::make_replay_call(e, threading::sequential));
    }
  }
}

TEST_CASE("replay: the bytes determine what a name does not contain") {
  // Whether all boxes count or the foreground's, whether the upstream gradient is a number, and
  // which results of matching were asked for.
  std::map<std::string, std::set<double>> bytes;
  for_each_call([&](const family& f, const call& c) {
    const std::string options = c.name.substr(c.name.rfind('/') + 1);
    if (c.has_defaults || (options != "all" && options != "upstream")) return;
    INFO(f.type, " ", c.name);
    const profile::report r = record([&] { c.run(threading::sequential); });
    REQUIRE(r.entries.size() == 1);
    check_replay(r.entries[0]);
    bytes[c.function];
  });
  CHECK(bytes.size() == 3);
  const std::vector<float> anchors = bench::training_anchors(300);
  std::vector<float> ious(300);
  std::vector<index_t> matches(300), labels(300);
  const ground_truth truth{boxes_view<const float>(anchors.data(), 5)};
  match_workspace workspace;
  for (int asked = 1; asked <= 3; ++asked) {
    match_results results{{}, {}, ious};
    if (asked > 1) results.matches = matches;
    if (asked > 2) results.labels = labels;
    const profile::report r = record([&] {
      match_anchors(boxes_view<const float>(anchors), truth, results, {}, workspace,
                    threading::sequential);
    });
    for (const profile::entry& e : r.entries)
      if (!e.implementation.empty()) check_replay(e);
  }
}

TEST_CASE("replay: NMS of all sizes is a few problems, and the mean of each is replayed") {
  const bench::detections found = bench::clustered_detections(3000, 7);
  nms_workspace workspace;
  soft_nms_workspace<float> soft_workspace;
  const profile::report r = record([&] {
    for (index_t count = 1; count <= 3000; ++count) {
      const boxes_view<const float> where(found.boxes.data(), count);
      const vector_view<const float> scores(found.scores.data(), count);
      const vector_view<const index_t> found_classes(found.classes.data(), count);
      const nms_groups groups{found_classes};
      nms(where, scores, {}, workspace, threading::sequential);
      batched_nms(where, scores, groups, {}, workspace, threading::sequential);
      if (count <= 300) soft_nms(where, scores, {}, {}, soft_workspace, threading::sequential);
    }
  });
  std::map<std::string, std::uint64_t> calls;
  for (const profile::entry& e : r.entries) {
    calls[e.function + "/" + profile::shape_text(e.shape)] += e.count;
    if (e.implementation.empty()) continue;
    const profile::replay_call call = profile::make_replay_call(e, threading::sequential);
    REQUIRE(call);
    const profile::report again = record(call);
    const auto same = std::find_if(again.entries.begin(), again.entries.end(),
                                   [&](const profile::entry& a) { return a.name == e.name; });
    REQUIRE(same != again.entries.end());
    CHECK(same->bytes == doctest::Approx(profile::call_bytes(e)).epsilon(0.05));
  }
  for (const char* function : {"nms", "batched_nms"}) {
    const std::string name = function;
    CHECK(calls[name + "/7"] == 1);
    CHECK(calls[name + "/20"] == 10);
    CHECK(calls[name + "/1000"] == 100);
    CHECK(calls[name + "/3000"] == 1000);
  }
  CHECK(calls["soft_nms/300"] == 100);
  CHECK(calls.size() <= 7 * 30);
}

TEST_CASE("replay: at least five calls with warm caches are timed, also long ones") {
  profile::replay_options options;
  options.seconds = 0.002;
  options.cold_calls = 0;
  for (const int repetitions : {1, 3, 5, 7}) {
    options.repetitions = repetitions;
    CAPTURE(repetitions);
    int calls = 0;
    const auto sleeps = [&](std::chrono::milliseconds duration) {
      return [&calls, duration] {
        ++calls;
        std::this_thread::sleep_for(duration);
      };
    };
    const profile::replayed slow =
        profile::measure_call("slow", sleeps(std::chrono::milliseconds(4)), nullptr, options);
    CHECK(slow.warm.size() == static_cast<std::size_t>(repetitions));
    CHECK(slow.warm_call() >= 4e6);
    CHECK(calls >= 2 + 5);  // two before: one makes pages, the other tells how long a call takes
    CHECK(calls <= 2 + 9);
    // Only the first call is long.
    calls = 0;
    profile::measure_call(
        "quick",
        [&] {
          if (calls++ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(4));
        },
        nullptr, options);
    CHECK(calls > 100);
  }
}

TEST_CASE("replay: repetitions that differ by more than a third are unsteady, and marked") {
  profile::replayed steady, unsteady;
  steady.warm = {3, 4, 3.5};
  unsteady.warm = {3, 4.1, 3.5};
  CHECK(!profile::replayed().is_unsteady());
  CHECK(!steady.is_unsteady());
  CHECK(unsteady.is_unsteady());
  profile::projection p;
  p.problems.resize(2);
  p.problems[1].name = "second";
  const auto text = [&] {
    std::ostringstream out;
    profile::write_projection(out, p, 10);
    return out.str();
  };
  CHECK(text().find('~') == std::string::npos);
  p.problems[1].is_unsteady = true;
  CHECK(text().find(" ~") < text().find("second"));
  CHECK(text().find(profile::unsteady_legend) != std::string::npos);
}

TEST_CASE("replay: any shape and number of threads is safe") {
  const std::vector<std::vector<std::int64_t>> small{
      {}, {1}, {2}, {5}, {1, 1}, {3, 1}, {1, 7}, {2, 1, 1}, {1, 5, 2}, {1, 1, 1, 1}};
  const std::vector<std::vector<std::int64_t>> large{
      {INT64_MAX}, {std::int64_t{1} << 40}, {std::int64_t{1} << 40, std::int64_t{1} << 40}};
  profile::replay_options options;
  options.seconds = 0.001;
  options.repetitions = options.cold_calls = 1;
  for (profile::entry e : recorded_calls().entries) {
    if (e.implementation.empty()) continue;
    for (const auto& shape : small) {
      e.shape = shape;
      e = profile::moved_to(e, "", 0);
      CAPTURE(e.name);
      const profile::replay_call call = profile::make_replay_call(e, threading::sequential);
      if (call) CHECK_NOTHROW(call());
    }
    for (const auto& shape : large) {
      e.shape = shape;
      CHECK_THROWS_WITH_AS(profile::replay(e, options), "too large for this machine",
                           std::runtime_error);
    }
    e.shape = {1};
    e.threads = 2000000000;
    CHECK_THROWS_WITH_AS(profile::replay(e, options), "on more than 4096 threads",
                         std::runtime_error);
  }
}

TEST_CASE("projection: scopes inside a replayed problem are part of it") {
  const auto run = [](const std::string& function) {
    for_each_call([&](const family& f, const call& c) {
      if (c.function == function && c.has_defaults && f.type == "f32" &&
          (f.name == "filter_topk" || f.name == "postprocess/batch"))
        c.run(threading::sequential);
    });
  };
  profile::report r = record([&] {
    run("filter_topk");
    VECDET_PROFILE_SCOPE("step");
    run("postprocess");
  });
  // A sort so short that nothing is left of it once the timer's own cost is taken off.
  for (profile::path& p : r.paths) {
    profile::entry& e = r.entries[p.entries.back()];
    if (e.function == "nms.sort") e.self_ns = p.self_ns = 0;
  }
  profile::replay_options options;
  options.seconds = 0.001;
  options.repetitions = options.cold_calls = 1;
  std::ostringstream progress;
  const profile::projection p = profile::project(r, "step", {}, options, progress);
  std::set<std::string> replayed, inside;
  double observed = 0;
  for (const profile::projected_problem& problem : p.problems) {
    CHECK(problem.warm_ns > 0);
    if (problem.is_inside) {
      inside.insert(problem.name);
      continue;
    }
    replayed.insert(problem.name);
    CAPTURE(problem.name);
    CHECK(problem.calls == 1);
    observed += problem.observed_ns;
  }
  // Three detectors, and filter_topk by itself, by logit and by probability.
  CHECK(replayed.size() == 5);
  CHECK(inside.size() >= 2);  // RetinaNet's filter_topk, and batched_nms
  for (const auto& skipped : p.not_replayed) {
    CAPTURE(skipped.name);
    CHECK(replayed.count(skipped.name) + inside.count(skipped.name) == 0);
    if (skipped.name != "step") {
      CHECK(skipped.reason == "part of replayed problems, and replayed with them");
      CHECK(skipped.observed_ns == 0);
    }
    observed += skipped.observed_ns;
  }
  CHECK(observed == doctest::Approx(r.whole_ns()));
}
