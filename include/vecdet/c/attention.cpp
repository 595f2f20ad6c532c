// SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention of DETRs.
#include <vecdet/c/support.hpp>
#include <vecdet/deformable_attention.hpp>

/// A level of the value of deformable attention.
typedef struct vecdet_attention_level {
  int64_t height;
  int64_t width;
  int64_t points;  ///< sampled by each query on this level in each head
} vecdet_attention_level;

/// The sizes of a call of deformable attention.
typedef struct vecdet_attention_shape {
  int64_t images;
  int64_t queries;
  int64_t heads;
  int64_t channels;  ///< of a head
  const vecdet_attention_level* levels;
  int64_t level_count;
} vecdet_attention_shape;

namespace vecdet_c {
namespace {

/// The C++ form of a shape, with its levels, and the sizes of the arrays.
struct attention_sizes {
  std::vector<attention_level> levels;
  attention_shape shape;
  index_t value, points, out;

  attention_sizes(const vecdet_attention_shape* from, const char* function) {
    check_pointer(from, function, "shape");
    const vector_view<const vecdet_attention_level> given(from->levels, from->level_count);
    for (const vecdet_attention_level& l : given) levels.push_back({l.height, l.width, l.points});
    shape.images = from->images;
    shape.queries = from->queries;
    shape.heads = from->heads;
    shape.channels = from->channels;
    shape.levels = levels;
    detail::check_attention_shape(function, shape);
    const index_t queries =
        times(times(shape.images, shape.queries, function), shape.heads, function);
    const index_t locations =
        times(times(shape.images, shape.locations(), function), shape.heads, function);
    value = times(locations, shape.channels, function);
    points = times(queries, shape.points(), function);
    out = times(queries, shape.channels, function);
    times(points, 2, function);
  }
  attention_sizes(const attention_sizes&) = delete;
  attention_sizes& operator=(const attention_sizes&) = delete;

 private:
  static index_t times(index_t a, index_t b, const char* function) {
    return product(a, b, function, "shape");
  }
};

}  // namespace
}  // namespace vecdet_c

using namespace vecdet_c;

/// Multi-scale deformable attention, arXiv 2010.04159, equation 3, without its linear layers. Each
/// query sums bilinear samples at its points, as in torch's grid_sample with align_corners = False
/// and zeros outside. `value` is images x locations of all levels x heads x channels. `points` is
/// images x queries x heads x points of all levels x (x, y), where x and y are 0 to 1 from edge to
/// edge of a level. `weights` is images x queries x heads x points of all levels, and `out` images
/// x queries x heads x channels. `type` is that of value and output; points and weights are float,
/// or double for VECDET_FLOAT64.
VECDET_C vecdet_status vecdet_deformable_attention(vecdet_dtype type,
                                                   const vecdet_attention_shape* shape,
                                                   const void* value, const void* points,
                                                   const void* weights, vecdet_workspace* workspace,
                                                   void* out) {
  constexpr const char* function = "deformable_attention";
  return call_on_type(type, function, workspace, [&](auto of, scratch& memory, threading policy) {
    const attention_sizes sizes(shape, function);
    using T = typename decltype(of)::type;
    using real = compute_type<T>;
    deformable_attention(
        of.vector(value, sizes.value), vector_view<const real>(as<real>(points), 2 * sizes.points),
        vector_view<const real>(as<real>(weights), sizes.points), of.vector(out, sizes.out),
        sizes.shape, memory.get<deformable_attention_workspace>(), policy);
  });
}
/// Writes the gradients with respect to value, points and weights, which have their shapes and
/// types. A null pointer skips a gradient. `upstream` is the gradient with respect to the output.
VECDET_C vecdet_status vecdet_deformable_attention_grad(
    vecdet_dtype type, const vecdet_attention_shape* shape, const void* upstream, const void* value,
    const void* points, const void* weights, vecdet_workspace* workspace, void* value_grad,
    void* points_grad, void* weights_grad) {
  constexpr const char* function = "deformable_attention_grad";
  return guarded([&] {
    const attention_sizes sizes(shape, function);
    scratch memory(workspace);
    with_any_type(type, function, [&](auto of) {
      using T = typename decltype(of)::type;
      using real = compute_type<T>;
      deformable_attention_grads<T> grads;
      if (value_grad != nullptr) grads.value = of.vector(value_grad, sizes.value);
      if (points_grad != nullptr)
        grads.points = vector_view<real>(as<real>(points_grad), 2 * sizes.points);
      if (weights_grad != nullptr)
        grads.weights = vector_view<real>(as<real>(weights_grad), sizes.points);
      on_threads([&](threading policy) {
        deformable_attention_grad(of.vector(upstream, sizes.out), of.vector(value, sizes.value),
                                  vector_view<const real>(as<real>(points), 2 * sizes.points),
                                  vector_view<const real>(as<real>(weights), sizes.points), grads,
                                  sizes.shape, memory.get<deformable_attention_workspace>(),
                                  policy);
      });
    });
  });
}
