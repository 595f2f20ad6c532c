// SPDX-License-Identifier: Apache-2.0
// CTC of any logits, targets, lengths, strides and weights, against the reference where logits are
// finite and moderate; the gradient in the logits' memory; and bad targets, which must throw on
// every instruction set.
#include "sequence_input.hpp"
#include <vecdet/ctc_loss.hpp>
#include <vecdet/reference/ctc_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
void fuzz_type(fuzz::input& in) {
  using real = compute_type<T>;
  const fuzz::sequence_shape given(in, in.flag() ? 12 : 90, 4, 9, 70);
  const index_t steps = given.steps, samples = given.samples, classes = given.classes;
  const std::vector<index_t>& input_lengths = given.lengths;
  const bool are_padded = in.flag();
  ctc_params params;
  params.blank = in.one_of<index_t>({0, classes - 1, classes / 2});
  params.scale = in.one_of({1.0, 1.0 / 37, -2.0, 0.0});
  params.zero_infinity = in.flag();
  const fuzz::tensor<float> weights = fuzz::some_weights(in, samples);
  params.sample_weights = vector_view<const float>(weights.data(), weights.size());
  std::vector<index_t> lengths, labels;
  const index_t longest = in.integer(0, 40);
  for (index_t n = 0; n < samples; ++n) {
    lengths.push_back(in.integer(0, longest));
    const index_t padding = are_padded ? longest - lengths.back() : 0;
    for (index_t s = 0; s < lengths.back(); ++s) {
      // A few bad ones.
      const index_t label = in.byte();
      labels.push_back(label == 255                      ? params.blank
                       : label == 254                    ? classes
                       : label % 4 == 0 && s > 0         ? labels.back()
                       : label % classes == params.blank ? (params.blank + 1) % classes
                                                         : label % classes);
    }
    for (index_t s = 0; s < padding; ++s) labels.push_back(-1);
  }
  const fuzz::tensor<index_t> classes_given(labels);
  ctc_targets targets;
  targets.classes = labels_view(classes_given.data(), classes_given.size());
  targets.lengths = lengths;
  targets.stride = are_padded ? longest : 0;
  const auto logits = in.numbers<T>(given.size);
  const fuzz::tensor<T> grad(logits.size());
  const fuzz::tensor<real> losses(samples);
  const auto at = [&](index_t t, index_t n) {
    return t * given.step_stride + n * given.sample_stride;
  };
  ctc_workspace workspace;
  fuzz::on_every_isa("CTC", [&](fuzz::results& results) {
    const sequences_view<const T> x = given.view(static_cast<const T*>(logits.data()));
    const vector_view<const index_t> input_view(input_lengths.data(), samples);
    results.add(ctc_loss_and_grad(x, targets, input_view, given.view(grad.data()), params,
                                  workspace, given.policy));
    ctc_loss_unreduced(x, targets, input_view, vector_view<real>(losses.data(), samples), params,
                       workspace, given.policy);
    results.add(losses);
    const fuzz::tensor<T> memory(std::vector<T>(logits.begin(), logits.end()));
    ctc_loss_and_grad(given.view(static_cast<const T*>(memory.data())), targets, input_view,
                      given.view(memory.data()), params, workspace, threading::sequential);
    const double error = std::is_same<T, double>::value ? 1e-11 : 2e-6;
    index_t first_label = 0;
    for (index_t n = 0; n < samples; ++n) {
      const auto i = static_cast<std::size_t>(n);
      const test::step_probabilities log_p(logits.data() + at(0, n), input_lengths[i],
                                           given.step_stride, classes);
      double extent = 1, most = 0;
      for (index_t t = 0; t < input_lengths[i]; ++t) {
        const T* const row = logits.data() + at(t, n);
        for (index_t c = 0; c < classes; ++c) {
          const double number = static_cast<double>(row[c]);
          most = std::isfinite(number) ? std::max(most, std::abs(number)) : 1e300;
          if (most > 1e200) break;
        }
        extent += 2 * most + 10;
      }
      const std::vector<index_t> target(labels.begin() + first_label,
                                        labels.begin() + first_label + lengths[i]);
      first_label += are_padded ? longest : lengths[i];
      const double factor = params.scale * fuzz::weight_of(weights, n);
      for (index_t t = 0; t < steps; ++t)
        for (index_t c = 0; c < classes; ++c) {
          const auto k = static_cast<std::size_t>(at(t, n) + c);
          results.add(static_cast<double>(grad[k]));
          if (!fuzz::same_number(static_cast<double>(grad[k]), static_cast<double>(memory[k])))
            fuzz::fail("CTC's gradient differs in the logits' memory");
          if (t >= input_lengths[i] && static_cast<double>(grad[k]) != 0)
            fuzz::fail("CTC's gradient beyond a sample is not 0");
        }
      if (most > 1e4) continue;
      std::vector<double> exact(static_cast<std::size_t>(input_lengths[i] * classes));
      double loss =
          reference::ctc_loss(log_p, input_lengths[i], classes, target, params.blank, exact.data());
      if (params.zero_infinity && std::isinf(loss)) loss = 0;
      fuzz::expect_near([] { return "a loss of CTC"; }, static_cast<double>(losses[i]),
                        factor == 0 ? 0 : factor * loss, 1e-6, error * extent * std::abs(factor));
      const double rounding = fuzz::storage_rounding<T>();
      for (index_t t = 0; t < input_lengths[i]; ++t)
        for (index_t c = 0; c < classes; ++c)
          fuzz::expect_near([] { return "a gradient of CTC"; },
                            static_cast<double>(grad[static_cast<std::size_t>(at(t, n) + c)]),
                            factor * exact[static_cast<std::size_t>(t * classes + c)], rounding,
                            error * (1 + most / 100) * std::abs(factor) + 1e-36);
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto number) { fuzz_type<decltype(number)>(in); });
}
