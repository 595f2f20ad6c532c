// SPDX-License-Identifier: Apache-2.0
// Types that do not convert to a view; see ../must_not_compile.sh.
#include <vecdet/feature_view.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace vecdet;

/// Columns, like those of a Python array.
struct strided {
  float* data() const;
  std::size_t size() const;
  std::ptrdiff_t stride;
};
struct strided_by_call {
  const std::int64_t* data() const;
  std::size_t size() const;
  std::ptrdiff_t stride(int axis) const;
};
struct strided_by_array {
  float* data() const;
  std::size_t size() const;
  const std::array<std::size_t, 2>& strides() const;
};
/// As cv::Rect2f.
struct rect {
  float x, y, width, height;
};
template <>
struct vecdet::box_layout<rect> : vecdet::box_numbers<float, vecdet::box_format::xywh> {};
struct unknown_box {
  float left, top, right, bottom;
};
struct larger_size : image_size {
  int index;
};

/// A tensor without gaps.
struct tensor {
  float* data() const;
  std::int64_t size() const;
};

std::vector<float> make_weights();
std::vector<int> make_labels();
void take(vector_view<const float>, boxes_view<const float>, labels_view);

void strides(matrix_view<float> rows, matrix_view<std::int64_t> ids, strided column, tensor whole,
             strided_by_call labels, strided_by_array planes, boxes_view<std::int64_t> int_boxes,
             boxes_view<float> boxes, feature_view<float> map) {
#if WRONG == 1  // says: has_strides
  boxes_view<const float> a = rows;
#else
  boxes_view<const float> a(rows.data(), rows.rows());
#endif
#if WRONG == 2  // says: has_strides
  vector_view<const float> b(rows);
#else
  vector_view<const float> b(rows.row(0), rows.cols());
#endif
#if WRONG == 3  // says: has_strides
  labels_view c(ids);
#else
  labels_view c(ids.row(0), ids.cols());
#endif
#if WRONG == 4  // says: has_strides
  vector_view<const float> d(column);
#else
  vector_view<const float> d(whole);
#endif
#if WRONG == 5  // says: has_strides
  labels_view e = labels;
#else
  labels_view e(labels.data(), labels.size());
#endif
#if WRONG == 6  // says: has_strides
  boxes_view<float> f = planes;
#else
  boxes_view<float> f = whole;
#endif
#if WRONG == 7  // says: labels_view
  labels_view g(int_boxes);
#else
  labels_view g(int_boxes.data(), 4 * int_boxes.size());
#endif
#if WRONG == 8  // says: vector_view
  vector_view<float> h(boxes);
#else
  vector_view<float> h(boxes.data(), 4 * boxes.size());
#endif
#if WRONG == 9  // says: no matching
  vector_view<const float> k(map);
#else
  vector_view<const float> k(map.data(), map.size());
#endif
#if WRONG == 10  // says: no matching
  boxes_view<float> l(map);
#else
  boxes_view<float> l(map.data(), map.size() / 4);
#endif
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)k, (void)l;
}

void temporaries(std::vector<float> weights, std::vector<int> labels, std::array<float, 3> few) {
  take(make_weights(), make_weights(), make_labels());
  vector_view<const float> view = weights;
  lasting<vector_view<const float>> member = weights;
#if WRONG == 11  // says: ends_with_the_statement
  view = make_weights();
#else
  view = weights;
#endif
#if WRONG == 12  // says: ends_with_the_statement
  member = make_weights();
#else
  member = view;
#endif
#if WRONG == 13  // says: ends_with_the_statement
  lasting<labels_view> ids = make_labels();
#else
  lasting<labels_view> ids = labels;
#endif
#if WRONG == 14  // says: ends_with_the_statement
  lasting<boxes_view<const float>> boxes(make_weights());
#else
  lasting<boxes_view<const float>> boxes(weights);
#endif
#if WRONG == 15  // says: ends_with_the_statement
  member = std::array<float, 3>(few);
#else
  member = few;
#endif
#if WRONG == 16  // says: ends_with_the_statement
  member = static_cast<const std::vector<float>&&>(weights);
#else
  member = {weights.data(), weights.size()};
#endif
#if WRONG == 17  // says: ends_with_the_statement
  ids = make_labels();
#else
  ids = {labels.data(), labels.size()};
#endif
#if WRONG == 18  // says: ends_with_the_statement
  labels_view plain;
  plain = make_labels();
#else
  labels_view plain;
  plain = labels;
#endif
#if WRONG == 19  // says: ends_with_the_statement
  boxes_view<const float> plain_boxes;
  plain_boxes = make_weights();
#else
  boxes_view<const float> plain_boxes;
  plain_boxes = vector_view<float>(weights);
#endif
  (void)boxes;
}

