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
  labels_view labels;  ///< a class or ignore per row
  index_t background, ignore;
  double scale;
  const index_t* rows;  ///< a list of rows, or null: all
  float* loss;          ///< one per row, or null
  float* grad;          ///< rows x classes, or null; without a list it may be the logits
  index_t grad_stride;
};

/// The sort keys for mining the rows of an image ascend as losses descend. These are the keys of
/// rows that are not negatives.
constexpr std::uint32_t foreground_key = 0xffffffff, ignored_key = 0xfffffffe;

struct softmax_cross_entropy_kernels {
  /// Computes rows [first, last), or those of the list's indices [first, last), and returns the
  /// unscaled sum of their losses.
  double (*loss)(const softmax_cross_entropy_args&, index_t first, index_t last);
  /// Returns the first row whose label is neither a class nor ignore, or the number of rows.
  index_t (*find_invalid)(const softmax_cross_entropy_args&);
  /// Writes the keys of rows [first, last) and sets their gradient to 0.
  void (*keys)(const softmax_cross_entropy_args&, index_t first, index_t last, std::uint32_t* keys);
  /// Selects among the rows [first, last) of an image: the foreground and `ratio` times as many
  /// negatives with the largest losses. Writes their indices, ascending, to `rows` and returns
  /// their number. `keys` are those of all rows.
  index_t (*mine)(const std::uint32_t* keys, index_t first, index_t last, index_t ratio,
                  index_t* rows);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
