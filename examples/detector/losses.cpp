// SPDX-License-Identifier: Apache-2.0
#include "losses.hpp"

#include "torch_loss.hpp"
#include <vecdet/torch.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

namespace detector {
namespace {

/// Runs vecdet's work on ATen's threads: one pool for both.
struct aten_loop {
  void operator()(vecdet::index_t count, const vecdet::task& task) const {
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) task(i);
    });
  }
};
constexpr aten_loop loop{};

vecdet::threading threads() { return vecdet::threading::on(loop, at::get_num_threads()); }

vecdet::ground_truth view_of(const batch_truth& truth) {
  return {truth.boxes, truth.labels, truth.offsets};
}

/// Anchors are computed from the shapes of all levels, which also give the number of classes.
std::int64_t columns_of(const std::vector<at::Tensor>& levels) {
  return levels.front().size(1) / retinanet::anchors_of_location;
}

/// One tensor per level, all with the same layout.
template <class T>
std::vector<vecdet::head_level<T>> levels_of(const at::TensorList& tensors) {
  std::vector<vecdet::head_level<T>> levels;
  for (const at::Tensor& tensor : tensors)
    levels.push_back({static_cast<T*>(tensor.data_ptr()), tensor.size(2), tensor.size(3)});
  return levels;
}

/// The inputs of the whole loss besides the heads' outputs, and its results.
struct fused_call {
  const vecdet::anchor_index& anchors;
  const vecdet::ground_truth& truth;
  vecdet::retinanet_loss_workspace& workspace;
  vecdet::retinanet_losses losses;
};

template <class T>
void compute_in_place(const at::TensorList& logits, const at::TensorList& deltas,
                      vecdet::head_layout layout, fused_call& call) {
  const auto x = levels_of<T>(logits), d = levels_of<T>(deltas);
  constexpr std::int64_t anchors = retinanet::anchors_of_location;
  const std::int64_t images = logits[0].size(0), classes = logits[0].size(1) / anchors;
  const vecdet::head_view<T> x_view(x, images, anchors, classes, layout);
  const vecdet::head_view<T> d_view(d, images, anchors, 4, layout);
  std::vector<vecdet::head_level<const T>> x_read, d_read;
  for (const auto& level : x) x_read.push_back({level.data, level.height, level.width});
  for (const auto& level : d) d_read.push_back({level.data, level.height, level.width});
  const vecdet::head_view<const T> x_const(x_read, images, anchors, classes, layout);
  const vecdet::head_view<const T> d_const(d_read, images, anchors, 4, layout);
  call.losses =
      vecdet::retinanet_loss_and_grad(vecdet::retinanet_head<T>{x_const, d_const, x_view, d_view},
                                      call.anchors, call.truth, {}, call.workspace, threads());
}

/// The whole loss as a node of the graph. Its gradients are computed with it and overwrite the
/// heads' outputs, which no convolution keeps.
struct fused_loss : torch::autograd::Function<fused_loss> {
  using context = torch::autograd::AutogradContext;
  using list = torch::autograd::variable_list;

  /// @param outputs the logits of all levels, followed by the deltas of all levels
  static at::Tensor forward(context* ctx, at::TensorList outputs, fused_call& call) {
    const auto is_nhwc = [](const at::Tensor& x) {
      return !x.is_contiguous() && x.is_contiguous(at::MemoryFormat::ChannelsLast);
    };
    const bool nhwc = std::any_of(outputs.begin(), outputs.end(), is_nhwc);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& output : outputs)
      gradients.push_back(output.detach().contiguous(nhwc ? at::MemoryFormat::ChannelsLast
                                                          : at::MemoryFormat::Contiguous));
    const at::TensorList all = gradients;
    const at::TensorList logits = all.slice(0, all.size() / 2), deltas = all.slice(all.size() / 2);
    const auto layout = nhwc ? vecdet::head_layout::nhwc : vecdet::head_layout::nchw;
    if (all.front().scalar_type() == at::kBFloat16)
      compute_in_place<vecdet::bfloat16>(logits, deltas, layout, call);
    else
      compute_in_place<float>(logits, deltas, layout, call);
    ctx->saved_data["gradients"] = std::move(gradients);
    return at::scalar_tensor(call.losses.classification + call.losses.regression, at::kFloat);
  }

  static list backward(context* ctx, const list& arrived) {
    list gradients = ctx->saved_data["gradients"].toTensorVector();
    // Release each gradient as soon as its convolution has read it.
    ctx->saved_data.clear();
    const double factor = arrived[0].item<double>();
    if (factor != 1)
      for (at::Tensor& gradient : gradients) gradient.mul_(factor);
    gradients.emplace_back();  // for the call, which is not a tensor
    return gradients;
  }
};

