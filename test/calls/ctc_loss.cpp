// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/ctc_loss.hpp>

namespace vecdet::test {
namespace {

/// Shapes are steps x samples x classes x labels of the longest target. The targets of the samples
/// become shorter.
template <class T>
struct ctc_loss_calls {
  index_t steps, samples, classes;
  placed<index_t> labels, lengths, input_lengths;
  placed<float> weights;
  placed_matrix<T> logits, out;
  placed<compute_type<T>> each;
  ctc_workspace workspace;

  static std::vector<shape> sweep(index_t length) {
    return {{5, 2, 1 + length, 2}, {length + 1, 3, 6, 2}, {2 * length + 2, 2, 5, length}};
  }
  static shape sized(index_t rows) { return {25, rows / 1000 + 4, 40, 10}; }
  /// The blank needs a class.
  static bool takes(const problem& p) { return p.shape[2] >= 2; }

  ctc_loss_calls(operands& make, const problem& p)
      : steps(p.shape[0]),
        samples(p.shape[1]),
        classes(p.shape[2]),
        labels(make.copy(all_labels(p))),
        lengths(make.copy(all_lengths(p))),
        input_lengths(make.copy(all_input_lengths(p, make.in_training()))),
        weights(make.numbers<float>(samples, 0, 2)),
        logits(make.matrix<T>(steps * samples, classes, -6, 6)),
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
  static std::vector<index_t> all_input_lengths(const problem& p, bool are_whole) {
    std::vector<index_t> all;
    for (index_t n = 0; n < p.shape[1]; ++n)
      all.push_back(are_whole ? p.shape[0] : p.shape[0] - n % (p.shape[0] + 1) / 2);
    return all;
  }

  template <class Numbers>
  sequences_view<Numbers> steps_first(const placed_matrix<T>& of) const {
    return {of.data(), steps, samples, classes, of.stride * samples, of.stride};
  }
  template <class Numbers>
  sequences_view<Numbers> samples_first(const placed_matrix<T>& of) const {
    return {of.data(), steps, samples, classes, of.stride, of.stride * steps};
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
      return ctc_loss(steps_first<const T>(logits), targets(), input_lengths, {}, workspace,
                      policy);
    });
    c.add("ctc_loss_unreduced/", inputs.writes(each), [this](threading policy) {
      ctc_loss_unreduced(steps_first<const T>(logits), targets(), input_lengths, each, {},
                         workspace, policy);
    });
    c.add("ctc_loss_and_grad/", with_grad, [this](threading policy) {
      return ctc_loss_and_grad(steps_first<const T>(logits), targets(), input_lengths,
                               steps_first<T>(out), {}, workspace, policy);
    });
    c.add("ctc_loss_and_grad//samples_first/weights", with_grad.reads(weights),
          [this](threading policy) {
            ctc_params params;
            params.sample_weights = weights;
            params.zero_infinity = true;
            return ctc_loss_and_grad(samples_first<const T>(logits), targets(), input_lengths,
                                     samples_first<T>(out), params, workspace, policy);
          });
  }
};

const registered_family registered = calls_of<ctc_loss_calls, float, bfloat16, double>("ctc_loss");

}  // namespace
}  // namespace vecdet::test
