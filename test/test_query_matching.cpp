// SPDX-License-Identifier: Apache-2.0
// match_queries and assign_least_cost on every instruction set: costs and assignments against the
// reference, PyTorch's matches, layers, groups, more boxes than queries, ties, NaN and infinity,
// threads, and every documented error.
#include "support/data.hpp"
#include "support/detr_problem.hpp"
#include "support/isa.hpp"
#include <vecdet/query_matching.hpp>
#include <vecdet/reference/query_matching.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// The exact cost of a row of a layer and a box.
template <class T>
double exact_cost(const random_layer<T>& layer, index_t row, const random_truth& truth, index_t box,
                  const query_match_params& params) {
  const index_t label = truth.classes[at(box)];
  std::vector<double> x;
  for (index_t c = 0; c < layer.classes; ++c)
    x.push_back(static_cast<double>(layer.logits[at(row * layer.classes + c)]));
  const double class_cost =
      params.class_cost == query_class_cost::focal
          ? reference::focal_class_cost(x[at(label)], params.alpha, params.gamma, params.epsilon)
          : reference::softmax_class_cost(x.data(), layer.classes, label);
  const auto p = four_of(layer.boxes, row), t = four_of(truth.boxes, box);
  return params.l1_weight * reference::l1_distance(p.data(), t.data()) +
         params.class_weight * class_cost -
         params.giou_weight * reference::overlap_of_centres(p.data(), t.data()).giou;
}

/// The least possible total cost, and the total cost of the found matches, of one group.
struct totals {
  double least = 0, found = 0;
};
template <class T>
totals totals_of(const random_layer<T>& layer, const random_truth& truth, index_t images,
                 index_t image, index_t group, const query_match_params& params,
                 const index_t* matches) {
  const index_t queries = layer.rows / images / params.groups;
  const index_t first = truth.offsets[at(image)], boxes = truth.offsets[at(image + 1)] - first;
  std::vector<double> costs;
  for (index_t b = 0; b < boxes; ++b)
    for (index_t q = 0; q < queries; ++q)
      costs.push_back(exact_cost(layer, (image * params.groups + group) * queries + q, truth,
                                 first + b, params));
  std::vector<index_t> columns(at(boxes));
  totals result;
  result.least =
      reference::assign_least_cost({costs.data(), boxes, queries}, vector_view<index_t>(columns));
  std::vector<bool> used(at(queries));
  index_t matched = 0;
  for (index_t b = 0; b < boxes; ++b) {
    if (matches[b] == -1) continue;
    const index_t q = matches[b] - group * queries;
    REQUIRE(q >= 0);
    REQUIRE(q < queries);
    CHECK(!used[at(q)]);
    used[at(q)] = true;
    result.found += costs[at(b * queries + q)];
    ++matched;
  }
  CHECK(matched == std::min(boxes, queries));
  return result;
}

template <class T>
std::vector<index_t> matches_of(const std::vector<detr_outputs<T>>& layers,
                                const ground_truth& truth, const query_match_params& params,
                                threading policy = threading::sequential) {
  const index_t size = static_cast<index_t>(layers.size()) * params.groups * truth.boxes.size();
  std::vector<index_t> matches(at(size), -99);
  query_match_workspace workspace;
  match_queries<T>(layers, truth, matches, params, workspace, policy);
  return matches;
}

/// Checks on random layers with `queries` per image that the matches cost no more than the exact
/// ones.
template <class T>
void check_random(index_t queries, const std::vector<index_t>& counts, index_t classes,
                  const query_match_params& params, std::uint64_t seed) {
  random_generator generator(seed);
  const auto images = static_cast<index_t>(counts.size());
  const random_truth truth(counts, classes - 1, generator);
  const std::vector<random_layer<T>> layers{{images * queries, classes, generator},
                                            {images * 2 * queries, classes + 3, generator}};
  const std::vector<detr_outputs<T>> views{layers[0].view(), layers[1].view()};
  const auto run = [&] { return matches_of(views, truth.view(), params); };
  check_on_every_isa(run, [&](const std::vector<index_t>& matches) {
    CHECK(matches == matches_of(views, truth.view(), params, threading::parallel));
    for (index_t l = 0; l < 2; ++l)
      for (index_t image = 0; image < images; ++image)
        for (index_t group = 0; group < params.groups; ++group) {
          const index_t* const found = matches.data() + (l * params.groups + group) * truth.size() +
                                       truth.offsets[at(image)];
          const totals t = totals_of(layers[at(l)], truth, images, image, group, params, found);
          CHECK(std::abs(t.found - t.least) <= 2e-5 * static_cast<double>(1 + counts[at(image)]));
        }
  });
}

