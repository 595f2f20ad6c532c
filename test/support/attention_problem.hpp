// SPDX-License-Identifier: Apache-2.0
// A call of deformable attention: its operands, its results, and the results of the reference.
#pragma once

#include "random.hpp"
#include "values.hpp"
#include <vecdet/deformable_attention.hpp>
#include <vecdet/reference/deformable_attention.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vecdet::test {

/// Equal if all bits are.
template <class T, template <class> class Vector = in_heap>
struct attention_grad_arrays {
  Vector<T> value;
  Vector<compute_type<T>> points, weights;

  bool operator==(const attention_grad_arrays& other) const {
    return same_bits(value, other.value) && same_bits(points, other.points) &&
           same_bits(weights, other.weights);
  }
};
using exact_attention_grads = attention_grad_arrays<double>;

template <class T, template <class> class Vector = in_heap>
struct attention_problem {
  using real = compute_type<T>;
  using grad_arrays = attention_grad_arrays<T, Vector>;
  std::vector<attention_level> levels{{9, 11, 3}, {5, 6, 1}, {2, 3, 2}};
  index_t images = 2, queries = 7, heads = 3, channels = 8;
  threading policy = threading::parallel;
  Vector<T> value, upstream;
  Vector<real> points, weights;

  attention_shape shape() const {
    attention_shape of;
    of.images = images;
    of.queries = queries;
    of.heads = heads;
    of.channels = channels;
    of.levels = levels;
    return of;
  }
  std::string name() const {
    std::string text = std::to_string(images) + " images, " + std::to_string(queries) +
                       " queries, " + std::to_string(heads) + " heads of " +
                       std::to_string(channels);
    for (const attention_level& level : levels)
      text += ", " + std::to_string(level.height) + "x" + std::to_string(level.width) + ":" +
              std::to_string(level.points);
    return text;
  }

  /// The size of `weights`.
  index_t point_count() const { return images * queries * heads * shape().points(); }

  /// Most points are inside the levels, some on their borders and some outside.
  void make(std::uint64_t seed) {
    random_generator generator(seed);
    const auto fill = [&](auto& numbers, index_t count, double low, double high) {
      numbers.resize(static_cast<std::size_t>(count));
      for (auto& x : numbers) x = test::to<std::decay_t<decltype(x)>>(generator.uniform(low, high));
    };
    fill(value, images * shape().locations() * heads * channels, -1, 1);
    fill(upstream, images * queries * heads * channels, -1, 1);
    fill(points, 2 * point_count(), -0.15, 1.15);
    fill(weights, point_count(), 0, 1);
    // Multiples of 1/8: some are exactly on locations of levels of even sizes.
    for (std::size_t i = 0; i < points.size(); i += 5)
      points[i] = static_cast<real>(generator.below(9)) / real(8);
  }
  grad_arrays grads_room() const {
    return {Vector<T>(value.size(), to<T>(7)), Vector<real>(points.size(), real(7)),
            Vector<real>(weights.size(), real(7))};
  }

  Vector<T> forward() const {
    deformable_attention_workspace workspace;
    return forward(workspace);
  }
  Vector<T> forward(deformable_attention_workspace& workspace) const {
    Vector<T> out(upstream.size(), to<T>(7));
    forward(out, workspace, policy);
    return out;
  }
  void forward(Vector<T>& out, deformable_attention_workspace& workspace, threading on) const {
    deformable_attention(vector_view<const T>(value), points, weights, vector_view<T>(out), shape(),
                         workspace, on);
  }
  grad_arrays backward() const {
    deformable_attention_workspace workspace;
    return backward(workspace);
  }
  grad_arrays backward(deformable_attention_workspace& workspace) const {
    grad_arrays arrays = grads_room();
    backward(arrays, workspace, policy);
    return arrays;
  }
  /// Empty arrays are not computed.
  void backward(grad_arrays& arrays, deformable_attention_workspace& workspace,
                threading on) const {
    deformable_attention_grads<T> to_grads;
    to_grads.value = arrays.value;
    to_grads.points = arrays.points;
    to_grads.weights = arrays.weights;
    deformable_attention_grad(vector_view<const T>(upstream), value, points, weights, to_grads,
                              shape(), workspace, on);
  }

  std::vector<double> exact(bool magnitudes = false) const {
    std::vector<double> out(upstream.size());
    reference::deformable_attention(
        shape(), vector_view<const T>(value), vector_view<const real>(points),
        vector_view<const real>(weights), vector_view<double>(out), magnitudes);
    return out;
  }
  exact_attention_grads exact_grads(bool magnitudes = false) const {
    exact_attention_grads grads{std::vector<double>(value.size()),
                                std::vector<double>(points.size()),
                                std::vector<double>(weights.size())};
    reference::deformable_attention_grad(
        shape(), vector_view<const T>(upstream), vector_view<const T>(value),
        vector_view<const real>(points), vector_view<const real>(weights),
        vector_view<double>(grads.value), vector_view<double>(grads.points),
        vector_view<double>(grads.weights), magnitudes);
    return grads;
  }
  /// The largest number of terms that any number of the value's gradient is the sum of.
  index_t most_terms() const {
    std::vector<index_t> terms(value.size());
    index_t most = 0;
    reference::for_each_attention_corner(
        shape(), vector_view<const real>(points), [&](const reference::attention_corner& at) {
          if (channels == 0) return;
          index_t& count =
              terms[static_cast<std::size_t>(reference::attention_value_at(shape(), at))];
          most = ++count > most ? count : most;
        });
    return most;
  }
};

}  // namespace vecdet::test