loss_values on_operators(const head_outputs& outputs, const batch_truth& truth,
                         const vecdet::cached_anchors& anchors,
                         vecdet::match_workspace& workspace) {
  const at::Tensor logits = joined(outputs.logits, columns_of(outputs.logits));
  const at::Tensor deltas = joined(outputs.deltas, 4);
  const std::int64_t images = logits.size(0), count = logits.size(1);
  const at::Tensor matches = at::empty({images, count}, at::kLong),
                   labels = at::empty_like(matches);
  std::vector<vecdet::index_t> foreground(static_cast<std::size_t>(images));
  vecdet::match_results results;
  results.matches = {matches.data_ptr<std::int64_t>(), matches.numel()};
  results.labels = {labels.data_ptr<std::int64_t>(), labels.numel()};
  results.foreground = foreground;
  vecdet::match_anchors(anchors.index(), view_of(truth), results,
                        vecdet::matcher_params::retinanet(), workspace, threads());

  const at::Tensor anchor_boxes =
      at::from_blob(const_cast<float*>(anchors.boxes().data()), {count, 4});
  const at::Tensor truth_boxes = at::from_blob(const_cast<float*>(truth.boxes.data()),
                                               {static_cast<std::int64_t>(truth.labels.size()), 4});
  loss_values values;
  at::Tensor classification, regression;
  for (std::int64_t i = 0; i < images; ++i) {
    const auto matched = std::max<vecdet::index_t>(1, foreground[static_cast<std::size_t>(i)]);
    const double scale = 1.0 / static_cast<double>(matched * images);
    const at::Tensor c =
        vecdet::ops::sigmoid_focal_loss(logits[i], labels[i], 0.25, 2, at::Reduction::Sum, scale);
    const at::Tensor r = vecdet::ops::regression_loss(
        deltas[i], anchor_boxes, truth_boxes, matches[i], {}, vecdet::ops::regression::smooth_l1, 0,
        1e-7, {}, 4.135166556742356, scale);
    classification = i == 0 ? c : classification + c;
    regression = i == 0 ? r : regression + r;
  }
  values.classification = classification.item<double>();
  values.regression = regression.item<double>();
  values.total = classification + regression;
  return values;
}

}  // namespace

const char* name_of(loss_kind kind) {
  constexpr const char* names[] = {"torch", "operators", "vecdet"};
  return names[static_cast<int>(kind)];
}

void batch_truth::add_image(const std::vector<object>& objects) {
  for (const object& o : objects) {
    boxes.insert(boxes.end(), o.corners.begin(), o.corners.end());
    labels.push_back(o.label);
  }
  offsets.push_back(static_cast<std::int64_t>(labels.size()));
}

const vecdet::cached_anchors& anchors_of(vecdet::anchor_cache& cache, const head_outputs& outputs,
                                         canvas_size canvas) {
  std::vector<vecdet::grid_size> features;
  for (const at::Tensor& level : outputs.logits) features.push_back({level.size(2), level.size(3)});
  return cache.anchors({canvas.height, canvas.width}, features);
}

at::Tensor joined(const std::vector<at::Tensor>& levels, std::int64_t columns) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& level : levels) {
    const std::int64_t images = level.size(0), height = level.size(2), width = level.size(3);
    parts.push_back(level.view({images, -1, columns, height, width})
                        .permute({0, 3, 4, 1, 2})
                        .reshape({images, -1, columns}));
  }
  return at::cat(parts, 1);
}

criterion::criterion(loss_kind kind, const std::vector<vecdet::anchor_shapes>& shapes)
    : kind_(kind), cache_(shapes) {}

loss_values criterion::operator()(const head_outputs& outputs, const batch_truth& truth,
                                  canvas_size canvas) {
  const vecdet::cached_anchors& anchors = anchors_of(cache_, outputs, canvas);
  switch (kind_) {
    case loss_kind::torch:  // in float even if the network computes in bfloat16
      return torch_loss(
          joined(outputs.logits, columns_of(outputs.logits)).to(at::kFloat),
          joined(outputs.deltas, 4).to(at::kFloat), truth,
          at::from_blob(const_cast<float*>(anchors.boxes().data()), {anchors.boxes().size(), 4}));
    case loss_kind::operators:
      return on_operators(outputs, truth, anchors, matching_);
    default: {
      const vecdet::ground_truth view = view_of(truth);
      fused_call call{anchors.index(), view, fused_, {}};
      std::vector<at::Tensor> all = outputs.logits;
      all.insert(all.end(), outputs.deltas.begin(), outputs.deltas.end());
      loss_values values;
      values.total = fused_loss::apply(at::TensorList(all), call);
      values.classification = call.losses.classification;
      values.regression = call.losses.regression;
      return values;
    }
  }
}

}  // namespace detector