void braces(std::vector<index_t> offsets, std::size_t size, float* data) {
  lasting<vector_view<const index_t>> member;
#if WRONG == 21  // says: {0, 0}
  member = {0, 0};
#else
  member = {offsets.data(), size};
#endif
#if WRONG == 22  // says: {0, 0}
  vector_view<const index_t> view{0, 0};
#else
  vector_view<const index_t> view{offsets.data(), offsets.size()};
#endif
#if WRONG == 23  // says: {0, 0}
  boxes_view<float> boxes = {0, 0};
#else
  boxes_view<float> boxes = {data, size};
#endif
#if WRONG == 24  // says: {0, 0}
  labels_view labels = {0, 0};
#else
  labels_view labels = {offsets.data(), size};
#endif
  matrix_view<float> matrix{data, size, size};
  matrix_view<const float> strided{data, size, 4, size};
  boxes_soa_view<float> planes{data, data, data, data, size};
  vector_view<const float> none{nullptr, 0};
  (void)view, (void)boxes, (void)labels, (void)matrix, (void)strided, (void)planes, (void)none;
}

void other_elements(std::vector<bool> bits, std::vector<float> scores, std::vector<short> shorts,
                    std::vector<double> doubles, std::vector<int> ints, std::vector<rect> rects,
                    std::vector<unknown_box> unknown, std::vector<index_t> indices,
                    std::vector<larger_size> sizes, std::vector<image_size> images) {
#if WRONG == 31  // says: needs_integers_of_32_or_64_bits
  labels_view a(bits);
#else
  labels_view a(ints);
#endif
#if WRONG == 32  // says: needs_integers_of_32_or_64_bits
  labels_view b = scores;
#else
  labels_view b = indices;
#endif
#if WRONG == 33  // says: needs_integers_of_32_or_64_bits
  labels_view c = shorts;
#else
  labels_view c = std::vector<unsigned>().data() != nullptr ? labels_view(ints) : labels_view();
#endif
#if WRONG == 34  // says: has_another_element_type
  vector_view<index_t> d = ints;
#else
  vector_view<index_t> d = indices;
#endif
#if WRONG == 35  // says: has_another_element_type
  vector_view<const float> e = doubles;
#else
  vector_view<const float> e = scores;
#endif
#if WRONG == 36  // says: has_another_element_type
  boxes_view<const float> f = doubles;
#else
  boxes_view<const double> f = doubles;
#endif
#if WRONG == 37  // says: has_no_corners_use_convert_boxes
  boxes_view<const float> g = rects;
#else
  boxes_view<const float> g = scores;
#endif
#if WRONG == 38  // says: has_another_element_type
  lasting<vector_view<index_t>> h = ints;
#else
  lasting<vector_view<index_t>> h = indices;
#endif
#if WRONG == 39  // says: vector_view
  vector_view<const image_size> k(sizes.data(), sizes.size());
#else
  vector_view<const image_size> k(images.data(), images.size());
#endif
#if WRONG == 40  // says: matrix_view
  matrix_view<image_size> l(sizes.data(), 1, sizes.size());
#else
  matrix_view<image_size> l(images.data(), 1, images.size());
#endif
#if WRONG == 41  // says: specialise vecdet::box_layout
  coordinate_of<std::vector<unknown_box>> m{};
#else
  coordinate_of<std::vector<std::array<float, 4>>> m{};
#endif
#if WRONG == 42  // says: has_another_element_type
  vector_view<const float> n(doubles.data(), doubles.size());
#else
  vector_view<const double> n(doubles.data(), doubles.size());
#endif
#if WRONG == 43  // says: has_another_element_type
  boxes_view<const float> o(doubles.data(), 1);
#else
  boxes_view<const float> o(scores.data(), 1);
#endif
#if WRONG == 44  // says: has_another_element_type
  matrix_view<const float> p(doubles.data(), 1, 4);
#else
  matrix_view<const float> p(scores.data(), 1, 4);
#endif
  matrix_view<double> q(doubles.data(), 1, 4);
#if WRONG == 45  // says: has_another_element_type
  matrix_view<const float> r = q;
#else
  matrix_view<const double> r = q;
#endif
#if WRONG == 46  // says: has_another_element_type
  boxes_view<float> s = boxes_view<double>();
#else
  boxes_view<const double> s = boxes_view<double>();
#endif
#if WRONG == 47  // says: has_another_element_type
  boxes_soa_view<const float> t(doubles.data(), doubles.data(), doubles.data(), doubles.data(), 4);
#else
  boxes_soa_view<const double> t(doubles.data(), doubles.data(), doubles.data(), doubles.data(), 4);
#endif
#if WRONG == 48  // says: has_another_element_type
  boxes_soa_view<const float> u = t;
#else
  boxes_soa_view<const double> u = t;
#endif
#if WRONG == 49  // says: has_another_element_type
  regression_targets<float> v(doubles);
#else
  regression_targets<float> v(scores);
#endif
#if WRONG == 50  // says: has_another_element_type
  sigmoid_focal_loss(p, q);
#else
  sigmoid_focal_loss(p, p);
#endif
#if WRONG == 51  // says: has_another_element_type
  sigmoid_focal_loss_and_grad(p, ints, {doubles.data(), 1, 4});
#else
  sigmoid_focal_loss_and_grad(p, ints, {scores.data(), 1, 4});
#endif
#if WRONG == 52  // says: has_another_element_type
  pairwise_iou(scores, scores, q);
#else
  pairwise_iou(doubles, doubles, q);
#endif
  (void)n, (void)o, (void)p, (void)q, (void)r, (void)s, (void)t, (void)u, (void)v;
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)k, (void)l, (void)m;
  (void)unknown;
}
