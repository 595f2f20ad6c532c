// SPDX-License-Identifier: Apache-2.0
// Postprocessing of RetinaNet, FCOS, SSD and RPN heads against a step by step transcription of
// torchvision's, on batches of images and several levels; special logits; and every documented
// error.
#include "support/class_lists.hpp"
#include "support/exact_boxes.hpp"
#include "support/isa.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/postprocess.hpp>
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/nms.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

struct heads {
  index_t images, anchors, classes;
  std::vector<index_t> levels;
  std::vector<float> logits, deltas, centerness, boxes;
  std::vector<image_size> sizes;

  heads(index_t image_count, std::vector<index_t> level_sizes, index_t class_count,
        dense_detector detector, std::uint64_t seed)
      : images(image_count),
        anchors(std::accumulate(level_sizes.begin(), level_sizes.end(), index_t{0})),
        classes(class_count),
        levels(std::move(level_sizes)) {
    random_generator generator(seed);
    const index_t rows = images * anchors;
    for (index_t i = 0; i < rows * classes; ++i)
      logits.push_back(static_cast<float>(-3 + 1.5 * generator.normal()));
    for (index_t i = 0; i < 4 * rows; ++i)
      deltas.push_back(detector == dense_detector::fcos
                           ? static_cast<float>(generator.uniform(0, 3))
                           : static_cast<float>(0.5 * generator.normal()));
    if (detector == dense_detector::fcos)
      for (index_t i = 0; i < rows; ++i)
        centerness.push_back(static_cast<float>(generator.normal()));
    boxes = random_boxes<float>(anchors, seed + 1, 200);
    for (index_t i = 0; i < images; ++i)
      sizes.push_back(image_size::height_width(150 + static_cast<double>(10 * i), 180));
  }

  head_outputs<float> outputs() const {
    return {{logits.data(), images * anchors, classes}, deltas, centerness};
  }
};

struct found {
  std::vector<float> boxes, scores;
  std::vector<index_t> labels, offsets;
};

/// Step by step: all scores, then thresholds, top-k, decode, clip, NMS.
found expected_of(const heads& h, const postprocess_params& params) {
  struct candidate {
    float score;
    double rank;
    index_t anchor, label;
  };
  found out;
  out.offsets.push_back(0);
  for (index_t image = 0; image < h.images; ++image) {
    std::vector<float> boxes, scores;
    std::vector<index_t> labels;
    const auto add = [&](const candidate& c) {
      const index_t row = image * h.anchors + c.anchor;
      const reference::box deltas = reference::load_box(boxes_view<const float>(h.deltas), row);
      const reference::box anchor = reference::load_box(boxes_view<const float>(h.boxes), c.anchor);
      const auto& size = h.sizes[static_cast<std::size_t>(image)];
      const reference::box decoded = reference::clip_box(
          params.detector == dense_detector::fcos
              ? reference::decode_distances(deltas, anchor)
              : reference::decode_box(deltas, anchor, weights_of(params.coder),
                                      as_reference(params.coder.clamp), params.coder.size_limit),
          size.width, size.height);
      if (params.min_size > 0 &&
          (decoded.width() < params.min_size || decoded.height() < params.min_size))
        return;
      for (const double x : {decoded.x1, decoded.y1, decoded.x2, decoded.y2})
        boxes.push_back(static_cast<float>(x));
      scores.push_back(c.score);
      labels.push_back(c.label);
    };
    const auto keep_best = [&](std::vector<candidate>& all) {
      std::stable_sort(all.begin(), all.end(),
                       [](const candidate& a, const candidate& b) { return a.rank > b.rank; });
      if (static_cast<index_t>(all.size()) > params.max_candidates)
        all.resize(static_cast<std::size_t>(params.max_candidates));
      for (const candidate& c : all) add(c);
    };
    index_t first = 0, level_number = 0;
    std::vector<std::vector<candidate>> by_class(static_cast<std::size_t>(h.classes));
    for (const index_t level : h.levels) {
      std::vector<candidate> all;
      for (index_t a = first; a < first + level; ++a) {
        const float* const row = h.logits.data() + (image * h.anchors + a) * h.classes;
        double sum = 0;
        for (index_t c = 0; c < h.classes; ++c) sum += std::exp(static_cast<double>(row[c]));
        for (index_t c = params.detector == dense_detector::ssd; c < h.classes; ++c) {
          const double x = static_cast<double>(row[c]);
          double score = 1 / (1 + std::exp(-x));
          if (params.detector == dense_detector::ssd) score = std::exp(x) / sum;
          if (params.detector == dense_detector::fcos)
            score = std::sqrt(
                score / (1 + std::exp(-static_cast<double>(
                                 h.centerness[static_cast<std::size_t>(image * h.anchors + a)]))));
          // RetinaNet's scores are compared as logits, those of the others as floats.
          const bool by_logit = params.detector == dense_detector::retinanet ||
                                params.detector == dense_detector::rpn;
          const double threshold = threshold_of(params, c);
          if (is_wanted(params, c) &&
              (by_logit ? score > threshold
                        : static_cast<float>(score) > static_cast<float>(threshold))) {
            const candidate one{static_cast<float>(score), by_logit ? x : score, a,
                                params.detector == dense_detector::rpn ? level_number : c};
            all.push_back(one);
            by_class[static_cast<std::size_t>(c)].push_back(one);
          }
        }
      }
      if (params.detector != dense_detector::ssd) keep_best(all);
      first += level;
      ++level_number;
    }
    if (params.detector == dense_detector::ssd)
      for (auto& all : by_class) keep_best(all);
    nms_params suppression = nms_params::torchvision(params.iou_threshold);
    suppression.class_groups = params.class_groups;
    std::vector<index_t> kept =
        reference::nms(boxes_view<const float>(boxes), vector_view<const float>(scores),
                       suppression, {vector_view<const index_t>(labels), {}});
    if (static_cast<index_t>(kept.size()) > params.max_detections)
      kept.resize(static_cast<std::size_t>(params.max_detections));
    for (const index_t i : kept) {
      for (std::size_t k = 0; k < 4; ++k)
        out.boxes.push_back(boxes[static_cast<std::size_t>(4 * i) + k]);
      out.scores.push_back(scores[static_cast<std::size_t>(i)]);
      out.labels.push_back(labels[static_cast<std::size_t>(i)]);
    }
    out.offsets.push_back(static_cast<index_t>(out.scores.size()));
  }
  return out;
}

