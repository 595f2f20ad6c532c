// SPDX-License-Identifier: Apache-2.0
// What a dense detector does first with its logits: those whose score is above a threshold, and of
// them the best k.
//
//   score = 1 / (1 + exp(-x)) > s      x > log(s / (1 - s))
//
// The comparison is made on logits, so that no sigmoid is computed over the tensor: one read of it,
// no write. Probabilities, such as those of exported models, are searched the same way. Order is by
// descending logit, equal logits by lower element; NaN never passes. The result is the same for any
// number of threads.
//
// Logits are rows x cols of float or bfloat16, with any row stride and any number of elements, or a
// head's levels as they lie in memory. Throws std::invalid_argument where the threshold is outside
// [0, 1] or k is negative.
#pragma once

#include <vecdet/head_levels.hpp>
#include <vecdet/impl/filter_topk_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// What the numbers are that filter_topk searches.
enum class score_kind {
  logits,        ///< compared with logit_of(score_threshold)
  probabilities  ///< compared with score_threshold itself
};

/// Memory that filter_topk works in: it grows to what the largest call needs, some 32 bytes for
/// each of 2 k + 4096 candidates a thread, and is reused from then on. One call at a time.
class filter_topk_workspace {
  friend detail::workspace_access;
  detail::filter_topk_buffers buffers_;
};

/// The best logits, descending, and the elements they are: row * cols + column. The memory is the
/// workspace's, until its next use.
struct filter_topk_result {
  vector_view<const float> logits;
  vector_view<const index_t> elements;
};

/// The same of each level of each image: those of level l in image n are [offsets[n * levels + l],
/// offsets[n * levels + l + 1]), the best first, and their elements anchor * classes + class, the
/// anchor's number being that among all of an image's, as head_levels.hpp has them.
struct filter_topk_levels_result {
  vector_view<const float> logits;
  vector_view<const index_t> elements;
  vector_view<const index_t> offsets;
};

/// log(score / (1 - score)): the logit of a score; -inf at 0, +inf at 1.
double logit_of(double score);

/// The best k of the logits whose score is above `score_threshold`; or of probabilities, which the
/// result then has as its logits.
template <class T>
filter_topk_result filter_topk(matrix_view<T> logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace,
                               execution policy = execution::parallel,
                               score_kind kind = score_kind::logits);

/// The best k of each level in each image, in either layout: in NCHW, too, equal logits go by lower
/// element.
template <class T>
filter_topk_levels_result filter_topk(const head_view<T>& logits, double score_threshold, index_t k,
                                      filter_topk_workspace& workspace,
                                      execution policy = execution::parallel,
                                      score_kind kind = score_kind::logits);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/filter_topk.hpp>
