// SPDX-License-Identifier: Apache-2.0
// One postprocess_workspace through all functions that take it, in changing order and size, on one
// and on many threads: each call must return the bits that it returns with a workspace of its own.
#include "support/class_lists.hpp"
#include "support/loops.hpp"
#include "support/random.hpp"
#include "support/values.hpp"
#include <vecdet/box_head.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/postprocess_detr.hpp>
#include <vecdet/postprocess_yolo.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

using function = std::function<detections_view(postprocess_workspace&, threading)>;

/// A copy of a call's results.
struct owned_detections {
  std::vector<float> numbers;    ///< boxes, scores, extras
  std::vector<index_t> indices;  ///< labels, offsets, sources; the number of extras

  explicit owned_detections(const detections_view& found) : indices{found.extras.cols()} {
    numbers.assign(found.boxes.data(), found.boxes.data() + 4 * found.boxes.size());
    numbers.insert(numbers.end(), found.scores.begin(), found.scores.end());
    numbers.insert(numbers.end(), found.extras.data(), found.extras.data() + found.extras.size());
    for (const auto& each : {found.labels, found.offsets, found.sources})
      indices.insert(indices.end(), each.begin(), each.end());
  }
  bool operator==(const owned_detections& other) const {
    return same_bits(numbers, other.numbers) && indices == other.indices;
  }
};

std::vector<float> normals(index_t count, double mean, double deviation, random_generator& from) {
  std::vector<float> numbers;
  for (index_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<float>(mean + deviation * from.normal()));
  return numbers;
}

std::vector<image_size> sizes_of(index_t images, random_generator& from) {
  std::vector<image_size> sizes;
  for (index_t i = 0; i < images; ++i)
    sizes.push_back(image_size::height_width(from.uniform(100, 220), from.uniform(100, 220)));
  return sizes;
}

function dense(postprocess_params params, index_t images, const std::vector<index_t>& levels,
               index_t classes, random_generator& from) {
  const index_t anchors = std::accumulate(levels.begin(), levels.end(), index_t{0});
  const index_t rows = images * anchors;
  const bool is_fcos = params.detector == dense_detector::fcos;
  const bool is_ssd = params.detector == dense_detector::ssd;
  const std::vector<float> logits = normals(rows * classes, -3, 1.5, from),
                           deltas = normals(4 * rows, is_fcos ? 1.5 : 0, 0.4, from),
                           centerness = normals(is_fcos ? rows : 0, 0, 1, from),
                           boxes = random_boxes<float>(anchors, from.bits(), 200);
  const std::vector<image_size> sizes = sizes_of(images, from);
  class_lists lists;
  if (params.detector != dense_detector::rpn && rows > 0)
    lists = class_lists(is_ssd ? 1 : 0, classes, from);
  return [=](postprocess_workspace& workspace, threading policy) {
    postprocess_params own = params;
    lists.give(own);
    const head_outputs<float> outputs{{logits.data(), rows, classes}, deltas, centerness};
    return postprocess(outputs, boxes_view<const float>(boxes), vector_view<const index_t>(levels),
                       vector_view<const image_size>(sizes), own, workspace, policy);
  };
}

function box_head(std::vector<index_t> offsets, index_t classes, random_generator& from) {
  const index_t rows = offsets.back();
  const std::vector<float> logits = normals(rows * classes, 0, 1.5, from),
                           deltas = normals(4 * rows * classes, 0, 1, from),
                           proposals = random_boxes<float>(rows, from.bits(), 200);
  const auto sizes = sizes_of(static_cast<index_t>(offsets.size()) - 1, from);
  return [=](postprocess_workspace& workspace, threading policy) {
    const box_head_outputs<float> outputs{{logits.data(), rows, classes}, deltas};
    return postprocess_box_head(outputs, boxes_view<const float>(proposals), offsets,
                                vector_view<const image_size>(sizes), {}, workspace, policy);
  };
}

/// Scores are below `most`.
function yolo(postprocess_yolo_params params, index_t images, index_t boxes, index_t classes,
              random_generator& from, double most = 1) {
  const bool by_rows = params.layout == yolo_layout::rows;
  const bool is_scored = params.scores == yolo_scores::score_and_class;
  const index_t scores = is_scored ? 1 : classes + (params.scores == yolo_scores::objectness);
  const index_t extras = params.rotated ? 1 : std::max(index_t{0}, params.extras);
  const index_t numbers = 4 + scores + is_scored + extras;
  std::vector<float> output(static_cast<std::size_t>(images * boxes * numbers));
  for (index_t i = 0; i < images; ++i)
    for (index_t b = 0; b < boxes; ++b)
      for (index_t k = 0; k < numbers; ++k) {
        const bool is_score = k >= 4 && k < 4 + scores;
        const double x = is_score              ? from.uniform(0, from.chance(0.02) ? most : 0.2)
                         : is_scored && k == 5 ? static_cast<double>(from.below(classes))
                         : params.rotated && k + 1 == numbers ? from.uniform(-4, 7)
                                                              : from.uniform(20, 600);
        output[static_cast<std::size_t>(by_rows ? (i * boxes + b) * numbers + k
                                                : (i * numbers + k) * boxes + b)] =
            static_cast<float>(x);
      }
  const std::vector<letterbox_transform> transforms(
      static_cast<std::size_t>(from.chance(0.5) ? images : 0),
      letterbox_transform::centred(image_size::height_width(480, from.uniform(100, 2000)),
                                   image_size::height_width(640, 640)));
  const class_lists lists = boxes > 0 ? class_lists(0, classes, from) : class_lists();
  return [=](postprocess_workspace& workspace, threading policy) {
    postprocess_yolo_params own = params;
    lists.give_limits(own);
    if (own.suppress) own.class_groups = lists.groups;
    const matrix_view<const float> matrix(output.data(), images * (by_rows ? boxes : numbers),
                                          by_rows ? numbers : boxes);
    return postprocess_yolo(yolo_outputs<float>{matrix, images}, transforms, own, workspace,
                            policy);
  };
}

