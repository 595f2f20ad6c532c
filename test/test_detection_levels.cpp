// SPDX-License-Identifier: Apache-2.0
// Detection from a head's levels in place: top-k and postprocessing are identical to those of the
// same numbers as rows, including ties, in both layouts, also if the head's channels are a part of
// a wider tensor; threads, and every documented error.
#include "support/box_tensor.hpp"
#include "support/class_lists.hpp"
#include "support/head_tensor.hpp"
#include "support/isa.hpp"
#include <vecdet/filter_topk.hpp>
#include <vecdet/postprocess.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// Logits: a few are high, some are equal, some are NaN or infinite.
template <class T>
head_tensor<T> logits_of(head_layout layout, index_t images, index_t anchors, index_t classes,
                         const std::vector<typename head_tensor<T>::size>& sizes, index_t others,
                         std::uint64_t seed, bool tied) {
  head_tensor<T> head(layout, images, anchors, classes, sizes, others, to<T>(100));
  random_generator generator(seed);
  head.for_each([&](T& x, index_t, index_t) {
    const double logit = -3 + 1.5 * generator.normal();
    x = to<T>(tied ? std::floor(2 * logit) / 2 : logit);
    if (generator.chance(0.001)) x = to<T>(std::nan(""));
    if (generator.chance(0.001)) x = to<T>(generator.chance(0.5) ? HUGE_VAL : -HUGE_VAL);
  });
  return head;
}

template <class T>
void check_topk(head_tensor<T>& head, double threshold, index_t k) {
  CAPTURE(static_cast<int>(head.layout));
  CAPTURE(head.channels);
  CAPTURE(threshold);
  CAPTURE(k);
  const std::vector<T> rows = head.flat();
  filter_topk_workspace workspace, row_workspace;
  const filter_topk_levels_result found = filter_topk(head.const_view(), threshold, k, workspace);
  const auto levels = static_cast<index_t>(head.sizes.size());
  REQUIRE(found.offsets.size() == head.images * levels + 1);
  index_t row = 0;
  for (index_t n = 0; n < head.images; ++n) {
    index_t first_anchor = 0;
    for (index_t l = 0; l < levels; ++l) {
      const index_t anchors = head.const_view().locations(l) * head.anchors;
      const filter_topk_result expected =
          filter_topk(matrix_view<const T>(rows.data() + row * head.columns, anchors, head.columns),
                      threshold, k, row_workspace);
      const index_t begin = found.offsets[n * levels + l];
      REQUIRE(found.offsets[n * levels + l + 1] - begin == expected.logits.size());
      bool same = true;
      for (index_t i = 0; i < expected.logits.size(); ++i) {
        same = same && found.logits[begin + i] == expected.logits[i] &&
               found.elements[begin + i] == expected.elements[i] + first_anchor * head.columns;
      }
      CHECK(same);
      row += anchors;
      first_anchor += anchors;
    }
  }
}

template <class T>
struct detector {
  dense_detector kind;
  head_tensor<T> logits, deltas, centerness;
  std::vector<float> anchors;
  class_lists lists;
  std::vector<image_size> sizes{image_size::height_width(200, 300),
                                image_size::height_width(260, 180)};

  detector(dense_detector which, head_layout layout, index_t anchors_at_location, index_t others,
           std::uint64_t seed, bool tied)
      : kind(which),
        logits(logits_of<T>(layout, 2, anchors_at_location, which == dense_detector::rpn ? 1 : 7,
                            {{20, 17}, {5, 9}, {1, 1}}, others, seed, tied)),
        deltas(layout, 2, anchors_at_location, 4, logits.sizes, others),
        centerness(layout, 2, anchors_at_location, 1, logits.sizes, others),
        anchors(random_boxes<float>(logits.anchors_per_image(), seed)) {
    random_generator generator(seed + 1);
    deltas.for_each([&](T& x, index_t, index_t) {
      x = to<T>(generator.uniform(-0.2, which == dense_detector::fcos ? 2 : 0.2));
    });
    centerness.for_each([&](T& x, index_t, index_t) {
      x = to<T>(tied ? std::floor(generator.uniform(-2, 4)) : generator.uniform(-2, 4));
    });
  }

  head_level_outputs<T> outputs() const {
    head_level_outputs<T> result{logits.const_view(), deltas.const_view()};
    if (kind == dense_detector::fcos) result.centerness = centerness.const_view();
    return result;
  }
  postprocess_params params() const {
    postprocess_params result = kind == dense_detector::fcos  ? postprocess_params::fcos()
                                : kind == dense_detector::rpn ? postprocess_params::rpn()
                                                              : postprocess_params::retinanet();
    result.max_candidates = 100;
    result.min_size = 0.5;
    if (kind != dense_detector::rpn) lists.give(result);
    return result;
  }

