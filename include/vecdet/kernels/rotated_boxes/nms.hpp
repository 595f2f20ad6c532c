// SPDX-License-Identifier: Apache-2.0
// NMS of rotated boxes by their exact IoU or their ProbIoU: sub-quadratic and exact. By the exact
// IoU, kept boxes suppress; by ProbIoU, all boxes do, also suppressed ones.
//
// Boxes are sorted by area and place and packed by 16 into leaves. 16 leaves are packed into a node
// with the bounds of each, and so on (Leutenegger, Lopez, Edgington: "STR: a simple and efficient
// algorithm for R-tree packing", ICDE 1997). A box that suppresses walks down from the top. In the
// leaves that it reaches, a bound on the overlap excludes most boxes. The others are gathered, and
// 16 exact IoUs are computed at once. ProbIoUs cost less than gathering: they are computed for all
// boxes of a leaf, unless the bound excludes all.
#pragma once

#include <vecdet/args/nms.hpp>
#include <vecdet/kernels/radix_sort.hpp>
#include <vecdet/kernels/rotated_boxes/nms_overlaps.hpp>
#include <vecdet/kernels/score_key.hpp>

namespace vecdet {
namespace VECDET_TARGET {

using detail::nms_record;
using std::uint16_t;

constexpr index_t sixteens(index_t count) { return (count + 15) / 16; }

/// The bounds of 16 leaves or nodes: of each interval, the least low and the greatest high end.
template <class Real, int Count>
struct alignas(64) rotated_node {
  Real low[Count][16], high[Count][16];
};

/// Divides the caller's scratch memory for the NMS of one group.
template <class Real, class Tile, int Intervals>
struct rotated_nms_memory {
  static constexpr int max_levels = 8;  // 16^8 boxes
  static constexpr uint32_t no_place = 0xffffffffu;

  Tile* leaves;
  uint16_t* leaf_live;           ///< bit i: box i of the leaf is neither kept nor suppressed
  uint32_t* place;               ///< of each rank: its place in the leaves, or none
  nms_record *by_place, *spare;  ///< the lower half is the rank
  uint32_t *hits, *more_hits, *candidates;
  rotated_node<Real, Intervals>* nodes[max_levels];  ///< nodes[0] bounds the leaves
  uint16_t* node_live[max_levels];
  index_t bytes;

  /// Without scratch memory, sets only `bytes`.
  rotated_nms_memory(void* scratch, index_t count) {
    char* const base = static_cast<char*>(scratch);
    bytes = 0;
    const auto carve = [&](auto*& pointer, index_t size) {
      using element = std::remove_reference_t<decltype(*pointer)>;
      pointer = base != nullptr ? reinterpret_cast<element*>(base + bytes) : nullptr;
      bytes += (size * static_cast<index_t>(sizeof(element)) + 63) / 64 * 64;
    };
    const index_t leaf_count = sixteens(count);
    carve(leaves, leaf_count);
    carve(leaf_live, leaf_count);
    carve(place, count);
    carve(by_place, 16 * leaf_count);
    carve(spare, 16 * leaf_count);
    carve(hits, leaf_count + 16);
    carve(more_hits, leaf_count + 16);
    carve(candidates, 16 * leaf_count + 16);
    index_t level_size = leaf_count;
    for (int k = 0; k < max_levels; ++k) {
      level_size = sixteens(level_size);
      carve(nodes[k], level_size);
      carve(node_live[k], level_size);
      if (level_size <= 1) break;
    }
  }
};

template <class T, class Overlap>
class rotated_nms_group {
  using real = row_pack<T>;
  using tile = typename Overlap::template tile<T>;
  static constexpr int batches = real::batches, interval_count = Overlap::interval_count;
  using intervals = rotated_intervals<T, interval_count>;
  using node_type = rotated_node<T, interval_count>;

 public:
  rotated_nms_group(const rotated_nms_args<T>& args, const nms_record* order, index_t count,
                    void* scratch)
      : args_(args), order_(order), count_(count), memory_(scratch, count), overlap_(args) {
    least_overlap_ = static_cast<T>(args.least_overlap);
    build();
  }

  /// Writes the kept records and returns their number.
  index_t run(nms_record* kept) {
    index_t kept_count = 0;
    for (index_t i = 0; i < count_ && kept_count < args_.max_kept; ++i) {
      const uint32_t place = memory_.place[i];
      if (place == memory_.no_place) {
        kept[kept_count++] = order_[i];
        continue;
      }
      const index_t leaf = place / 16, lane = place % 16;
      if ((memory_.leaf_live[leaf] >> lane & 1) != 0) {
        kept[kept_count++] = order_[i];
        take_out(leaf, 1u << lane);
      } else if (Overlap::only_kept_suppress) {
        continue;
      }
      if (live_ > 0) suppress(memory_.leaves[leaf], static_cast<int>(lane));
    }
    return kept_count;
  }

