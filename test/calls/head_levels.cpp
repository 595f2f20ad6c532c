// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/smooth_l1.hpp>
#include <vecdet/soft_target_loss.hpp>

namespace vecdet::test {
namespace {

// ---- losses of logits

template <class T>
struct logits_calls {
  head_sizes sizes;
  placed<index_t> labels;
  placed<float> scores, scales;
  placed_head<T> nhwc, nhwc_grad, nchw, nchw_grad;

  static std::vector<shape> sweep(index_t length) { return {{4 * (length + 6), 3}}; }
  static shape sized(index_t rows) { return {rows / 4 * 4, 20}; }

  logits_calls(operands& make, const problem& p)
      : sizes(make.head_of_rows(p.shape[0])),
        labels(make.labels(p.shape[0], p.shape[1])),
        scores(make.numbers<float>(p.shape[0], 0, 1)),
        scales(make.numbers<float>(sizes.images, 0.1, 1)),
        nhwc(make.logits_head<T>(sizes, labels, p.shape[1], head_layout::nhwc)),
        nhwc_grad(make.head<T>(sizes, p.shape[1], head_layout::nhwc)),
        nchw(make.logits_head<T>(sizes, labels, p.shape[1], head_layout::nchw)),
        nchw_grad(make.head<T>(sizes, p.shape[1], head_layout::nchw)) {}

  void list(call_list& c) {
    add(c, "levels", nhwc, nhwc_grad);
    add(c, "nchw", nchw, nchw_grad);
  }
  void add(call_list& c, const std::string& layout, const placed_head<T>& logits,
           placed_head<T>& grad) {
    const accesses with_grad = reads(logits, labels).writes(grad).may_overwrite(logits);
    const scored_labels scored{labels, scores};
    c.add("sigmoid_focal_loss_and_grad/" + layout, with_grad, [&, this](threading policy) {
      return sigmoid_focal_loss_and_grad(logits.in(), labels, grad.out(), {}, {}, policy);
    });
    c.add("sigmoid_focal_loss_and_grad/" + layout + "/scales", with_grad.reads(scales),
          [&, this](threading policy) {
            return sigmoid_focal_loss_and_grad(logits.in(), labels, grad.out(), scales, {}, policy);
          });
    c.add("quality_focal_loss_and_grad/" + layout, with_grad.reads(scores),
          [&logits, &grad, scored](threading policy) {
            return quality_focal_loss_and_grad(logits.in(), scored, grad.out(), {}, {}, policy);
          });
    c.add("varifocal_loss_and_grad/" + layout, with_grad.reads(scores),
          [&logits, &grad, scored](threading policy) {
            return varifocal_loss_and_grad(logits.in(), scored, grad.out(), {}, {}, policy);
          });
    c.add("bce_loss_and_grad/" + layout, with_grad.reads(scores),
          [&logits, &grad, scored](threading policy) {
            return bce_loss_and_grad(logits.in(), scored, grad.out(), {}, {}, policy);
          });
  }
};

// ---- losses of boxes, and decoding

template <class T>
struct boxes_calls {
  head_sizes sizes;
  placed<index_t> labels;
  placed<float> scales;
  placed_boxes<T> targets;
  placed_head<T> nhwc, nhwc_grad, nchw, nchw_grad;

  static std::vector<shape> sweep(index_t length) { return {{2, 2 * (length + 6)}}; }
  static shape sized(index_t rows) { return {2, rows / 4 * 2}; }

  boxes_calls(operands& make, const problem& p)
      : sizes(make.head(p.shape[0], p.shape[1])),
        labels(make.labels(p.shape[0] * p.shape[1], 80)),
        scales(make.numbers<float>(p.shape[0], 0.1, 1)),
        targets(make.boxes<T>(p.shape[0] * p.shape[1])),
        nhwc(make.deltas_head<T>(sizes, head_layout::nhwc)),
        nhwc_grad(make.head<T>(sizes, 4, head_layout::nhwc)),
        nchw(make.deltas_head<T>(sizes, head_layout::nchw)),
        nchw_grad(make.head<T>(sizes, 4, head_layout::nchw)) {}

