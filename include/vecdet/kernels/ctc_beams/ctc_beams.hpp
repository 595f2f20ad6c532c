// SPDX-License-Identifier: Apache-2.0
// Prefix beam search of CTC: Hannun et al., arXiv 1408.2873, without a language model.
// Probabilities are logarithms.
//
// In each step, a prefix of the beam stays, by a blank or by its last class again, or grows by a
// class. It is enough to try the 2 width most probable classes: of a prefix's extensions, at most
// width survive, and at most width - 1 are in the beam already. Those in the beam look for their
// parent themselves.
#pragma once

#include <vecdet/args/ctc_beams.hpp>
#include <vecdet/kernels/ctc_beams/prefixes.hpp>
#include <vecdet/kernels/kernels_of.hpp>
#include <vecdet/kernels/long_rows.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/math.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

using detail::ctc_beams_args;

/// The logarithm of probability 0.
constexpr double log_of_zero = -1e300;

// Logarithms and exponentials of single numbers by the functions of packs. Those of the C library
// have other bits on other systems, and on Windows other bits on other threads.
inline double first_lane(const pack<double, 1>& x) {
  alignas(64) double lane[batch_lanes<double>];
  store_pack<1>(lane, x);
  return lane[0];
}
/// -log(m) for normal m in (0, 1].
inline double minus_log_of(double m) { return first_lane(minus_log(pack<double, 1>(m))); }
/// log(exp(a) + exp(b)).
inline double log_add(double a, double b) {
  const double greater = a > b ? a : b, smaller = a > b ? b : a;
  if (smaller <= log_of_zero) return greater;
  return greater + first_lane(log1p_unit(exp_minus(pack<double, 1>(greater - smaller))));
}
/// a + b, for products of probabilities.
inline double log_product(double a, double b) {
  return a <= log_of_zero || b <= log_of_zero ? log_of_zero : a + b;
}

/// The most probable path of a prefix within the beam: a list of the steps in which its classes
/// begin. The last one may have yet to be added.
struct ctc_path {
  double log;
  index_t steps;  ///< the end of the list
  bool is_longer;
};
struct ctc_path_step {
  index_t before, step;
};
inline const ctc_path& better(const ctc_path& a, const ctc_path& b) {
  return a.log >= b.log ? a : b;
}

/// A prefix in the beam.
struct ctc_beam {
  index_t prefix;
  double by_blank, by_class;  ///< of its paths that end with a blank, and with its last class
  double all;
  ctc_path blank_path, class_path;  ///< the most probable path of either kind

  const ctc_path& path() const { return better(blank_path, class_path); }
};
/// A prefix that may enter the next beam: one of this beam if `extension` is -1, otherwise one of
/// this beam followed by the class tried_[extension].
struct ctc_candidate {
  index_t beam, extension;
  double by_blank, by_class, all;
  ctc_path blank_path, class_path;
};
struct ctc_tried_class {
  index_t number;
  double logit;
};

/// The classes of a row that are tried, the most probable first; of equal ones, the lower first.
template <class T>
index_t select_classes(const T* x, index_t classes, index_t blank, index_t most,
                       ctc_tried_class* to) {
  using real = compute_type<T>;
  using row = row_pack<real>;
  index_t count = 0;
  double least = -infinity<double>();
  const auto add = [&](index_t c) {
    const double logit = static_cast<double>(static_cast<real>(x[c]));
    if (c == blank || !(logit > least)) return;
    index_t i = count < most ? count++ : most - 1;
    for (; i > 0 && to[i - 1].logit < logit; --i) to[i] = to[i - 1];
    to[i] = {c, logit};
    if (count == most) least = to[most - 1].logit;
  };
  if (most == 0) return 0;
  index_t c = 0;
  for (; c + row_lanes <= classes; c += row_lanes) {
    std::uint32_t above = to_bits(load_pack<row::batches>(x + c) > row(static_cast<real>(least)));
    for (; above != 0; above &= above - 1) add(c + lowest_bit(above));
  }
  for (; c < classes; ++c) add(c);
  return count;
}

