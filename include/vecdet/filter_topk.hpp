// SPDX-License-Identifier: Apache-2.0
// The first step after a dense detector's head: selects the best k logits among those whose score
// is above a threshold.
//
//   score = 1 / (1 + exp(-x)) > s      x > log(s / (1 - s))
//
// Logits are compared directly, so no sigmoid is computed over the tensor. The tensor is read once
// and not written. Probabilities, such as those of exported models, are searched in the same way.
// The result is in descending order of logits; ties are broken by lower element. NaN is never
// selected. The result does not depend on the number of threads.
//
// Logits are rows x cols of float or bfloat16, with any row stride and any number of elements, or a
// head's levels in place. Throws std::invalid_argument if the threshold is outside [0, 1] or k is
// negative.
#pragma once

#include <vecdet/head_levels.hpp>
#include <vecdet/impl/filter_topk_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// The kind of numbers that filter_topk searches.
enum class score_kind {
  logits,        ///< compared with the logit of score_threshold
  probabilities  ///< compared with score_threshold itself
};

/// Scratch memory for filter_topk: about 32 bytes for each of 2 k + 4096 candidates, per thread. It
/// grows to the needs of the largest call and is reused. Only one call at a time may use it.
class filter_topk_workspace {
  friend detail::workspace_access;
  detail::filter_topk_buffers buffers_;
};

/// The best logits in descending order, and their elements: row * cols + column. The memory belongs
/// to the workspace and is valid until its next use.
struct filter_topk_result {
  vector_view<const float> logits;
  vector_view<const index_t> elements;
};

/// The same for each level of each image. The results of level l in image n are [offsets[n * levels
/// + l], offsets[n * levels + l + 1]), the best first. Elements are anchor * classes + class, where
/// the anchor's index counts all anchors of the image in the order of head_levels.hpp.
struct filter_topk_levels_result {
  vector_view<const float> logits;
  vector_view<const index_t> elements;
  vector_view<const index_t> offsets;
};

/// log(score / (1 - score)): the logit of a score; -inf at 0, +inf at 1.
double logit_of(double score);

/// The best k of the logits whose score is above `score_threshold`. With
/// score_kind::probabilities, `logits` holds probabilities, and so does the result's `logits`.
template <class T>
filter_topk_result filter_topk(matrix_view<T> logits, double score_threshold, index_t k,
                               filter_topk_workspace& workspace,
                               threading policy = threading::parallel,
                               score_kind kind = score_kind::logits);

/// The best k of each level in each image, in either layout. Ties are broken by lower element in
/// NCHW, too.
template <class T>
filter_topk_levels_result filter_topk(const head_view<T>& logits, double score_threshold, index_t k,
                                      filter_topk_workspace& workspace,
                                      threading policy = threading::parallel,
                                      score_kind kind = score_kind::logits);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/filter_topk.hpp>
