// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/prob_iou.hpp>
#include <vecdet/prob_iou_loss.hpp>
#include <vecdet/prob_iou_nms.hpp>
#include <vecdet/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>

namespace vecdet::test {
namespace {

constexpr struct {
  const char* variant;
  empty_iou empty;
} rules[] = {{"torchvision", empty_iou::nan}, {"detectron2", empty_iou::zero}};

template <class T>
placed_matrix<T> rotated(operands& make, index_t count) {
  return make.turned(make.truth_boxes<T>(count));
}

template <class T>
struct pairwise_calls {
  placed_matrix<T> a, b, out;

  static std::vector<shape> sweep(index_t length) {
    return {{length, 1 + length % 19}, {1 + length % 7, length}};
  }
  static shape sized(index_t rows) { return {rows, 5}; }

  pairwise_calls(operands& make, const problem& p)
      : a(rotated<T>(make, p.shape[0])),
        b(rotated<T>(make, p.shape[1])),
        out(make.matrix<T>(p.shape[0], p.shape[1])) {}

  void list(call_list& c) {
    for (const auto& rule : rules)
      c.add("pairwise_rotated_iou/" + std::string(rule.variant), reads(a, b).writes(out),
            [this, empty = rule.empty](threading policy) {
              pairwise_rotated_iou(a.in(), b.in(), angle_convention::torchvision, out.out(), empty,
                                   policy);
            });
    c.add("pairwise_prob_iou/", reads(a, b).writes(out), [this](threading policy) {
      pairwise_prob_iou(a.in(), b.in(), angle_convention::torchvision, out.out(), policy);
    });
  }
};

template <class T>
struct elementwise_calls {
  placed_matrix<T> a, b;
  placed<T> out;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  elementwise_calls(operands& make, const problem& p)
      : a(rotated<T>(make, p.shape[0])),
        b(rotated<T>(make, p.shape[0])),
        out(make.room<T>(p.shape[0])) {}

  void list(call_list& c) {
    for (const auto& rule : rules)
      c.add("elementwise_rotated_iou/" + std::string(rule.variant), reads(a, b).writes(out),
            [this, empty = rule.empty](threading policy) {
              elementwise_rotated_iou(a.in(), b.in(), angle_convention::ultralytics,
                                      vector_view<T>(out), empty, policy);
            });
    c.add("elementwise_prob_iou/", reads(a, b).writes(out), [this](threading policy) {
      elementwise_prob_iou(a.in(), b.in(), angle_convention::ultralytics, vector_view<T>(out),
                           policy);
    });
    c.add("rotated_box_areas/boxes", reads(a).writes(out),
          [this](threading policy) { rotated_box_areas(a.in(), vector_view<T>(out), policy); });
  }
};

template <class T>
struct prob_iou_loss_calls {
  placed_matrix<T> predicted, targets, grad;
  placed<T> each;
  placed<float> weights;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  prob_iou_loss_calls(operands& make, const problem& p)
      : predicted(rotated<T>(make, p.shape[0])),
        targets(rotated<T>(make, p.shape[0])),
        grad(make.matrix<T>(p.shape[0], 5)),
        each(make.room<T>(p.shape[0])),
        weights(make.numbers<float>(p.shape[0], 0, 2)) {}

  void list(call_list& c) {
    add(c, "boxes", {}, reads(predicted, targets));
    prob_iou_loss_params weighted;
    weighted.box_weights = weights;
    add(c, "boxes/weights", weighted, reads(predicted, targets, weights));
  }

  void add(call_list& c, const std::string& name, const prob_iou_loss_params& params,
           const accesses& inputs) {
    constexpr auto angles = angle_convention::torchvision;
    c.add("prob_iou_loss/" + name, inputs, [this, params](threading policy) {
      return prob_iou_loss(predicted.in(), targets.in(), angles, params, policy);
    });
    c.add("prob_iou_loss_unreduced/" + name, inputs.writes(each), [this, params](threading policy) {
      prob_iou_loss_unreduced(predicted.in(), targets.in(), angles, vector_view<T>(each), params,
                              policy);
    });
    c.add("prob_iou_loss_and_grad/" + name, inputs.writes(grad).may_overwrite(predicted),
          [this, params](threading policy) {
            return prob_iou_loss_and_grad(predicted.in(), targets.in(), angles, grad.out(), params,
                                          policy);
          });
  }
};

template <class T>
struct conversion_calls {
  placed_matrix<T> boxes, corners;
  placed_matrix<T> five, eight, four;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  conversion_calls(operands& make, const problem& p)
      : boxes(rotated<T>(make, p.shape[0])),
        corners(make.matrix<T>(p.shape[0], 8, 0, 800)),
        five(make.matrix<T>(p.shape[0], 5)),
        eight(make.matrix<T>(p.shape[0], 8)),
        four(make.matrix<T>(p.shape[0], 4)) {}

