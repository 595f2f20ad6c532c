// SPDX-License-Identifier: Apache-2.0
// Matching and losses of a DETR's queries, layer by layer.
#pragma once

#include <vecdet/impl/torch/assignment.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>
#include <vecdet/query_matching.hpp>
#include <vecdet/set_loss.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The outputs of decoder layers: logits [images, queries, classes] and boxes [images, queries, 4].
class query_layers {
 public:
  query_layers(const char* function, at::TensorList logits, at::TensorList boxes_) {
    check(!logits.empty(), function, "logits.size()", 0, "1 or more layers");
    check_size(function, "boxes.size()", static_cast<index_t>(boxes_.size()),
               static_cast<index_t>(logits.size()), "the number of layers of logits");
    type_ = at::kBFloat16;
    for (std::size_t l = 0; l < logits.size(); ++l) {
      const std::string logits_name = element("logits", static_cast<index_t>(l));
      const std::string boxes_name = element("boxes", static_cast<index_t>(l));
      check_dense(function, logits_name.c_str(), logits[l]);
      check_boxes(function, boxes_name.c_str(), boxes_[l]);
      check_shape(logits[l].dim() == 3 && logits[l].size(0) == logits[0].size(0), function,
                  logits_name.c_str(), logits[l],
                  "[images, queries, classes] with the same number of images in all layers");
      check_shape(boxes_[l].sizes().slice(0, boxes_[l].dim() - 1) == logits[l].sizes().slice(0, 2),
                  function, boxes_name.c_str(), boxes_[l],
                  "[images, queries, 4] with the queries of the logits");
      const at::ScalarType type =
          computed_type(function, logits_name.c_str(), logits[l], boxes_name.c_str(), boxes_[l]);
      check(type != at::kDouble, function, (logits_name + ".dtype").c_str(), c10::toString(type),
            "float32, bfloat16 or float16");
      type_ = c10::promoteTypes(type_, type);
    }
    for (std::size_t l = 0; l < logits.size(); ++l) {
      logits_.emplace_back("logits", logits[l], type_);
      boxes_of_.push_back(contiguous("boxes", boxes_[l], type_));
    }
  }

  index_t size() const { return static_cast<index_t>(logits_.size()); }
  index_t images() const { return logits_[0].tensor.size(0); }
  /// float32, or bfloat16 if all layers are.
  at::ScalarType type() const { return type_; }
  const at::Tensor& logits(std::size_t l) const { return logits_[l].tensor; }
  const at::Tensor& boxes(std::size_t l) const { return boxes_of_[l]; }

  template <class T>
  detr_outputs<T> view(std::size_t l) const {
    // The number of rows is not computed from the number of elements, which may be 0.
    const at::Tensor& layer = logits_[l].tensor;
    const matrix_view<const T> rows(static_cast<const T*>(layer.data_ptr()),
                                    layer.size(0) * layer.size(1), layer.size(2),
                                    std::max(logits_[l].stride, layer.size(2)));
    return {rows, aten::boxes<const T>(boxes_of_[l])};
  }

 private:
  at::ScalarType type_;
  std::vector<rows> logits_;
  std::vector<at::Tensor> boxes_of_;
};

/// Throws unless there is one count per image; a single image needs none.
inline void check_box_counts(const char* function, at::IntArrayRef box_counts, index_t images) {
  check_size(function, "box_counts.size()",
             box_counts.empty() ? 1 : static_cast<index_t>(box_counts.size()), images,
             "the number of images");
}

/// Losses [layers, 3], the gradients of the class losses with respect to the logits, and those of
/// L1 and GIoU with respect to the boxes. Gradients that are not needed are missing.
using set_loss_tensors = std::tuple<at::Tensor, std::vector<at::Tensor>, std::vector<at::Tensor>,
                                    std::vector<at::Tensor>>;