  void list(call_list& c) {
    add(c, "levels", nhwc, nhwc_grad);
    add(c, "nchw", nchw, nchw_grad);
  }
  void add(call_list& c, const std::string& layout, const placed_head<T>& boxes,
           placed_head<T>& grad) {
    c.add("smooth_l1_loss_and_grad/" + layout,
          reads(boxes, targets, labels).writes(grad).may_overwrite(boxes),
          [&, this](threading policy) {
            return smooth_l1_loss_and_grad(boxes.in(), targets, labels, grad.out(), {}, {}, policy);
          });
    add_iou(c, layout, "giou", iou_kind::giou, boxes, grad);
    add_iou(c, layout, "diou", iou_kind::diou, boxes, grad);
    add_iou(c, layout, "ciou", iou_kind::ciou, boxes, grad);
  }
  void add_iou(call_list& c, const std::string& layout, const std::string& name, iou_kind kind,
               const placed_head<T>& boxes, placed_head<T>& grad) {
    const std::string variant = "iou_loss_and_grad/" + layout + "_" + name;
    c.add(variant, reads(boxes, targets).writes(grad).may_overwrite(boxes),
          [this, &boxes, &grad, kind](threading policy) {
            return iou_loss_and_grad(boxes.in(), targets, box_selection::all(), grad.out(), kind,
                                     {}, {}, policy);
          });
    c.add(variant + "/labels", reads(boxes, targets, labels).writes(grad).may_overwrite(boxes),
          [this, &boxes, &grad, kind](threading policy) {
            return iou_loss_and_grad(boxes.in(), targets, labels, grad.out(), kind, {}, {}, policy);
          });
  }
};

const char* const losses[] = {"smooth_l1", "giou", "diou", "ciou"};
const box_loss loss_of[] = {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou};

template <class T>
struct deltas_calls {
  head_sizes sizes;
  placed<index_t> labels;
  placed<float> scales;
  placed_boxes<float> anchors, targets, decoded;
  placed<image_size> images;
  placed_head<T> nhwc, nhwc_grad, nchw, nchw_grad;

  static std::vector<shape> sweep(index_t length) { return {{2, 2 * (length + 6)}}; }
  static shape sized(index_t rows) { return {2, rows / 4 * 2}; }

  deltas_calls(operands& make, const problem& p)
      : sizes(make.head(p.shape[0], p.shape[1])),
        labels(make.labels(p.shape[0] * p.shape[1], 80)),
        scales(make.numbers<float>(p.shape[0], 0.1, 1)),
        anchors(make.boxes<float>(p.shape[1])),
        targets(make.boxes_near<float>(p.shape[0] * p.shape[1])),
        decoded(make.room<float>(4 * p.shape[0] * p.shape[1])),
        images(make.images(p.shape[0])),
        nhwc(make.deltas_head<T>(sizes, head_layout::nhwc)),
        nhwc_grad(make.head<T>(sizes, 4, head_layout::nhwc)),
        nchw(make.deltas_head<T>(sizes, head_layout::nchw)),
        nchw_grad(make.head<T>(sizes, 4, head_layout::nchw)) {}

  void list(call_list& c) {
    add(c, "levels", nhwc, nhwc_grad);
    add(c, "nchw", nchw, nchw_grad);
  }
  void add(call_list& c, const std::string& layout, const placed_head<T>& deltas,
           placed_head<T>& grad) {
    c.add("decode_boxes/" + layout, reads(deltas, anchors).writes(decoded),
          [&, this](threading policy) {
            decode_boxes(deltas.in(), anchors, {}, decoded, {}, policy);
          });
    c.add("decode_boxes/" + layout + "/clip", reads(deltas, anchors).writes(decoded),
          [&, this](threading policy) {
            decode_boxes(deltas.in(), anchors, images, decoded, {}, policy);
          });
    c.add("decode_distances/" + layout, reads(deltas, anchors).writes(decoded),
          [&, this](threading policy) {
            decode_distances(deltas.in(), anchors, {}, decoded, {}, policy);
          });
    c.add("decode_distances/" + layout + "/clip", reads(deltas, anchors).writes(decoded),
          [&, this](threading policy) {
            decode_distances(deltas.in(), anchors, images, decoded, {}, policy);
          });
    for (std::size_t k = 0; k < 4; ++k) {
      regression_loss_params params;
      params.loss = loss_of[k];
      const std::string name = "regression_loss_and_grad/" + layout + "_" + losses[k];
      c.add(name, reads(deltas, anchors, targets, labels).writes(grad).may_overwrite(deltas),
            [this, &deltas, &grad, params](threading policy) {
              return regression_loss_and_grad(deltas.in(), anchors, targets.in(), labels,
                                              grad.out(), {}, params, policy);
            });
      c.add(name + "/scales",
            reads(deltas, anchors, targets, labels, scales).writes(grad).may_overwrite(deltas),
            [this, &deltas, &grad, params](threading policy) {
              return regression_loss_and_grad(deltas.in(), anchors, targets.in(), labels,
                                              grad.out(), scales, params, policy);
            });
    }
  }
};

const registered_family registered[] = {
    calls_of<logits_calls, float, bfloat16, double>("head_levels/logits"),
    calls_of<boxes_calls, float, bfloat16, double>("head_levels/boxes"),
    calls_of<deltas_calls, float, bfloat16>("head_levels/deltas"),
};

}  // namespace
}  // namespace vecdet::test
