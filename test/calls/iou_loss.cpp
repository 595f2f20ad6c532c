// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/iou_loss.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct iou_loss_calls {
  placed_boxes<T> predicted, targets, grad;
  placed<T> each;
  placed<float> weights;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  iou_loss_calls(operands& make, const problem& p)
      : predicted(make.boxes_near<T>(p.shape[0])),
        targets(make.boxes<T>(p.shape[0])),
        grad(make.room<T>(4 * p.shape[0])),
        each(make.room<T>(p.shape[0])),
        weights(make.numbers<float>(p.shape[0], 0, 2)) {}

  void list(call_list& c) {
    add(c, "giou", iou_kind::giou);
    add(c, "diou", iou_kind::diou);
    add(c, "ciou", iou_kind::ciou);
  }

  void add(call_list& c, const std::string& variant, iou_kind kind) {
    const accesses inputs = reads(predicted, targets);
    add(c, variant, kind, {}, inputs);
    iou_loss_params weighted;
    weighted.box_weights = weights;
    add(c, variant + "/weights", kind, weighted, inputs.reads(weights));
  }

  void add(call_list& c, const std::string& variant, iou_kind kind, const iou_loss_params& params,
           const accesses& inputs) {
    c.add("iou_loss/" + variant, inputs, [this, kind, params](threading policy) {
      return iou_loss(predicted.in(), targets, kind, params, policy);
    });
    c.add("iou_loss_unreduced/" + variant, inputs.writes(each),
          [this, kind, params](threading policy) {
            iou_loss_unreduced(predicted.in(), targets, each, kind, params, policy);
          });
    c.add("iou_loss_and_grad/" + variant, inputs.writes(grad).may_overwrite(predicted),
          [this, kind, params](threading policy) {
            return iou_loss_and_grad(predicted.in(), targets, grad, kind, params, policy);
          });
  }
};

const registered_family registered = calls_of<iou_loss_calls, float, bfloat16, double>("iou_loss");

}  // namespace
}  // namespace vecdet::test
