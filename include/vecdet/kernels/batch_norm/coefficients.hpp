// SPDX-License-Identifier: Apache-2.0
// Statistics, coefficients and the parameters' gradients of 16 channels at a time, in double, from
// the sums of all pieces. Sums are added in the order of the pieces.
#pragma once

#include <vecdet/args/batch_norm.hpp>
#include <vecdet/kernels/batch_norm/passes.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using channel_doubles = row_pack<double>;

/// 16 numbers, `size` of which exist; the others are `otherwise`.
template <class T>
VECDET_INLINE channel_doubles load_doubles(const T* from, index_t size, double otherwise) {
  alignas(64) double lane[row_lanes];
  for (index_t i = 0; i < row_lanes; ++i)
    lane[i] = i < size ? static_cast<double>(from[i]) : otherwise;
  return load_pack<channel_doubles::batches>(lane);
}
template <class T>
VECDET_INLINE void store_doubles(T* to, const channel_doubles& x, index_t size) {
  alignas(64) double lane[row_lanes];
  store_pack<channel_doubles::batches>(lane, x);
  for (index_t i = 0; i < row_lanes && i < size; ++i) to[i] = static_cast<T>(lane[i]);
}

/// Channels [first, first + 16), as far as they exist.
template <class T>
class channels_at {
 public:
  using args = detail::batch_norm_args<T>;
  using real = compute_type<T>;

  VECDET_INLINE channels_at(const args& of, index_t first_channel)
      : a(of), first(first_channel), size(of.pieces.channels - first_channel) {}

  VECDET_INLINE two_sums sums() const {
    alignas(64) double sum[2 * row_lanes] = {};
    const detail::batch_norm_pieces& p = a.pieces;
    if (p.is_nhwc) {
      for (index_t piece = 0; piece < p.count; ++piece) {
        const double* const of = a.sums + piece * p.sums_of_piece() + 2 * first;
        for (int i = 0; i < 2 * row_lanes; ++i) sum[i] += of[i];
      }
    } else {
      const index_t parts = p.pieces_of_plane();
      for (index_t n = 0; n < p.images; ++n)
        for (index_t c = 0; c < row_lanes && c < size; ++c) {
          const double* const of = a.sums + (n * p.channels + first + c) * parts * 2;
          for (index_t i = 0; i < parts; ++i) {
            sum[c] += of[2 * i];
            sum[row_lanes + c] += of[2 * i + 1];
          }
        }
    }
    two_sums result;
    result.load(sum);
    return result;
  }

  /// The first input of each channel.
  VECDET_INLINE channel_doubles first_inputs() const {
    alignas(64) double lane[row_lanes];
    const index_t step = a.pieces.is_nhwc ? 1 : a.pieces.locations;
    for (index_t c = 0; c < row_lanes; ++c)
      lane[c] =
          c < size ? static_cast<double>(static_cast<real>(a.input[(first + c) * step])) : 0.0;
    return load_pack<channel_doubles::batches>(lane);
  }

  VECDET_INLINE channel_doubles weight() const { return parameter(a.weight, 1); }
  VECDET_INLINE channel_doubles bias() const { return parameter(a.bias, 0); }
  VECDET_INLINE channel_doubles mean(const double* statistics) const {
    return load_doubles(statistics + first, size, 0);
  }
  /// 1 / sqrt(variance + epsilon)
  VECDET_INLINE channel_doubles inverse_deviation(const double* statistics) const {
    const channel_doubles variance = load_doubles(statistics + a.pieces.channels + first, size, 1);
    return channel_doubles(1.0) / sqrt(variance + channel_doubles(a.epsilon));
  }
  /// The mean, rounded to the computing type.
  VECDET_INLINE channel_doubles center() const {
    return load_doubles(a.coefficient(args::center) + first, row_lanes, 0);
  }
  VECDET_INLINE void set(index_t coefficient, const channel_doubles& to) const {
    store_doubles(a.coefficient(coefficient) + first, to, row_lanes);
  }

  const args& a;
  index_t first, size;

 private:
  VECDET_INLINE channel_doubles parameter(const real* numbers, double otherwise) const {
    if (numbers == nullptr) return {otherwise};
    return load_doubles(numbers + first, size, otherwise);
  }
};

/// Calls work(channels) for 16 channels at a time.
template <class T, class Work>
VECDET_INLINE void for_each_channels(const detail::batch_norm_args<T>& a, index_t first,
                                     index_t last, const Work& work) {
  for (index_t c = first; c < last; c += row_lanes) work(channels_at<T>(a, c));
}

template <class T>
void finish_statistics(const detail::batch_norm_args<T>& a, double* statistics, index_t first,
                       index_t last) {
  const channel_doubles count(static_cast<double>(a.pieces.all_locations()));
  for_each_channels(a, first, last, [&](const channels_at<T>& at) VECDET_INLINE_LAMBDA {
    const two_sums sums = at.sums();
    const channel_doubles shifted = sums.a / count;
    channel_doubles variance = max(channel_doubles(0.0), fnma(shifted, shifted, sums.b / count));
    // NaN, unless the variance is finite: x - x is 0 or NaN.
    const channel_doubles nothing = variance - variance;
    variance = variance + nothing;
    store_doubles(statistics + at.first, at.first_inputs() + shifted + nothing, at.size);
    store_doubles(statistics + a.pieces.channels + at.first, variance, at.size);
  });
}

template <class T>
void prepare_coefficients(const detail::batch_norm_args<T>& a, const double* statistics,
                          index_t first, index_t last) {
  using args = detail::batch_norm_args<T>;
  for_each_channels(a, first, last, [&](const channels_at<T>& at) VECDET_INLINE_LAMBDA {
    const channel_doubles mean = at.mean(statistics);
    at.set(args::center, mean);
    const channel_doubles scale = at.weight() * at.inverse_deviation(statistics);
    at.set(args::scale, scale);
    // What the rounding of the mean loses is part of the shift.
    at.set(args::shift, fma(at.center() - mean, scale, at.bias()));
  });
}

template <class T>
void finish_gradients(const detail::batch_norm_args<T>& a, const double* statistics,
                      compute_type<T>* weight_grad, compute_type<T>* bias_grad, index_t first,
                      index_t last) {
  using args = detail::batch_norm_args<T>;
  const channel_doubles count(static_cast<double>(a.pieces.all_locations()));
  for_each_channels(a, first, last, [&](const channels_at<T>& at) VECDET_INLINE_LAMBDA {
    const two_sums sums = at.sums();
    const channel_doubles inverse = at.inverse_deviation(statistics);
    const channel_doubles rest = at.mean(statistics) - at.center();
    // The sum of g (x - mean).
    const channel_doubles moment = fnma(rest, sums.a, sums.b);
    if (weight_grad != nullptr) store_doubles(weight_grad + at.first, moment * inverse, at.size);
    if (bias_grad != nullptr) store_doubles(bias_grad + at.first, sums.a, at.size);
    // The gradient without that of the statistics is scale g. Their part is -scale times
    // (mean of g) + (x - mean) inverse (mean of g (x - mean) inverse).
    const channel_doubles scale = at.weight() * inverse;
    const channel_doubles slope = channel_doubles(-1.0) * scale * (moment * inverse / count);
    at.set(args::inverse, inverse);
    at.set(args::slope, slope);
    at.set(args::offset,
           channel_doubles(-1.0) * fma(rest * inverse, slope, scale * (sums.a / count)));
  });
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
