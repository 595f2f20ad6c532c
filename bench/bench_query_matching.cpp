// SPDX-License-Identifier: Apache-2.0
// The matching of queries: RT-DETR's batch with few and with many boxes per image, and one with
// query groups; the solver alone; and the loss of a decoder layer. Elements are pairs of a query
// and a box; for the loss, they are logits.
#include "plain/query_matching.hpp"
#include "plain/set_loss.hpp"
#include "support/implementations.hpp"
#include "support/query_scene.hpp"
#include <vecdet/query_matching.hpp>
#include <vecdet/set_loss.hpp>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

template <index_t Images, index_t Queries, index_t Boxes>
std::shared_ptr<query_scene> make_scene() {
  const auto scene = std::make_shared<query_scene>(Images, Queries, Boxes);
  scene->match();
  return scene;
}

template <index_t Images, index_t Queries, index_t Boxes>
void register_matching() {
  const std::string shape = "/f32/" + std::to_string(Images) + "x" + std::to_string(Queries) + "x" +
                            std::to_string(Boxes);
  constexpr double queries = static_cast<double>(Images * Queries);
  const auto match = [](query_scene& data, threading policy, const query_match_params& params) {
    static query_match_workspace workspace;
    const detr_outputs<float> layer = data.outputs();
    match_queries<float>({&layer, 1}, data.known(), data.matches, params, workspace, policy);
  };
  register_with_plain(
      "match_queries/focal" + shape, {queries * Boxes, queries * 4 * (4 + Boxes)},
      [] { return make_scene<Images, Queries, Boxes>(); },
      [=](query_scene& data, threading policy) {
        match(data, policy, query_match_params::rt_detr());
      },
      [](query_scene& data) {
        VECDET_PLAIN(plain_match_queries)
        (data.logits.data(), data.predicted.data(), Images, Queries, query_scene::classes,
         data.truth.data(), data.labels.data(), Boxes, data.matches.data());
      },
      &query_scene::matches);
  register_vecdet(
      "match_queries/softmax" + shape, {queries * Boxes, queries * 4 * (4 + query_scene::classes)},
      [] { return make_scene<Images, Queries, Boxes>(); },
      [=](query_scene& data, threading policy) {
        match(data, policy, query_match_params::detr());
      });
}

struct random_costs {
  static constexpr index_t rows = 50, cols = 300;
  std::vector<double> costs;
  std::vector<index_t> columns;

  random_costs() : columns(rows) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> uniform(0, 10);
    for (index_t i = 0; i < rows * cols; ++i) costs.push_back(uniform(random));
  }
};

double loss_of(query_scene& data, threading policy, const set_loss_params& params) {
  static set_loss_workspace workspace;
  const set_loss_layer<float> layer{
      data.outputs(),
      data.matches,
      {data.logits_grad(), data.images * data.queries, query_scene::classes},
      {data.boxes_grad(), data.images * data.queries}};
  set_losses losses;
  set_loss_and_grad<float>({&layer, 1}, data.known(), {&losses, 1}, params, workspace, policy);
  return losses.total();
}

const bool registered = [] {
  register_matching<16, 300, 7>();
  register_matching<16, 300, 50>();
  register_matching<8, 3900, 7>();
  register_with_plain(
      "assign_least_cost/random/f64/50x300",
      {random_costs::rows * random_costs::cols, random_costs::rows * random_costs::cols * 8.0},
      [] { return std::make_shared<random_costs>(); },
      [](random_costs& data, threading) {
        static assignment_workspace workspace;
        return assign_least_cost(
            matrix_view<const double>(data.costs.data(), random_costs::rows, random_costs::cols),
            vector_view<index_t>(data.columns), workspace);
      },
      [](random_costs& data) {
        return VECDET_PLAIN(plain_assign_least_cost)(data.costs.data(), random_costs::rows,
                                                     random_costs::cols, data.columns.data());
      },
      &random_costs::columns);
  constexpr double logits = 16 * 300 * query_scene::classes;
  register_with_plain(
      "set_loss_and_grad/varifocal/f32/16x300x80", {logits, 8 * logits},
      [] { return make_scene<16, 300, 7>(); },
      [](query_scene& data, threading policy) {
        return loss_of(data, policy, set_loss_params::rt_detr());
      },
      [](query_scene& data) {
        return VECDET_PLAIN(plain_set_loss)(data.logits.data(), data.predicted.data(), data.images,
                                            data.queries, query_scene::classes, data.truth.data(),
                                            data.labels.data(), data.boxes, data.matches.data(),
                                            data.logits_grad(), data.boxes_grad());
      },
      &query_scene::grads);
  register_vecdet(
      "set_loss_and_grad/focal/f32/16x300x80", {logits, 8 * logits},
      [] { return make_scene<16, 300, 7>(); },
      [](query_scene& data, threading policy) {
        return loss_of(data, policy, set_loss_params::deformable_detr());
      });
  register_vecdet(
      "set_loss_and_grad/cross_entropy/f32/16x300x80", {logits, 8 * logits},
      [] { return make_scene<16, 300, 7>(); },
      [](query_scene& data, threading policy) {
        return loss_of(data, policy, set_loss_params::detr());
      });
  show_in_figures("match_queries/focal/f32/[0-9x]+");
  show_in_figures("set_loss_and_grad/varifocal/f32/16x300x80");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
