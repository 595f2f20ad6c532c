// SPDX-License-Identifier: Apache-2.0
// The four locations around each point of a query, and their weights.
#pragma once

#include <vecdet/args/deformable_attention.hpp>
#include <vecdet/simd/bits.hpp>
#include <vecdet/simd/pack.hpp>

#include <cstdint>
#include <type_traits>

namespace vecdet {
namespace VECDET_TARGET {

static_assert(detail::attention_block == row_lanes, "a block of points is a row");

/// Converts 16 numbers to double, and back to the type of the points.
template <class Real>
VECDET_INLINE row_pack<double> load_in_double(const Real* from) {
  if constexpr (std::is_same<Real, float>::value)
    return widen(load_pack<row_pack<float>::batches>(from));
  else
    return load_pack<row_pack<double>::batches>(from);
}
template <class Real>
VECDET_INLINE row_pack<Real> narrow_to(const row_pack<double>& x) {
  if constexpr (std::is_same<Real, float>::value)
    return narrow(x);
  else
    return x;
}

/// The location before each point along one axis, and the distance from it to the point.
struct attention_axis {
  row_pack<double> before, distance;

  /// A point that is outside the level by more than a location is moved to the nearest position
  /// that touches no location.
  VECDET_INLINE attention_axis(const row_pack<double>& at, const row_pack<double>& size) {
    using doubles = row_pack<double>;
    // For floats, this product and this difference are exact in double.
    const doubles position = at * size - doubles(0.5);
    const doubles bounded = min(max(position, doubles(-2.0)), size + doubles(1.0));
    // 1.5 * 2^52: doubles of this size are whole numbers.
    const doubles whole(6755399441055744.0);
    const doubles nearest = VECDET_ORDERED(VECDET_ORDERED(bounded + whole) - whole);
    before = select(nearest > bounded, nearest - doubles(1.0), nearest);
    distance = bounded - before;
  }
};

/// Calls use(i) for each point i whose bit is set, in order.
template <class Use>
VECDET_INLINE void for_each_point(const std::uint32_t points, const Use& use) {
  for (std::uint32_t left = points; left != 0; left &= left - 1) use(lowest_bit(left));
}

/// Locates 16 points x y and computes the weights of their locations. One copy of this code serves
/// all kernels: it is long, and on the baseline its packs of doubles do not fit the registers.
template <class Real>
VECDET_NOINLINE void locate_points(const detail::attention_levels& level, const Real* points,
                                   const Real* weights, detail::attention_corners<Real>& to) {
  using doubles = row_pack<double>;
  using reals = row_pack<Real>;
  constexpr int N = doubles::batches, M = reals::batches;
  alignas(64) Real x[row_lanes], y[row_lanes];
  for (int i = 0; i < row_lanes; ++i) {
    x[i] = points[2 * i];
    y[i] = points[2 * i + 1];
  }
  const doubles width = load_pack<N>(level.width), height = load_pack<N>(level.height);
  const attention_axis along_x(load_in_double(x), width);
  const attention_axis along_y(load_in_double(y), height);
  const doubles left = along_x.before, right = left + doubles(1.0);
  const doubles upper = along_y.before, lower = upper + doubles(1.0);
  const std::uint32_t in_left = to_bits((left >= doubles(0.0)) & (left < width));
  const std::uint32_t in_right = to_bits((right >= doubles(0.0)) & (right < width));
  const std::uint32_t in_upper = to_bits((upper >= doubles(0.0)) & (upper < height));
  const std::uint32_t in_lower = to_bits((lower >= doubles(0.0)) & (lower < height));
  to.inside[0] = in_upper & in_left;
  to.inside[1] = in_upper & in_right;
  to.inside[2] = in_lower & in_left;
  to.inside[3] = in_lower & in_right;
  to.any = (in_upper | in_lower) & (in_left | in_right);
  to.all = to.inside[0] & to.inside[3];
  store_pack<N>(to.location, load_pack<N>(level.origin) + (upper * width + left));

  // Both distances are computed in double, so that of a point close to a location is exact, too.
  const doubles one(1.0);
  const reals across = narrow_to<Real>(along_x.distance), down = narrow_to<Real>(along_y.distance);
  const reals back = narrow_to<Real>(one - along_x.distance);
  const reals up = narrow_to<Real>(one - along_y.distance);
  const reals weight = load_pack<M>(weights);
  const reals upper_weight = weight * up, lower_weight = weight * down;
  store_pack<M>(to.weight[0], upper_weight * back);
  store_pack<M>(to.weight[1], upper_weight * across);
  store_pack<M>(to.weight[2], lower_weight * back);
  store_pack<M>(to.weight[3], lower_weight * across);
  store_pack<M>(to.point_weight, weight);
  // A point that touches no location has gradient 0, even if its weight is NaN or infinite.
  for_each_point(~to.any & 0xffff,
                 [&](int i) VECDET_INLINE_LAMBDA { to.point_weight[i] = Real(0); });
  store_pack<M>(to.across, across);
  store_pack<M>(to.back, back);
  store_pack<M>(to.down, down);
  store_pack<M>(to.up, up);
}

/// Locates all `count` points of a query in one head.
template <class Real>
VECDET_INLINE void locate_all_points(const detail::attention_levels* levels, const Real* points,
                                     const Real* weights, index_t count,
                                     detail::attention_corners<Real>* to) {
  index_t first = 0;
  for (; first + row_lanes <= count; first += row_lanes)
    locate_points(*levels++, points + 2 * first, weights + first, *to++);
  if (first == count) return;
  alignas(64) Real last_points[2 * row_lanes] = {}, last_weights[row_lanes] = {};
  for (index_t i = 0; i < count - first; ++i) {
    last_points[2 * i] = points[2 * (first + i)];
    last_points[2 * i + 1] = points[2 * (first + i) + 1];
    last_weights[i] = weights[first + i];
  }
  locate_points(*levels, last_points, last_weights, *to);
}

/// Prefetches `count` numbers.
template <class T>
VECDET_INLINE void prefetch(const T* from, index_t count) {
#if defined(__GNUC__)
  const char* const bytes = reinterpret_cast<const char*>(from);
  for (index_t i = 0; i < count * index_t{sizeof(T)}; i += 64) __builtin_prefetch(bytes + i);
#endif
}

/// Prefetches the arguments of a query after q, before `last`, in one head. The numbers of one head
/// are not adjacent from query to query, so the hardware prefetcher does not load them.
template <class T>
VECDET_INLINE void prefetch_query(const detail::attention_args<T>& a, index_t q, index_t last,
                                  index_t head, bool upstream) {
  constexpr index_t ahead = 2;
  if (q + ahead >= last) return;
  const index_t at = (q + ahead) * a.heads + head;
  prefetch(a.points + 2 * at * a.point_count, 2 * a.point_count);
  prefetch(a.weights + at * a.point_count, a.point_count);
  if (upstream) prefetch(a.upstream + at * a.channels, a.channels);
}

/// The distance from the upper left location to that of corner 0 to 3.
VECDET_INLINE index_t corner_offset(int corner, index_t width) {
  return (corner & 1) + (corner >> 1) * width;
}

/// The number of channels that are computed together: as many rows as leave registers for the
/// weights.
template <class Real>
constexpr int attention_channels =
    std::is_same<Real, float>::value&& batch_lanes<float> > 4 ? 2 * row_lanes : row_lanes;

/// Calls use.run<batches, whether all lanes are channels>(first channel, channels).
template <class Real, class Use>
VECDET_INLINE void for_each_attention_channels(index_t channels, const Use& use) {
  constexpr int lanes = attention_channels<Real>, N = row_pack<Real>::batches;
  index_t c = 0;
  if constexpr (lanes > row_lanes)
    for (; c + lanes <= channels; c += lanes) use.template run<2 * N, true>(c, index_t{lanes});
  for (; c + row_lanes <= channels; c += row_lanes)
    use.template run<N, true>(c, index_t{row_lanes});
  if (c < channels) use.template run<N, false>(c, channels - c);
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