template <class T>
class ctc_beam_search {
 public:
  ctc_beam_search(const ctc_beams_args<T>& args, void* scratch) : args_(args) {
    auto* at = static_cast<unsigned char*>(scratch);
    const auto take = [&](auto& pointer, index_t count) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(at);
      at += (count * index_t{sizeof *pointer} + 63) / 64 * 64;
    };
    take(beams_, args.width);
    take(next_, args.width);
    take(best_, args.width);
    take(tried_, tried_classes(args));
    take(is_in_beam_, args.width * tried_classes(args));
    take(path_steps_, args.steps * args.width);
    prefixes_ = ctc_prefixes(at, args.steps * args.width + 1);
  }
  static index_t scratch_size(const ctc_beams_args<T>& args) {
    const index_t each =
        2 * index_t{sizeof(ctc_beam)} + index_t{sizeof(ctc_candidate)} + tried_classes(args);
    return args.width * each + tried_classes(args) * index_t{sizeof(ctc_tried_class)} + 6 * 64 +
           args.steps * args.width * index_t{sizeof(ctc_path_step)} +
           ctc_prefixes::size(args.steps * args.width + 1);
  }

  index_t run(index_t sample, const detail::ctc_beam_texts& to) {
    beams_[0] = {prefixes_.root(), 0, log_of_zero, 0, {0, -1, false}, no_path()};
    path_step_count_ = 0;
    count_ = 1;
    prefixes_.set_place(prefixes_.root(), 0);
    const index_t steps = args_.length(sample);
    for (index_t t = 0; t < steps; ++t)
      step(args_.logits + t * args_.step_stride + sample * args_.sample_stride, t);
    const index_t texts = count_ < args_.texts ? count_ : args_.texts;
    for (index_t k = 0; k < texts; ++k) {
      const index_t length = prefixes_.write(beams_[k].prefix, to.classes + k * args_.steps);
      index_t i = beams_[k].path().steps;
      for (index_t s = length - 1; s >= 0; --s, i = path_steps_[i].before)
        to.steps[k * args_.steps + s] = path_steps_[i].step;
      to.lengths[k] = length;
      to.log_probabilities[k] = beams_[k].all;
    }
    return texts;
  }

 private:
  /// The number of classes to find: the limit if there is one, otherwise as many as can have an
  /// extension that survives.
  static index_t tried_classes(const ctc_beams_args<T>& args) {
    const index_t others = args.classes - 1;
    const index_t wanted = args.most_classes < others ? args.most_classes : 2 * args.width;
    return wanted < others ? wanted : others;
  }

  void step(const T* x, index_t t) {
    const row_divisor divisor = exponentials_of_row<T>(x, args_.classes, nullptr);
    if (detail::is_nan(divisor.sum)) {
      count_ = 0;
      return;
    }
    // Not added: a large logit would round the logarithm away.
    const double greatest = divisor.greatest, log_sum = minus_log_of(1 / divisor.sum);
    index_t tried = select_classes(x, args_.classes, args_.blank, tried_classes(args_), tried_);
    // Classes below the least probability are the last ones.
    const double least_probability =
        args_.min_probability < 0x1p-1022 ? 0x1p-1022 : args_.min_probability;  // normal
    const double least = args_.min_probability > 0 ? -minus_log_of(least_probability) : log_of_zero;
    while (tried > 0 && tried_[tried - 1].logit - greatest - log_sum < least) --tried;
    const auto log_p = [&](index_t c) {
      const double logit = static_cast<double>(static_cast<compute_type<T>>(x[c]));
      return logit > -largest<double> ? logit - greatest - log_sum : log_of_zero;
    };
    const auto place_of = [&](index_t c) {
      for (index_t i = 0; i < tried; ++i)
        if (tried_[i].number == c) return i;
      return tried;
    };
    const bool is_limited = args_.most_classes < args_.classes - 1;
    const auto log_p_if_tried = [&](index_t c, index_t place) {
      if (is_limited && place == tried) return log_of_zero;
      const double log = log_p(c);
      return log < least ? log_of_zero : log;
    };
    for (index_t i = 0; i < count_ * tried; ++i) is_in_beam_[i] = 0;
    const double log_blank = log_p(args_.blank);
    kept_ = 0;
    for (index_t k = 0; k < count_; ++k) {
      const ctc_beam& beam = beams_[k];
      const double by_blank = log_product(log_blank, beam.all);
      const ctc_path blank_path = followed(beam.path(), log_blank);
      double by_class = log_of_zero;
      ctc_path class_path = no_path();
      if (beam.prefix != prefixes_.root()) {
        const index_t last = prefixes_.last(beam.prefix), place = place_of(last);
        const double log_last = log_p_if_tried(last, place);
        by_class = log_product(log_last, beam.by_class);
        class_path = followed(beam.class_path, log_last);
        const index_t parent = prefixes_.place(prefixes_.parent(beam.prefix));
        if (parent >= 0) {
          by_class = log_add(by_class, log_product(log_last, before(parent, last)));
          class_path = better(class_path, extended(parent, last, log_last));
          if (place < tried) is_in_beam_[parent * tried + place] = 1;
        }
      }
      keep({k, -1, by_blank, by_class, log_add(by_blank, by_class), blank_path, class_path});
    }
    for (index_t k = 0; k < count_; ++k)
      for (index_t i = 0; i < tried; ++i) {
        const double log_class = tried_[i].logit - greatest - log_sum;
        if (kept_ == args_.width && log_product(log_class, beams_[k].all) <= best_[kept_ - 1].all)
          break;  // nor are the following classes
        if (is_in_beam_[k * tried + i] != 0) continue;
        const double all = log_product(log_class, before(k, tried_[i].number));
        keep({k, i, log_of_zero, all, all, no_path(), extended(k, tried_[i].number, log_class)});
      }
    for (index_t k = 0; k < count_; ++k) prefixes_.set_place(beams_[k].prefix, -1);
    for (index_t k = 0; k < kept_; ++k) {
      const ctc_candidate& best = best_[k];
      const index_t prefix = beams_[best.beam].prefix;
      ctc_path class_path = best.class_path;
      if (class_path.is_longer) {
        path_steps_[path_step_count_] = {class_path.steps, t};
        class_path = {class_path.log, path_step_count_++, false};
      }
      next_[k] = {
          best.extension < 0 ? prefix : prefixes_.child(prefix, tried_[best.extension].number),
          best.by_blank,
          best.by_class,
          best.all,
          best.blank_path,
          class_path};
    }
    for (index_t k = 0; k < kept_; ++k) prefixes_.set_place(next_[k].prefix, k);
    ctc_beam* const old = beams_;
    beams_ = next_;
    next_ = old;
    count_ = kept_;
  }

  /// The paths of a beam that a class may follow: after the same class, only those with a blank.
  double before(index_t beam, index_t next) const {
    const index_t prefix = beams_[beam].prefix;
    const bool repeats = prefix != prefixes_.root() && prefixes_.last(prefix) == next;
    return repeats ? beams_[beam].by_blank : beams_[beam].all;
  }

  static ctc_path no_path() { return {log_of_zero, -1, false}; }
  /// A path with one more step.
  static ctc_path followed(const ctc_path& path, double log) {
    return {log_product(path.log, log), path.steps, false};
  }
  /// The most probable path of a beam with one more class.
  ctc_path extended(index_t beam, index_t next, double log) const {
    const index_t prefix = beams_[beam].prefix;
    const bool repeats = prefix != prefixes_.root() && prefixes_.last(prefix) == next;
    const ctc_path& path = repeats ? beams_[beam].blank_path : beams_[beam].path();
    return {log_product(path.log, log), path.steps, true};
  }

  /// Inserts a candidate into the best ones, after those of the same probability.
  void keep(const ctc_candidate& candidate) {
    if (candidate.all <= log_of_zero) return;
    if (kept_ == args_.width && candidate.all <= best_[kept_ - 1].all) return;
    index_t i = kept_ < args_.width ? kept_++ : kept_ - 1;
    for (; i > 0 && best_[i - 1].all < candidate.all; --i) best_[i] = best_[i - 1];
    best_[i] = candidate;
  }

  const ctc_beams_args<T>& args_;
  ctc_beam *beams_ = nullptr, *next_ = nullptr;
  ctc_candidate* best_ = nullptr;
  ctc_tried_class* tried_ = nullptr;
  std::uint8_t* is_in_beam_ = nullptr;  ///< of each beam and tried class: whether the extension is
  ctc_prefixes prefixes_;
  ctc_path_step* path_steps_ = nullptr;
  index_t count_ = 0, kept_ = 0, path_step_count_ = 0;
};

template <class T>
index_t ctc_beams_of_sample(const ctc_beams_args<T>& args, index_t sample,
                            const detail::ctc_beam_texts& to, void* scratch) {
  return ctc_beam_search<T>(args, scratch).run(sample, to);
}

template <class T>
struct kernels_of<detail::ctc_beams_kernels<T>> {
  static constexpr detail::ctc_beams_kernels<T> get() {
    detail::ctc_beams_kernels<T> kernels{};
    kernels.scratch_size = ctc_beam_search<T>::scratch_size;
    kernels.search = ctc_beams_of_sample<T>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(ctc_beams_kernels)
