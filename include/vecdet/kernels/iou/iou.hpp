// SPDX-License-Identifier: Apache-2.0
// IoU of all pairs of two lists of boxes, and of corresponding boxes of two lists.
//
// All pairs: a tile of `b` is transposed once, together with its areas. It stays in the cache while
// the boxes of `a` pass over it, each against 16 boxes at a time.
#pragma once

#include <vecdet/kernels/box_streams.hpp>
#include <vecdet/kernels/iou/terms.hpp>
#include <vecdet/kernels/kernels_of.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::iou_args;

/// Boxes of `b` for `columns` columns of the result, and some boxes of the next tile: if the result
/// is written past the cache, a cache line that crosses the border belongs to this tile.
template <class Real>
struct iou_tile {
  static constexpr int columns = 512, capacity = columns + row_lanes;
  // Longer by a pack, which may begin at the last box.
  alignas(64) Real x1[capacity + box_group], y1[capacity + box_group], x2[capacity + box_group];
  alignas(64) Real y2[capacity + box_group], area[capacity + box_group];

  /// Loads boxes [0, size) of `from`, padded to a whole group with the last box.
  template <class T>
  VECDET_NOINLINE void fill(const T* from, int size) {
    constexpr int N = row_pack<Real>::batches;
    for (int i = 0; i < size; i += box_group) {
      box_pack<Real, N> boxes;
      if (i + box_group <= size) {
        boxes = load_boxes<N>(from + 4 * i);
      } else {
        alignas(64) T rest[4 * box_group];
        for (int k = 0; k < box_group; ++k) {
          const int box = i + k < size ? i + k : size - 1;
          __builtin_memcpy(rest + 4 * k, from + 4 * box, 4 * sizeof(T));
        }
        boxes = load_boxes<N>(rest);
      }
      store_pack<N>(x1 + i, to_box_order(boxes.x1));
      store_pack<N>(y1 + i, to_box_order(boxes.y1));
      store_pack<N>(x2 + i, to_box_order(boxes.x2));
      store_pack<N>(y2 + i, to_box_order(boxes.y2));
      store_pack<N>(area + i, to_box_order(area_of(boxes)));
    }
  }
};

/// The number of elements from `at` to the start of the next cache line. For floats, it is less
/// than a tile's spare columns.
template <class T>
VECDET_INLINE int to_next_line(const T* at) {
  return static_cast<int>((64 - reinterpret_cast<std::uintptr_t>(at) % 64) % 64 / sizeof(T));
}

/// Calls use(rule). IoU itself is so short that selecting the rule inside the loop costs time, so
/// its rule is known at compile time.
template <iou_kind Kind, class Use>
VECDET_INLINE void with_rule(empty_iou rule, const Use& use) {
  if constexpr (Kind == iou_kind::iou) {
    if (rule == empty_iou::zero) {
      use(std::integral_constant<empty_iou, empty_iou::zero>());
    } else {
      use(std::integral_constant<empty_iou, empty_iou::nan>());
    }
  } else {
    use(rule);
  }
}

/// Computes the IoU of one box with those of a tile.
template <iou_kind Kind, class Real, class Rule>
struct ious_in_tile {
  static constexpr int N = boxes_in_flight;
  static constexpr int lanes = pack<Real, N>::lanes;
  using real = pack<Real, N>;
  const iou_tile<Real>& tile;
  Rule rule;
  box_pack<Real, N> box;
  real area;

  template <class T>
  VECDET_INLINE ious_in_tile(const T* a, const iou_tile<Real>& given_tile, Rule empty)
      : tile(given_tile),
        rule(empty),
        box{real(Real(a[0])), real(Real(a[1])), real(Real(a[2])), real(Real(a[3]))},
        area(area_of(box)) {}

  /// Against a pack of boxes from box j on.
  VECDET_INLINE real operator()(int j) const {
    const box_pack<Real, N> other{load_pack<N>(tile.x1 + j), load_pack<N>(tile.y1 + j),
                                  load_pack<N>(tile.x2 + j), load_pack<N>(tile.y2 + j)};
    return iou_of<Kind>(box, area, other, load_pack<N>(tile.area + j), rule);
  }
};

/// Compares one box of `a` with boxes [j, end) of a tile; column `out` belongs to its first box.
template <iou_kind Kind, class Real, class T, class Rule>
VECDET_INLINE void store_ious(const T* a, const iou_tile<Real>& tile, int j, int end, Rule rule,
                              T* out) {
  const ious_in_tile<Kind, Real, Rule> of(a, tile, rule);
  constexpr int N = of.N, lanes = of.lanes;
  for (; j + lanes <= end; j += lanes) store_pack<N>(out + j, of(j));
  if (j < end) {
    alignas(64) T rest[lanes];
    store_pack<N>(rest, of(j));
    for (int k = 0; j + k < end; ++k) out[j + k] = rest[k];
  }
}

