// SPDX-License-Identifier: Apache-2.0
// Code that compiles but dangles: Clang warns. See ../must_not_compile.sh.
#define VECDET_DISPATCH
#include <vecdet/vecdet.hpp>

#include <vector>

using namespace vecdet;

std::vector<float> make_weights();
std::vector<int> make_labels();
std::vector<index_t> make_indices();

void dangling(std::vector<float> weights, std::vector<int> labels, std::vector<index_t> indices) {
  // Wrong (-Wdangling): const vector_view<const float> a = make_weights();
  const vector_view<const float> a = weights;
  // Wrong (-Wdangling): const boxes_view<const float> b = make_weights();
  const boxes_view<const float> b = vector_view<const float>(weights);
  // Wrong (-Wdangling): const labels_view c(make_labels());
  const labels_view c(labels_view{labels});
  // Wrong (-Wdangling): const box_selection d(make_labels());
  const box_selection d(labels_view{labels});
  // Wrong (-Wdangling): const box_selection e = box_selection::list(make_indices());
  const box_selection e = box_selection::list(vector_view<const index_t>(indices));
  // Wrong (-Wdangling): const focal_targets<float> f(make_labels());
  const focal_targets<float> f(labels_view{labels});
  // Wrong (-Wdangling): const regression_targets<float> g(make_weights());
  const regression_targets<float> g(boxes_view<const float>{weights});
  smooth_l1_loss(make_weights(), make_weights(), make_labels());
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g;
}
