// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/softmax_cross_entropy.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct softmax_calls {
  placed<index_t> labels;
  placed_matrix<T> logits, out;
  placed<T> each;
  index_t negatives;  ///< per foreground row
  softmax_cross_entropy_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{1 + length % 21, length}, {length, 1 + length % 19}};
  }
  static shape sized(index_t rows) { return {rows / 2 * 2, 21}; }
  static bool takes(const problem& p) { return number_after<index_t>("mined", p.variant, 3) >= 0; }

  softmax_calls(operands& make, const problem& p)
      : labels(make.labels(p.shape[0], p.shape[1])),
        logits(make.matrix<T>(p.shape[0], p.shape[1], -6, 6)),
        out(make.matrix<T>(p.shape[0], p.shape[1])),
        each(make.room<T>(p.shape[0])),
        negatives(number_after<index_t>("mined", p.variant, 3)) {
    // Background is class 0; few rows are foreground, so that not all others are mined.
    for (std::size_t i = 0; i < labels.size(); ++i) {
      index_t& label = labels.data()[i];
      if (label == -1 || (label > 0 && !make.in_training() && i % 4 != 0)) label = 0;
    }
  }

  void list(call_list& c) {
    const accesses inputs = reads(logits, labels), with_grad = inputs.writes(out);
    c.add("softmax_cross_entropy_loss/rows", inputs, [this](threading policy) {
      return softmax_cross_entropy_loss(logits.in(), labels, {}, policy);
    });
    c.add("softmax_cross_entropy_loss_unreduced/rows", inputs.writes(each),
          [this](threading policy) {
            softmax_cross_entropy_loss_unreduced(logits.in(), labels, each, {}, policy);
          });
    c.add("softmax_cross_entropy_loss_and_grad/rows", with_grad.may_overwrite(logits),
          [this](threading policy) {
            return softmax_cross_entropy_loss_and_grad(logits.in(), labels, out.out(), {}, policy);
          });
    const std::string mined =
        "softmax_cross_entropy_loss_and_grad/mined" + std::to_string(negatives);
    add_mined(c, mined, 1, with_grad);
    if (logits.rows % 2 == 0) add_mined(c, mined + "/images", 2, with_grad);
  }

  void add_mined(call_list& c, const std::string& name, index_t images, const accesses& with_grad) {
    c.add(name, with_grad, [this, images](threading policy) {
      hard_negative_mining mining;
      mining.images = images;
      mining.negatives_per_foreground = negatives;
      return softmax_cross_entropy_loss_and_grad(logits.in(), labels, mining, out.out(), {},
                                                 workspace, policy);
    });
  }
};

const registered_family registered = calls_of<softmax_calls, float>("softmax_cross_entropy");

}  // namespace
}  // namespace vecdet::test
