// SPDX-License-Identifier: Apache-2.0
// The matrices of Winograd's minimal filtering F(n x n, 3 x 3), and products with them on vectors.
//
// The points are a_0 ... a_n and infinity. N_j is the product of a_j - a_k over all other finite
// points. Entry (i, j) of A^T is a_j^i. Row j of G is (1, a_j, a_j^2) / N_j. Row j of B^T has the
// coefficients of the product of x - a_k over all other finite points, and the last row, for
// infinity, those of the product over all finite points. Every entry of A and B is exact in float.
#pragma once

#include <vecdet/simd/pack.hpp>

#include <type_traits>
#include <utility>

namespace vecdet {
namespace VECDET_TARGET {

/// A product of one axis: number `source` of a transformed input, times number `weight` of the
/// transformed weights, is added to number `target` of what the output's transform reads.
struct axis_product {
  int source, weight, target;
};

/// A tile has Outputs x Outputs outputs.
template <int Outputs>
struct minimal_filtering;

/// Points 0, 1, -1, 1/2, -2 and infinity.
template <>
struct minimal_filtering<4> {
  /// Locations of the source and of the target from one tile to the next, and locations that a tile
  /// reads before its own.
  static constexpr int source_tile = 4, target_tile = 4, before = 1;
  static constexpr axis_product products[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2},
                                              {3, 3, 3}, {4, 4, 4}, {5, 5, 5}};
  struct input {                                                    ///< B^T
    static constexpr float at[6][6] = {{1, -1.5f, -2, 1.5f, 1, 0},  //
                                       {0, -1, 0.5f, 2.5f, 1, 0},   //
                                       {0, 1, -2.5f, 0.5f, 1, 0},   //
                                       {0, -2, -1, 2, 1, 0},        //
                                       {0, 0.5f, -1, -0.5f, 1, 0},  //
                                       {0, 1, -1.5f, -2, 1.5f, 1}};
  };
  struct weights {  ///< G
    static constexpr float at[6][3] = {{1, 0, 0},
                                       {1.0f / 3, 1.0f / 3, 1.0f / 3},
                                       {-1.0f / 3, 1.0f / 3, -1.0f / 3},
                                       {-16.0f / 15, -8.0f / 15, -4.0f / 15},
                                       {1.0f / 15, -2.0f / 15, 4.0f / 15},
                                       {0, 0, 1}};
  };
  struct output {                                                ///< A^T
    static constexpr float at[4][6] = {{1, 1, 1, 1, 1, 0},       //
                                       {0, 1, -1, 0.5f, -2, 0},  //
                                       {0, 1, 1, 0.25f, 4, 0},   //
                                       {0, 1, -1, 0.125f, -8, 1}};
  };
};

/// Points 0, 1, -1 and infinity.
template <>
struct minimal_filtering<2> {
  static constexpr int source_tile = 2, target_tile = 2, before = 1;
  static constexpr axis_product products[] = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}};
  struct input {
    static constexpr float at[4][4] = {{-1, 0, 1, 0},  //
                                       {0, 1, 1, 0},   //
                                       {0, -1, 1, 0},  //
                                       {0, -1, 0, 1}};
  };
  struct weights {
    static constexpr float at[4][3] = {{-1, 0, 0},  //
                                       {0.5f, 0.5f, 0.5f},
                                       {0.5f, -0.5f, 0.5f},
                                       {0, 0, 1}};
  };
  struct output {
    static constexpr float at[2][4] = {{1, 1, 1, 0},  //
                                       {0, 1, -1, 1}};
  };
};

template <class Matrix>
constexpr int matrix_rows = std::extent<decltype(Matrix::at), 0>::value;
template <class Matrix>
constexpr int matrix_columns = std::extent<decltype(Matrix::at), 1>::value;

/// How many numbers one axis has: those that a tile reads, its transformed inputs, the transformed
/// weights, and the sums of products that the output's transform reads.
template <class Filtering>
constexpr int filtering_reach = matrix_columns<typename Filtering::input>;
template <class Filtering>
constexpr int source_points = matrix_rows<typename Filtering::input>;
template <class Filtering>
constexpr int weight_points = matrix_rows<typename Filtering::weights>;
template <class Filtering>
constexpr int target_points = matrix_columns<typename Filtering::output>;

/// A product of both axes.
struct plane_product {
  int source, weight, target;
  bool begins;  ///< the first one of its sum
};

