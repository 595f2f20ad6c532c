// SPDX-License-Identifier: Apache-2.0
// The functions of query_matching.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/args/query_matching.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/chunks_with_memory.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/query_matching.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/query_matching/query_matching.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// Divides one block of memory into arrays of whole cache lines.
class scratch_layout {
 public:
  template <class T>
  index_t add(index_t count) noexcept {
    const index_t at = lines_;
    lines_ += (count * index_t{sizeof(T)} + 63) / 64;
    return at;
  }
  index_t lines() const noexcept { return lines_; }

 private:
  index_t lines_ = 0;
};

/// The solver's arrays for the largest numbers of rows and columns.
template <class T>
class assignment_scratch {
 public:
  assignment_scratch(scratch_layout& layout, index_t rows, index_t cols)
      : numbers_(layout.add<double>(3 * padded_columns(cols) + 3 * rows)),
        row_of_(layout.add<index_t>(padded_columns(cols))),
        columns_(layout.add<index_t>(rows)),
        closed_(layout.add<index_t>(rows)) {}

  assignment_args<T> args(cache_line* scratch, const T* costs, index_t rows, index_t cols) const {
    const auto indices = [&](index_t at) { return reinterpret_cast<index_t*>(scratch + at); };
    return {costs,
            rows,
            cols,
            reinterpret_cast<double*>(scratch + numbers_),
            indices(row_of_),
            indices(columns_),
            indices(closed_)};
  }

 private:
  index_t numbers_, row_of_, columns_, closed_;
};

/// Throws unless layer `l` has as many boxes as rows, and the same number of rows for each image
/// and group. `member` names the layer's member that holds the outputs, in messages.
template <class T>
void check_layer(const char* function, index_t l, const char* member, const detr_outputs<T>& layer,
                 index_t images, index_t groups) {
  const index_t rows = layer.logits.rows();
  const auto name = [&](const char* what) { return element("layers", l) + member + what; };
  if (images == 0 ? rows != 0 : rows % (images * groups) != 0) {
    throw_invalid_argument(function, name(".logits.rows()"), rows,
                           "a multiple of " + std::to_string(images * groups) +
                               (groups == 1 ? ", the number of images" : ", images x groups"));
  }
  if (layer.boxes.size() != rows) {
    throw_invalid_argument(function, name(".boxes.size()"), layer.boxes.size(),
                           std::to_string(rows) + ", the rows of its logits");
  }
}

template <class T>
class query_match_call {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");

 public:
  query_match_call(vector_view<const detr_outputs<T>> layers, const ground_truth& truth,
                   vector_view<index_t> matches, const query_match_params& params,
                   query_match_buffers& buffers, threading policy)
      : layers_(layers),
        truth_(truth),
        matches_(matches),
        params_(params),
        buffers_(buffers),
        policy_(policy),
        images_(image_count(truth)) {}

  void run() {
    check_arguments();
    const isa target = active_isa();
    const profile::scope timing([&] { return problem(target); });
    if (truth_.boxes.empty()) return;
    sort_boxes();
    const auto& costs = kernels<query_cost_kernels<T>>(target);
    const auto& solver = kernels<assignment_kernels<float>>(target);
    const problem_scratch layout(*this);
    const chunking chunks(layers_.size() * images_ * params_.groups, 1);
    std::fill(matches_.begin(), matches_.end(), -1);
    for_each_chunk_with_memory(policy_, chunks, buffers_.scratch, layout.lines,
                               [&](index_t first, index_t last, cache_line* memory) {
                                 for (index_t i = first; i < last; ++i)
                                   match(costs, solver, layout, memory, i);
                               });
  }

 private:
  static constexpr const char* function = "match_queries";

  void check_arguments() const {
    check(!layers_.empty(), function, "layers.size()", layers_.size(), "1 or more");
    check(params_.groups >= 1 && params_.groups <= std::numeric_limits<std::int32_t>::max(),
          function, "params.groups", params_.groups, "1 to 2147483647");
    check(is_within(params_.alpha, 0, 1), function, "params.alpha", params_.alpha,
          "a number in [0, 1]");
    check(params_.gamma >= 0 && fits_float(params_.gamma), function, "params.gamma", params_.gamma,
          "a finite float, 0 or more");
    check(is_within(params_.epsilon, 1e-18, 1), function, "params.epsilon", params_.epsilon,
          "a number in [1e-18, 1]");
    check(fits_float(params_.class_weight), function, "params.class_weight", params_.class_weight,
          "a finite float");
    check(fits_float(params_.l1_weight), function, "params.l1_weight", params_.l1_weight,
          "a finite float");
    check(fits_float(params_.giou_weight), function, "params.giou_weight", params_.giou_weight,
          "a finite float");
    check(truth_.regions.empty(), function, "truth.regions.size()", truth_.regions.size(),
          "0: queries are not matched with ignore regions");
    index_t classes = std::numeric_limits<index_t>::max();
    for (index_t l = 0; l < layers_.size(); ++l) {
      check_layer(function, l, "", layers_[l], images_, params_.groups);
      classes = std::min(classes, layers_[l].logits.cols() -
                                      (params_.class_cost == query_class_cost::softmax ? 1 : 0));
    }
    check_classified(function, truth_, std::max(index_t{0}, classes));
    check_size(function, "matches.size()", matches_.size(),
               layers_.size() * params_.groups * truth_.boxes.size(), "layers x groups x boxes");
    for (index_t l = 0; l < layers_.size(); ++l) {
      check_apart(function, "matches", matches_, "layers[...].logits", layers_[l].logits);
      check_apart(function, "matches", matches_, "layers[...].boxes", layers_[l].boxes);
    }
    for_each_memory_of(truth_, [&](const char* name, const address_range& memory) {
      check_apart(function, "matches", matches_, name, memory);
    });
  }

