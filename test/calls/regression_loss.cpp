// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/regression_loss.hpp>

namespace vecdet::test {
namespace {

const char* const losses[] = {"smooth_l1", "giou", "diou", "ciou"};
const box_loss loss_of[] = {box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou};

/// Deltas of type T for boxes of type Box.
template <class T, class Box>
struct regression_calls {
  placed_boxes<T> deltas, grad;
  placed_boxes<Box> anchors, targets, truth, image_anchors;
  placed<index_t> labels, foreground, matches;
  placed<std::int32_t> narrow_labels;
  placed<float> weights;
  /// The number of arrays of the deltas' size in a recorded call. It shows whether all boxes count,
  /// which the name does not say.
  double arrays;
  const std::string prefix = std::is_same<T, Box>::value ? "" : "float_";

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  regression_calls(operands& make, const problem& p)
      : deltas(make.deltas<T>(p.shape[0])),
        grad(make.room<T>(4 * p.shape[0])),
        anchors(make.boxes<Box>(p.shape[0])),
        targets(make.boxes_near<Box>(p.shape[0])),
        truth(make.boxes<Box>(80)),
        image_anchors(
            make.copy(std::vector<Box>(anchors.begin(), anchors.begin() + 4 * (p.shape[0] / 2)))),
        labels(make.labels(p.shape[0], 80)),
        foreground(make.copy(bench::foreground_indices({labels.begin(), labels.end()}))),
        matches(make.labels(p.shape[0], 80)),
        narrow_labels(make.copy(std::vector<std::int32_t>(labels.begin(), labels.end()))),
        weights(make.numbers<float>(p.shape[0], 0, 2)),
        arrays(p.bytes / static_cast<double>(4 * p.shape[0]) / sizeof(T)) {
    std::copy(labels.begin(), labels.end(), matches.begin());
  }

  void list(call_list& c) {
    const accesses inputs = reads(deltas, anchors, targets);
    add(c, "/all", box_selection::all(), targets.in(), inputs);
    add(c, "/labels", labels, targets.in(), inputs.reads(labels));
    add(c, "/list", box_selection::list(foreground), targets.in(), inputs.reads(foreground));
    add(c, "/matches", labels, {truth.in(), matches},
        reads(deltas, anchors, truth, labels, matches));
    const auto add_grad = [&](const std::string& options, const boxes_view<const Box>& all_anchors,
                              const box_selection& chosen, const accesses& arrays_read) {
      c.add("regression_loss_and_grad/" + prefix + losses[1] + options, arrays_read.writes(grad),
            [this, all_anchors, chosen](threading policy) {
              regression_loss_params params;
              params.loss = loss_of[1];
              return regression_loss_and_grad(deltas.in(), all_anchors, targets.in(), chosen, grad,
                                              params, policy);
            });
    };
    add_grad("/labels32", anchors.in(), narrow_labels.in(), inputs.reads(narrow_labels));
    // The anchors of one of two images.
    if (labels.size() % 2 == 0)
      add_grad("/images", image_anchors.in(), labels,
               reads(deltas, image_anchors, targets, labels));
  }

  void add(call_list& c, const std::string& selection, const box_selection& chosen,
           const regression_targets<Box>& wanted, const accesses& inputs) {
    for (std::size_t k = 0; k < 4; ++k) {
      regression_loss_params params;
      params.loss = loss_of[k];
      const auto options = [&](double most) {
        return selection == (arrays > most ? "/all" : "/labels") ? "" : selection;
      };
      const std::string variant = prefix + losses[k];
      c.add("regression_loss/" + variant + options(2.5), inputs,
            [this, wanted, chosen, params](threading policy) {
              return regression_loss(deltas.in(), anchors, wanted, chosen, params, policy);
            });
      c.add("regression_loss_and_grad/" + variant + options(3.5), inputs.writes(grad),
            [this, wanted, chosen, params](threading policy) {
              return regression_loss_and_grad(deltas.in(), anchors, wanted, chosen, grad, params,
                                              policy);
            });
      params.box_weights = weights;
      c.add("regression_loss_and_grad/" + variant + selection + "_weights",
            inputs.reads(weights).writes(grad), [this, wanted, chosen, params](threading policy) {
              return regression_loss_and_grad(deltas.in(), anchors, wanted, chosen, grad, params,
                                              policy);
            });
    }
  }
};

template <class T>
using calls = regression_calls<T, T>;
template <class T>
using mixed_calls = regression_calls<T, float>;
const registered_family registered = calls_of<calls, float, bfloat16, double>("regression_loss");
const registered_family registered_mixed = calls_of<mixed_calls, bfloat16>("regression_loss/float");

}  // namespace
}  // namespace vecdet::test