 private:
  /// Boxes of few leaves are not sorted by area. Measured on clustered boxes.
  static constexpr index_t least_sorted_by_area = 256, area_slabs = 4;

  const T* box_of(uint32_t rank) const {
    return args_.boxes + static_cast<index_t>(detail::index_of(order_[rank])) * args_.stride;
  }

  bool takes_part(const T* box) const {
    const double w = static_cast<double>(box[2]), h = static_cast<double>(box[3]);
    const double most = double{largest<T>};
    const double x = static_cast<double>(box[0]), y = static_cast<double>(box[1]);
    const double angle = static_cast<double>(box[4]);
    const auto within = [](double v, double limit) { return v >= -limit && v <= limit; };
    return overlap_.takes_part(w, h) && within(x, most) && within(y, most) && within(w, most) &&
           within(h, most) && within(angle, greatest_angle);
  }

  /// Sorts the boxes into leaves and fills these.
  void build() {
    nms_record* const order = memory_.by_place;
    index_t count = 0;
    for (index_t i = 0; i < count_; ++i) {
      memory_.place[i] = memory_.no_place;
      order[count] = static_cast<uint64_t>(i);
      count += takes_part(box_of(static_cast<uint32_t>(i)));
    }
    leaves_ = sixteens(count);
    if (overlap_.bounds_areas() && leaves_ >= least_sorted_by_area) {
      sort(0, count, [](const T* box) { return box[2] * box[3]; });
      const index_t size = 16 * sixteens((count + area_slabs - 1) / area_slabs);
      for (index_t first = 0; first < count; first += size)
        sort_by_place(first, count - first < size ? count - first : size);
    } else {
      sort_by_place(0, count);
    }
    is_extreme_ = false;
    live_ = count;
    for (index_t leaf = 0; leaf < leaves_; ++leaf) {
      const index_t first = 16 * leaf;
      const int size = static_cast<int>(count - first < 16 ? count - first : index_t{16});
      for (int k = size; k < 16; ++k) order[first + k] = order[count - 1];
      for (int k = 0; k < size; ++k)
        memory_.place[detail::index_of(order[first + k])] = static_cast<uint32_t>(first + k);
      const auto rows = [&](int k) { return box_of(detail::index_of(order[first + k])); };
      memory_.leaves[leaf].template fill<T>(rows, 16, args_.angles);
      overlap_.look_at(memory_.leaves[leaf]);
      is_extreme_ = is_extreme_ || memory_.leaves[leaf].has_extreme;
      memory_.leaf_live[leaf] = static_cast<uint16_t>((1u << size) - 1);
    }
    bound();
  }

  /// Sorts `count` boxes from place `first` on by a number, which need not be exact.
  template <class Number>
  void sort(index_t first, index_t count, const Number& number) {
    nms_record* const order = memory_.by_place + first;
    for (index_t i = 0; i < count; ++i) {
      const uint32_t rank = detail::index_of(order[i]);
      order[i] = record_of(static_cast<float>(number(box_of(rank))), rank);
    }
    radix_sort(order, memory_.spare, count);
  }

  /// Sorts boxes by x, and each strip of about as many leaves as there are strips by y.
  void sort_by_place(index_t first, index_t count) {
    const index_t leaves = sixteens(count);
    index_t strips = 1;
    while (strips * strips < leaves) ++strips;
    if (strips == 1) return;
    sort(first, count, [](const T* box) { return box[0]; });
    const index_t size = 16 * sixteens(sixteens(count + strips - 1) * 16 / strips);
    for (index_t begin = 0; begin < count; begin += size)
      sort(first + begin, count - begin < size ? count - begin : size,
           [](const T* box) { return box[1]; });
  }

