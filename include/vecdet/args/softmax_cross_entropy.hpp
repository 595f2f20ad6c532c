// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy: what the functions and their kernels agree on.
#pragma once

#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <cstdint>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// One call over rows x classes logits.
struct softmax_cross_entropy_args {
  const float* logits;
  index_t stride;  ///< in elements
  index_t classes;
  labels_view labels;  ///< a class, or ignore, for each row
  index_t background, ignore;
  double scale;
  const index_t* rows;  ///< a list of rows, or null: all
  float* loss;          ///< one a row, or null
  float* grad;          ///< rows x classes, or null; without a list may be the logits themselves
  index_t grad_stride;
};

/// Keys by which the rows of an image are mined: ascending by descending loss; and of those that
/// are no negatives.
constexpr std::uint32_t foreground_key = 0xffffffff, ignored_key = 0xfffffffe;

struct softmax_cross_entropy_kernels {
  /// Rows, or numbers of the list of rows, [first, last); returns their unscaled sum.
  double (*loss)(const softmax_cross_entropy_args&, index_t first, index_t last);
  /// The first row whose label is neither a class nor ignore; their number where there is none.
  index_t (*find_invalid)(const softmax_cross_entropy_args&);
  /// The keys of rows [first, last); and sets their gradient to 0.
  void (*keys)(const softmax_cross_entropy_args&, index_t first, index_t last, std::uint32_t* keys);
  /// Of the rows [first, last) of an image, given all keys, the foreground and `ratio` times as
  /// many negatives of the largest loss, ascending, into `rows`; returns how many there are.
  index_t (*mine)(const std::uint32_t* keys, index_t first, index_t last, index_t ratio,
                  index_t* rows);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
