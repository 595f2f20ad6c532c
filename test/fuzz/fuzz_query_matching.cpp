// SPDX-License-Identifier: Apache-2.0
// Matching of any outputs with any boxes: every box of an image has a query that no other box has,
// or every query has a box. Assignments of any costs must equal the reference column for column.
#include "fuzz_input.hpp"
#include <vecdet/reference/query_matching.hpp>

using namespace vecdet;

namespace {

template <class T>
void matching(fuzz::input& in) {
  const index_t images = in.integer(1, 3), groups = in.integer(1, 3), queries = in.integer(0, 40);
  const index_t classes = in.integer(2, 9), layers = in.integer(1, 2);
  std::vector<index_t> offsets{0}, categories;
  for (index_t i = 0; i < images; ++i) offsets.push_back(offsets.back() + in.integer(0, 20));
  for (index_t k = 0; k < offsets.back(); ++k) categories.push_back(in.integer(0, classes - 2));
  query_match_params params;
  params.class_cost = in.one_of({query_class_cost::focal, query_class_cost::softmax});
  params.gamma = in.one_of({2.0, 0.0, 1.0, 0.3, 50.0});
  params.alpha = in.one_of({0.25, 0.0, 1.0});
  params.epsilon = in.one_of({1e-8, 1e-18, 1.0});
  params.class_weight = in.one_of({2.0, 0.0, -1.0, 1e38});
  params.l1_weight = in.one_of({5.0, 0.0, 1e38});
  params.groups = groups;
  const index_t rows = images * groups * queries, boxes = offsets.back();
  const auto known = in.numbers<float>(4 * boxes);
  const auto logits = in.numbers<T>(layers * rows * classes),
             predicted = in.numbers<T>(4 * layers * rows);
  const ground_truth truth{boxes_view<const float>(known), categories, offsets};
  std::vector<detr_outputs<T>> outputs;
  for (index_t l = 0; l < layers; ++l)
    outputs.push_back({{logits.data() + l * rows * classes, rows, classes},
                       boxes_view<const T>(predicted.data() + 4 * l * rows, rows)});
  const fuzz::tensor<index_t> matches(layers * groups * boxes);
  query_match_workspace workspace;
  fuzz::on_every_isa("match_queries", [&](fuzz::results& results) {
    match_queries<T>(outputs, truth, matches, params, workspace, threading::parallel);
    results.add(matches);
    for (index_t part = 0; part < layers * groups; ++part)
      for (std::size_t image = 0; image + 1 < offsets.size(); ++image) {
        const index_t first = part % groups * queries;
        std::vector<bool> has_box(static_cast<std::size_t>(queries));
        index_t matched = 0;
        for (index_t b = offsets[image]; b < offsets[image + 1]; ++b) {
          const index_t match = matches[static_cast<std::size_t>(part * boxes + b)];
          if (match == -1) continue;
          if (match < first || match >= first + queries) fuzz::fail("a match of another group");
          const auto query = static_cast<std::size_t>(match - first);
          if (has_box[query]) fuzz::fail("a query has two boxes");
          has_box[query] = true;
          ++matched;
        }
        if (matched != std::min(queries, offsets[image + 1] - offsets[image]))
          fuzz::fail("a box and a query are both without a match");
      }
  });
}

template <class T>
void assignment(fuzz::input& in) {
  const index_t rows = in.integer(0, 30), cols = in.integer(0, 40);
  const bool rounds = in.flag();
  const auto costs = in.numbers<T>(rows * cols);
  bool is_valid = true;
  for (T& cost : costs) {
    if (rounds) cost = std::round(cost);
    const auto exact = static_cast<double>(cost);
    is_valid =
        is_valid && !std::isnan(cost) && exact >= -1e300 && (exact <= 1e300 || std::isinf(cost));
  }
  const std::vector<double> exact(costs.begin(), costs.end());
  std::vector<index_t> expected(static_cast<std::size_t>(rows), -1);
  const double least =
      is_valid ? reference::assign_least_cost({exact.data(), rows, cols}, expected) : 0;
  const fuzz::tensor<index_t> columns(rows);
  assignment_workspace workspace;
  fuzz::on_every_isa("assign_least_cost", [&](fuzz::results& results) {
    for (index_t& column : columns) column = -9;
    bool has_thrown = false;
    try {
      results.add(
          assign_least_cost(matrix_view<const T>(costs.data(), rows, cols), columns, workspace));
    } catch (const std::invalid_argument&) {
      has_thrown = true;
    }
    if (has_thrown != (!is_valid || std::isinf(least)))
      fuzz::fail("only one of assignment and reference refuses a cost");
    if (has_thrown) std::fill(expected.begin(), expected.end(), -9);
    if (!std::equal(columns.begin(), columns.end(), expected.begin()))
      fuzz::fail("the assignment differs from the reference");
    results.add(columns);
  });
}

}  // namespace

void fuzz::target(input& in) {
  switch (in.byte() % 4) {
    case 0:
      return matching<float>(in);
    case 1:
      return matching<bfloat16>(in);
    case 2:
      return assignment<float>(in);
    default:
      return assignment<double>(in);
  }
}
