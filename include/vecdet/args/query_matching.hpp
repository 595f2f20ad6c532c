// SPDX-License-Identifier: Apache-2.0
// The matching of queries: what the functions and their kernels agree on.
#pragma once

#include <vecdet/query_class_cost.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Rows of cost matrices are this long. Unused elements are +infinity.
constexpr index_t padded_columns(index_t columns) { return (columns + 15) / 16 * 16; }

/// Limits of a cost, in magnitude: of match_queries, and of assign_least_cost.
constexpr float largest_query_cost = 1e6f;
constexpr double largest_cost = 1e300;

/// A ground-truth box: its index in its image, and its class.
struct classified_box {
  index_t box, label;
};

/// The queries of one group and the boxes of their image. T is the stored type.
template <class T>
struct query_cost_args {
  const T* logits;  ///< of the first query
  index_t logits_stride, classes;
  const T* queries;  ///< the first query's box: cx cy w h
  index_t query_count;
  const float* truth;           ///< the first box of the image: cx cy w h
  const classified_box* boxes;  ///< by class
  index_t box_count;
  query_class_cost class_cost;
  double alpha, gamma, epsilon;
  double class_weight, l1_weight, giou_weight;
  float* costs;    ///< boxes x padded_columns(queries)
  float* scratch;  ///< 16 numbers per box; for bfloat16 and softmax, 16 per class, too
};

/// Rows are at most as many as columns.
template <class T>
struct assignment_args {
  const T* costs;  ///< rows x padded_columns(cols)
  index_t rows, cols;
  double* scratch;   ///< 3 padded_columns(cols) + 3 rows
  index_t* row_of;   ///< the row of each column, or -1; padded_columns(cols)
  index_t* columns;  ///< the column of each row
  index_t* closed;   ///< rows
};

template <class T>
struct query_cost_kernels {
  void (*compute)(const query_cost_args<T>&);
};

template <class T>
struct assignment_kernels {
  /// Returns false if every complete assignment has an infinite cost.
  bool (*assign)(const assignment_args<T>&);
  /// Copies rows x cols costs to padded rows, transposed if there are more rows than columns.
  /// Returns the index of the first cost that is not allowed, row by row, or rows * cols.
  index_t (*copy)(const T* costs, index_t stride, index_t rows, index_t cols, T* to);
};

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
