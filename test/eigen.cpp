// SPDX-License-Identifier: Apache-2.0
// A user with Eigen: vectors and row-major matrices with a fixed number of columns convert to
// views; strided and column-major ones do not compile.
#include <vecdet/vecdet.hpp>

#include <cstdio>
#include <type_traits>
#include <utility>
#include <vector>

#include <Eigen/Core>

using namespace vecdet;

using numbers = vector_view<const float>;
using corner_boxes = boxes_view<const float>;
using box_matrix = Eigen::Matrix<float, Eigen::Dynamic, 4, Eigen::RowMajor>;
using by_column = Eigen::Matrix<float, Eigen::Dynamic, 4>;
using detections = Eigen::Matrix<float, Eigen::Dynamic, 6, Eigen::RowMajor>;

template <class From, class To>
constexpr bool converts = std::is_convertible<From, To>::value;

static_assert(converts<Eigen::VectorXf&, numbers> && converts<const Eigen::RowVectorXf&, numbers>);
static_assert(converts<Eigen::ArrayXf&, numbers> && converts<Eigen::Vector4f&, corner_boxes>);
static_assert(converts<Eigen::VectorXi&, labels_view>);
static_assert(converts<Eigen::Map<const Eigen::VectorXf>&, numbers>);
static_assert(converts<decltype(std::declval<Eigen::VectorXf&>().head(4))&, numbers>);
static_assert(converts<decltype(std::declval<by_column&>().col(1))&, numbers>);
static_assert(converts<box_matrix&, corner_boxes> &&
              converts<Eigen::Map<box_matrix>&, corner_boxes>);
static_assert(converts<decltype(std::declval<box_matrix&>().topRows(2))&, corner_boxes>);

static_assert(!converts<by_column&, corner_boxes> && !converts<by_column&, numbers>);
static_assert(!converts<Eigen::MatrixXf&, corner_boxes> &&
              !converts<Eigen::MatrixXi&, labels_view>);
static_assert(!converts<decltype(std::declval<detections&>().col(4))&, numbers>);
static_assert(!converts<decltype(std::declval<detections&>().leftCols<4>())&, corner_boxes>);
static_assert(!converts<Eigen::Ref<box_matrix>&, corner_boxes>);
static_assert(!converts<Eigen::Map<box_matrix, 0, Eigen::OuterStride<>>&, corner_boxes>);
static_assert(!converts<Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<>>&, numbers>);
static_assert(!converts<Eigen::VectorXf, lasting<numbers>>);

int main() {
  detections rows(3, 6);
  rows << 0, 0, 10, 10, 0.5f, 1,  //
      1, 1, 11, 11, 0.9f, 1,      //
      0, 0, 10, 10, 0.8f, 2;
  box_matrix corners(3, 4);
  Eigen::VectorXf scores(3);
  Eigen::Matrix<index_t, Eigen::Dynamic, 1> classes(3);
  split_detections(matrix_view<const float>(rows.data(), rows.rows(), rows.cols()), corners, scores,
                   classes);
  const std::vector<index_t> kept = batched_nms(corner_boxes(corners), numbers(scores), classes);
  const bool is_right =
      corners == rows.leftCols<4>() && scores == rows.col(4) && kept == std::vector<index_t>{1, 2};
  std::printf("Eigen: %s\n", is_right ? "as it should be" : "wrong");
  return !is_right;
}
