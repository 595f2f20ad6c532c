// SPDX-License-Identifier: Apache-2.0
#include <vecdet/iou_loss.hpp>

#include "catalogue.hpp"

namespace vecdet {
namespace test {
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
    add(c, "giou", giou_loss<const T>, giou_loss_unreduced<const T>, giou_loss_and_grad<const T>);
    add(c, "diou", diou_loss<const T>, diou_loss_unreduced<const T>, diou_loss_and_grad<const T>);
    add(c, "ciou", ciou_loss<const T>, ciou_loss_unreduced<const T>, ciou_loss_and_grad<const T>);
  }

  using sum_function = double (*)(boxes_view<const T>, boxes_view<const T>, const iou_loss_params&,
                                  execution);
  using unreduced_function = void (*)(boxes_view<const T>, boxes_view<const T>, vector_view<T>,
                                      const iou_loss_params&, execution);
  using grad_function = double (*)(boxes_view<const T>, boxes_view<const T>, boxes_view<T>,
                                   const iou_loss_params&, execution);
  void add(call_list& c, const std::string& kind, sum_function sum, unreduced_function unreduced,
           grad_function with_grad) {
    for (const bool is_weighted : {false, true}) {
      iou_loss_params params;
      if (is_weighted) params.box_weights = weights;
      const accesses inputs =
          is_weighted ? reads(predicted, targets, weights) : reads(predicted, targets);
      const std::string boxes = is_weighted ? "/boxes/weights" : "/boxes";
      c.add(kind + "_loss" + boxes, inputs,
            [=](execution policy) { return sum(predicted, targets, params, policy); });
      c.add(kind + "_loss_unreduced" + boxes, inputs.writes(each),
            [=](execution policy) { unreduced(predicted, targets, each, params, policy); });
      c.add(kind + "_loss_and_grad" + boxes, inputs.writes(grad).may_overwrite(predicted),
            [=](execution policy) { return with_grad(predicted, targets, grad, params, policy); });
    }
  }
};

const registered_family registered = calls_of<iou_loss_calls, float, bfloat16, double>("iou_loss");

}  // namespace
}  // namespace test
}  // namespace vecdet
