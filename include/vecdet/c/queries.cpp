// SPDX-License-Identifier: Apache-2.0
// A DETR's queries: matching with ground-truth boxes, and losses. All boxes, including the ground
// truth, are cx cy w h in [0, 1]. Outputs of decoder layers are float or bfloat16.
#include <vecdet/c/support.hpp>
#include <vecdet/query_matching.hpp>
#include <vecdet/set_loss.hpp>

/// The outputs of a decoder layer, without gaps.
typedef struct vecdet_detr_outputs {
  const void* logits;  ///< images x queries x classes
  const void* boxes;   ///< images x queries x 4
  int64_t queries;     ///< per image
  int64_t classes;
} vecdet_detr_outputs;

/// A decoder layer or the denoising queries: outputs, matches and gradients.
typedef struct vecdet_set_loss_layer {
  vecdet_detr_outputs outputs;
  const int64_t* matches;  ///< groups x ground-truth boxes: the query in its image, or -1
  int64_t groups;
  void* logits_grad;  ///< the shape and type of outputs.logits
  void* boxes_grad;   ///< the shape and type of outputs.boxes
} vecdet_set_loss_layer;

/// The weighted losses of a layer.
typedef struct vecdet_set_losses {
  double classification;
  double l1;
  double giou;
} vecdet_set_losses;

namespace vecdet_c {
namespace {

template <class T>
detr_outputs<T> outputs_of(const vecdet_detr_outputs& outputs, int64_t images,
                           const char* function) {
  const index_t rows = product(images, outputs.queries, function, "truth.images");
  detr_outputs<T> result;
  result.logits = matrix_view<const T>(as<T>(outputs.logits), rows, outputs.classes);
  result.boxes = boxes_view<const T>(as<T>(outputs.boxes), rows);
  return result;
}

template <class T>
set_loss_layer<T> loss_layer_of(const vecdet_set_loss_layer& layer, int64_t images, int64_t boxes,
                                const char* function) {
  set_loss_layer<T> result;
  result.outputs = outputs_of<T>(layer.outputs, images, function);
  result.matches = vector_view<const index_t>(
      layer.matches, product(layer.groups, boxes, function, "layers.groups"));
  const matrix_view<const T>& logits = result.outputs.logits;
  result.logits_grad = matrix_view<T>(as<T>(layer.logits_grad), logits.rows(), logits.cols());
  result.boxes_grad = boxes_view<T>(as<T>(layer.boxes_grad), logits.rows());
  return result;
}

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// Bipartite matching of queries with the ground-truth boxes of their image, arXiv 2005.12872, for
/// all layers and query groups. `matches` has layers x params->groups x ground-truth boxes
/// elements: the query of each box in its image, or -1 for a box without a query, if the group has
/// fewer queries than the image has boxes. `params` null: vecdet_query_match_params_rt_detr().
VECDET_C vecdet_status vecdet_match_queries(vecdet_dtype type, const vecdet_detr_outputs* layers,
                                            int64_t layer_count, const vecdet_ground_truth* truth,
                                            const vecdet_query_match_params* params,
                                            vecdet_workspace* workspace, int64_t* matches) {
  constexpr const char* function = "match_queries";
  return guarded([&] {
    const auto p = params_of<query_match_params>(params, function);
    const ground_truth boxes = truth_of(truth, function);
    const vector_view<const vecdet_detr_outputs> given(layers, layer_count);
    const index_t groups = product(layer_count, p.groups, function, "layer_count");
    const vector_view<index_t> results(
        matches, product(std::max(index_t{0}, groups), boxes.boxes.size(), function, "groups"));
    scratch memory(workspace);
    on_type<float, bfloat16>(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      std::vector<detr_outputs<T>> outputs;
      for (const vecdet_detr_outputs& layer : given)
        outputs.push_back(outputs_of<T>(layer, images_in(truth), function));
      match_queries<T>(outputs, boxes, results, p, memory.get<query_match_workspace>(), policy);
    });
  });
}

/// Assigns rows to columns so that their total cost is least, like SciPy's linear_sum_assignment.
/// `costs`, float or double, are rows x cols; `stride` is the number of elements from one row to
/// the next. A cost of +infinity forbids a pair. Writes the total cost to `total` and the column of
/// each row to `columns`, or -1 for a row without a column if there are more rows than columns.
VECDET_C vecdet_status vecdet_assign_least_cost(vecdet_dtype type, const void* costs, int64_t rows,
                                                int64_t cols, int64_t stride,
                                                vecdet_workspace* workspace, int64_t* columns,
                                                double* total) {
  constexpr const char* function = "assign_least_cost";
  return guarded([&] {
    check_pointer(total, function, "total");
    scratch memory(workspace);
    with_type<float, double>(type, function, [&](auto of) {
      *total = assign_least_cost(of.matrix(costs, rows, cols, stride),
                                 vector_view<index_t>(columns, rows),
                                 memory.get<assignment_workspace>());
    });
  });
}

/// Writes the losses of each layer to `losses`, and the gradients of their sum to the layers'
/// memory: the class loss of all queries, and the L1 and GIoU losses of matched queries. `params`
/// null: vecdet_set_loss_params_rt_detr().
VECDET_C vecdet_status vecdet_set_loss_and_grad(
    vecdet_dtype type, const vecdet_set_loss_layer* layers, int64_t layer_count,
    const vecdet_ground_truth* truth, const vecdet_set_loss_params* params,
    vecdet_workspace* workspace, vecdet_set_losses* losses) {
  constexpr const char* function = "set_loss_and_grad";
  return guarded([&] {
    check_pointer(losses, function, "losses", layer_count);
    const auto p = params_of<set_loss_params>(params, function);
    const ground_truth boxes = truth_of(truth, function);
    const vector_view<const vecdet_set_loss_layer> given(layers, layer_count);
    std::vector<set_losses> found(static_cast<std::size_t>(given.size()));
    scratch memory(workspace);
    on_type<float, bfloat16>(type, function, [&](auto of, threading policy) {
      using T = typename decltype(of)::type;
      std::vector<set_loss_layer<T>> parts;
      for (const vecdet_set_loss_layer& layer : given)
        parts.push_back(loss_layer_of<T>(layer, images_in(truth), boxes.boxes.size(), function));
      set_loss_and_grad<T>(parts, boxes, found, p, memory.get<set_loss_workspace>(), policy);
    });
    for (const set_losses& l : found) *losses++ = {l.classification, l.l1, l.giou};
  });
}
