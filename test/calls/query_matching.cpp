// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/query_matching.hpp>

namespace vecdet::test {
namespace {

/// Shapes are images x queries x boxes per image.
template <class T>
struct match_calls {
  index_t images, queries, classes;
  placed<index_t> labels;
  placed_matrix<T> logits;
  placed_boxes<T> boxes;
  placed_truth known;
  placed<index_t> matches, layer_matches;
  query_match_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{2, length, 3}, {2, 5, length}}; }
  static shape sized(index_t rows) { return {2, rows / 2, 7}; }
  static bool takes(const problem& p) { return p.variant != "softmax" || classes_of(p) >= 2; }
  /// The number of classes of a recorded call with softmax, computed from its bytes: those of boxes
  /// and logits.
  static index_t classes_of(const problem& p) {
    if (p.variant != "softmax") return 80;
    const double queries = static_cast<double>(p.shape[0]) * static_cast<double>(p.shape[1]);
    return std::llround(p.bytes / (queries * sizeof(T))) - 4;
  }

  match_calls(operands& make, const problem& p)
      : images(p.shape[0]),
        queries(p.shape[1]),
        classes(classes_of(p)),
        labels(make.labels(images * queries, classes)),
        logits(make.logits<T>(labels, classes)),
        boxes(make.numbers<T>(4 * images * queries, 0.05, 0.95)),
        known(truth(make, images, images * p.shape[2], classes - 1)),
        matches(make.room<index_t>(images * p.shape[2])),
        layer_matches(make.room<index_t>(2 * images * p.shape[2])) {}

  static placed_truth truth(operands& make, index_t images, index_t count, index_t classes) {
    std::vector<index_t> ids;
    for (index_t k = 0; k < count; ++k) ids.push_back(k * 7 % classes);
    return {make.numbers<float>(4 * count, 0.05, 0.95), make.copy(ids),
            make.offsets(images, count)};
  }

  void list(call_list& c) {
    add(c, "focal", query_match_params::rt_detr());
    add(c, "softmax", query_match_params::detr());
    c.add("match_queries/focal/layers", reads(logits, boxes, known).writes(layer_matches),
          [this](threading policy) {
            const detr_outputs<T> layers[] = {{logits.in(), boxes.in()}, {logits.in(), boxes.in()}};
            match_queries<T>({layers, 2}, known.view(), layer_matches, {}, workspace, policy);
          });
  }
  void add(call_list& c, const std::string& variant, const query_match_params& params) {
    c.add("match_queries/" + variant, reads(logits, boxes, known).writes(matches),
          [this, params](threading policy) {
            const detr_outputs<T> layer{logits.in(), boxes.in()};
            match_queries<T>({&layer, 1}, known.view(), matches, params, workspace, policy);
          });
  }
};

template <class T>
struct assignment_calls {
  index_t rows, cols;
  placed_matrix<T> costs;
  placed<index_t> columns;
  assignment_workspace workspace;

  static std::vector<shape> sweep(index_t length) { return {{length, 9}, {6, length}}; }
  static shape sized(index_t rows) { return {rows / 200 + 1, 200}; }

  assignment_calls(operands& make, const problem& p)
      : rows(p.shape[0]),
        cols(p.shape[1]),
        costs(make.matrix<T>(rows, cols, -5, 5)),
        columns(make.room<index_t>(rows)) {}

  void list(call_list& c) {
    c.add("assign_least_cost/", reads(costs).writes(columns),
          [this](threading) { return assign_least_cost(costs.in(), columns.out(), workspace); });
  }
};

const registered_family registered[] = {
    calls_of<match_calls, float, bfloat16>("query_matching"),
    calls_of<assignment_calls, float, double>("query_matching/assignment"),
};

}  // namespace
}  // namespace vecdet::test
