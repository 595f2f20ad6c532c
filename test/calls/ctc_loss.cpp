// SPDX-License-Identifier: Apache-2.0
#include "sequences.hpp"
#include <vecdet/ctc_loss.hpp>

namespace vecdet::test {
namespace {

/// Shapes are steps x samples x classes x labels of the longest target. The targets of the samples
/// become shorter.
template <class T>
struct ctc_loss_calls : sequence_operands<T> {
  using base = sequence_operands<T>;
  using base::classes, base::input_lengths, base::logits, base::samples, base::steps;
  placed<index_t> labels, lengths;
  placed<float> weights;
  placed_matrix<T> out;
  placed<compute_type<T>> each;
  ctc_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{5, 2, 1 + length, 2}, {length + 1, 3, 6, 2}, {2 * length + 2, 2, 5, length}};
  }
  static shape sized(index_t rows) { return {25, rows / 1000 + 4, 40, 10}; }
  /// The blank needs a class.
  static bool takes(const problem& p) { return p.shape[2] >= 2; }

  ctc_loss_calls(operands& make, const problem& p)
      : base(make, p, make.in_training()),
        labels(make.copy(all_labels(p))),
        lengths(make.copy(all_lengths(p))),
        weights(make.numbers<float>(samples, 0, 2)),
        out(make.matrix<T>(steps * samples, classes)),
        each(make.room<compute_type<T>>(samples)) {}

  static std::vector<index_t> all_lengths(const problem& p) {
    std::vector<index_t> all;
    for (index_t n = 0; n < p.shape[1]; ++n)
      all.push_back(p.shape[2] > 1 ? p.shape[3] * (9 - n % 10) / 9 : 0);
    return all;
  }
  static std::vector<index_t> all_labels(const problem& p) {
    std::vector<index_t> all;
    for (const index_t length : all_lengths(p))
      for (index_t s = 0; s < length; ++s) all.push_back(1 + (s * 7 + s / 3) % (p.shape[2] - 1));
    return all;
  }
  ctc_targets targets() const {
    ctc_targets result;
    result.classes = labels;
    result.lengths = lengths;
    return result;
  }

  void list(call_list& c) {
    const accesses inputs = reads(logits, labels, lengths, input_lengths);
    const accesses with_grad = inputs.writes(out).may_overwrite(logits);
    c.add("ctc_loss/", inputs, [this](threading policy) {
      return ctc_loss(this->template steps_first<const T>(logits), targets(), input_lengths, {},
                      workspace, policy);
    });
    c.add("ctc_loss_unreduced/", inputs.writes(each), [this](threading policy) {
      ctc_loss_unreduced(this->template steps_first<const T>(logits), targets(), input_lengths,
                         each, {}, workspace, policy);
    });
    c.add("ctc_loss_unreduced//weights", inputs.reads(weights).writes(each),
          [this](threading policy) {
            ctc_params params;
            params.sample_weights = weights;
            ctc_loss_unreduced(this->template steps_first<const T>(logits), targets(),
                               input_lengths, each, params, workspace, policy);
          });
    c.add("ctc_loss_and_grad/", with_grad, [this](threading policy) {
      return ctc_loss_and_grad(this->template steps_first<const T>(logits), targets(),
                               input_lengths, this->template steps_first<T>(out), {}, workspace,
                               policy);
    });
    c.add("ctc_loss_and_grad//samples_first/weights", with_grad.reads(weights),
          [this](threading policy) {
            ctc_params params;
            params.sample_weights = weights;
            params.zero_infinity = true;
            return ctc_loss_and_grad(this->template samples_first<const T>(logits), targets(),
                                     input_lengths, this->template samples_first<T>(out), params,
                                     workspace, policy);
          });
  }
};

const registered_family registered = calls_of<ctc_loss_calls, float, bfloat16, double>("ctc_loss");

}  // namespace
}  // namespace vecdet::test