void check_detector(const postprocess_params& params, index_t images,
                    const std::vector<index_t>& levels, index_t classes, std::uint64_t seed) {
  const heads h(images, levels, classes, params.detector, seed);
  const found expected = expected_of(h, params);
  CHECK(!expected.scores.empty());
  for_each_isa([&](isa) {
    postprocess_workspace workspace;
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const detections_view result = postprocess(
          h.outputs(), boxes_view<const float>(h.boxes), vector_view<const index_t>(h.levels),
          vector_view<const image_size>(h.sizes), params, workspace, policy);
      CHECK(std::vector<index_t>(result.offsets.begin(), result.offsets.end()) == expected.offsets);
      REQUIRE(result.labels.size() == static_cast<index_t>(expected.labels.size()));
      CHECK(std::equal(result.labels.begin(), result.labels.end(), expected.labels.begin()));
      for (index_t k = 0; k < images; ++k) {
        const image_detections one = result.image(k);
        const index_t first = result.offsets[k], count = result.offsets[k + 1] - first;
        CHECK((one.boxes.data() == result.boxes.data() + 4 * first && one.boxes.size() == count));
        CHECK((one.scores.data() == result.scores.data() + first && one.scores.size() == count));
        CHECK((one.labels.data() == result.labels.data() + first && one.labels.size() == count));
      }
      double worst_score = 0, worst_box = 0;
      for (index_t i = 0; i < result.scores.size(); ++i) {
        worst_score = std::max<double>(
            worst_score,
            std::abs(result.scores[i] / expected.scores[static_cast<std::size_t>(i)] - 1));
        for (index_t k = 0; k < 4; ++k)
          worst_box = std::max<double>(
              worst_box,
              std::abs(result.boxes(i, k) - expected.boxes[static_cast<std::size_t>(4 * i + k)]));
      }
      CHECK(worst_score < 2e-6);
      CHECK(worst_box < 2e-4);
    }
  });
}

}  // namespace

TEST_CASE("postprocess: RetinaNet") {
  postprocess_params params = postprocess_params::retinanet();
  check_detector(params, 1, {300}, 5, 1);
  check_detector(params, 3, {400, 100, 30, 0, 5}, 17, 2);
  params.max_candidates = 50;
  params.max_detections = 20;
  params.min_size = 30;
  check_detector(params, 4, {400, 100, 30}, 17, 3);
}