  index_t group_queries(index_t layer) const {
    return images_ == 0 ? 0 : layers_[layer].logits.rows() / (images_ * params_.groups);
  }
  index_t box_count(index_t image) const {
    return first_image_box(truth_, image + 1) - first_image_box(truth_, image);
  }

  /// Counts every group of queries as one image, with the mean numbers of queries and boxes.
  profile::problem problem(isa target) const {
    const bool is_focal = params_.class_cost == query_class_cost::focal;
    const index_t problems = layers_.size() * images_ * params_.groups;
    index_t rows = 0, columns = 0;
    for (const detr_outputs<T>& layer : layers_) {
      rows += layer.logits.rows();
      columns = std::max(columns, layer.logits.cols());
    }
    const auto mean = [](index_t sum, index_t count) {
      return count == 0 ? 0 : (sum + count - 1) / count;
    };
    const index_t queries = mean(rows, problems);
    const index_t boxes = profile::rounded_count(mean(truth_.boxes.size(), images_));
    const index_t logits = is_focal ? std::min(boxes, columns) : columns;
    return {function,
            is_focal ? "focal" : "softmax",
            dtype_name<T>(),
            {problems, queries, boxes},
            isa_name(target),
            policy_.threads(),
            problems * queries * (4 + logits) * index_t{sizeof(T)}};
  }

  void sort_boxes() {
    classified_box* const order = grown(buffers_.order, truth_.boxes.size());
    for (index_t image = 0; image < images_; ++image) {
      const index_t first = first_image_box(truth_, image), count = box_count(image);
      for (index_t k = 0; k < count; ++k) order[first + k] = {k, class_of(truth_, first + k)};
      std::sort(order + first, order + first + count,
                [](const classified_box& a, const classified_box& b) {
                  return a.label != b.label ? a.label < b.label : a.box < b.box;
                });
    }
  }

  /// Memory for the largest group and the image with the most boxes.
  struct problem_scratch {
    index_t queries = 0, boxes = 0, classes = 0;
    scratch_layout layout;
    index_t costs, transposed, numbers;
    assignment_scratch<float> solver;
    index_t lines;

    explicit problem_scratch(const query_match_call& call)
        : queries(call.most_queries()),
          boxes(call.most_boxes()),
          classes(call.converted_classes()),
          costs(layout.add<float>(boxes * padded_columns(queries))),
          transposed(layout.add<float>(call.most_fewer_queries(boxes) * padded_columns(boxes))),
          numbers(layout.add<float>(16 * (boxes + classes))),
          solver(layout, std::min(boxes, queries), std::max(boxes, queries)),
          lines(layout.lines()) {}
  };
  index_t most_queries() const {
    index_t most = 0;
    for (index_t l = 0; l < layers_.size(); ++l) most = std::max(most, group_queries(l));
    return most;
  }
  /// The most queries of a group, among the groups with fewer queries than `boxes`.
  index_t most_fewer_queries(index_t boxes) const {
    index_t most = 0;
    for (index_t l = 0; l < layers_.size(); ++l)
      if (group_queries(l) < boxes) most = std::max(most, group_queries(l));
    return most;
  }
  index_t most_boxes() const {
    index_t most = 0;
    for (index_t image = 0; image < images_; ++image) most = std::max(most, box_count(image));
    return most;
  }
  index_t converted_classes() const {
    if (std::is_same<T, float>::value || params_.class_cost == query_class_cost::focal) return 0;
    index_t most = 0;
    for (index_t l = 0; l < layers_.size(); ++l) most = std::max(most, layers_[l].logits.cols());
    return most;
  }