/// All products of a tile. Those with the same weight follow each other. Sum is the member that
/// numbers the sums: `target`, or `weight` for the gradient of the weights.
template <class Filtering, int axis_product::*Sum>
struct plane_products {
  static constexpr int on_axis =
      static_cast<int>(std::extent<decltype(Filtering::products)>::value);
  static constexpr int count = on_axis * on_axis;
  struct list {
    plane_product at[count];
  };
  static constexpr list make() {
    list products{};
    bool has_sum[on_axis][on_axis] = {};
    int n = 0;
    for (int row = 0; row < on_axis; ++row)
      for (int column = 0; column < on_axis; ++column)
        for (const axis_product& a : Filtering::products)
          for (const axis_product& b : Filtering::products)
            if (a.weight == row && b.weight == column) {
              products.at[n++] = {a.source * source_points<Filtering> + b.source,
                                  a.weight * weight_points<Filtering> + b.weight,
                                  a.target * target_points<Filtering> + b.target,
                                  !has_sum[a.*Sum][b.*Sum]};
              has_sum[a.*Sum][b.*Sum] = true;
            }
    return products;
  }
  static constexpr list all = make();
  static constexpr const plane_product* begin() { return all.at; }
  static constexpr const plane_product* end() { return all.at + count; }
  /// The end of the products with the same weight as `first`.
  static const plane_product* end_of_weight(const plane_product* first) {
    const plane_product* last = first + 1;
    while (last != end() && last->weight == first->weight) ++last;
    return last;
  }
};

template <class Matrix>
struct transposed {
  struct numbers {
    float row[matrix_columns<Matrix>][matrix_rows<Matrix>];
    constexpr const float* operator[](int i) const { return row[i]; }
  };
  static constexpr numbers make() {
    numbers t{};
    for (int i = 0; i < matrix_columns<Matrix>; ++i)
      for (int j = 0; j < matrix_rows<Matrix>; ++j) t.row[i][j] = Matrix::at[j][i];
    return t;
  }
  static constexpr numbers at = make();
};
template <class Matrix>
constexpr int matrix_rows<transposed<Matrix>> = matrix_columns<Matrix>;
template <class Matrix>
constexpr int matrix_columns<transposed<Matrix>> = matrix_rows<Matrix>;

/// Adds the products of the vectors with the entries of row Row, from column Column on, to `sum`.
/// `Begun` is whether an earlier entry of the row was not 0; if false, `sum` is not read.
template <class Matrix, int Row, int Column, bool Begun, class Vector, class At>
VECDET_INLINE Vector times_row(const At& at, const Vector& sum) {
  if constexpr (Column == matrix_columns<Matrix>) {
    return sum;
  } else {
    constexpr float entry = Matrix::at[Row][Column];
    constexpr bool begins = Begun || entry != 0;
    if constexpr (entry == 0) {
      return times_row<Matrix, Row, Column + 1, begins, Vector>(at, sum);
    } else if constexpr (!Begun) {
      if constexpr (entry == 1) {
        return times_row<Matrix, Row, Column + 1, begins, Vector>(at, at(Column));
      } else {
        return times_row<Matrix, Row, Column + 1, begins, Vector>(at, Vector(entry) * at(Column));
      }
    } else if constexpr (entry == 1) {
      return times_row<Matrix, Row, Column + 1, begins, Vector>(at, sum + at(Column));
    } else if constexpr (entry == -1) {
      return times_row<Matrix, Row, Column + 1, begins, Vector>(at, sum - at(Column));
    } else {
      return times_row<Matrix, Row, Column + 1, begins, Vector>(
          at, fma(Vector(entry), at(Column), sum));
    }
  }
}

template <class Matrix, class Vector, class At, class To, int... Rows>
VECDET_INLINE void times_rows(const At& at, const To& to, std::integer_sequence<int, Rows...>) {
  (to(Rows, times_row<Matrix, Rows, 0, false, Vector>(at, Vector(0.0f))), ...);
}

/// Computes M x M^T for a square matrix x of vectors. at(i, j) returns an element of x, and
/// to(i, j, value) receives an element of the result.
template <class Matrix, class Vector, class At, class To>
VECDET_INLINE void times_both_sides(const At& at, const To& to) {
  constexpr int rows = matrix_rows<Matrix>, columns = matrix_columns<Matrix>;
  using all_rows = std::make_integer_sequence<int, rows>;
  Vector half[rows][columns];
  VECDET_UNROLL
  for (int j = 0; j < columns; ++j)
    times_rows<Matrix, Vector>([&](int i) VECDET_INLINE_LAMBDA { return at(i, j); },
                               [&](int i, const Vector& x) VECDET_INLINE_LAMBDA { half[i][j] = x; },
                               all_rows{});
  VECDET_UNROLL
  for (int i = 0; i < rows; ++i)
    times_rows<Matrix, Vector>(
        [&](int j) VECDET_INLINE_LAMBDA -> const Vector& { return half[i][j]; },
        [&](int j, const Vector& x) VECDET_INLINE_LAMBDA { to(i, j, x); }, all_rows{});
}

}  // namespace VECDET_TARGET
}  // namespace vecdet
