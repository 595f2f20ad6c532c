// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: what the functions and their kernels agree on. A group of boxes that may
// suppress each other is processed by `begin` and, if work is left, by `build_index` and `finish`.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/soft_nms_method.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// A box to be sorted: the sort key in the upper half, the index in the lower half. Ascending keys
/// are descending scores.
using nms_record = std::uint64_t;

VECDET_INLINE constexpr std::uint32_t index_of(nms_record record) {
  return static_cast<std::uint32_t>(record);
}

/// Boxes of the stored type T, and the definition of overlap.
template <class T>
struct nms_args {
  const T* boxes;
  nms_format format;
  nms_overlap overlap;
  bool plus_one;
  /// A box is suppressed if its overlap, in the compute type, is at least this. It represents both
  /// kinds of threshold and both comparisons.
  double least_overlap;
  index_t max_kept;
};

/// The progress of NMS in a list of boxes.
struct nms_progress {
  index_t slots;  ///< boxes in the list
  index_t left;   ///< number of undecided boxes: neither kept nor suppressed
  index_t block;  ///< the first block that may contain an undecided box
};

/// The state of NMS of one group between `begin`, `build_index` and `finish`.
struct nms_state {
  const nms_record* order;  ///< by descending score
  index_t count;
  nms_record* kept;  ///< memory for `count` records
  void* scratch;
  index_t kept_count;
  nms_progress regular;       ///< boxes for which the fast tests are valid
  nms_progress exceptional;   ///< all other boxes
  index_t exceptional_begin;  ///< the first block of the exceptional boxes
  index_t leaves;             ///< number of leaves of the index
  index_t in_leaves;          ///< undecided boxes in the leaves
  index_t top_nodes;          ///< number of nodes on the highest level
  bool done;                  ///< whether no work is left for the index
  int levels;                 ///< number of levels of nodes above the leaves
};

/// Soft-NMS of one group. Its records are in ascending order of index and have no NaN scores.
template <class T>
struct soft_nms_args {
  const T* boxes;
  const T* scores;
  soft_nms_method method;
  double iou_threshold, sigma, score_floor;
  bool plus_one;
  const nms_record* records;
  index_t count;
  void* scratch;
  compute_type<T>* rescored;  ///< one per box: its score when it is picked
  nms_record* kept;           ///< the boxes in the order of picking
};

/// Merging of one group, or its NMS by intersection over the smaller area. Ranks are indices into
/// `order`.
template <class T>
struct merge_args {
  nms_args<T> boxes;        ///< without plus_one
  bool is_transitive;       ///< merged boxes claim others, too
  const nms_record* order;  ///< by descending score
  /// Per rank, the first rank of equal score. A transitive merge does not claim a box of equal
  /// score, unless it is identical. Null: all scores differ.
  const std::uint32_t* first_tie;
  index_t count;
  void* scratch;
  std::uint32_t* owner;    ///< per rank: the rank of the box that it is merged into, or its own
  std::uint32_t* claimer;  ///< per rank: the rank of the box that claimed it, or its own
};

template <class T>
struct nms_kernels {
  /// Writes the records of the scores [first, last) above the threshold, in index order, and
  /// returns their number.
  index_t (*select)(const T* scores, index_t first, index_t last, double score_threshold,
                    bool drop_nan, nms_record* records);
  /// Drops the records of boxes with NaN or without area. Returns how many are left.
  index_t (*drop_degenerate)(const nms_args<T>&, nms_record* records, index_t count);
  /// Sorts records, which are in index order, by score. The sort is stable. `spare` has memory for
  /// `count` records.
  void (*sort)(const T* scores, nms_record* records, nms_record* spare, index_t count);
  /// The same for records in any order; ties are broken by lower index.
  void (*sort_any)(const T* scores, nms_record* records, nms_record* spare, index_t count);
  void (*sort_by_index)(nms_record* records, nms_record* spare, index_t count);

  index_t (*scratch_bytes)(index_t count);  ///< per group; aligned to 64 bytes
  void (*begin)(const nms_args<T>&, nms_state&);
  void (*build_index)(const nms_args<T>&, nms_state&);
  void (*finish)(const nms_args<T>&, nms_state&);

  index_t (*merge_scratch_bytes)(index_t count);  ///< per group; aligned to 64 bytes
  void (*merge)(const merge_args<T>&);

  index_t (*soft)(const soft_nms_args<T>&);  ///< returns how many are picked
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