  void list(call_list& c) {
    constexpr auto centre = rotated_format::cxcywhr, corner = rotated_format::xywhr;
    constexpr auto all = rotated_format::xyxyxyxy, upright = rotated_format::xyxy;
    constexpr auto angles = angle_convention::torchvision;
    c.add("convert_rotated_boxes/boxes", reads(boxes).writes(eight), [this](threading policy) {
      convert_rotated_boxes(boxes.in(), centre, all, angles, eight.out(), policy);
    });
    c.add("convert_rotated_boxes/boxes/corner", reads(boxes).writes(five),
          [this](threading policy) {
            convert_rotated_boxes(boxes.in(), centre, corner, angles, five.out(), policy);
          });
    c.add("convert_rotated_boxes/boxes/upright", reads(boxes).writes(four),
          [this](threading policy) {
            convert_rotated_boxes(boxes.in(), centre, upright, angles, four.out(), policy);
          });
    c.add("convert_rotated_boxes/boxes/centre", reads(corners).writes(five),
          [this](threading policy) {
            convert_rotated_boxes(corners.in(), all, centre, angles, five.out(), policy);
          });
  }
};

template <class T>
struct rotated_nms_calls {
  placed_detections<T> found;
  placed_matrix<T> boxes;
  nms_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows > 3000 ? rows / 12 : rows}; }

  rotated_nms_calls(operands& make, const problem& p)
      : found(make.detections<T>(p.exact_count(p.shape[0], 6 * sizeof(T)))),
        boxes(make.turned(found.boxes)) {}

  void list(call_list& c) {
    constexpr auto angles = angle_convention::detectron2;
    c.add("rotated_nms/", reads(boxes, found.scores), [this](threading policy) {
      return rotated_nms(boxes.in(), vector_view<const T>(found.scores), {}, angles, {}, workspace,
                         policy);
    });
    c.add("rotated_nms//classes", reads(boxes, found.scores, found.classes),
          [this](threading policy) {
            nms_groups groups;
            groups.classes = found.classes;
            return rotated_nms(boxes.in(), vector_view<const T>(found.scores), groups, angles,
                               nms_params(0.3), workspace, policy);
          });
    c.add("rotated_nms//vector", reads(boxes, found.scores), [this](threading policy) {
      return rotated_nms(boxes.in(), vector_view<const T>(found.scores), {}, angles, nms_params{},
                         policy);
    });
    c.add("prob_iou_nms/", reads(boxes, found.scores), [this](threading policy) {
      return prob_iou_nms(boxes.in(), vector_view<const T>(found.scores), {}, angles,
                          nms_params::ultralytics_obb(0.7), workspace, policy);
    });
    c.add("prob_iou_nms//classes", reads(boxes, found.scores, found.classes),
          [this](threading policy) {
            nms_groups groups;
            groups.classes = found.classes;
            return prob_iou_nms(boxes.in(), vector_view<const T>(found.scores), groups, angles,
                                nms_params(0.3), workspace, policy);
          });
    c.add("prob_iou_nms//vector", reads(boxes, found.scores), [this](threading policy) {
      return prob_iou_nms(boxes.in(), vector_view<const T>(found.scores), {}, angles, nms_params{},
                          policy);
    });
  }
};

const registered_family registered[] = {
    calls_of<pairwise_calls, float, double>("rotated_boxes"),
    calls_of<elementwise_calls, float, double>("rotated_boxes/elementwise"),
    calls_of<prob_iou_loss_calls, float, double>("rotated_boxes/prob_iou_loss"),
    calls_of<rotated_nms_calls, float, double>("rotated_boxes/nms"),
    calls_of<conversion_calls, float, double>("rotated_boxes/conversion"),
};

}  // namespace
}  // namespace vecdet::test
