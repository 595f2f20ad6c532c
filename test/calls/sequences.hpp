// SPDX-License-Identifier: Apache-2.0
// The operands of CTC's loss and decoding. Shapes begin with steps x samples x classes.
#pragma once

#include "catalogue.hpp"
#include <vecdet/sequences_view.hpp>

#include <vector>

namespace vecdet::test {

template <class T>
struct sequence_operands {
  index_t steps, samples, classes;
  placed<index_t> input_lengths;
  placed_matrix<T> logits;

  static std::vector<shape> sweep(index_t length) { return {{5, 2, 1 + length}, {length, 3, 6}}; }
  static shape sized(index_t rows) { return {25, rows / 1000 + 4, 40}; }

  /// @param are_whole whether each sample has all steps; otherwise, some have fewer, at least half
  sequence_operands(operands& make, const problem& p, bool are_whole = false)
      : steps(p.shape[0]),
        samples(p.shape[1]),
        classes(p.shape[2]),
        input_lengths(make.copy(all_input_lengths(p, are_whole))),
        logits(make.matrix<T>(steps * samples, classes, -6, 6)) {}

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
};

}  // namespace vecdet::test