  void check(threading policy) {
    const std::vector<T> rows = logits.flat(), boxes = deltas.flat(), centres = centerness.flat();
    head_outputs<T> flat{{rows.data(), logits.rows(), logits.columns}, boxes};
    if (kind == dense_detector::fcos) flat.centerness = centres;
    std::vector<index_t> level_sizes;
    for (const auto& s : logits.sizes) level_sizes.push_back(s.height * s.width * logits.anchors);
    postprocess_workspace workspace, row_workspace;
    const detections_view expected =
        postprocess(flat, anchors, level_sizes, sizes, params(), row_workspace);
    const detections_view found =
        postprocess(outputs(), anchors, sizes, params(), workspace, policy);
    REQUIRE(expected.boxes.size() > 20);
    REQUIRE(found.boxes.size() == expected.boxes.size());
    const auto count = static_cast<std::size_t>(expected.boxes.size());
    CHECK(same_bits(found.boxes.data(), expected.boxes.data(), 4 * count));
    CHECK(same_bits(found.scores.data(), expected.scores.data(), count));
    CHECK(same_bits(found.labels.data(), expected.labels.data(), count));
    CHECK(same_bits(found.offsets.data(), expected.offsets.data(), 3));
  }
};

}  // namespace

TEST_CASE_TEMPLATE("levels: top-k equals that of rows", T, float, bfloat16) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const head_layout layout : all_layouts) {
      for (const index_t others : {0, 3}) {
        for (const bool tied : {false, true}) {
          CAPTURE(tied);
          auto head = logits_of<T>(layout, 2, 3, 7, {{40, 37}, {9, 5}, {0, 4}, {1, 1}}, others,
                                   ++seed, tied);
          for (const index_t k : {0, 1, 100, 3000})
            for (const double threshold : {0.0, 0.05, 0.5, 1.0}) check_topk(head, threshold, k);
        }
      }
      // If all are equal, the lowest elements are the best.
      head_tensor<T> equal(layout, 1, 3, 7, {{40, 37}}, 0, to<T>(1));
      check_topk(equal, 0.05, 10);
      head_tensor<T> one(layout, 1, 1, 1, {{300, 11}}, 0, to<T>(1));
      check_topk(one, 0.05, 1000);
    }
  });
}

TEST_CASE("levels: top-k of more logits than one thread's chunk") {
  for (const bool tied : {false, true}) {
    auto head = logits_of<float>(head_layout::nchw, 1, 3, 20, {{100, 90}}, 0, 3, tied);
    check_topk(head, 0.05, 1000);
    check_topk(head, 0.001, 50);
  }
}

TEST_CASE_TEMPLATE("levels: detections equal those of rows", T, float, bfloat16) {
  for_each_isa([](isa) {
    std::uint64_t seed = 0;
    for (const dense_detector kind :
         {dense_detector::retinanet, dense_detector::fcos, dense_detector::rpn}) {
      for (const head_layout layout : all_layouts) {
        for (const index_t others : {0, 3}) {
          for (const bool tied : {false, true}) {
            for (const index_t anchors : {1, 3}) {
              CAPTURE(static_cast<int>(kind));
              CAPTURE(static_cast<int>(layout));
              CAPTURE(tied);
              CAPTURE(anchors);
              detector<T> d(kind, layout, anchors, others, ++seed, tied);
              d.check(threading::sequential);
              d.check(threading::parallel);
              d.lists.classes = {1, 6, 3, 4};
              d.lists.thresholds = {0.01, 0.1, 0.5, 0.2, 0.05, 0.01, 0.1};
              d.lists.groups = {0, 1, 0, 0, 1, 1, 2};
              d.check(threading::parallel);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("levels: bad arguments of detection throw errors that name them") {
  detector<float> d(dense_detector::fcos, head_layout::nhwc, 1, 0, 5, false);
  postprocess_workspace workspace;
  const auto fails = [&](const char* message, const head_level_outputs<float>& outputs,
                         const postprocess_params& params,
                         const vector_view<const image_size>& sizes) {
    INFO(std::string(message));
    CHECK_THROWS_WITH_AS(postprocess(outputs, d.anchors, sizes, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
  };
  const postprocess_params params = d.params();
  head_level_outputs<float> outputs = d.outputs();
  outputs.centerness = {};
  fails("outputs.centerness.images() is 0", outputs, params, d.sizes);
  fails("outputs.centerness.levels().size() is 3", d.outputs(), postprocess_params::retinanet(),
        d.sizes);
  fails("outputs.logits.classes() is 7, expected 1 for an RPN", d.outputs(),
        postprocess_params::rpn(), d.sizes);
  fails("params.detector is ssd", d.outputs(), postprocess_params::ssd(), d.sizes);
  outputs = d.outputs();
  outputs.deltas = outputs.logits;
  fails("outputs.deltas.classes() is 7, expected 4", outputs, params, d.sizes);
  fails("image_sizes.size() is 1", d.outputs(), params, {d.sizes.data(), 1});
  postprocess_params wrong = params;
  wrong.score_threshold = 2;
  fails("params.score_threshold is 2", d.outputs(), wrong, d.sizes);
  d.sizes[1].width = 0;
  fails("image_sizes[1] is 0", d.outputs(), params, d.sizes);
  d.anchors.resize(4);
  fails("anchors.size() is 1", d.outputs(), params, d.sizes);
  filter_topk_workspace topk;
  CHECK_THROWS_WITH_AS(filter_topk(d.outputs().logits, -1, 10, topk),
                       doctest::Contains("score_threshold is -1"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(filter_topk(d.outputs().logits, 0.5, -1, topk), doctest::Contains("k is -1"),
                       std::invalid_argument);
}