TEST_CASE("postprocess: FCOS") {
  postprocess_params params = postprocess_params::fcos();
  check_detector(params, 1, {300}, 5, 4);
  check_detector(params, 3, {400, 100, 30, 0, 5}, 37, 5);
  params.max_candidates = 10;
  params.score_threshold = 0.05;
  check_detector(params, 2, {2000, 100}, 37, 6);
  check_detector(params, 1, {9000, 100}, 37, 15);
}

TEST_CASE("postprocess: SSD") {
  postprocess_params params = postprocess_params::ssd();
  check_detector(params, 1, {300}, 5, 7);
  params.max_candidates = 10;
  check_detector(params, 3, {600}, 37, 8);
  // The best candidates of a class are chosen from all levels together.
  check_detector(params, 1, {9000, 100}, 37, 14);
  check_detector(params, 3, {400, 100, 0, 100}, 37, 8);
}

TEST_CASE("postprocess: RPN") {
  postprocess_params params = postprocess_params::rpn();
  check_detector(params, 1, {300}, 1, 16);
  check_detector(params, 3, {4000, 900, 200, 0, 30}, 1, 17);
  params.max_candidates = 150;
  params.max_detections = 200;
  params.min_size = 20;
  check_detector(params, 4, {4000, 900, 200, 30, 3}, 1, 18);
}

TEST_CASE("postprocess: many candidates with equal scores, on any number of threads") {
  for (auto params :
       {postprocess_params::retinanet(), postprocess_params::fcos(), postprocess_params::ssd()}) {
    heads h(2, {6000, 500}, 21, params.detector, 50);
    // Rows repeat, so that scores are equal in many chunks.
    const std::size_t rows = 50, numbers = 21 * rows;
    for (std::size_t i = numbers; i < h.logits.size(); ++i) h.logits[i] = h.logits[i - numbers];
    for (std::size_t i = rows; i < h.centerness.size(); ++i)
      h.centerness[i] = h.centerness[i - rows];
    params.score_threshold = 0.01;
    params.max_detections = 3000;
    for (const index_t most : {30, 700, 100000}) {
      params.max_candidates = most;
      const auto run = [&](threading policy) {
        postprocess_workspace workspace;
        const detections_view result = postprocess(
            h.outputs(), boxes_view<const float>(h.boxes), vector_view<const index_t>(h.levels),
            vector_view<const image_size>(h.sizes), params, workspace, policy);
        found all;
        all.boxes.assign(result.boxes.data(), result.boxes.data() + 4 * result.boxes.size());
        all.scores.assign(result.scores.begin(), result.scores.end());
        all.labels.assign(result.labels.begin(), result.labels.end());
        all.offsets.assign(result.offsets.begin(), result.offsets.end());
        return all;
      };
      const found expected = run(threading::sequential);
      CHECK(expected.scores.size() > 50);
      for (const int threads : {2, 3, 28, 256, 1000}) {
        CAPTURE(most);
        CAPTURE(threads);
        const found result = run(threading::on(backwards, threads));
        CHECK(result.boxes == expected.boxes);
        CHECK(result.scores == expected.scores);
        CHECK(result.labels == expected.labels);
        CHECK(result.offsets == expected.offsets);
      }
    }
  }
}

TEST_CASE("postprocess: wanted classes, thresholds and groups of classes") {
  random_generator generator(40);
  std::uint64_t seed = 40;
  for (auto params :
       {postprocess_params::retinanet(), postprocess_params::fcos(), postprocess_params::ssd()}) {
    for (int k = 0; k < 10; ++k) {
      const class_lists lists(params.detector == dense_detector::ssd ? 1 : 0, 17, generator);
      lists.give(params);
      params.score_threshold = 0.05;
      params.max_candidates = generator.chance(0.5) ? 20 : 1000;
      check_detector(params, 2, {400, 100, 30}, 17, ++seed);
    }
  }
}

TEST_CASE("postprocess: NaN and infinite outputs do not pass or affect others") {
  for (const auto& params :
       {postprocess_params::retinanet(), postprocess_params::fcos(), postprocess_params::ssd()}) {
    heads h(1, {200}, 21, params.detector, 9);
    random_generator generator(10);
    const auto special = special_logits<float>();
    for (float& x : h.logits)
      if (generator.chance(0.05))
        x = special[static_cast<std::size_t>(
            generator.below(static_cast<index_t>(special.size())))];
    for (float& x : h.deltas)
      if (generator.chance(0.02)) x = std::numeric_limits<float>::quiet_NaN();
    for_each_isa([&](isa) {
      postprocess_workspace workspace;
      const detections_view result =
          postprocess(h.outputs(), boxes_view<const float>(h.boxes), {},
                      vector_view<const image_size>(h.sizes), params, workspace);
      for (const float score : result.scores) CHECK(score > 0);
    });
  }
}

