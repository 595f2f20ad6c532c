// SPDX-License-Identifier: Apache-2.0
// Deformable attention and its gradients on tensors.
#pragma once

#include <vecdet/deformable_attention.hpp>
#include <vecdet/impl/torch/detections.hpp>
#include <vecdet/impl/torch/gradient_memory.hpp>
#include <vecdet/impl/torch/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {
namespace aten {

/// The operands of a call: checked, contiguous and of the types in which it computes.
struct attention_operands {
  std::vector<attention_level> levels;
  attention_shape shape;
  at::ScalarType type, point_type;
  at::Tensor value, points, weights;

  attention_operands(const attention_operands&) = delete;
  attention_operands& operator=(const attention_operands&) = delete;
  attention_operands(const char* function, const at::Tensor& value_, at::IntArrayRef level_sizes,
                     const at::Tensor& points_, const at::Tensor& weights_,
                     at::IntArrayRef level_points) {
    check_dense(function, "value", value_);
    check_dense(function, "points", points_);
    check_dense(function, "weights", weights_);
    type = computed_type(function, "value", value_);
    point_type = type == at::kDouble ? at::kDouble : at::kFloat;
    computed_type(function, "points", points_);
    computed_type(function, "weights", weights_);
    check_shape(value_.dim() == 4, function, "value", value_,
                "[images, locations, heads, channels]");
    shape.images = value_.size(0);
    shape.heads = value_.size(2);
    shape.channels = value_.size(3);
    check_shape(points_.dim() >= 5 && points_.size(0) == shape.images &&
                    points_.size(2) == shape.heads && points_.size(-1) == 2,
                function, "points", points_,
                "[images, queries, heads, levels, points of a level, 2] or [images, queries, "
                "heads, points, 2] with the images and heads of value");
    shape.queries = points_.size(1);
    check_shape(weights_.sizes() == points_.sizes().slice(0, points_.sizes().size() - 1), function,
                "weights", weights_, "the shape of points without its last dimension");
    check(level_sizes.size() % 2 == 0, function, "level_sizes.size()", level_sizes.size(),
          "height and width of each level");
    const std::size_t count = level_sizes.size() / 2;
    if (!level_points.empty())
      check_size(function, "level_points.size()", static_cast<index_t>(level_points.size()),
                 static_cast<index_t>(count), "the number of levels");
    index_t points_per_query = 1;
    for (const std::int64_t size : weights_.sizes().slice(3)) points_per_query *= size;
    for (std::size_t l = 0; l < count; ++l)
      levels.push_back({level_sizes[2 * l], level_sizes[2 * l + 1],
                        level_points.empty() ? points_per_query / static_cast<index_t>(count)
                                             : level_points[l]});
    shape.levels = levels;
    check_attention_shape(function, shape);
    check_size(function, "the number of points per query and head", points_per_query,
               shape.points(), "the sum over the levels");
    check_size(function, "value.size(1)", value_.size(1), shape.locations(),
               "the locations of all levels");
    value = contiguous("value", value_, type);
    points = contiguous("points", points_, point_type);
    weights = contiguous("weights", weights_, point_type);
  }

  std::array<std::int64_t, 3> output_sizes() const {
    return {shape.images, shape.queries, shape.heads * shape.channels};
  }
  /// Small calls run on the calling thread.
  threading policy() const {
    constexpr index_t worth_waking = 1 << 14;
    return weights.numel() * shape.channels < worth_waking ? threading::sequential : threads();
  }
};

namespace cpu {

inline at::Tensor deformable_attention(const at::Tensor& value, at::IntArrayRef level_sizes,
                                       const at::Tensor& points, const at::Tensor& weights,
                                       at::IntArrayRef level_points) {
  return translated([&] {
    const attention_operands of("deformable_attention", value, level_sizes, points, weights,
                                level_points);
    const at::Tensor out = at::empty(of.output_sizes(), of.value.options());
    with_element(of.type, [&](auto element) {
      using T = decltype(element);
      using real = compute_type<T>;
      vecdet::deformable_attention(vector<const T>(of.value), vector<const real>(of.points),
                                   vector<const real>(of.weights), vector<T>(out), of.shape,
                                   thread_workspace<deformable_attention_workspace>(), of.policy());
    });
    return out.to(value.scalar_type());
  });
}

/// Gradients that are not needed have no elements.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> deformable_attention_grad(
    const at::Tensor& upstream, const at::Tensor& value, at::IntArrayRef level_sizes,
    const at::Tensor& points, const at::Tensor& weights, at::IntArrayRef level_points,
    bool needs_value, bool needs_points, bool needs_weights) {
  constexpr const char* function = "deformable_attention_grad";
  return translated([&] {
    const attention_operands of(function, value, level_sizes, points, weights, level_points);
    check_dense(function, "upstream", upstream);
    check_shape(upstream.sizes() == at::IntArrayRef(of.output_sizes()), function, "upstream",
                upstream, "[images, queries, heads x channels]");
    const at::Tensor g = contiguous("upstream", upstream, of.type);
    const auto made = [](bool is_needed, const at::Tensor& like) {
      return is_needed ? gradient_of(like.sizes(), like.scalar_type())
                       : at::empty({0}, like.options());
    };
    const at::Tensor by_value = made(needs_value, of.value);
    const at::Tensor by_points = made(needs_points, of.points);
    const at::Tensor by_weights = made(needs_weights, of.weights);
    with_element(of.type, [&](auto element) {
      using T = decltype(element);
      using real = compute_type<T>;
      deformable_attention_grads<T> grads;
      grads.value = vector<T>(by_value);
      grads.points = vector<real>(by_points);
      grads.weights = vector<real>(by_weights);
      vecdet::deformable_attention_grad(
          vector<const T>(g), vector<const T>(of.value), vector<const real>(of.points),
          vector<const real>(of.weights), grads, of.shape,
          thread_workspace<deformable_attention_workspace>(), of.policy());
    });
    return std::make_tuple(by_value.to(value.scalar_type()), by_points.to(points.scalar_type()),
                           by_weights.to(weights.scalar_type()));
  });
}

}  // namespace cpu

// The same for tensors without data.
namespace meta {

inline at::Tensor deformable_attention(const at::Tensor& value, at::IntArrayRef,
                                       const at::Tensor& points, const at::Tensor&,
                                       at::IntArrayRef) {
  TORCH_CHECK(value.dim() == 4 && points.dim() >= 5,
              "vecdet::deformable_attention: expected value [images, locations, heads, channels] "
              "and points [images, queries, heads, ..., 2]");
  return value.new_empty_symint(
      {value.sym_size(0), points.sym_size(1), value.sym_size(2) * value.sym_size(3)});
}

inline std::tuple<at::Tensor, at::Tensor, at::Tensor> deformable_attention_grad(
    const at::Tensor&, const at::Tensor& value, at::IntArrayRef, const at::Tensor& points,
    const at::Tensor& weights, at::IntArrayRef, bool needs_value, bool needs_points,
    bool needs_weights) {
  return {new_gradient(value, needs_value), new_gradient(points, needs_points),
          new_gradient(weights, needs_weights)};
}

}  // namespace meta
}  // namespace aten
}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
