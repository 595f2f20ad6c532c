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
  // Wrong (has_strides): boxes_view<const float> a = rows;
  boxes_view<const float> a(rows.data(), rows.rows());
  // Wrong (has_strides): vector_view<const float> b(rows);
  vector_view<const float> b(rows.row(0), rows.cols());
  // Wrong (has_strides): labels_view c(ids);
  labels_view c(ids.row(0), ids.cols());
  // Wrong (has_strides): vector_view<const float> d(column);
  vector_view<const float> d(whole);
  // Wrong (has_strides): labels_view e = labels;
  labels_view e(labels.data(), labels.size());
  // Wrong (has_strides): boxes_view<float> f = planes;
  boxes_view<float> f = whole;
  // Wrong (labels_view): labels_view g(int_boxes);
  labels_view g(int_boxes.data(), 4 * int_boxes.size());
  // Wrong (vector_view): vector_view<float> h(boxes);
  vector_view<float> h(boxes.data(), 4 * boxes.size());
  // Wrong (no matching): vector_view<const float> k(map);
  vector_view<const float> k(map.data(), map.size());
  // Wrong (no matching): boxes_view<float> l(map);
  boxes_view<float> l(map.data(), map.size() / 4);
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)k, (void)l;
}

void temporaries(std::vector<float> weights, std::vector<int> labels, std::array<float, 3> few) {
  take(make_weights(), make_weights(), make_labels());
  vector_view<const float> view = weights;
  lasting<vector_view<const float>> member = weights;
  // Wrong (ends_with_the_statement): view = make_weights();
  view = weights;
  // Wrong (ends_with_the_statement): member = make_weights();
  member = view;
  // Wrong (ends_with_the_statement): lasting<labels_view> ids = make_labels();
  lasting<labels_view> ids = labels;
  // Wrong (ends_with_the_statement): lasting<boxes_view<const float>> boxes(make_weights());
  lasting<boxes_view<const float>> boxes(weights);
  // Wrong (ends_with_the_statement): member = std::array<float, 3>(few);
  member = few;
  // Wrong (ends_with_the_statement): member = static_cast<const std::vector<float>&&>(weights);
  member = {weights.data(), weights.size()};
  // Wrong (ends_with_the_statement): ids = make_labels();
  ids = {labels.data(), labels.size()};
  labels_view plain;
  // Wrong (ends_with_the_statement): plain = make_labels();
  plain = labels;
  boxes_view<const float> plain_boxes;
  // Wrong (ends_with_the_statement): plain_boxes = make_weights();
  plain_boxes = vector_view<float>(weights);
  (void)boxes;
}

void braces(std::vector<index_t> offsets, std::size_t size, float* data) {
  lasting<vector_view<const index_t>> member;
  // Wrong (candidate): member = {0, 0};
  member = {offsets.data(), size};
  // Wrong (candidate): vector_view<const index_t> view{0, 0};
  vector_view<const index_t> view{offsets.data(), offsets.size()};
  // Wrong ({0, 0}): boxes_view<float> boxes = {0, 0};
  boxes_view<float> boxes = {data, size};
  // Wrong ({0, 0}): labels_view labels = {0, 0};
  labels_view labels = {offsets.data(), size};
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
  // Wrong (needs_integers_of_32_or_64_bits): labels_view a(bits);
  labels_view a(ints);
  // Wrong (needs_integers_of_32_or_64_bits): labels_view b = scores;
  labels_view b = indices;
  // Wrong (needs_integers_of_32_or_64_bits): labels_view c = shorts;
  labels_view c = std::vector<unsigned>().data() != nullptr ? labels_view(ints) : labels_view();
  // Wrong (has_another_element_type): vector_view<index_t> d = ints;
  vector_view<index_t> d = indices;
  // Wrong (has_another_element_type): vector_view<const float> e = doubles;
  vector_view<const float> e = scores;
  // Wrong (has_another_element_type): boxes_view<const float> f = doubles;
  boxes_view<const double> f = doubles;
  // Wrong (has_no_corners_use_convert_boxes): boxes_view<const float> g = rects;
  boxes_view<const float> g = scores;
  // Wrong (has_another_element_type): lasting<vector_view<index_t>> h = ints;
  lasting<vector_view<index_t>> h = indices;
  // Wrong (vector_view): vector_view<const image_size> k(sizes.data(), sizes.size());
  vector_view<const image_size> k(images.data(), images.size());
  // Wrong (matrix_view): matrix_view<image_size> l(sizes.data(), 1, sizes.size());
  matrix_view<image_size> l(images.data(), 1, images.size());
  // Wrong (specialise vecdet::box_layout): coordinate_of<std::vector<unknown_box>> m{};
  coordinate_of<std::vector<std::array<float, 4>>> m{};
  // Wrong (has_another_element_type): vector_view<const float> n(doubles.data(), doubles.size());
  vector_view<const double> n(doubles.data(), doubles.size());
  // Wrong (has_another_element_type): boxes_view<const float> o(doubles.data(), 1);
  boxes_view<const float> o(scores.data(), 1);
  // Wrong (has_another_element_type): matrix_view<const float> p(doubles.data(), 1, 4);
  matrix_view<const float> p(scores.data(), 1, 4);
  matrix_view<double> q(doubles.data(), 1, 4);
  // Wrong (has_another_element_type): matrix_view<const float> r = q;
  matrix_view<const double> r = q;
  // Wrong (has_another_element_type): boxes_view<float> s = boxes_view<double>();
  boxes_view<const double> s = boxes_view<double>();
  const double* const x = doubles.data();
  // Wrong (has_another_element_type): boxes_soa_view<const float> t(x, x, x, x, 4);
  boxes_soa_view<const double> t(x, x, x, x, 4);
  // Wrong (has_another_element_type): boxes_soa_view<const float> u = t;
  boxes_soa_view<const double> u = t;
  // Wrong (has_another_element_type): regression_targets<float> v(doubles);
  regression_targets<float> v(scores);
  // Wrong (has_another_element_type): sigmoid_focal_loss(p, q);
  sigmoid_focal_loss(p, p);
  // Wrong (has_another_element_type): sigmoid_focal_loss_and_grad(p, ints, {doubles.data(), 1, 4});
  sigmoid_focal_loss_and_grad(p, ints, {scores.data(), 1, 4});
  // Wrong (has_another_element_type): pairwise_iou(scores, scores, q);
  pairwise_iou(doubles, doubles, q);
  (void)n, (void)o, (void)p, (void)q, (void)r, (void)s, (void)t, (void)u, (void)v;
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)k, (void)l, (void)m;
  (void)unknown;
}