namespace cpu {

/// The query of each ground-truth box (query_matching.hpp), int64, layers x groups x boxes; -1 for
/// a box without a query.
/// @param logits decoder layers, each images x queries x classes
/// @param boxes layers, each images x queries x 4: cx cy w h in [0, 1]
/// @param targets ground-truth boxes, M x 4, cx cy w h, image after image
/// @param classes integers, one per ground-truth box; undefined: all 0
/// @param box_counts the number of ground-truth boxes per image; empty: a single image
inline at::Tensor match_queries(at::TensorList logits, at::TensorList boxes_,
                                const at::Tensor& targets, const optional_tensor& classes,
                                at::IntArrayRef box_counts, const query_match_params& params) {
  constexpr const char* function = "match_queries";
  return translated([&] {
    const query_layers layers(function, logits, boxes_);
    check_choice(function, "class_cost", params.class_cost, query_class_cost::softmax,
                 "0 (focal) or 1 (softmax)");
    check_box_counts(function, box_counts, layers.images());
    const truth_tensors truth(function, targets, classes, box_counts);
    check(params.groups >= 1, function, "groups", params.groups, "1 or more");
    const at::Tensor matches =
        at::empty({layers.size(), params.groups, truth.view().boxes.size()}, at::kLong);
    const auto run = [&](auto element) {
      using T = decltype(element);
      std::vector<detr_outputs<T>> views;
      for (std::size_t l = 0; l < logits.size(); ++l) views.push_back(layers.view<T>(l));
      vecdet::match_queries<T>(views, truth.view(), vector<index_t>(matches), params,
                               thread_workspace<query_match_workspace>(), threads());
    };
    layers.type() == at::kBFloat16 ? run(bfloat16()) : run(float());
    return matches;
  });
}

/// The column of each row of `costs` in the assignment of least total cost (assign_least_cost),
/// int64; -1 for a row without a column.
inline at::Tensor assign_least_cost(const at::Tensor& costs) {
  constexpr const char* function = "assign_least_cost";
  return translated([&] {
    check_dense(function, "costs", costs);
    check_shape(costs.dim() == 2, function, "costs", costs, "[rows, columns]");
    const at::ScalarType type =
        computed_type(function, "costs", costs) == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor c = contiguous("costs", costs, type);
    const at::Tensor columns = at::empty({costs.size(0)}, at::kLong);
    const auto run = [&](auto element) {
      using T = decltype(element);
      vecdet::assign_least_cost(matrix<const T>(c, c.size(0), c.size(1)), vector<index_t>(columns),
                                thread_workspace<assignment_workspace>());
    };
    type == at::kDouble ? run(double()) : run(float());
    return columns;
  });
}

inline set_loss_tensors set_loss(at::TensorList logits, at::TensorList boxes_,
                                 at::TensorList matches, const at::Tensor& targets,
                                 const optional_tensor& classes, at::IntArrayRef box_counts,
                                 const set_loss_params& params, bool needs_grad) {
  constexpr const char* function = "set_loss";
  return translated([&] {
    const query_layers layers(function, logits, boxes_);
    check_choice(function, "class_loss", params.class_loss, set_class_loss::cross_entropy,
                 "0 (focal), 1 (varifocal) or 2 (cross entropy)");
    check_size(function, "matches.size()", static_cast<index_t>(matches.size()), layers.size(),
               "the number of layers");
    check_box_counts(function, box_counts, layers.images());
    const truth_tensors truth(function, targets, classes, box_counts);
    std::vector<labels> matched;
    std::vector<at::Tensor> logits_grads, l1_grads, giou_grads;
    for (std::size_t l = 0; l < logits.size(); ++l) {
      const std::string name = element("matches", static_cast<index_t>(l));
      check_dense(function, name.c_str(), matches[l]);
      matched.emplace_back(function, name.c_str(), matches[l], matches[l].numel(), "integers");
      logits_grads.push_back(gradient_of(logits[l].sizes(), layers.type()));
      l1_grads.push_back(at::empty(boxes_[l].sizes(), layers.type()));
      giou_grads.push_back(at::empty(boxes_[l].sizes(), layers.type()));
    }
    std::vector<set_losses> losses(logits.size());
    const auto run = [&](auto element) {
      using T = decltype(element);
      std::vector<set_loss_layer<T>> views;
      std::vector<boxes_view<T>> apart;
      for (std::size_t l = 0; l < logits.size(); ++l) {
        const detr_outputs<T> outputs = layers.view<T>(l);
        views.push_back({outputs, matched[l].indices(),
                         matrix<T>(logits_grads[l], outputs.logits.rows(), outputs.logits.cols()),
                         boxes<T>(l1_grads[l])});
        apart.push_back(boxes<T>(giou_grads[l]));
      }
      set_loss_call<T> call(views, truth.view(), losses, params,
                            workspace_access::buffers(thread_workspace<set_loss_workspace>()),
                            threads());
      call.giou_grads = apart.data();
      call.run();
    };
    layers.type() == at::kBFloat16 ? run(bfloat16()) : run(float());

    const at::Tensor result = at::empty({layers.size(), 3}, at::kFloat);
    float* to = static_cast<float*>(result.data_ptr());
    for (const set_losses& of : losses)
      for (const double loss : {of.classification, of.l1, of.giou})
        *to++ = static_cast<float>(loss);
    if (!needs_grad) return set_loss_tensors(result, {}, {}, {});
    for (std::size_t l = 0; l < logits.size(); ++l) {
      logits_grads[l] = logits_grads[l].to(logits[l].scalar_type());
      l1_grads[l] = l1_grads[l].to(boxes_[l].scalar_type());
      giou_grads[l] = giou_grads[l].to(boxes_[l].scalar_type());
    }
    return set_loss_tensors(result, logits_grads, l1_grads, giou_grads);
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline set_loss_tensors set_loss(at::TensorList logits, at::TensorList boxes, at::TensorList,
                                 const at::Tensor&, const optional_tensor&, at::IntArrayRef,
                                 const set_loss_params&, bool needs_grad) {
  TORCH_CHECK(!logits.empty(), "vecdet::set_loss: logits is empty, expected one tensor per layer");
  const std::vector<c10::SymInt> sizes{static_cast<std::int64_t>(logits.size()), 3};
  const at::Tensor losses =
      logits[0].new_empty_symint(sizes, logits[0].options().dtype(at::kFloat));
  std::vector<at::Tensor> logits_grads, l1_grads, giou_grads;
  for (std::size_t l = 0; needs_grad && l < logits.size(); ++l) {
    logits_grads.push_back(new_like(logits[l]));
    l1_grads.push_back(new_like(boxes[l]));
    giou_grads.push_back(new_like(boxes[l]));
  }
  return set_loss_tensors(losses, logits_grads, l1_grads, giou_grads);
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
