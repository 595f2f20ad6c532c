// SPDX-License-Identifier: Apache-2.0
// CTC's forward and backward variables, Graves et al. 2006, section 4.1, of one sample: how likely
// each step belongs to each label or to a blank.
//
// The states are a blank before each label, the labels, and a blank after the last. Lane s holds
// label s in one row and the blank before it in another. For step t, with potentials p:
//
//   forward:   u = B[s] + L[s - 1]
//              B'[s] = u p_blank    L'[s] = (L[s] + (skips[s] ? u : B[s])) p[s]
//   backward, of b times the potentials of the next step:
//              B'[s] = w[s] = B[s] + L[s]
//              L'[s] = L[s] + (skips[s + 1] ? w[s + 1] : B[s + 1])
//
// skips[s]: label s differs from label s - 1, so that no blank is needed between them. Potentials
// are exp(x - offset), where the offset of a step is its largest logit of the labels and the blank.
// No other logit is read: the divisor of a step's softmax is the same for all paths. Lanes that no
// path can be in, because it has not come so far or cannot end in time, are not computed.
//
// Numbers are wide, except in runs of steps (plain_runs.hpp) that plain doubles suffice for. Both
// have the same bits.
#pragma once

#include <vecdet/args/ctc_loss.hpp>
#include <vecdet/kernels/ctc_loss/plain_runs.hpp>
#include <vecdet/kernels/ctc_loss/scratch.hpp>
#include <vecdet/kernels/ctc_loss/wide_numbers.hpp>
#include <vecdet/simd/bits.hpp>

#include <cstdint>

namespace vecdet {
namespace VECDET_TARGET {

using detail::ctc_args;

template <class T>
class ctc_paths {
 public:
  ctc_paths(const ctc_args<T>& args, index_t sample, void* scratch)
      : args_(args),
        sample_(sample),
        count_(args.label_counts[sample]),
        steps_(args.input_lengths[sample]),
        lanes_(ctc_scratch::whole_rows(count_ + 1)),
        has_grad_(args.grad != nullptr),
        block_(ctc_scratch::block_of(steps_, lanes_)),
        label_(args.labels + args.first_label[sample]),
        s_(scratch, steps_, lanes_) {}

  void run() {
    if (!set_labels()) {
      args_.log_paths[sample_] = -infinity<double>();
      return;
    }
    set_classes();
    s_.forward.blanks.set_one(0);
    const index_t last = steps_ > 0 ? (steps_ - 1) / block_ * block_ : 0;
    for (index_t first = 0; first < steps_; first += block_) {
      if (has_grad_) {
        const index_t at = first / block_ * lanes_;
        copy(s_.forward.blanks, 0, s_.old_blanks, at);
        copy(s_.forward.labels, 0, s_.old_labels, at);
      }
      step_forward(first, end_of_block(first), has_grad_ && first == last);
    }
    wide_pack<1> all = at(s_.forward.blanks, count_);
    if (count_ > 0) all = all + at(s_.forward.labels, count_ - 1);
    all = normalized(all.v, all.k);
    alignas(64) double sum[batch_lanes<double>], exponent[batch_lanes<double>];
    store_pack<1>(sum, all.v);
    store_pack<1>(exponent, all.k);
    const bool is_valid = !has_nan();
    args_.log_paths[sample_] = !is_valid    ? not_a_number<double>()
                               : sum[0] > 0 ? wide_log(all)
                                            : -infinity<double>();
    if (!has_grad_ || !is_valid || !(sum[0] > 0) || steps_ == 0) return;
    s_.backward.blanks.set_one(count_);
    for (index_t first = last; first >= 0; first -= block_) {
      const index_t end = end_of_block(first);
      if (first < last) {
        const index_t at = first / block_ * lanes_;
        copy(s_.old_blanks, at, s_.forward.blanks, 0);
        copy(s_.old_labels, at, s_.forward.labels, 0);
        step_forward(first, end, true);
      }
      for (index_t i = (end - first - 1) / steps_of_run * steps_of_run; i >= 0; i -= steps_of_run)
        run_backward(run_at(first, end, i), {1 / sum[0], exponent[0]});
    }
  }

 private:
  using real = compute_type<T>;
  static constexpr int N = double_row::batches;

  static VECDET_INLINE double_row load_double(const float* from) {
    return widen(load_pack<row_pack<float>::batches>(from));
  }
  static VECDET_INLINE double_row load_double(const double* from) { return load_pack<N>(from); }