function detr(const postprocess_detr_params& params, index_t images, index_t queries,
              index_t classes, random_generator& from) {
  const index_t rows = images * queries;
  const std::vector<float> logits = normals(rows * classes, -1, 2, from),
                           boxes = normals(4 * rows, 0.5, 0.1, from);
  const std::vector<image_size> sizes = sizes_of(images, from);
  const class_lists lists =
      rows > 0 ? class_lists(0, classes - params.softmax, from) : class_lists();
  return [=](postprocess_workspace& workspace, threading policy) {
    postprocess_detr_params own = params;
    lists.give_limits(own);
    const detr_outputs<float> outputs{{logits.data(), rows, classes}, boxes};
    return postprocess_detr(outputs, vector_view<const image_size>(sizes), own, workspace, policy);
  };
}

struct named_call {
  std::string name;
  function run;
};

/// Calls of every function: small ones, without any rows, and of several chunks and images.
std::vector<named_call> all_calls(random_generator& from) {
  std::vector<named_call> calls;
  const auto add = [&](const std::string& name, function run) {
    calls.push_back({name + ", call " + std::to_string(calls.size()), std::move(run)});
  };
  for (const bool finds_many : {false, true}) {
    auto retinanet = postprocess_params::retinanet(), fcos = postprocess_params::fcos();
    auto ssd = postprocess_params::ssd(), rpn = postprocess_params::rpn();
    rpn.min_size = 8;
    for (postprocess_params* params : {&retinanet, &fcos, &ssd, &rpn})
      if (!finds_many) params->max_candidates = params->max_detections = 30;
    add("RetinaNet", dense(retinanet, 1, {20, 0, 3}, 4, from));
    add("RetinaNet", dense(retinanet, 2, {9000, 2000, 400}, 21, from));
    add("RetinaNet", dense(retinanet, 3, {0, 0}, 21, from));
    add("FCOS", dense(fcos, 3, {400, 100, 20}, 37, from));
    add("SSD", dense(ssd, 1, {50}, 3, from));
    add("SSD", dense(ssd, 2, {4000, 500}, 21, from));
    add("RPN", dense(rpn, 1, {30, 10}, 1, from));
    add("RPN", dense(rpn, 3, {20000, 5000, 700}, 1, from));

    auto plain = postprocess_yolo_params::v8(), key_points = postprocess_yolo_params::v8();
    auto rotated = postprocess_yolo_params::v8_obb(), ends = postprocess_yolo_params::v26_obb();
    key_points.extras = 6;
    key_points.keypoint_size = 3;
    rotated.rotated_result_format = ends.rotated_result_format = rotated_format::xyxyxyxy;
    auto multi_label = postprocess_yolo_params::v5();
    multi_label.multi_label = true;
    for (postprocess_yolo_params* params : {&plain, &key_points, &rotated, &ends, &multi_label})
      if (!finds_many) params->max_candidates = 20;
    add("YOLO", yolo(plain, 1, 40, 3, from));
    add("YOLO", yolo(plain, 2, 4000, 80, from));
    add("YOLO", yolo(plain, 2, 0, 80, from));
    add("YOLO, multi-label", yolo(multi_label, 2, 5000, 40, from));
    add("YOLO, key points", yolo(key_points, 3, 900, 2, from));
    add("YOLO, rotated", yolo(rotated, 2, 3000, 15, from));
    add("YOLO, rotated, end to end", yolo(ends, 1, 300, 15, from));
  }
  add("box head", box_head({0, 7}, 3, from));
  add("box head", box_head({0, 1000, 1000, 1900}, 21, from));
  for (const auto& params : {postprocess_detr_params::detr(), postprocess_detr_params::rt_detr()}) {
    add("DETR", detr(params, 1, 10, 5, from));
    add("DETR", detr(params, 3, 2000, 91, from));
    add("DETR", detr(params, 0, 0, 91, from));
  }
  return calls;
}

}  // namespace

TEST_CASE("postprocess_workspace: functions, sizes and threads may alternate") {
  random_generator generator(60);
  const std::vector<named_call> calls = all_calls(generator);
  const function wrong = yolo(postprocess_yolo_params::v8(), 2, 200, 4, generator, 90);
  std::vector<owned_detections> expected;
  std::size_t found = 0;
  for (const named_call& call : calls) {
    postprocess_workspace workspace;
    expected.emplace_back(call.run(workspace, threading::sequential));
    found += expected.back().numbers.empty() ? 0 : 1;
  }
  CHECK(found > 30);

  const tbb::global_control eight(tbb::global_control::max_allowed_parallelism, 8);
  postprocess_workspace workspace;
  for (int round = 0; round < 300; ++round) {
    const auto k = static_cast<std::size_t>(generator.below(static_cast<index_t>(calls.size())));
    CAPTURE(calls[k].name);
    CAPTURE(round);
    const auto run = [&](threading policy) {
      // A call that throws after it has written to the workspace.
      if (round % 10 == 9) CHECK_THROWS_AS(wrong(workspace, policy), std::invalid_argument);
      CHECK(owned_detections(calls[k].run(workspace, policy)) == expected[k]);
    };
    switch (generator.below(3)) {
      case 0:
        run(threading::sequential);
        break;
      case 1:
        tbb::task_arena(8).execute([&] { run(threading::parallel); });
        break;
      default:
        run(threading::on(backwards, 28));
    }
  }
}
