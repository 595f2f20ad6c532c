// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/focal_loss.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct focal_loss_calls {
  placed<index_t> labels;
  placed<float> scores, weights;
  placed_matrix<T> logits, dense, upstream, out;
  double arrays;  ///< of the logits' size, in a recorded call

  static std::vector<shape> sweep(index_t length) {
    return {{1 + length % 3, length}, {length, 1 + length % 5}};
  }
  static shape sized(index_t rows) { return {rows, 20}; }

  focal_loss_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0], p.shape[1])),
        scores(make.numbers<float>(p.shape[0], 0, 1)),
        weights(make.numbers<float>(p.shape[0], 0, 2)),
        logits(make.logits<T>(labels, p.shape[1])),
        dense(make.dense_targets<T>(labels, p.shape[1])),
        upstream(make.matrix<T>(p.shape[0], p.shape[1], -1, 1)),
        out(make.matrix<T>(p.shape[0], p.shape[1])),
        arrays(p.bytes / static_cast<double>(p.shape[0] * p.shape[1]) / sizeof(T)) {}

  void list(call_list& c) {
    add(c, "labels", labels, reads(logits, labels), 2.5);
    add(c, "scored", scored_labels{labels, scores}, reads(logits, labels, scores), 2.5);
    add(c, "dense", dense.in(), reads(logits, dense), 3.5);
  }

  /// A recorded call of sigmoid_focal_loss_grad has more arrays than `most` if one is the upstream
  /// gradient.
  void add(call_list& c, const std::string& variant, const focal_targets<T>& targets,
           const accesses& inputs, double most) {
    c.add("sigmoid_focal_loss/" + variant, inputs, [this, targets](threading policy) {
      return sigmoid_focal_loss(logits.in(), targets, {}, policy);
    });
    add(c, variant, targets, inputs, focal_loss_params{});
    for (const double gamma : {0.0, 1.0, 1.5}) {
      focal_loss_params params;
      params.gamma = gamma;
      add(c, variant + "/gamma" + std::to_string(gamma), targets, inputs, params);
    }
    focal_loss_params weighted;
    weighted.row_weights = weights;
    add(c, variant + "/weights", targets, inputs.reads(weights), weighted);
    const bool has_upstream = arrays > most;
    c.add("sigmoid_focal_loss_grad/" + variant + (has_upstream ? "/number" : ""),
          inputs.writes(out).may_overwrite(logits), [this, targets](threading policy) {
            sigmoid_focal_loss_grad(logits.in(), targets, 0.5, out.out(), {}, policy);
          });
    c.add("sigmoid_focal_loss_grad/" + variant + (has_upstream ? "" : "/upstream"),
          inputs.reads(upstream).writes(out).may_overwrite(logits),
          [this, targets](threading policy) {
            sigmoid_focal_loss_grad(logits.in(), targets, upstream.in(), out.out(), {}, policy);
          });
  }

  void add(call_list& c, const std::string& variant, const focal_targets<T>& targets,
           const accesses& inputs, const focal_loss_params& params) {
    c.add("sigmoid_focal_loss_unreduced/" + variant, inputs.writes(out),
          [this, targets, params](threading policy) {
            sigmoid_focal_loss_unreduced(logits.in(), targets, out.out(), params, policy);
          });
    c.add("sigmoid_focal_loss_and_grad/" + variant, inputs.writes(out).may_overwrite(logits),
          [this, targets, params](threading policy) {
            return sigmoid_focal_loss_and_grad(logits.in(), targets, out.out(), params, policy);
          });
  }
};

const registered_family registered =
    calls_of<focal_loss_calls, float, bfloat16, double>("focal_loss");

}  // namespace
}  // namespace vecdet::test