  index_t end_of_block(index_t first) const {
    return steps_ - first < block_ ? steps_ : first + block_;
  }
  /// The run at step i of the block [first, end).
  static ctc_run run_at(index_t first, index_t end, index_t i) {
    const index_t begin = first + i;
    return {begin, end - begin < steps_of_run ? end : begin + steps_of_run, i};
  }
  void copy(const wide_array& from, index_t i, const wide_array& to, index_t k) const {
    for (index_t s = 0; s < lanes_; s += row_lanes) to.store(k + s, from.load(i + s));
  }

  /// Returns whether there are enough steps for a path.
  bool set_labels() {
    index_t least = count_;
    for (index_t s = 0; s < lanes_ + row_lanes; ++s) {
      const bool is_repeated = s > 0 && s < count_ && label_[s] == label_[s - 1];
      least += static_cast<index_t>(is_repeated);
      s_.skips[s] = s > 0 && s < count_ && !is_repeated ? 1 : 0;
    }
    return least <= steps_;
  }

  /// Each class of the target has one exponential per step if that saves rows, as for 120 letters
  /// of 29 classes; otherwise each label has one.
  void set_classes() {
    index_t* const classes = s_.classes;
    for (index_t s = 0; s < count_; ++s) {
      index_t c = 0;
      while (c < classes_ && classes[c] != label_[s]) ++c;
      if (c == classes_) classes[classes_++] = label_[s];
      s_.class_of[s] = c;
    }
    class_lanes_ = ctc_scratch::whole_rows(classes_ + 1);
    if (class_lanes_ == lanes_) {
      classes_ = count_;
      for (index_t s = 0; s < count_; ++s) classes[s] = label_[s];
    }
    for (index_t s = count_; s < lanes_; ++s) s_.class_of[s] = classes_;
    for (index_t s = 0; s < class_lanes_; ++s) s_.is_class[s] = s < classes_ ? 1 : 0;
  }

  /// The lanes that paths can have reached in step t, and from which they can still end in time.
  index_t first_lane(index_t t) const {
    const index_t s = count_ - (steps_ - t);
    return s > 0 ? s / row_lanes * row_lanes : 0;
  }
  index_t end_of_lanes(index_t t) const {
    return t + 1 < lanes_ ? ctc_scratch::whole_rows(t + 1) : lanes_;
  }

  /// Steps [first, last) of one block. What a loop writes in single numbers is read in rows only by
  /// the next loop, because processors wait for such numbers to reach the cache.
  void step_forward(index_t first, index_t last, bool is_kept) {
    for (index_t t = first; t < last; ++t) gather_logits(t, t - first);
    // The forward variables are written last: their memory has the potentials of the classes.
    const wide_array& potentials = is_expanded() ? s_.blanks : s_.potentials;
    const index_t steps = last - first;
    for (index_t i = 0; i < steps; i += steps_of_run) {
      const ctc_run run = run_at(first, last, i);
      double_row least = 0.0;
      for (index_t t = run.first; t < run.last; ++t)
        set_potentials(t, t - first, potentials, least);
      alignas(64) double lane[row_lanes];
      store_pack<N>(lane, least);
      is_plain_[i / steps_of_run] = least16(lane) >= least_difference;
    }
    for (index_t i = 0; i < steps; i += steps_of_run) run_forward(run_at(first, last, i), is_kept);
  }
  bool is_expanded() const { return class_lanes_ < lanes_; }

  /// The logits of the classes and of the blank, until the forward variables of labels take their
  /// memory.
  real* logits_of(index_t i) const { return reinterpret_cast<real*>(s_.labels.v) + i * lanes_; }

  void gather_logits(index_t t, index_t i) {
    const T* const x = args_.logits + t * args_.step_stride + sample_ * args_.sample_stride;
    real* const logits = logits_of(i);
    fetch_row(x, t);
    for (index_t c = 0; c < classes_; ++c) logits[c] = static_cast<real>(x[s_.classes[c]]);
    const real blank = static_cast<real>(x[args_.blank]);
    for (index_t c = classes_; c < class_lanes_; ++c) logits[c] = blank;
  }

  /// The offset of step t, which is step i of its block, and the potentials of its classes.
  /// @param least of the logits of a run, minus their offset
  void set_potentials(index_t t, index_t i, const wide_array& potentials, double_row& least) {
    const real* const logits = logits_of(i);
    row_pack<real> greatest = -largest<real>;
    for (index_t c = 0; c < class_lanes_; c += row_lanes)
      greatest = max(load_pack<row_pack<real>::batches>(logits + c), greatest);
    alignas(64) real lane[row_lanes];
    store_pack<row_pack<real>::batches>(lane, greatest);
    const double offset = static_cast<double>(greatest16(lane));
    args_.offsets[args_.row_number(sample_, t)] = offset;
    for (index_t c = 0; c < class_lanes_; c += row_lanes) {
      const double_row d = load_double(logits + c) - double_row(offset);
      differences_ = differences_ + d;  // NaN if a logit is NaN or +infinity
      least = min(least, d);
      const wide_row p = wide_exp(d);
      potentials.store(i * lanes_ + c, choose(load_pack<N>(s_.is_class + c), p, zero()));
      // The last lane is that of the blank, after all classes.
      if (c + row_lanes == class_lanes_) {
        alignas(64) double v[row_lanes], k[row_lanes];
        store_pack<N>(v, p.v);
        store_pack<N>(k, p.k);
        s_.blank_potentials.v[i] = v[row_lanes - 1];
        s_.blank_potentials.k[i] = k[row_lanes - 1];
      }
    }
  }