TEST_CASE("postprocess: boxes are clipped to an image that is wider than high") {
  const std::vector<float> logits{3, -9, -9}, deltas(4), anchor{-50, -60, 900, 800};
  const std::vector<image_size> sizes{image_size::height_width(200, 300)};
  for_each_isa([&](isa) {
    postprocess_workspace workspace;
    const detections_view found =
        postprocess(head_outputs<float>{{logits.data(), 1, 3}, boxes_view<const float>(deltas), {}},
                    boxes_view<const float>(anchor), {}, vector_view<const image_size>(sizes),
                    postprocess_params::retinanet(), workspace);
    REQUIRE(found.boxes.size() == 1);
    CHECK(std::vector<float>(found.boxes.data(), found.boxes.data() + 4) ==
          std::vector<float>{0, 0, 300, 200});
  });
}

TEST_CASE("postprocess: SSD's softmax of any row") {
  const std::vector<float> deltas(4), box{10, 10, 50, 50};
  const std::vector<image_size> sizes{image_size::height_width(100, 100)};
  const auto run = [&](const std::vector<float>& row) {
    static postprocess_workspace workspace;
    return postprocess(
        head_outputs<float>{
            {row.data(), 1, static_cast<index_t>(row.size())}, boxes_view<const float>(deltas), {}},
        boxes_view<const float>(box), {}, vector_view<const image_size>(sizes),
        postprocess_params::ssd(), workspace);
  };
  for_each_isa([&](isa) {
    for (const std::size_t cols : {2u, 3u, 15u, 16u, 17u, 31u, 32u, 40u}) {
      CAPTURE(cols);
      // All logits are equal, of any size.
      for (const float logit : {0.0f, 7.5f, 1000.0f, -3e5f, 1e8f, -3e38f, 3e38f}) {
        const std::vector<float> row(cols, logit);
        const detections_view found = run(row);
        REQUIRE(found.scores.size() == static_cast<index_t>(cols) - 1);
        for (const float score : found.scores)
          CHECK(std::abs(static_cast<double>(score) * static_cast<double>(cols) - 1) < 1e-6);
      }
      // With one NaN or +inf, all scores of the row are NaN.
      for (const double not_finite : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        for (std::size_t place = 0; place < cols; ++place) {
          std::vector<float> row(cols, 1);
          row[place] = static_cast<float>(not_finite);
          CHECK(run(row).scores.empty());
        }
      }
    }
  });
}

TEST_CASE("postprocess: no candidates among more logits than the memory holds") {
  for (postprocess_params params :
       {postprocess_params::retinanet(), postprocess_params::fcos(), postprocess_params::ssd()}) {
    params.max_candidates = 0;
    params.score_threshold = 0;
    const heads h(2, {500, 20}, 31, params.detector, 13);
    for_each_isa([&](isa) {
      postprocess_workspace workspace;
      const detections_view result = postprocess(
          h.outputs(), boxes_view<const float>(h.boxes), vector_view<const index_t>(h.levels),
          vector_view<const image_size>(h.sizes), params, workspace);
      CHECK(result.scores.empty());
      REQUIRE(result.offsets.size() == 3);
      CHECK(result.offsets[2] == 0);
    });
  }
}

TEST_CASE("postprocess: a level of more than 2^32 logits is refused before any is read") {
  const float one = 1;
  const std::vector<image_size> sizes{image_size::height_width(600, 800)};
  postprocess_workspace workspace;
  const index_t cols = 91, most = (index_t{1} << 32) / cols;
  for (const auto& params : {postprocess_params::fcos(), postprocess_params::ssd()}) {
    const bool fcos = params.detector == dense_detector::fcos;
    const auto run = [&](index_t anchors, const std::vector<index_t>& levels) {
      const head_outputs<float> outputs{
          {&one, anchors, cols},
          {&one, anchors},
          fcos ? vector_view<const float>(&one, anchors) : vector_view<const float>()};
      postprocess(outputs, boxes_view<const float>(&one, anchors),
                  vector_view<const index_t>(levels), vector_view<const image_size>(sizes), params,
                  workspace);
    };
    const char* const message =
        "the number of anchors that are searched at once is 47197443, expected at most 2^32 logits";
    CHECK_THROWS_WITH_AS(run(most + 1, {}), doctest::Contains(message), std::invalid_argument);
    // SSD's levels count together.
    const index_t other = fcos ? 5 : 0, rest = fcos ? 0 : 5;
    CHECK_THROWS_WITH_AS(run(most + 1 + other, {5, most + 1 - rest}), doctest::Contains(message),
                         std::invalid_argument);
  }
}

