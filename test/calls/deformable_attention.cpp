// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/deformable_attention.hpp>

namespace vecdet::test {
namespace {

/// Shapes are images x locations x queries x heads x channels. The levels are a square, a square of
/// half its side, and a row with the remaining locations.
template <class T>
struct deformable_attention_calls {
  using real = compute_type<T>;
  std::vector<attention_level> levels;
  attention_shape shape;
  placed<T> value, upstream, out, value_grad;
  placed<real> points, weights, point_grad, weight_grad;
  deformable_attention_workspace workspace;

  static std::vector<test::shape> sweep(index_t length) {
    return {{2, 70, 2, 2, length}, {1, 7, 40, 2, length}, {1, 1 + length, length, 3, 5}};
  }
  static test::shape sized(index_t rows) { return {2, 300, rows / 60 + 3, 4, 20}; }
  static bool takes(const problem& p) { return points_of(p) >= 1 && points_of(p) <= 1024; }
  static index_t points_of(const problem& p) {
    return p.variant.empty() ? 1 + p.shape[2] % 20 : number_after<index_t>("points", p.variant, 0);
  }
  static std::vector<attention_level> levels_of(const problem& p) {
    const index_t locations = p.shape[1], points = points_of(p);
    const auto side = static_cast<index_t>(std::sqrt(0.7 * static_cast<double>(locations)));
    const index_t half = side / 2;
    return {{side, side, points / 3},
            {half, half, (points + 1) / 3},
            {1, locations - side * side - half * half, (points + 2) / 3}};
  }

  deformable_attention_calls(operands& make, const problem& p)
      : levels(levels_of(p)),
        shape(shape_of(p, levels)),
        value(make.numbers<T>(shape.images * shape.locations() * shape.heads * shape.channels, -1,
                              1)),
        upstream(
            make.numbers<T>(shape.images * shape.queries * shape.heads * shape.channels, -1, 1)),
        out(make.room<T>(static_cast<index_t>(upstream.size()))),
        value_grad(make.room<T>(static_cast<index_t>(value.size()))),
        points(make.numbers<real>(2 * point_count(), -0.1, 1.1)),
        weights(make.numbers<real>(point_count(), 0, 0.2)),
        point_grad(make.room<real>(2 * point_count())),
        weight_grad(make.room<real>(point_count())) {
    if (make.in_training()) follow_queries();
    if (make.has_special()) {
      const std::vector<real> special = special_logits<real>();
      for (std::size_t i = 0; i + 3 < points.size(); i += 13)
        points.data()[i] = special[i / 13 % special.size()];
    }
  }

  static attention_shape shape_of(const problem& p, const std::vector<attention_level>& levels) {
    attention_shape shape;
    shape.images = p.shape[0];
    shape.queries = p.shape[2];
    shape.heads = p.shape[3];
    shape.channels = p.shape[4];
    shape.levels = levels;
    return shape;
  }
  index_t point_count() const {
    return shape.images * shape.queries * shape.heads * shape.points();
  }

  /// Sets the points as in an encoder: queries go row by row, with points near them.
  void follow_queries() {
    const auto columns = static_cast<index_t>(std::sqrt(static_cast<double>(shape.queries))) + 1;
    const index_t each = shape.heads * shape.points();
    for (index_t i = 0; i < point_count(); ++i) {
      const index_t query = i / each % shape.queries;
      const index_t at[] = {query % columns, query / columns};
      for (index_t k = 0; k < 2; ++k) {
        real& x = points[2 * i + k];
        const double centre = (static_cast<double>(at[k]) + 0.5) / static_cast<double>(columns);
        x = static_cast<real>(centre + 0.1 * (static_cast<double>(x) - 0.5));
      }
    }
  }

  void list(call_list& c) {
    const std::string variant = text_of("points", shape.points());
    c.add("deformable_attention/" + variant, reads(value, points, weights).writes(out),
          [this](threading policy) {
            deformable_attention(vector_view<const T>(value.in()), points.in(), weights.in(),
                                 out.out(), shape, workspace, policy);
          });
    c.add("deformable_attention_grad/" + variant,
          reads(upstream, value, points, weights).writes(value_grad, point_grad, weight_grad),
          [this](threading policy) {
            deformable_attention_grads<T> grads;
            grads.value = value_grad.out();
            grads.points = point_grad.out();
            grads.weights = weight_grad.out();
            run_grad(grads, policy);
          });
    c.add("deformable_attention_grad/" + variant + "/value",
          reads(upstream, value, points, weights).writes(value_grad), [this](threading policy) {
            deformable_attention_grads<T> grads;
            grads.value = value_grad.out();
            run_grad(grads, policy);
          });
  }

  void run_grad(const deformable_attention_grads<T>& grads, threading policy) {
    deformable_attention_grad(vector_view<const T>(upstream.in()), value.in(), points.in(),
                              weights.in(), grads, shape, workspace, policy);
  }
};

const registered_family registered =
    calls_of<deformable_attention_calls, float, bfloat16, double>("deformable_attention");

}  // namespace
}  // namespace vecdet::test