  /// The potentials of labels, or their exponents, from those of their classes.
  void expand(index_t t, const double* from, double* to) const {
    for (index_t s = first_lane(t), end = end_of_lanes(t); s < end; ++s)
      to[s] = from[s_.class_of[s]];
  }
  /// The exponents of potentials that are 0 or at least e^-19.
  void set_exponents(const ctc_run& run) const {
    for (index_t at = run.i * lanes_, end = at + (run.last - run.first) * lanes_; at < end;
         at += row_lanes) {
      const auto is_positive = load_pack<N>(s_.potentials.v + at) > double_row(0.0);
      store_pack<N>(s_.potentials.k + at,
                    select(is_positive, double_row(0.0), double_row(exponent_of_zero)));
    }
  }

  ctc_block<wide_array> wide_block() const {
    return {s_.potentials, s_.blank_potentials, s_.blanks, s_.labels};
  }
  ctc_block<plain_array> plain_block() const {
    return {{s_.potentials.v}, {s_.blank_potentials.v}, {s_.blanks.v}, {s_.labels.v}};
  }

  /// Fetches the row four steps after x, that of step t, into the cache. Processors do not foresee
  /// it if the samples' rows lie between. In a long row, few classes are read.
  VECDET_INLINE void fetch_row(const T* x, index_t t) const {
    constexpr index_t ahead = 4, longest = 128, line = 64 / index_t{sizeof(T)};
    if (t + ahead >= steps_ || args_.classes > longest) return;
    const T* const next = x + ahead * args_.step_stride;
    for (index_t c = 0; c < args_.classes; c += line) __builtin_prefetch(next + c);
  }

  void run_forward(const ctc_run& run, bool is_kept) {
    bool& is_plain = is_plain_[run.i / steps_of_run];
    const bool are_exponents_0 = is_plain;
    for (index_t t = run.first; is_expanded() && t < run.last; ++t) {
      const index_t at = (run.i + t - run.first) * lanes_;
      expand(t, s_.blanks.v + at, s_.potentials.v + at);
      if (!are_exponents_0) expand(t, s_.blanks.k + at, s_.potentials.k + at);
    }
    // Lanes of the step before are read, too.
    const index_t low = first_lane(run.first - 1), high = end_of_lanes(run.last - 1);
    is_plain = is_plain && make_plain(s_.forward, low, high, -1, s_.exponents, s_.factors);
    if (!is_plain) {
      if (are_exponents_0) set_exponents(run);
      advance(run, s_.forward, wide_block(), is_kept);
      return;
    }
    advance(run, plain_states(s_.forward, s_.factors), plain_block(), is_kept);
    make_wide(s_.forward.blanks, 0, low, high, s_.exponents);
    make_wide(s_.forward.labels, 0, low, high, s_.exponents);
    double* const kept = exponents_of(run);
    for (index_t s = low; is_kept && s < high; s += row_lanes)
      store_pack<N>(kept + s, load_pack<N>(s_.exponents + s));
  }
  /// The exponents of the forward variables that a run has kept.
  double* exponents_of(const ctc_run& run) const { return s_.blanks.k + run.i * lanes_; }

  /// From the last lanes to the first: these still read the labels of the step before.
  template <class States, class Array>
  void advance(const ctc_run& run, const States& now, const ctc_block<Array>& block, bool is_kept) {
    for (index_t t = run.first; t < run.last; ++t) {
      const index_t i = run.i + t - run.first, at = i * lanes_, first = first_lane(t);
      const auto p_blank = same_number(block.blank_potentials, i);
      for (index_t s = end_of_lanes(t) - row_lanes; s >= first; s -= row_lanes) {
        const auto blank = now.blanks.load(s), label = now.labels.load(s);
        const auto both = blank + now.label_before(s);
        const auto from = choose(load_pack<N>(s_.skips + s), both, blank);
        const auto new_blank = both * p_blank;
        const auto new_label = (label + from) * block.potentials.load(at + s);
        now.blanks.store(s, new_blank);
        now.labels.store(s, new_label);
        if (is_kept) {
          block.blanks.store(at + s, new_blank);
          block.labels.store(at + s, new_label);
        }
      }
    }
  }

