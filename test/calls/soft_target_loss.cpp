// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/soft_target_loss.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct soft_target_loss_calls {
  placed<index_t> labels;
  placed<float> scores, weights;
  placed_matrix<T> logits, out;

  static std::vector<shape> sweep(index_t length) { return {{1 + length % 3, length}}; }
  static shape sized(index_t rows) { return {rows, 20}; }

  soft_target_loss_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0], p.shape[1])),
        scores(make.numbers<float>(p.shape[0], 0, 1)),
        weights(make.numbers<float>(p.shape[0], 0, 2)),
        logits(make.logits<T>(labels, p.shape[1])),
        out(make.matrix<T>(p.shape[0], p.shape[1])) {}

  scored_labels targets() const { return {labels, scores}; }

  void list(call_list& c) {
    add_quality(c, "", {});
    add_varifocal(c, "", {});
    add_bce(c, "", {});
    quality_focal_params quality;
    quality.beta = 1.5;
    add_quality(c, "/beta1.5", quality);
    quality.row_weights = weights;
    add_quality(c, "/weights", quality);
    varifocal_params varifocal;
    varifocal.gamma = 1.5;
    add_varifocal(c, "/gamma1.5", varifocal);
    varifocal.grad_through_factor = false;
    add_varifocal(c, "/constant_factor", varifocal);
    varifocal.row_weights = weights;
    add_varifocal(c, "/weights", varifocal);
    bce_params bce;
    bce.row_weights = weights;
    add_bce(c, "/weights", bce);
  }

  void add_quality(call_list& c, const std::string& options, const quality_focal_params& params) {
    add(
        c, "quality_focal_loss", options,
        [this, params](threading policy) {
          return quality_focal_loss(logits.in(), targets(), params, policy);
        },
        [this, params](threading policy) {
          quality_focal_loss_unreduced(logits.in(), targets(), out.out(), params, policy);
        },
        [this, params](threading policy) {
          return quality_focal_loss_and_grad(logits.in(), targets(), out.out(), params, policy);
        });
  }
  void add_varifocal(call_list& c, const std::string& options, const varifocal_params& params) {
    add(
        c, "varifocal_loss", options,
        [this, params](threading policy) {
          return varifocal_loss(logits.in(), targets(), params, policy);
        },
        [this, params](threading policy) {
          varifocal_loss_unreduced(logits.in(), targets(), out.out(), params, policy);
        },
        [this, params](threading policy) {
          return varifocal_loss_and_grad(logits.in(), targets(), out.out(), params, policy);
        });
  }
  void add_bce(call_list& c, const std::string& options, const bce_params& params) {
    add(
        c, "bce_loss", options,
        [this, params](threading policy) {
          return bce_loss(logits.in(), targets(), params, policy);
        },
        [this, params](threading policy) {
          bce_loss_unreduced(logits.in(), targets(), out.out(), params, policy);
        },
        [this, params](threading policy) {
          return bce_loss_and_grad(logits.in(), targets(), out.out(), params, policy);
        });
  }

  template <class Sum, class Unreduced, class WithGrad>
  void add(call_list& c, const std::string& loss, const std::string& options, const Sum& sum,
           const Unreduced& unreduced, const WithGrad& with_grad) {
    accesses inputs = reads(logits, labels, scores);
    if (options == "/weights") inputs = inputs.reads(weights);
    c.add(loss + "/labels" + options, inputs, sum);
    c.add(loss + "_unreduced/labels" + options, inputs.writes(out), unreduced);
    c.add(loss + "_and_grad/labels" + options, inputs.writes(out).may_overwrite(logits), with_grad);
  }
};

const registered_family registered =
    calls_of<soft_target_loss_calls, float, bfloat16, double>("soft_target_loss");

}  // namespace
}  // namespace vecdet::test
