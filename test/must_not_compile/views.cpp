// SPDX-License-Identifier: Apache-2.0
// What does not become a view; see ../must_not_compile.sh.
#include <vecdet/feature_view.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace vecdet;

/// Columns, as an array of Python has them.
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