  void run_backward(const ctc_run& run, const wide_occupancies& occupancies) {
    const bool was_plain = is_plain_[run.i / steps_of_run];
    // Lanes of the step after are read, too.
    const index_t low = first_lane(run.first), high = end_of_lanes(run.last);
    if (was_plain && make_plain(s_.backward, low, high, 1, s_.exponents, s_.factors)) {
      const double* const forward = exponents_of(run);
      for (index_t s = low; s < end_of_lanes(run.last - 1); s += row_lanes) {
        const double_row k = load_pack<N>(forward + s) + load_pack<N>(s_.exponents + s) -
                             double_row(occupancies.exponent);
        store_pack<N>(s_.roots + s,
                      power_of_half_step(min(max(k, double_row(-20.0)), double_row(20.0))));
      }
      retreat(run, plain_states(s_.backward, s_.factors), plain_block(),
              plain_occupancies{occupancies.factor, s_.roots});
      make_wide(s_.backward.blanks, 0, low, high, s_.exponents);
      make_wide(s_.backward.labels, 0, low, high, s_.exponents);
      return;
    }
    if (was_plain) {
      set_exponents(run);
      const index_t first = first_lane(run.first - 1), end = end_of_lanes(run.last - 1);
      for (index_t i = run.i + run.last - run.first - 1; i >= run.i; --i) {
        make_wide(s_.labels, i * lanes_, first, end, exponents_of(run));
        make_wide(s_.blanks, i * lanes_, first, end, exponents_of(run));
      }
    }
    retreat(run, s_.backward, wide_block(), occupancies);
  }

  /// From the first lanes to the last, and the occupancies.
  template <class States, class Array, class Occupancies>
  void retreat(const ctc_run& run, const States& now, const ctc_block<Array>& block,
               const Occupancies& occupancies) {
    for (index_t t = run.last - 1; t >= run.first; --t) {
      const index_t i = run.i + t - run.first, at = i * lanes_;
      const auto p_blank = same_number(block.blank_potentials, i);
      real* const to = args_.occupancies + args_.row_number(sample_, t) * args_.lanes;
      double_row in_blanks = 0.0;
      const index_t first = first_lane(t), end = end_of_lanes(t);
      for (index_t s = 0; s < first; ++s) to[s] = 0;
      for (index_t s = end; s < lanes_; ++s) to[s] = 0;
      for (index_t s = first; s < end; s += row_lanes) {
        const auto blank = now.blanks.load(s), label = now.labels.load(s);
        const auto next_blank = now.blank_after(s);
        const auto both = blank + label, next = next_blank + now.label_after(s);
        const auto new_label = label + choose(load_pack<N>(s_.skips + s + 1), next, next_blank);
        store_occupancies(to + s, occupancies.of(s, block.labels.load(at + s), new_label));
        in_blanks = in_blanks + occupancies.of(s, block.blanks.load(at + s), both);
        now.blanks.store(s, both * p_blank);
        now.labels.store(s, new_label * block.potentials.load(at + s));
      }
      alignas(64) double lane[row_lanes];
      store_pack<N>(lane, in_blanks);
      double sum = 0;
      for (const double x : lane) sum += x;
      to[count_] = static_cast<real>(sum);
    }
  }

  VECDET_INLINE void store_occupancies(real* to, const double_row& x) const {
    if constexpr (sizeof(real) == sizeof(float))
      store_pack<N / 2>(to, narrow(x));
    else
      store_pack<N>(to, x);
  }

  static VECDET_INLINE wide_row zero() { return {double_row(0.0), double_row(exponent_of_zero)}; }
  static VECDET_INLINE wide_pack<1> at(const wide_array& array, index_t i) {
    return {pack<double, 1>(array.v[i]), pack<double, 1>(array.k[i])};
  }
  bool has_nan() const {
    alignas(64) double lane[row_lanes];
    store_pack<N>(lane, differences_);
    double sum = 0;
    for (const double d : lane) sum += d;
    return detail::is_nan(sum);
  }

  const ctc_args<T>& args_;
  index_t sample_, count_, steps_, lanes_;
  index_t classes_ = 0, class_lanes_ = 0;
  bool has_grad_;
  index_t block_;
  const index_t* label_;
  ctc_scratch s_;
  double_row differences_ = 0.0;
  bool is_plain_[ctc_scratch::most_runs];  ///< of the runs of a block
};

}  // namespace VECDET_TARGET
}  // namespace vecdet