template <class T>
std::vector<index_t> columns_of(matrix_view<const T> costs, double* total = nullptr) {
  std::vector<index_t> columns(at(costs.rows()), -99);
  assignment_workspace workspace;
  const double sum = assign_least_cost(costs, vector_view<index_t>(columns), workspace);
  if (total != nullptr) *total = sum;
  return columns;
}

template <class T>
void check_assignment(index_t rows, index_t cols, bool ties, bool forbids, std::uint64_t seed) {
  INFO(rows, " x ", cols);
  random_generator generator(seed);
  const index_t stride = cols + 3;
  std::vector<T> costs(at(rows * stride));
  std::vector<double> exact;
  for (T& cost : costs) {
    cost = static_cast<T>(generator.uniform(-5, 5));
    if (ties) cost = std::round(cost);
    if (forbids && generator.uniform() < 0.2) cost = static_cast<T>(infinite);
  }
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < cols; ++j)
      exact.push_back(static_cast<double>(costs[at(i * stride + j)]));
  std::vector<index_t> expected(at(rows), -1);
  const double least =
      reference::assign_least_cost({exact.data(), rows, cols}, vector_view<index_t>(expected));
  for_each_isa([&](isa) {
    const matrix_view<const T> view(costs.data(), rows, cols, stride);
    if (std::isinf(least)) {
      CHECK_THROWS_AS(columns_of(view), std::invalid_argument);
      return;
    }
    double total = 0;
    CHECK(columns_of(view, &total) == expected);
    CHECK(total == least);
  });
}

}  // namespace

TEST_CASE("assign_least_cost: the reference's assignments, any size") {
  std::uint64_t seed = 0;
  for (const bool ties : {false, true}) {
    for (const bool forbids : {false, true}) {
      for (index_t rows = 0; rows <= 20; ++rows) {
        for (const index_t cols : {0, 1, 2, 7, 15, 16, 17, 33}) {
          if (rows == 0 && cols == 0) continue;
          check_assignment<double>(rows, cols, ties, forbids, ++seed);
          check_assignment<float>(rows, cols, ties, forbids, ++seed);
        }
      }
    }
  }
  check_assignment<double>(100, 130, false, false, 1);
  check_assignment<float>(130, 100, true, false, 2);
}

TEST_CASE("assign_least_cost: SciPy's assignments") {
  if (!has_data("golden_network/lsa_cost_0.npy", "assign_least_cost: SciPy's assignments")) return;
  for (int k = 0; k < 9; ++k) {
    INFO("matrix ", k);
    const std::string number = std::to_string(k);
    const auto costs = golden_network<double>("lsa_cost_" + number);
    const auto rows = golden_network<index_t>("lsa_rows_" + number);
    const auto cols = golden_network<index_t>("lsa_cols_" + number);
    std::vector<index_t> expected(at(costs.shape[0]), -1);
    for (std::size_t i = 0; i < rows.values.size(); ++i)
      expected[at(rows.values[i])] = cols.values[i];
    for_each_isa([&](isa) { CHECK(columns_of(costs.matrix()) == expected); });
  }
}

TEST_CASE("assign_least_cost: ties, and sums without rounding errors") {
  for_each_isa([](isa) {
    const std::vector<double> same(12, 2.5);
    double total = 0;
    CHECK(columns_of<double>({same.data(), 3, 4}, &total) == std::vector<index_t>{0, 1, 2});
    CHECK(total == 7.5);
    CHECK(columns_of<double>({same.data(), 4, 3}) == std::vector<index_t>{0, 1, 2, -1});
    const std::vector<double> huge{1e300, -1e300, -1e300, 1e300};
    CHECK(columns_of<double>({huge.data(), 2, 2}) == std::vector<index_t>{1, 0});
    const float most = std::numeric_limits<float>::max();
    const std::vector<float> floats{most, -most, most, -most, -most, -most};
    CHECK(columns_of<float>({floats.data(), 3, 2}) == std::vector<index_t>{1, -1, 0});
  });
}

