// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/smooth_l1.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct smooth_l1_calls {
  placed_boxes<T> predictions, targets, out;
  placed<index_t> labels, foreground;
  placed<float> weights;
  smooth_l1_params weighted;

  static std::vector<shape> sweep(index_t length) { return {{length, 4}}; }
  static shape sized(index_t rows) { return {rows, 4}; }

  smooth_l1_calls(operands& make, const problem& p)
      : predictions(make.deltas<T>(p.shape[0])),
        targets(make.deltas<T>(p.shape[0])),
        out(make.room<T>(4 * p.shape[0])),
        labels(make.labels(p.shape[0], 80)),
        foreground(make.copy(bench::foreground_indices({labels.begin(), labels.end()}))),
        weights(make.numbers<float>(p.shape[0], 0, 2)) {
    weighted.box_weights = weights;
  }

  void list(call_list& c) {
    const accesses inputs = reads(predictions, targets);
    add(c, "all", box_selection::all(), inputs);
    add(c, "labels", labels, inputs.reads(labels));
    add(c, "list", box_selection::list(foreground), inputs.reads(foreground));
  }

  void add(call_list& c, const std::string& variant, const box_selection& chosen,
           const accesses& inputs) {
    const accesses with_grad =
        chosen.is_all() ? inputs.writes(out).may_overwrite(predictions) : inputs.writes(out);
    c.add("smooth_l1_loss/" + variant, inputs, [this, chosen](threading policy) {
      return smooth_l1_loss(predictions.in(), targets, chosen, {}, policy);
    });
    c.add("smooth_l1_loss_unreduced/" + variant, inputs.writes(out),
          [this, chosen](threading policy) {
            smooth_l1_loss_unreduced(predictions.in(), targets, chosen, out, {}, policy);
          });
    c.add("smooth_l1_loss_and_grad/" + variant, with_grad, [this, chosen](threading policy) {
      return smooth_l1_loss_and_grad(predictions.in(), targets, chosen, out, {}, policy);
    });
    c.add("smooth_l1_loss_and_grad/" + variant + "/weights", with_grad.reads(weights),
          [this, chosen](threading policy) {
            return smooth_l1_loss_and_grad(predictions.in(), targets, chosen, out, weighted,
                                           policy);
          });
  }
};

const registered_family registered =
    calls_of<smooth_l1_calls, float, bfloat16, double>("smooth_l1");

}  // namespace
}  // namespace vecdet::test
