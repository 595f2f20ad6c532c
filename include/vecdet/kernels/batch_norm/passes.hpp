// SPDX-License-Identifier: Apache-2.0
// The four passes over maps, on 16 neighbouring numbers at a time, and the loops over a piece. In
// NHWC, lanes are channels; in NCHW, locations of one channel.
#pragma once

#include <vecdet/args/batch_norm.hpp>
#include <vecdet/kernels/as_double.hpp>
#include <vecdet/kernels/batch_norm/activation.hpp>
#include <vecdet/kernels/channels.hpp>
#include <vecdet/simd/pack.hpp>

namespace vecdet {
namespace VECDET_TARGET {

/// The numbers of 16 channels, or one channel's number in all lanes.
struct channel_lanes {
  index_t first;
  bool is_same;

  template <class T>
  VECDET_INLINE row_pack<compute_type<T>> of(const T* numbers) const {
    if (is_same) return row_pack<compute_type<T>>(static_cast<compute_type<T>>(numbers[first]));
    return load_pack<row_pack<compute_type<T>>::batches>(numbers + first);
  }
};

/// Two sums in each lane, in double.
struct two_sums {
  row_pack<double> a, b;

  VECDET_INLINE void load(const double* from) {
    a = load_pack<row_pack<double>::batches>(from);
    b = load_pack<row_pack<double>::batches>(from + row_lanes);
  }
  VECDET_INLINE void store(double* to) const {
    store_pack<row_pack<double>::batches>(to, a);
    store_pack<row_pack<double>::batches>(to + row_lanes, b);
  }
};

// A pass is made for some lanes, and then called with the index of the first of 16 numbers.

/// Sums of x - k and (x - k)^2. k is one of the numbers, so the square of the mean of x - k is at
/// most the number of inputs times the variance, which bounds what the subtraction cancels.
template <class T>
struct deviation_pass {
  static constexpr bool adds_up = true;
  static constexpr bool reads_upstream = false;
  row_pack<double> k;
  two_sums sums;

  VECDET_INLINE deviation_pass(const detail::batch_norm_args<T>&, const channel_lanes&,
                               const row_pack<compute_type<T>>& first_inputs)
      : k(as_double(first_inputs)) {}
  VECDET_INLINE void operator()(const T* x, const T*, T*) {
    const row_pack<double> d = as_double(load_pack<row_pack<compute_type<T>>::batches>(x)) - k;
    sums.a = sums.a + d;
    sums.b = fma(d, d, sums.b);
  }
};

template <class T, batch_norm_activation A>
struct normalizing_pass {
  static constexpr bool adds_up = false;
  static constexpr bool reads_upstream = false;
  using args = detail::batch_norm_args<T>;
  using row = row_pack<compute_type<T>>;
  row center, scale, shift;

  VECDET_INLINE normalizing_pass(const args& a, const channel_lanes& lanes, const row&)
      : center(lanes.of(a.coefficient(args::center))),
        scale(lanes.of(a.coefficient(args::scale))),
        shift(lanes.of(a.coefficient(args::shift))) {}
  VECDET_INLINE void operator()(const T* x, const T*, T* y) const {
    const row z = fma(load_pack<row::batches>(x) - center, scale, shift);
    store_pack<row::batches>(y, activated<A>(z));
  }
};

/// Sums of g and g (x - center).
template <class T, batch_norm_activation A>
struct gradient_sum_pass {
  static constexpr bool adds_up = true;
  static constexpr bool reads_upstream = true;
  using args = detail::batch_norm_args<T>;
  using row = row_pack<compute_type<T>>;
  row center, scale, shift;
  two_sums sums;