TEST_CASE("assign_least_cost: bad arguments throw errors that name them") {
  std::vector<double> costs{1, 2, 3, 4, 5, 6};
  std::vector<index_t> columns{7, 7};
  assignment_workspace workspace;
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(assign_least_cost(matrix_view<const double>(costs.data(), 2, 3),
                                           vector_view<index_t>(columns), workspace),
                         doctest::Contains(message), std::invalid_argument);
    for (const index_t column : columns) CHECK(column == 7);
    costs = {1, 2, 3, 4, 5, 6};
    columns = {7, 7};
  };
  columns.push_back(7);
  fails("vecdet::assign_least_cost: columns.size() is 3, expected 2, the number of rows");
  costs[4] = std::nan("");
  fails("costs(1, 1) is nan, expected a number up to 1e300 in magnitude");
  costs[2] = -infinite;
  fails("costs(0, 2) is -inf");
  costs[0] = 2e300;
  fails("costs(0, 0) is 2");
  costs = {infinite, infinite, 1, infinite, infinite, 2};
  fails("costs is infinite in every complete assignment");
  std::vector<double> shared(6);
  CHECK_THROWS_WITH_AS(
      assign_least_cost(matrix_view<const double>(shared.data(), 2, 3),
                        vector_view<index_t>(reinterpret_cast<index_t*>(shared.data()), 2),
                        workspace),
      doctest::Contains("columns is in the memory of costs, expected separate memory"),
      std::invalid_argument);
}

TEST_CASE("match_queries: costs against the reference") {
  random_generator generator(11);
  const random_truth truth({19}, 9, generator);
  for (const index_t queries : {1, 15, 16, 17, 50}) {
    const random_layer<float> layer(queries, 10, generator);
    for (const query_class_cost kind : {query_class_cost::focal, query_class_cost::softmax}) {
      for (const double gamma : {2.0, 0.0, 0.5, 3.0}) {
        query_match_params params;
        params.class_cost = kind;
        params.gamma = gamma;
        params.alpha = 0.3;
        std::vector<detail::classified_box> boxes;
        for (index_t k = 0; k < truth.size(); ++k) boxes.push_back({k, truth.classes[at(k)]});
        const index_t stride = detail::padded_columns(queries);
        std::vector<float> costs(at(truth.size() * stride), -1), scratch(16 * 19);
        detail::query_cost_args<float> args{};
        args.logits = layer.logits.data();
        args.logits_stride = args.classes = layer.classes;
        args.queries = layer.boxes.data();
        args.query_count = queries;
        args.truth = truth.boxes.data();
        args.boxes = boxes.data();
        args.box_count = truth.size();
        args.class_cost = kind;
        args.alpha = params.alpha;
        args.gamma = gamma;
        args.epsilon = params.epsilon;
        args.class_weight = params.class_weight;
        args.l1_weight = params.l1_weight;
        args.giou_weight = params.giou_weight;
        args.costs = costs.data();
        args.scratch = scratch.data();
        for_each_isa([&](isa set) {
          detail::kernels<detail::query_cost_kernels<float>>(set).compute(args);
          double worst = 0;
          for (index_t b = 0; b < truth.size(); ++b)
            for (index_t q = 0; q < stride; ++q) {
              const auto cost = static_cast<double>(costs[at(b * stride + q)]);
              if (q >= queries) {
                CHECK(cost == infinite);
                continue;
              }
              const double exact = exact_cost(layer, q, truth, b, params);
              worst = std::max(worst, std::abs(cost - exact) / (1 + std::abs(exact)));
            }
          CHECK(worst < 4e-6);
        });
      }
    }
  }
}

TEST_CASE("match_queries: PyTorch's matches") {
  if (!has_data("golden_network/detr_cost_0_0.npy", "match_queries: PyTorch's matches")) return;
  for (int k = 0; k < 2; ++k) {
    const auto array = [&](auto zero, const std::string& name) {
      return golden_network<decltype(zero)>("detr_" + name + "_" + std::to_string(k));
    };
    const auto logits = array(0.0f, "logits"), boxes = array(0.0f, "boxes");
    const auto targets = array(0.0f, "targets");
    const auto labels = array(index_t{0}, "labels"), offsets = array(index_t{0}, "offsets");
    const auto queries = array(index_t{0}, "queries"), matched = array(index_t{0}, "truth");
    const ground_truth truth{targets.values, labels.values, offsets.values};
    const std::vector<detr_outputs<float>> layers{
        {{logits.values.data(), logits.shape[0] * logits.shape[1], logits.shape[2]}, boxes.values}};
    std::vector<index_t> expected(labels.values.size(), -1);
    for (std::size_t i = 0; i < queries.values.size(); ++i)
      expected[at(matched.values[i])] = queries.values[i] % logits.shape[1];
    for_each_isa(
        [&](isa) { CHECK(matches_of(layers, truth, query_match_params::rt_detr()) == expected); });
  }
}

