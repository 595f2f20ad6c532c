// SPDX-License-Identifier: Apache-2.0
// Accuracy on real detections: a COCO results file through the score filter and NMS per class and
// image, evaluated by COCO's rules.
#include "examples/coco_map.hpp"
#include "support/data.hpp"
#include <vecdet/nms.hpp>

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

/// The remaining detections, in the order of the file.
std::vector<coco::coco_box> after_nms(const std::vector<coco::coco_box>& detections,
                                      double iou_threshold, double score_threshold) {
  std::vector<double> boxes, scores;
  std::vector<index_t> classes, images;
  for (const coco::coco_box& d : detections) {
    for (const double c : {d.x, d.y, d.x + d.width, d.y + d.height}) boxes.push_back(c);
    scores.push_back(d.score);
    classes.push_back(d.category_id);
    images.push_back(d.image_id);
  }
  const nms_groups groups{classes, images};
  nms_params params = nms_params::torchvision(iou_threshold);
  params.score_threshold = score_threshold;
  params.order = nms_order::index;
  std::vector<coco::coco_box> left;
  for (const index_t i : batched_nms(boxes_view<const double>(boxes),
                                     vector_view<const double>(scores), groups, params))
    left.push_back(detections[static_cast<std::size_t>(i)]);
  return left;
}

}  // namespace

TEST_CASE("NMS keeps COCO's average precision if it removes nothing, and changes it as expected") {
  const std::string folder = "coco100/";
  if (!test::has_data(folder + "instances_val2014_100.json", "NMS on COCO detections")) return;
  const auto truth = bench::load_coco(test::data_path(folder + "instances_val2014_100.json"));
  const auto detections = bench::load_coco_results(
      test::data_path(folder + "instances_val2014_fakebbox100_results.json"));
  const auto check = [&](double iou, double score, std::size_t count, double ap, double ap50,
                         double ap75) {
    const auto left = after_nms(detections, iou, score);
    const auto result = coco::evaluate(truth, left);
    CAPTURE(iou);
    CAPTURE(score);
    CHECK(left.size() == count);
    CHECK(result.ap == doctest::Approx(ap).epsilon(3e-6));
    CHECK(result.ap50 == doctest::Approx(ap50).epsilon(3e-6));
    CHECK(result.ap75 == doctest::Approx(ap75).epsilon(3e-6));
  };
  check(1.0, 0.0, 734, 0.5045807, 0.6969727, 0.5729817);
  // These follow from the rules and were recorded here.
  check(0.5, 0.0, 725, 0.497783, 0.687156, 0.564726);
  check(0.3, 0.0, 710, 0.490270, 0.675881, 0.558046);
  check(0.5, 0.5, 366, 0.250463, 0.332448, 0.276502);
}
