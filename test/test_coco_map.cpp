// SPDX-License-Identifier: Apache-2.0
// COCO's average precision: worked cases, and the published figures of real files.
#include "../examples/coco_map.hpp"
#include "support/data.hpp"

#include <cmath>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using bench::coco_box;
using bench::coco_dataset;

namespace {

coco_box object(double x, double width, bool crowd = false) {
  return {1, 7, x, 0, width, 10, 1, crowd};
}

coco_box detection(double x, double width, double score) {
  return {1, 7, x, 0, width, 10, score, false};
}

}  // namespace

TEST_CASE("COCO mAP: worked cases") {
  coco_dataset truth;
  truth.objects = {object(0, 10), object(100, 10)};
  CHECK(coco::evaluate(truth, truth.objects).ap == doctest::Approx(1));
  CHECK(coco::evaluate(truth, {}).ap == 0);
  CHECK(std::isnan(coco::evaluate({}, {}).ap));

  // One of two found: precision 1 up to recall 0.5, the first 51 of 101 points.
  CHECK(coco::evaluate(truth, {detection(0, 10, 1)}).ap == doctest::Approx(51.0 / 101));
  // A wrong detection before it halves the precision; one after it does not matter.
  CHECK(coco::evaluate(truth, {detection(0, 10, 0.5), detection(50, 10, 0.9)}).ap ==
        doctest::Approx(51.0 / 101 / 2));
  CHECK(coco::evaluate(truth, {detection(0, 10, 0.5), detection(50, 10, 0.1)}).ap ==
        doctest::Approx(51.0 / 101));
  // IoU 0.78 counts up to the threshold 0.75, the sixth of ten.
  const auto close = coco::evaluate(truth, {detection(0, 7.8, 1), detection(100, 7.8, 1)});
  CHECK(close.ap50 == doctest::Approx(1));
  CHECK(close.ap75 == doctest::Approx(1));
  CHECK(close.ap == doctest::Approx(0.6));
  // A second detection of the same object is wrong.
  CHECK(
      coco::evaluate(truth, {detection(0, 10, 0.9), detection(0, 10, 0.8), detection(100, 10, 0.7)})
          .ap == doctest::Approx((51 + 50 * 2.0 / 3) / 101));
}

TEST_CASE("COCO mAP: crowds") {
  coco_dataset truth;
  truth.objects = {object(0, 10), object(0, 100, true)};
  // Both detections are within the crowd: the first takes the object, the others are ignored.
  CHECK(coco::evaluate(truth,
                       {detection(0, 10, 0.9), detection(50, 10, 0.95), detection(20, 5, 0.99)})
            .ap == doctest::Approx(1));
  truth.objects = {object(0, 100, true)};
  CHECK(std::isnan(coco::evaluate(truth, {detection(0, 10, 0.9)}).ap));
}

TEST_CASE("COCO mAP: at most 100 detections per image and category") {
  coco_dataset truth;
  truth.objects = {object(0, 10)};
  std::vector<coco_box> detections(100, detection(500, 10, 0.9));
  detections.push_back(detection(0, 10, 0.8));
  CHECK(coco::evaluate(truth, detections).ap == 0);
  detections.erase(detections.begin());
  CHECK(coco::evaluate(truth, detections).ap == doctest::Approx(0.01));
}

TEST_CASE("COCO mAP: the published figures of real files") {
  const char* test = "COCO mAP: the published figures of real files";
  if (!test::has_data("coco100/instances_val2014_100.json", test)) return;
  const auto result =
      coco::evaluate(bench::load_coco(test::data_path("coco100/instances_val2014_100.json")),
                     bench::load_coco_results(
                         test::data_path("coco100/instances_val2014_fakebbox100_results.json")));
  CHECK(std::abs(result.ap - 0.5045807) < 1e-7);
  CHECK(std::abs(result.ap50 - 0.6969727) < 1e-7);
  CHECK(std::abs(result.ap75 - 0.5729817) < 1e-7);
}

TEST_CASE("COCO files: errors name the problem") {
  CHECK_THROWS_WITH(bench::load_coco("no/such.json"), "no/such.json: cannot be opened");
  const char* test = "COCO files: what is wrong is named";
  const std::string results = "coco100/instances_val2014_fakebbox100_results.json";
  if (!test::has_data(results, test)) return;
  CHECK_THROWS(bench::load_coco(test::data_path(results)));
}