  VECDET_INLINE gradient_sum_pass(const args& a, const channel_lanes& lanes, const row&)
      : center(lanes.of(a.coefficient(args::center))),
        scale(lanes.of(a.coefficient(args::scale))),
        shift(lanes.of(a.coefficient(args::shift))) {}
  VECDET_INLINE void operator()(const T* x, const T* upstream, T*) {
    const row d = load_pack<row::batches>(x) - center;
    const auto g =
        as_double(activation_grad<A>(load_pack<row::batches>(upstream), fma(d, scale, shift)));
    sums.a = sums.a + g;
    sums.b = fma(g, as_double(d), sums.b);
  }
};

template <class T, batch_norm_activation A>
struct gradient_pass {
  static constexpr bool adds_up = false;
  static constexpr bool reads_upstream = true;
  using args = detail::batch_norm_args<T>;
  using row = row_pack<compute_type<T>>;
  row center, scale, shift, inverse, slope, offset;

  VECDET_INLINE gradient_pass(const args& a, const channel_lanes& lanes, const row&)
      : center(lanes.of(a.coefficient(args::center))),
        scale(lanes.of(a.coefficient(args::scale))),
        shift(lanes.of(a.coefficient(args::shift))),
        inverse(lanes.of(a.coefficient(args::inverse))),
        slope(lanes.of(a.coefficient(args::slope))),
        offset(lanes.of(a.coefficient(args::offset))) {}
  VECDET_INLINE void operator()(const T* x, const T* upstream, T* grad) const {
    const row d = load_pack<row::batches>(x) - center;
    const row g = activation_grad<A>(load_pack<row::batches>(upstream), fma(d, scale, shift));
    store_pack<row::batches>(grad, fma(scale, g, fma(d * inverse, slope, offset)));
  }
};

/// Calls a pass for fewer than 16 numbers. The other lanes have `filling` as input, and an upstream
/// gradient of 0: they add 0 to a channel's sums.
template <class T, class Pass>
VECDET_INLINE void run_some(Pass& pass, const detail::batch_norm_args<T>& a, index_t at,
                            index_t size, T filling) {
  alignas(64) T x[row_lanes], upstream[row_lanes], out[row_lanes];
  for (index_t i = 0; i < row_lanes; ++i) {
    x[i] = i < size ? a.input[at + i] : filling;
    upstream[i] = i < size ? a.upstream[at + i] : T(static_cast<compute_type<T>>(0));
  }
  pass(x, upstream, out);
  if constexpr (!Pass::adds_up)
    for (index_t i = 0; i < size; ++i) a.output[at + i] = out[i];
}

/// Locations that are computed before the next channels. Sums stay in registers over them. With
/// more locations, memory would be read in a worse order: with 8, the gradient of 4x128x80x80 in
/// float with SiLU took 40 % longer on Zen 4.
template <class Pass>
constexpr index_t locations_at_once = Pass::adds_up ? 2 : 1;

/// Rows of 512 bytes or more, two at once, are an order in which processors do not fetch memory
/// early enough by themselves: with these hints, the sums of 4x512x20x20 in float took 0.2 ns per
/// number instead of 0.2 to 0.7 on Zen 4.
template <class Pass, class T>
VECDET_INLINE void fetch_next_rows(const detail::batch_norm_args<T>& a, index_t i) {
  constexpr index_t rows = locations_at_once<Pass>, least = 512 / sizeof(T);
  if constexpr (rows == 1) return;
  if (a.pieces.channels < least) return;
  __builtin_prefetch(a.input + i + rows * a.pieces.channels);
  if constexpr (Pass::reads_upstream) __builtin_prefetch(a.upstream + i + rows * a.pieces.channels);
}

/// Channels [from, from + 16) of `count` locations.
template <class Pass, class T>
VECDET_INLINE void run_strip(Pass& pass, const detail::batch_norm_args<T>& a, index_t location,
                             index_t count, index_t from) {
  const index_t channels = a.pieces.channels;
  index_t i = location * channels + from;
  const auto run = [&]() VECDET_INLINE_LAMBDA {
    fetch_next_rows<Pass>(a, i);
    pass(a.input + i, a.upstream + i, a.output + i);
    i += channels;
  };
  if (count == locations_at_once<Pass>) {
    VECDET_UNROLL
    for (index_t k = 0; k < locations_at_once<Pass>; ++k) run();
  } else {
    for (index_t k = 0; k < count; ++k) run();
  }
}

/// A piece of locations in NHWC.
template <class Pass, class T>
void run_locations(const detail::batch_norm_args<T>& a, index_t piece) {
  constexpr index_t at_once = locations_at_once<Pass>;
  constexpr int N = row_pack<compute_type<T>>::batches;
  const index_t channels = a.pieces.channels, padded = a.pieces.padded_channels();
  const index_t first = piece * a.pieces.size, end = first + a.pieces.size;
  const index_t last = end < a.pieces.all_locations() ? end : a.pieces.all_locations();
  double* const sums = Pass::adds_up ? a.sums + piece * a.pieces.sums_of_piece() : nullptr;
  if constexpr (Pass::adds_up)
    for (index_t i = 0; i < 2 * padded; ++i) sums[i] = 0;
  if (channels < row_lanes) {
    Pass pass(a, {0, false}, load_channels<N, false>(a.input, channels));
    if constexpr (Pass::adds_up) pass.sums.load(sums);
    for (index_t l = first; l < last; ++l)
      run_some(pass, a, l * channels, channels, T(static_cast<compute_type<T>>(0)));
    if constexpr (Pass::adds_up) pass.sums.store(sums);
    return;
  }
  // The last channels overlap those before.
  const index_t overlap = padded - channels;
  for (index_t l = first; l < last; l += at_once) {
    const index_t count = l + at_once < last ? at_once : last - l;
    for (index_t c = 0; c < padded; c += row_lanes) {
      const index_t from = c + row_lanes <= channels ? c : c - overlap;
      Pass pass(a, {from, false}, load_pack<N>(a.input + from));
      if constexpr (Pass::adds_up) pass.sums.load(sums + 2 * c);
      run_strip(pass, a, l, count, from);
      if constexpr (Pass::adds_up) pass.sums.store(sums + 2 * c);
    }
  }
  if constexpr (Pass::adds_up) {
    // Lanes of overlapping channels move to their places.
    for (index_t k = 0; k < 2; ++k) {
      double* const lanes = sums + 2 * (padded - row_lanes) + k * row_lanes;
      for (index_t i = 0; i < row_lanes; ++i)
        lanes[i] = i + overlap < row_lanes ? lanes[i + overlap] : 0;
    }
  }
}

/// A piece of a plane in NCHW.
template <class Pass, class T>
void run_plane(const detail::batch_norm_args<T>& a, index_t piece) {
  const index_t parts = a.pieces.pieces_of_plane(), plane = piece / parts;
  const index_t channel = plane % a.pieces.channels;
  const index_t begin = piece % parts * a.pieces.size, locations = a.pieces.locations;
  const index_t size = begin + a.pieces.size < locations ? a.pieces.size : locations - begin;
  const index_t first = plane * locations + begin, last = first + size;
  const T first_input = a.input[channel * locations];
  Pass pass(a, {channel, true},
            row_pack<compute_type<T>>(static_cast<compute_type<T>>(first_input)));
  if constexpr (Pass::adds_up) {
    pass.sums.a = row_pack<double>(0.0);
    pass.sums.b = row_pack<double>(0.0);
  }
  index_t i = first;
  for (; i + row_lanes <= last; i += row_lanes) pass(a.input + i, a.upstream + i, a.output + i);
  if (i < last) run_some(pass, a, i, last - i, first_input);
  if constexpr (Pass::adds_up) {
    alignas(64) double lanes[2 * row_lanes];
    pass.sums.store(lanes);
    for (index_t k = 0; k < 2; ++k) {
      double sum = 0;
      for (index_t lane = 0; lane < row_lanes; ++lane) sum += lanes[k * row_lanes + lane];
      a.sums[piece * 2 + k] = sum;
    }
  }
}

template <class Pass, class T>
void run_pieces(const detail::batch_norm_args<T>& a, index_t first, index_t last) {
  for (index_t piece = first; piece < last; ++piece)
    a.pieces.is_nhwc ? run_locations<Pass>(a, piece) : run_plane<Pass>(a, piece);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