TEST_CASE("postprocess: bad arguments throw errors that name them") {
  const heads h(2, {30, 10}, 5, dense_detector::retinanet, 1);
  head_outputs<float> outputs = h.outputs();
  std::vector<index_t> levels = h.levels;
  std::vector<image_size> sizes = h.sizes;
  postprocess_params params;
  postprocess_workspace workspace;
  const double infinity = std::numeric_limits<double>::infinity();
  const index_t most = std::numeric_limits<index_t>::max();
  const auto refused = refusals();
  const auto fails = [&](const std::string& message) {
    refused(message, [&] {
      postprocess(outputs, boxes_view<const float>(h.boxes), vector_view<const index_t>(levels),
                  vector_view<const image_size>(sizes), params, workspace);
    });
    params = {};
    outputs = h.outputs();
    levels = h.levels;
    sizes = h.sizes;
  };
  sizes.pop_back();
  fails("vecdet::postprocess: outputs.logits.rows() is 80");
  sizes[1].height = 0;
  fails("image_sizes[1] is 0");
  levels[0] = 29;
  fails("the sum of level_sizes is 39");
  levels = {50, -10};
  fails("level_sizes[1] is -10");
  outputs.deltas = {h.deltas.data(), 79};
  fails("outputs.deltas.size() is 79");
  outputs.centerness = {h.logits.data(), 80};
  fails("outputs.centerness.size() is 80");
  params.detector = dense_detector::rpn;
  fails("outputs.logits.cols() is 5, expected 1 for an RPN");
  params.score_threshold = 2;
  fails("params.score_threshold is 2");
  params.iou_threshold = -1;
  fails("params.iou_threshold is -1");
  params.max_candidates = -1;
  fails("params.max_candidates is -1");
  params.max_detections = -1;
  fails("params.max_detections is -1");
  params.min_size = -1;
  fails("params.min_size is -1");
  params.min_size = infinity;
  fails("params.min_size is inf");
  for (const double weight : {0.0, -1.0, std::nan(""), infinity, 1e-310}) {
    params.coder.weight_w = weight;
    fails("params.coder.weight_w is ");
  }
  params.coder.weight_w = 0;
  fails("params.coder.weight_w is 0");
  for (const double limit : {-1.0, std::nan(""), infinity}) {
    params.coder.size_limit = limit;
    fails("params.coder.size_limit is ");
  }
  params.coder.anchors = box_format::cxcywh;
  fails("params.coder.anchors is cxcywh");
  const std::vector<index_t> background{1, 0}, too_great{5}, groups(4);
  const std::vector<double> thresholds(6, 0.5);
  params.classes = too_great;
  fails("params.classes[0] is 5, expected a class from 0 to 4");
  params.detector = dense_detector::ssd;
  params.classes = background;
  fails("params.classes[1] is 0, expected a class from 1 to 4");
  params.class_thresholds = thresholds;
  fails("params.class_thresholds.size() is 6, expected 0 or 5, the number of classes");
  params.class_groups = groups;
  fails("params.class_groups.size() is 4, expected 0 or 5, the columns of the logits");
  const heads rpn(2, {30, 10}, 1, dense_detector::rpn, 1);
  outputs = rpn.outputs();
  params = postprocess_params::rpn();
  params.classes = background;
  fails("the size of params.classes, class_thresholds or class_groups is 2, expected 0 for an RPN");
  // Sums and products beyond 64 bits.
  levels = {most, most, 42};
  fails("the sum of level_sizes is");
  levels.clear();
  outputs.logits = {h.logits.data(), 64, 5};
  outputs.deltas = {h.deltas.data(), 64};
  sizes.assign(64, image_size::height_width(10, 10));
  const boxes_view<const float> anchors(h.boxes.data(), (index_t{1} << 58) + 1);
  refused("outputs.logits.rows() is 64",
          [&] { postprocess(outputs, anchors, levels, sizes, params, workspace); });
}
