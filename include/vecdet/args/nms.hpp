// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: what the functions and their kernels agree on. One group of boxes that
// may suppress each other goes through `begin`, and where that leaves work through `build_index`
// and `finish`.
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

/// A box in an order: its sort key in the upper half, its index in the lower. Ascending keys are
/// descending scores.
using nms_record = std::uint64_t;

VECDET_INLINE constexpr std::uint32_t index_of(nms_record record) {
  return static_cast<std::uint32_t>(record);
}

/// Boxes, T being the stored type, and what their overlaps mean.
template <class T>
struct nms_args {
  const T* boxes;
  nms_format format;
  nms_overlap overlap;
  bool plus_one;
  /// Suppressed where the overlap, in the type of computation, is this or more: both thresholds and
  /// both comparisons come down to it.
  double least_overlap;
  index_t max_kept;
};

/// How far NMS has come in a list of boxes.
struct nms_progress {
  index_t slots;  ///< boxes in the list
  index_t left;   ///< how many of them are neither kept nor suppressed
  index_t block;  ///< the first block that may hold one of those
};

/// The state of NMS of one group between `begin`, `build_index` and `finish`.
struct nms_state {
  const nms_record* order;  ///< by descending score
  index_t count;
  nms_record* kept;  ///< of `count` records
  void* scratch;
  index_t kept_count;
  nms_progress regular;       ///< boxes that the fast tests are for
  nms_progress exceptional;   ///< all other boxes
  index_t exceptional_begin;  ///< the first block of the exceptional boxes
  index_t leaves;             ///< of the index
  index_t in_leaves;          ///< boxes in the leaves that are neither kept nor suppressed
  index_t top_nodes;          ///< nodes of the highest level
  bool done;                  ///< whether nothing is left for the index
  int levels;                 ///< of nodes above the leaves
};

/// Soft-NMS of one group, by records in ascending index without NaN scores.
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
  compute_type<T>* rescored;  ///< one a box: the scores that boxes have when they are picked
  nms_record* kept;           ///< the boxes in the order of picking
};

/// Merging of one group, or its NMS by intersection over the smaller area. Ranks are places in
/// `order`.
template <class T>
struct merge_args {
  nms_args<T> boxes;        ///< without plus_one
  bool is_transitive;       ///< merged boxes claim others, too
  const nms_record* order;  ///< by descending score
  /// Of each rank the first one of equal score; a transitive merge claims no other box of the same
  /// score, unless it is the same box. Null: all scores differ.
  const std::uint32_t* first_tie;
  index_t count;
  void* scratch;
  std::uint32_t* owner;    ///< of each rank: the rank of the box that it is merged into, or its own
  std::uint32_t* claimer;  ///< of each rank: the rank of the box that matched it, or its own
};

template <class T>
struct nms_kernels {
  /// Writes the records of the scores [first, last) that pass, in the order of their indices, and
  /// returns their number.
  index_t (*select)(const T* scores, index_t first, index_t last, double score_threshold,
                    bool drop_nan, nms_record* records);
  /// Drops the records of boxes with NaN or without area; returns how many are left.
  index_t (*drop_degenerate)(const nms_args<T>&, nms_record* records, index_t count);
  /// Sorts records, which ascend by index, by score; equal scores stay in order. `spare` holds
  /// `count`.
  void (*sort)(const T* scores, nms_record* records, nms_record* spare, index_t count);
  /// The same of records in any order; equal scores by index.
  void (*sort_any)(const T* scores, nms_record* records, nms_record* spare, index_t count);
  void (*sort_by_index)(nms_record* records, nms_record* spare, index_t count);

  index_t (*scratch_bytes)(index_t count);  ///< of a group; aligned to 64
  void (*begin)(const nms_args<T>&, nms_state&);
  void (*build_index)(const nms_args<T>&, nms_state&);
  void (*finish)(const nms_args<T>&, nms_state&);

  index_t (*merge_scratch_bytes)(index_t count);  ///< of a group; aligned to 64
  void (*merge)(const merge_args<T>&);

  index_t (*soft)(const soft_nms_args<T>&);  ///< returns how many are picked
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
