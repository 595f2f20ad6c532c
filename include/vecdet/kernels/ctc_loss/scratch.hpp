// SPDX-License-Identifier: Apache-2.0
// The memory in which CTC's forward and backward variables of one sample are computed.
#pragma once

#include <vecdet/kernels/ctc_loss/wide_numbers.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// Consecutive wide numbers.
struct wide_array {
  double *v, *k;

  VECDET_INLINE wide_row load(index_t i) const {
    return {load_pack<double_row::batches>(v + i), load_pack<double_row::batches>(k + i)};
  }
  VECDET_INLINE void store(index_t i, const wide_row& x) const {
    store_pack<double_row::batches>(v + i, x.v);
    store_pack<double_row::batches>(k + i, x.k);
  }
  VECDET_INLINE void fill_zero(index_t size) const {
    for (index_t i = 0; i < size; ++i) v[i] = 0, k[i] = exponent_of_zero;
  }
  VECDET_INLINE void set_one(index_t i) const { v[i] = 1, k[i] = 0; }
};

/// The variables of one step, with 16 zeros before and after the lanes.
struct ctc_states {
  wide_array blanks, labels;

  VECDET_INLINE wide_row label_before(index_t s) const { return labels.load(s - 1); }
  VECDET_INLINE wide_row label_after(index_t s) const { return labels.load(s + 1); }
  VECDET_INLINE wide_row blank_after(index_t s) const { return blanks.load(s + 1); }
};

constexpr index_t steps_of_run = 8;  ///< see plain_runs.hpp

/// The scratch memory of a sample with this many lanes. The forward variables of all steps would
/// leave the cache. Only those at the beginning of each block are kept; the steps of a block are
/// computed again when the backward variables come to it.
struct ctc_scratch {
  ctc_states forward, backward;
  double* skips;                      ///< 1 or 0; skips[lanes] is 0
  double* is_class;                   ///< 1, and 0 after the classes
  double *exponents, *factors;        ///< of lanes in a run, with 16 before and after the exponents
  double* roots;                      ///< of lanes in a run: see plain_occupancies
  index_t* classes;                   ///< of the target, see set_classes()
  index_t* class_of;                  ///< the place of each label's class; of other lanes: a 0
  wide_array blanks, labels;          ///< the forward variables of a block: its steps x lanes
  wide_array potentials;              ///< likewise: those of labels
  wide_array blank_potentials;        ///< the block's steps
  wide_array old_blanks, old_labels;  ///< blocks x lanes: the variables before each block

  ctc_scratch(void* memory, index_t steps, index_t lanes) : at_(static_cast<double*>(memory)) {
    forward = states(lanes);
    backward = states(lanes);
    skips = take(lanes + row_lanes);
    is_class = take(lanes);
    exponents = take(lanes + 2 * row_lanes) + row_lanes;
    factors = take(lanes);
    roots = take(lanes);
    classes = reinterpret_cast<index_t*>(take(lanes));
    class_of = reinterpret_cast<index_t*>(take(lanes));
    const index_t block = block_of(steps, lanes);
    blanks = array(block * lanes);
    labels = array(block * lanes);
    potentials = array(block * lanes);
    blank_potentials = array(whole_rows(block));
    const index_t blocks = steps > 0 ? (steps + block - 1) / block : 0;
    old_blanks = array(blocks * lanes);
    old_labels = array(blocks * lanes);
  }
  /// The bytes that suffice for up to so many lanes. Blocks of fewer lanes have more steps.
  static index_t size(index_t steps, index_t lanes) {
    const index_t padded = lanes + 2 * row_lanes, most = steps < block_lanes ? steps : block_lanes;
    const index_t some = block_of(steps, lanes) * lanes;
    const index_t block = steps * lanes < block_lanes ? steps * lanes
                          : some < block_lanes        ? block_lanes
                                                      : some;
    const index_t blocks = steps / block_of(steps, lanes) + 1;
    return (9 * padded + 6 * lanes + row_lanes + 6 * block + 2 * whole_rows(most) +
            4 * blocks * lanes) *
           index_t{sizeof(double)};
  }
  /// The steps of a block: 200 KB of variables and potentials, at least 8 steps.
  static index_t block_of(index_t steps, index_t lanes) {
    const index_t block = lanes * 8 > block_lanes ? 8 : block_lanes / lanes;
    return steps < block ? (steps > 0 ? steps : 1) : block;
  }
  static index_t whole_rows(index_t size) { return (size + row_lanes - 1) / row_lanes * row_lanes; }

  static constexpr index_t block_lanes = 4096;
  static constexpr index_t most_runs = block_lanes / row_lanes / steps_of_run;  ///< of a block

 private:
  double* take(index_t count) {
    double* const begin = at_;
    at_ += count;
    return begin;
  }
  wide_array array(index_t size) {
    double* const v = take(size);
    return {v, take(size)};
  }
  wide_array padded(index_t lanes) {
    const wide_array whole = array(lanes + 2 * row_lanes);
    whole.fill_zero(lanes + 2 * row_lanes);
    return {whole.v + row_lanes, whole.k + row_lanes};
  }
  ctc_states states(index_t lanes) {
    const wide_array first = padded(lanes);
    return {first, padded(lanes)};
  }

  double* at_;
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