TEST_CASE("match_queries: layers, images, groups, more boxes than queries") {
  std::uint64_t seed = 100;
  for (const auto& preset : {query_match_params::rt_detr(), query_match_params::detr()}) {
    query_match_params params = preset;
    check_random<float>(40, {3, 0, 7, 1}, 12, params, ++seed);
    check_random<bfloat16>(40, {3, 0, 7, 1}, 12, params, ++seed);
    check_random<float>(5, {9, 5, 0}, 4, params, ++seed);
    check_random<bfloat16>(5, {9, 2}, 4, params, ++seed);
    params.groups = 4;
    check_random<float>(60, {5, 0, 14, 20}, 7, params, ++seed);
    params.gamma = 1.5;
    check_random<float>(28, {5, 9}, 200, params, ++seed);
  }
}

TEST_CASE("match_queries: no images, no boxes, no queries, no offsets") {
  random_generator generator(1);
  const random_layer<float> layer(12, 4, generator), empty(0, 4, generator);
  for_each_isa([&](isa) {
    ground_truth none;
    const std::vector<index_t> no_image{0}, images{0, 0, 0};
    none.image_offsets = no_image;
    CHECK(matches_of<float>({empty.view()}, none, {}).empty());
    none.image_offsets = images;
    CHECK(matches_of<float>({layer.view()}, none, {}).empty());
    const std::vector<float> box{0.5f, 0.5f, 0.1f, 0.1f};
    const ground_truth one{box};
    CHECK(matches_of<float>({empty.view()}, one, {}) == std::vector<index_t>{-1});
    const auto match = matches_of<float>({layer.view()}, one, {});
    CHECK(match.size() == 1);
    CHECK((match[0] >= 0 && match[0] < 12));
  });
}

TEST_CASE("match_queries: NaN, infinity and boxes without area") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto inf = std::numeric_limits<float>::infinity();
  std::vector<float> logits{0, 0, 0, 0}, boxes, box{0.5f, 0.5f, 0.2f, 0.2f};
  for (int q = 0; q < 4; ++q) boxes.insert(boxes.end(), box.begin(), box.end());
  const ground_truth truth{box};
  const auto match = [&] {
    return matches_of<float>({{{logits.data(), 4, 1}, boxes}}, truth, {})[0];
  };
  for_each_isa([&](isa) {
    logits = {nan, nan, -3, 0};
    CHECK(match() == 3);
    logits = {nan, -inf, -80, nan};
    CHECK(match() == 1);  // both are the worst finite cost; the first wins
    logits = {nan, nan, nan, nan};
    CHECK(match() == 0);
    logits = {1, inf, inf, 2};
    CHECK(match() == 1);
    logits = {0, 0, 0, 0};
    boxes[0] = nan;
    CHECK(match() == 1);
    boxes[5] = inf;
    CHECK(match() == 2);
    boxes[2] = boxes[3] = boxes[0] = boxes[1] = 0.5f;
    boxes[2] = boxes[3] = 0;
    CHECK(match() == 2);
    std::fill(boxes.begin(), boxes.end(), 0.5f);
    CHECK(match() == 0);
    boxes[0] = boxes[1] = boxes[2] = boxes[3] = boxes[5] = 0.5f;
    for (std::size_t i = 0; i < 16; ++i)
      boxes[i] = i / 4 == 3 ? box[i % 4] : i / 4 == 1 ? nan : -1e30f;
    CHECK(match() == 3);
    for (std::size_t i = 0; i < 16; ++i) boxes[i] = box[i % 4];
  });
}