  void match(const query_cost_kernels<T>& cost_kernels, const assignment_kernels<float>& solver,
             const problem_scratch& layout, cache_line* scratch, index_t i) const {
    const index_t group = i % params_.groups, image = i / params_.groups % images_;
    const index_t layer = i / params_.groups / images_;
    const detr_outputs<T>& outputs = layers_[layer];
    const index_t queries = group_queries(layer), first_box = first_image_box(truth_, image);
    const index_t boxes = box_count(image);
    if (queries == 0 || boxes == 0) return;
    const index_t first_row = (image * params_.groups + group) * queries;
    float* const costs = reinterpret_cast<float*>(scratch + layout.costs);
    query_cost_args<T> args{};
    args.logits = outputs.logits.row(first_row);
    args.logits_stride = outputs.logits.stride();
    args.classes = outputs.logits.cols();
    args.queries = outputs.boxes[first_row];
    args.query_count = queries;
    args.truth = truth_.boxes[first_box];
    args.boxes = buffers_.order.data() + first_box;
    args.box_count = boxes;
    args.class_cost = params_.class_cost;
    args.alpha = params_.alpha;
    args.gamma = params_.gamma;
    args.epsilon = params_.epsilon;
    args.class_weight = params_.class_weight;
    args.l1_weight = params_.l1_weight;
    args.giou_weight = params_.giou_weight;
    args.costs = costs;
    args.scratch = reinterpret_cast<float*>(scratch + layout.numbers);
    cost_kernels.compute(args);

    index_t* const matches =
        matches_.data() + (layer * params_.groups + group) * truth_.boxes.size() + first_box;
    if (boxes <= queries) {
      const auto a = layout.solver.args(scratch, costs, boxes, queries);
      solver.assign(a);
      for (index_t b = 0; b < boxes; ++b) matches[b] = group * queries + a.columns[b];
    } else {
      float* const transposed = reinterpret_cast<float*>(scratch + layout.transposed);
      solver.copy(costs, padded_columns(queries), boxes, queries, transposed);
      const auto a = layout.solver.args(scratch, transposed, queries, boxes);
      solver.assign(a);
      for (index_t q = 0; q < queries; ++q) matches[a.columns[q]] = group * queries + q;
    }
  }

  vector_view<const detr_outputs<T>> layers_;
  const ground_truth& truth_;
  vector_view<index_t> matches_;
  const query_match_params& params_;
  query_match_buffers& buffers_;
  threading policy_;
  index_t images_;
};

}  // namespace detail

template <class T>
void match_queries(vector_view<const detr_outputs<T>> layers, const ground_truth& truth,
                   vector_view<index_t> matches, const query_match_params& params,
                   query_match_workspace& workspace, threading policy) {
  detail::query_match_call<T>(layers, truth, matches, params,
                              detail::workspace_access::buffers(workspace), policy)
      .run();
}

template <class T>
double assign_least_cost(matrix_view<T> given, vector_view<index_t> columns,
                         assignment_workspace& workspace) {
  using real = value_of<T>;
  static_assert(std::is_same<real, float>::value || std::is_same<real, double>::value,
                "this function takes float or double");
  constexpr const char* function = "assign_least_cost";
  const matrix_view<const real> costs = given;
  const index_t rows = costs.rows(), cols = costs.cols();
  detail::check_size(function, "columns.size()", columns.size(), rows, "the number of rows");
  detail::check_apart(function, "columns", columns, "costs", costs);
  const isa target = active_isa();
  const profile::scope timing([&] {
    return profile::problem{function,
                            nullptr,
                            dtype_name<real>(),
                            {rows, cols},
                            isa_name(target),
                            1,
                            rows * (cols * index_t{sizeof(real)} + index_t{sizeof(index_t)})};
  });
  const bool transposed = rows > cols;
  const index_t short_side = std::min(rows, cols), long_side = std::max(rows, cols);
  detail::scratch_layout layout;
  const index_t copy = layout.add<real>(short_side * detail::padded_columns(long_side));
  const detail::assignment_scratch<real> solver(layout, short_side, long_side);
  detail::cache_line* const scratch =
      detail::grown(detail::workspace_access::buffers(workspace).scratch, layout.lines());
  const auto& kernels = detail::kernels<detail::assignment_kernels<real>>(target);
  real* const copied = reinterpret_cast<real*>(scratch + copy);
  const index_t invalid = kernels.copy(costs.data(), costs.stride(), rows, cols, copied);
  if (invalid < rows * cols) {
    const index_t i = invalid / cols, j = invalid % cols;
    detail::throw_invalid_argument(
        function, "costs(" + std::to_string(i) + ", " + std::to_string(j) + ")", costs(i, j),
        "a number up to 1e300 in magnitude, or +infinity for a forbidden pair");
  }
  const auto args = solver.args(scratch, copied, short_side, long_side);
  detail::check(kernels.assign(args), function, "costs", "infinite in every complete assignment",
                "finite costs that assign every row or every column");
  double total = 0;
  for (index_t i = 0; i < rows; ++i) {
    columns[i] = transposed ? args.row_of[i] : args.columns[i];
    if (columns[i] >= 0) total = detail::rounded(total + static_cast<double>(costs(i, columns[i])));
  }
  return total;
}

}  // namespace VECDET_ABI
}  // namespace vecdet