  /// Sets the bounds of all nodes.
  void bound() {
    for (index_t leaf = 0; leaf < leaves_; ++leaf) {
      tile& boxes = memory_.leaves[leaf];
      overlap_.prepare(boxes);
      const intervals own = overlap_.intervals_of(
          boxes, [](const T* numbers) VECDET_INLINE_LAMBDA { return load_pack<batches>(numbers); });
      node_type ends;
      for (int k = 0; k < interval_count; ++k) {
        store_pack<batches>(ends.low[k], own.low[k]);
        store_pack<batches>(ends.high[k], own.high[k]);
      }
      set_bounds(memory_.nodes[0][leaf / 16], static_cast<int>(leaf % 16), ends);
    }
    levels_ = 0, top_nodes_ = 0;
    if (leaves_ == 0) return;
    index_t children = leaves_;
    for (int level = 0;; ++level) {
      const index_t nodes = sixteens(children);
      levels_ = level + 1, top_nodes_ = nodes;
      for (index_t n = 0; n < nodes; ++n) {
        const int used = static_cast<int>(children - 16 * n < 16 ? children - 16 * n : index_t{16});
        memory_.node_live[level][n] = static_cast<uint16_t>((1u << used) - 1);
        node_type& node = memory_.nodes[level][n];
        for (int i = used; i < 16; ++i)
          for (int k = 0; k < interval_count; ++k)
            node.low[k][i] = node.low[k][0], node.high[k][i] = node.high[k][0];
        if (nodes == 1) return;
        set_bounds(memory_.nodes[level + 1][n / 16], static_cast<int>(n % 16), node);
      }
      children = nodes;
    }
  }

  /// Sets the bounds of child i.
  static void set_bounds(node_type& parent, int i, const node_type& child) {
    for (int k = 0; k < interval_count; ++k) {
      parent.low[k][i] = least16(child.low[k]);
      parent.high[k][i] = greatest16(child.high[k]);
    }
  }

  /// Removes boxes from a leaf, and then the nodes that have become empty.
  void take_out(index_t leaf, uint32_t bits) {
    live_ -= __builtin_popcount(memory_.leaf_live[leaf] & bits);
    memory_.leaf_live[leaf] = static_cast<uint16_t>(memory_.leaf_live[leaf] & ~bits);
    if (memory_.leaf_live[leaf] != 0) return;
    index_t child = leaf;
    for (int level = 0; level < levels_; ++level) {
      uint16_t& node = memory_.node_live[level][child / 16];
      node = static_cast<uint16_t>(node & ~(1u << (child % 16)));
      if (node != 0) return;
      child /= 16;
    }
  }

  /// Lists the leaves that may hold a box that box i suppresses.
  index_t leaves_in_reach(const tile& box, int i, uint32_t*& leaves) {
    const intervals own = overlap_.intervals_of(
        box, [i](const T* numbers) VECDET_INLINE_LAMBDA { return real(numbers[i]); });
    uint32_t* hits = memory_.hits;
    uint32_t* next = memory_.more_hits;
    index_t count = top_nodes_;
    for (index_t n = 0; n < top_nodes_; ++n) hits[n] = static_cast<uint32_t>(n);
    for (int level = levels_ - 1; level >= 0; --level) {
      index_t next_count = 0;
      for (index_t k = 0; k < count; ++k) {
        const uint32_t n = hits[k];
        const node_type& node = memory_.nodes[level][n];
        auto meets = load_pack<batches>(node.low[0]) <= own.high[Overlap::met_by(0)];
        meets = meets & (load_pack<batches>(node.high[0]) >= own.low[Overlap::met_by(0)]);
        VECDET_UNROLL
        for (int j = 1; j < interval_count; ++j) {
          const int met = Overlap::met_by(j);
          meets = meets & (load_pack<batches>(node.low[j]) <= own.high[met]);
          meets = meets & (load_pack<batches>(node.high[j]) >= own.low[met]);
        }
        const uint32_t bits = is_everywhere() ? 0xffff : to_bits(meets);
        next_count += write_set_bits(bits & memory_.node_live[level][n], 16 * n, next + next_count);
      }
      uint32_t* const other = hits;
      hits = next, next = other, count = next_count;
    }
    leaves = hits;
    return count;
  }

  /// With a threshold of 0 and suppress_equal, boxes that do not touch are suppressed as well.
  bool is_everywhere() const { return !(least_overlap_ > 0); }

  void suppress(const tile& box, int i) {
    uint32_t* leaves;
    const index_t leaf_count = leaves_in_reach(box, i, leaves);
    index_t count = 0;
    for (index_t k = 0; k < leaf_count; ++k) {
      const uint32_t leaf = leaves[k];
      uint32_t bits = memory_.leaf_live[leaf];
      if (!is_everywhere()) bits = overlap_.near(box, i, memory_.leaves[leaf], bits);
      if (bits == 0) continue;
      if constexpr (Overlap::is_cheap)
        suppress_in(leaf, bits, box, i);
      else
        count += write_set_bits(bits, 16 * leaf, memory_.candidates + count);
    }
    if constexpr (!Overlap::is_cheap) suppress_candidates(count, box, i);
  }

