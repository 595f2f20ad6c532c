// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/distribution_focal_loss.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct distribution_calls {
  placed_matrix<T> logits, out;
  placed<T> targets, weights, each;
  placed_matrix<T> points;
  placed<T> strides;
  placed_boxes<T> boxes;

  static std::vector<shape> sweep(index_t length) {
    return {{4 * (1 + length % 21), 1 + length}, {4 * length, 2 + length % 19}};
  }
  static shape sized(index_t rows) { return {rows / 4 * 4, 17}; }
  static bool takes(const problem& p) { return p.shape[0] % 4 == 0 && p.shape[1] >= 2; }

  distribution_calls(operands& make, const problem& p)
      : logits(make.matrix<T>(p.shape[0], p.shape[1], -6, 6)),
        out(make.matrix<T>(p.shape[0], p.shape[1])),
        targets(make.numbers<T>(p.shape[0], 0, static_cast<double>(p.shape[1]))),
        weights(make.numbers<T>(p.shape[0], 0, 2)),
        each(make.room<T>(p.shape[0])),
        points(make.matrix<T>(p.shape[0] / 4, 2, 0, 640)),
        strides(make.numbers<T>(p.shape[0] / 4, 8, 128)),
        boxes(make.room<T>(p.shape[0])) {}

  void list(call_list& c) {
    add(c, "", {});
    distribution_focal_loss_params weighted;
    weighted.row_weights = weights;
    add(c, "/weights", weighted);
    c.add("decode_distributions/distances", reads(logits).writes(each),
          [this](threading policy) { decode_distributions(logits.in(), each, policy); });
    c.add("decode_distribution_boxes/boxes", reads(logits, points, strides).writes(boxes),
          [this](threading policy) {
            decode_distribution_boxes(logits.in(), points.in(), strides, boxes, policy);
          });
  }

  void add(call_list& c, const std::string& options, const distribution_focal_loss_params& params) {
    accesses inputs = reads(logits, targets);
    if (!options.empty()) inputs = inputs.reads(weights);
    c.add("distribution_focal_loss/sides" + options, inputs, [this, params](threading policy) {
      return distribution_focal_loss(logits.in(), targets, params, policy);
    });
    c.add("distribution_focal_loss_unreduced/sides" + options, inputs.writes(each),
          [this, params](threading policy) {
            distribution_focal_loss_unreduced(logits.in(), targets, each, params, policy);
          });
    c.add("distribution_focal_loss_and_grad/sides" + options,
          inputs.writes(out).may_overwrite(logits), [this, params](threading policy) {
            return distribution_focal_loss_and_grad(logits.in(), targets, out.out(), params,
                                                    policy);
          });
  }
};

const registered_family registered = calls_of<distribution_calls, float>("distribution_focal_loss");

}  // namespace
}  // namespace vecdet::test