/// The same for boxes [first, last). On request, whole cache lines are written past the cache.
template <iou_kind Kind, class Real, class T, class Rule>
VECDET_INLINE void iou_of_tile(const T* a, const iou_tile<Real>& tile, int first, int last,
                               Rule rule, bool past_cache, T* out) {
  if constexpr (std::is_same<T, float>::value) {
    static_assert(64 / sizeof(T) <= row_lanes, "a tile holds the rest of a line");
    const int first_line = first + to_next_line(out + first);
    if (past_cache && first_line + row_lanes <= last) {
      store_ious<Kind>(a, tile, first, first_line, rule, out);
      const ious_in_tile<Kind, Real, Rule> of(a, tile, rule);
      constexpr int lanes = of.lanes;
      // Write a whole cache line at a time: if not, the processor sometimes flushes half of it.
      for (first = first_line; first + row_lanes <= last; first += row_lanes) {
        pack<Real, of.N> values[row_lanes / lanes];
        VECDET_UNROLL
        for (int k = 0; k < row_lanes / lanes; ++k) values[k] = of(first + k * lanes);
        VECDET_UNROLL
        for (int k = 0; k < row_lanes / lanes; ++k)
          store_past_cache(out + first + k * lanes, values[k].v[0]);
      }
    }
  }
  store_ious<Kind>(a, tile, first, last, rule, out);
}

template <iou_kind Kind, class T>
VECDET_NOINLINE void pairwise_of_kind(const iou_args<T>& a, index_t first_a, index_t last_a,
                                      index_t first_b, index_t last_b) {
  using real = compute_type<T>;
  iou_tile<real> tile;
  const auto at_most = [](index_t count, int most) {
    return static_cast<int>(count < most ? count : index_t{most});
  };
  for (index_t begin = first_b; begin < last_b; begin += tile.columns) {
    tile.fill(a.b + 4 * begin, at_most(a.columns - begin, tile.capacity));
    const int size = at_most(last_b - begin, tile.columns);
    for (index_t i = first_a; i < last_a; ++i) {
      T* const out = a.out + i * a.out_stride + begin;
      // A cache line written partly past the cache and partly into it costs more than all the rest.
      const bool past_cache = std::is_same<T, float>::value && a.past_cache &&
                              reinterpret_cast<std::uintptr_t>(out) % sizeof(T) == 0;
      const int first = past_cache && begin > 0 ? to_next_line(out) : 0;
      const int last =
          at_most(a.columns - begin, size + (past_cache ? to_next_line(out + size) : 0));
      with_rule<Kind>(a.rule, [&](auto rule) VECDET_INLINE_LAMBDA {
        iou_of_tile<Kind>(a.a + 4 * i, tile, first, last, rule, past_cache, out);
      });
    }
  }
}

template <class T>
void pairwise_iou(const iou_args<T>& a, index_t first_a, index_t last_a, index_t first_b,
                  index_t last_b) {
  const auto run = a.kind == iou_kind::iou    ? pairwise_of_kind<iou_kind::iou, T>
                   : a.kind == iou_kind::giou ? pairwise_of_kind<iou_kind::giou, T>
                   : a.kind == iou_kind::diou ? pairwise_of_kind<iou_kind::diou, T>
                                              : pairwise_of_kind<iou_kind::ciou, T>;
  run(a, first_a, last_a, first_b, last_b);
  if (a.past_cache) finish_stores_past_cache();
}

template <iou_kind Kind, class S>
struct elementwise_operation {
  using real = typename stored<S>::real;
  static constexpr bool adds_up = false, lanes_are_boxes = true;
  empty_iou rule;

  VECDET_INLINE void operator()(const box_streams<S>& group) const {
    constexpr int N = boxes_in_flight;
    for (int i = 0; i < box_group; i += box_pack<real, N>::count) {
      const box_streams<S> at = group.at(i);
      const auto a = load_boxes<N>(at.in), b = load_boxes<N>(at.boxes[0]);
      store_pack<N>(at.out_each,
                    each_in_box_order<S>(iou_of<Kind>(a, area_of(a), b, area_of(b), rule)));
    }
  }
};

template <iou_kind Kind, class S>
void elementwise_of_kind(const iou_args<S>& a, index_t first, index_t last) {
  run_boxes(as_operation<S>(elementwise_operation<Kind, S>{a.rule}),
            box_streams<S>{a.a, {a.b, {}}, nullptr, {}, a.out}, first, last);
}

template <class S>
void elementwise_iou(const iou_args<S>& a, index_t first, index_t last) {
  const auto run = a.kind == iou_kind::iou    ? elementwise_of_kind<iou_kind::iou, S>
                   : a.kind == iou_kind::giou ? elementwise_of_kind<iou_kind::giou, S>
                   : a.kind == iou_kind::diou ? elementwise_of_kind<iou_kind::diou, S>
                                              : elementwise_of_kind<iou_kind::ciou, S>;
  run(a, first, last);
}

template <class T>
struct kernels_of<detail::iou_kernels<T>> {
  static constexpr detail::iou_kernels<T> get() {
    detail::iou_kernels<T> kernels{};
    kernels.pairwise = pairwise_iou<T>;
    kernels.elementwise = elementwise_iou<T>;
    kernels.elementwise_separate = elementwise_iou<detail::separate<T>>;
    return kernels;
  }
};

}  // namespace VECDET_TARGET
}  // namespace vecdet

VECDET_KERNELS_OF_ALL_TYPES(iou_kernels)