  /// Takes out those of the first `count` candidates that are suppressed.
  void suppress_candidates(index_t count, const tile& box, int i) {
    for (index_t k = 0; k < count; k += 16) {
      for (index_t j = count; j < k + 16; ++j)
        memory_.candidates[j] = memory_.candidates[count - 1];
      alignas(64) T iou[row_lanes];
      const uint32_t* const at = memory_.candidates + k;
      overlaps(box, i, at, iou);
      if (is_extreme_) extreme_overlaps(box, i, at, iou);
      for (int j = 0; j < row_lanes; ++j)
        if (iou[j] >= least_overlap_) take_out(at[j] / 16, 1u << (at[j] % 16));
    }
  }

  /// Computes the overlaps with all boxes of a leaf, which costs less than gathering some of them,
  /// and takes out those of `bits` that are suppressed.
  VECDET_INLINE void suppress_in(uint32_t leaf, uint32_t bits, const tile& box, int i) {
    alignas(64) T iou[row_lanes];
    Overlap::compute(box, i, memory_.leaves[leaf], iou);
    if (is_extreme_) {
      uint32_t at[row_lanes];
      for (uint32_t k = 0; k < row_lanes; ++k) at[k] = 16 * leaf + k;
      extreme_overlaps(box, i, at, iou);
    }
    bits &= to_bits(load_pack<batches>(iou) >= real(least_overlap_));
    if (bits != 0) take_out(leaf, bits);
  }

  /// The overlaps of a box with 16 others.
  VECDET_INLINE void overlaps(const tile& box, int i, const uint32_t* at, T* iou) const {
    tile others;
    for (int k = 0; k < row_lanes; ++k)
      others.copy_box(k, memory_.leaves[at[k] / 16], static_cast<int>(at[k] % 16));
    Overlap::compute(box, i, others, iou);
  }

  /// Replaces those with an extreme box.
  VECDET_NOINLINE void extreme_overlaps(const tile& box, int i, const uint32_t* at, T* iou) const {
    const auto row = [&](uint32_t place) {
      return box_of(detail::index_of(memory_.by_place[place]));
    };
    const auto leaf = static_cast<uint32_t>(&box - memory_.leaves);
    typename Overlap::template tile<double> one, others;
    one.template fill<T>([&](int) { return row(16 * leaf + static_cast<uint32_t>(i)); }, 16,
                         args_.angles);
    others.template fill<T>([&](int k) { return row(at[k]); }, 16, args_.angles);
    alignas(64) double exact[row_lanes];
    Overlap::compute(one, 0, others, exact);
    for (int k = 0; k < row_lanes; ++k)
      if (one.extreme[0] || others.extreme[k]) iou[k] = static_cast<T>(exact[k]);
  }

  const rotated_nms_args<T>& args_;
  const nms_record* order_;
  index_t count_;
  rotated_nms_memory<T, tile, interval_count> memory_;
  Overlap overlap_;
  T least_overlap_;
  bool is_extreme_;  ///< overlaps with some boxes are computed in double instead of float
  index_t leaves_, top_nodes_;
  index_t live_;  ///< boxes in the leaves that are neither kept nor suppressed
  int levels_;
};

template <class T, template <class> class Overlap>
index_t rotated_nms(const rotated_nms_args<T>& args, const nms_record* order, index_t count,
                    void* scratch, nms_record* kept) {
  return rotated_nms_group<T, Overlap<T>>(args, order, count, scratch).run(kept);
}

template <class T, template <class> class Overlap>
index_t rotated_nms_scratch_bytes(index_t count) {
  using tile = typename Overlap<T>::template tile<T>;
  return rotated_nms_memory<T, tile, Overlap<T>::interval_count>(nullptr, count).bytes;
}

template <class T>
index_t drop_degenerate_rotated(const rotated_nms_args<T>& args, nms_record* records,
                                index_t count) {
  index_t left = 0;
  for (index_t i = 0; i < count; ++i) {
    const T* const box =
        args.boxes + static_cast<index_t>(detail::index_of(records[i])) * args.stride;
    const double limit = double{largest<T>};
    bool is_box = box[2] > 0 && box[3] > 0;
    for (int k = 0; k < 5; ++k) {
      const double v = static_cast<double>(box[k]), most = k == 4 ? greatest_angle : limit;
      is_box = is_box && v >= -most && v <= most;
    }
    records[left] = records[i];
    left += is_box;
  }
  return left;
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