TEST_CASE("match_queries: bad arguments throw errors that name them") {
  random_generator generator(3);
  const random_truth good({2, 1}, 4, generator);
  const random_layer<float> layer(20, 4, generator);
  std::vector<detr_outputs<float>> layers;
  std::vector<index_t> matches, classes, offsets;
  std::vector<float> region{0, 0, 1, 1};
  ground_truth truth;
  query_match_params params;
  query_match_workspace workspace;
  const auto reset = [&] {
    layers = {layer.view()};
    matches.assign(3, 7);
    classes = {1, 3, 0};
    offsets = {0, 2, 3};
    truth = good.view();
    truth.classes = classes;
    truth.image_offsets = offsets;
    params = {};
  };
  const auto fails = [&](const char* message) {
    CHECK_THROWS_WITH_AS(match_queries<float>(layers, truth, matches, params, workspace),
                         doctest::Contains(message), std::invalid_argument);
    for (const index_t match : matches) CHECK(match == 7);
    reset();
  };
  reset();
  layers.clear();
  fails("vecdet::match_queries: layers.size() is 0, expected 1 or more");
  params.groups = 0;
  fails("params.groups is 0, expected 1 to 2147483647");
  params.groups = 3;
  fails("layers[0].logits.rows() is 20, expected a multiple of 6, images x groups");
  layers[0].logits = {layer.logits.data(), 19, 4};
  fails("layers[0].logits.rows() is 19, expected a multiple of 2, the number of images");
  layers[0].boxes = {layer.boxes.data(), 18};
  fails("layers[0].boxes.size() is 18, expected 20, the rows of its logits");
  params.alpha = 1.5;
  fails("params.alpha is 1.5, expected a number in [0, 1]");
  params.gamma = -1;
  fails("params.gamma is -1, expected a finite float, 0 or more");
  params.epsilon = 0;
  fails("params.epsilon is 0, expected a number in [1e-18, 1]");
  params.class_weight = 1e39;
  fails("params.class_weight is 9.9999999999999994e+38, expected a finite float");
  params.l1_weight = infinite;
  fails("params.l1_weight is inf");
  params.giou_weight = std::nan("");
  fails("params.giou_weight is nan");
  truth.regions = region;
  fails("truth.regions.size() is 1, expected 0");
  offsets[1] = 4;
  fails("truth.image_offsets[2] is 3, expected at least 4, the element before it");
  classes[0] = 4;
  fails("truth.classes[0] is 4, expected 0 to 3 (4 classes); do your labels start at 1?");
  params.class_cost = query_class_cost::softmax;
  fails("truth.classes[1] is 3, expected 0 to 2 (3 classes)");
  matches.push_back(7);
  fails("matches.size() is 4, expected 3, layers x groups x boxes");
  std::vector<index_t> shared{0, 1, 2};
  truth.classes = shared;
  CHECK_THROWS_WITH_AS(
      match_queries<float>(layers, truth, shared, params, workspace),
      doctest::Contains("matches is in the memory of truth.classes, expected separate memory"),
      std::invalid_argument);
}

TEST_CASE_TEMPLATE("match_queries: scratch memory is as documented", T, float, bfloat16) {
  const auto up = [](index_t n) { return (n + 15) / 16 * 16; };
  random_generator generator(77);
  for (auto params : {query_match_params(), query_match_params::detr()})
    for (const index_t queries : {1, 17, 100, 300})
      for (const index_t boxes : {1, 5, 20, 200})
        for (const int threads : {1, 2, 4}) {
          CAPTURE(queries);
          CAPTURE(boxes);
          CAPTURE(threads);
          constexpr index_t classes = 80;
          const random_layer<T> layer(4 * queries, classes, generator);
          const random_truth truth({boxes, 0, boxes / 2, boxes}, classes - 1, generator);
          const std::vector<detr_outputs<T>> layers{layer.view()};
          std::vector<index_t> matches(at(truth.size()));
          query_match_workspace workspace;
          match_queries<T>(layers, truth.view(), matches, params, workspace,
                           threading::on(in_turn, threads));
          const auto& buffers = detail::workspace_access::buffers(workspace);
          const auto actual =
              static_cast<index_t>(64 * buffers.scratch.capacity() +
                                   sizeof(buffers.order[0]) * buffers.order.capacity());
          const bool is_softmax = params.class_cost == query_class_cost::softmax;
          const index_t per_thread =
              1024 + 4 * up(queries) * up(boxes) * (queries < boxes ? 2 : 1) + 40 * up(queries) +
              104 * up(boxes) + (is_softmax && std::is_same<T, bfloat16>::value ? 64 * classes : 0);
          CHECK(actual <= threads * per_thread + 16 * truth.size());
        }
}

TEST_CASE("assign_least_cost: scratch memory is as documented") {
  for (const index_t rows : {1, 5, 17, 100})
    for (const index_t cols : {1, 16, 33, 300}) {
      const std::vector<double> costs(at(rows * cols), 1.0);
      std::vector<index_t> columns(at(rows));
      assignment_workspace workspace;
      assign_least_cost(matrix_view<const double>(costs.data(), rows, cols), columns, workspace);
      const index_t longer = (std::max(rows, cols) + 15) / 16 * 16, shorter = std::min(rows, cols);
      const auto& buffers = detail::workspace_access::buffers(workspace);
      CHECK(static_cast<index_t>(64 * buffers.scratch.capacity()) <=
            8 * longer * shorter + 40 * (longer + shorter) + 5 * 64);
    }
}
