// SPDX-License-Identifier: Apache-2.0
// CTC's loss and gradient: recognisers of Latin and Chinese text, PP-OCRv5's 18,385 characters, and
// recognisers of speech by letters and by word pieces. Shapes are steps x samples x classes x
// labels of each target. Elements are logits.
//
// Bound for 40x32x18385x20: 94 MB are read and 94 MB written, and 24 million exponentials take 20
// instructions per 16; 500x16x29x120 has 1.9 million states, in either direction.
#include "../test/support/random.hpp"
#include "plain/ctc_loss.hpp"
#include "support/implementations.hpp"
#include <vecdet/ctc_decoding.hpp>
#include <vecdet/ctc_loss.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

struct ctc_shape {
  index_t steps, samples, classes, labels;

  std::string name() const { return joined({steps, samples, classes, labels}); }
  index_t size() const { return steps * samples * classes; }
};

struct ctc_operands {
  ctc_shape shape;
  std::vector<float> logits, grad;
  std::vector<std::int64_t> targets;
  std::vector<index_t> lengths;
  ctc_workspace workspace;
  ctc_decoding_workspace decoding;
  /// Of the best paths: the classes, their steps and probabilities, steps x samples each.
  std::vector<std::int64_t> found, found_steps, counts;
  std::vector<float> probabilities;

  explicit ctc_operands(const ctc_shape& of)
      : shape(of),
        logits(static_cast<std::size_t>(of.size())),
        grad(logits.size()),
        lengths(static_cast<std::size_t>(of.samples), of.labels),
        found(static_cast<std::size_t>(of.steps * of.samples)),
        found_steps(found.size()),
        counts(lengths.size()),
        probabilities(found.size()) {
    test::random_generator random(1);
    for (float& x : logits) x = static_cast<float>(random.uniform(-3, 3));
    for (index_t i = 0; i < of.samples * of.labels; ++i)
      targets.push_back(1 + random.below(of.classes - 1));
  }
  double run(threading policy) {
    ctc_targets in;
    in.classes = targets;
    in.lengths = lengths;
    return ctc_loss_and_grad(
        sequences_view<const float>::steps_first(logits.data(), shape.steps, shape.samples,
                                                 shape.classes),
        in, {},
        sequences_view<float>::steps_first(grad.data(), shape.steps, shape.samples, shape.classes),
        {}, workspace, policy);
  }
  /// Returns the number of classes.
  double decode(threading policy) {
    const ctc_texts texts =
        ctc_greedy(sequences_view<const float>::steps_first(logits.data(), shape.steps,
                                                            shape.samples, shape.classes),
                   {}, 0, decoding, policy);
    std::copy(texts.probabilities.begin(), texts.probabilities.end(), probabilities.begin());
    std::fill(probabilities.begin() + texts.probabilities.size(), probabilities.end(), 0.0f);
    return static_cast<double>(texts.classes.size());
  }
  /// The same, with the classes of all samples one after the other.
  double decode_plainly() {
    VECDET_PLAIN(plain_ctc_greedy)
    (logits.data(), shape.steps, shape.samples, shape.classes, found.data(), found_steps.data(),
     probabilities.data(), counts.data());
    std::int64_t end = 0;
    for (index_t n = 0; n < shape.samples; ++n)
      for (std::int64_t k = 0; k < counts[static_cast<std::size_t>(n)]; ++k)
        probabilities[static_cast<std::size_t>(end++)] =
            probabilities[static_cast<std::size_t>(n * shape.steps + k)];
    std::fill(probabilities.begin() + end, probabilities.end(), 0.0f);
    return static_cast<double>(end);
  }
};

const bool registered = [] {
  for (const ctc_shape& shape :
       {ctc_shape{26, 64, 97, 12}, ctc_shape{40, 64, 6625, 20}, ctc_shape{40, 32, 18385, 20},
        ctc_shape{500, 16, 29, 120}, ctc_shape{400, 16, 1024, 60}}) {
    const auto elements = static_cast<double>(shape.size());
    const auto prepare = [=] { return current_data<ctc_operands>(shape.name(), shape); };
    register_with_plain(
        "ctc_loss_and_grad/f32/" + shape.name(), {elements, elements * 8}, prepare,
        [](ctc_operands& d, threading policy) { return d.run(policy); },
        [](ctc_operands& d) {
          return VECDET_PLAIN(plain_ctc_loss)(d.logits.data(), d.targets.data(), d.shape.steps,
                                              d.shape.samples, d.shape.classes, d.shape.labels,
                                              d.grad.data());
        },
        &ctc_operands::grad);
    register_with_plain(
        "ctc_greedy/f32/" + shape.name(), {elements, elements * 4}, prepare,
        [](ctc_operands& d, threading policy) { return d.decode(policy); },
        [](ctc_operands& d) { return d.decode_plainly(); }, &ctc_operands::probabilities);
  }
  show_in_figures("ctc_loss_and_grad/f32/26x64x97x12");
  show_in_figures("ctc_greedy/f32/40x64x6625x20");
  show_in_figures("ctc_loss_and_grad/f32/500x16x29x120");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
