// SPDX-License-Identifier: Apache-2.0
// What compiles but dangles: Clang warns. See ../must_not_compile.sh.
#define VECDET_DISPATCH
#include <vecdet/vecdet.hpp>

#include <vector>

using namespace vecdet;

std::vector<float> make_weights();
std::vector<int> make_labels();
std::vector<index_t> make_indices();

void dangling(std::vector<float> weights, std::vector<int> labels, std::vector<index_t> indices) {
#if WRONG == 1  // says: -Wdangling
  const vector_view<const float> a = make_weights();
#else
  const vector_view<const float> a = weights;
#endif
#if WRONG == 2  // says: -Wdangling
  const boxes_view<const float> b = make_weights();
#else
  const boxes_view<const float> b = vector_view<const float>(weights);
#endif
#if WRONG == 3  // says: -Wdangling
  const labels_view c(make_labels());
#else
  const labels_view c(labels_view{labels});
#endif
#if WRONG == 4  // says: -Wdangling
  const box_selection d(make_labels());
#else
  const box_selection d(labels_view{labels});
#endif
#if WRONG == 5  // says: -Wdangling
  const box_selection e = box_selection::list(make_indices());
#else
  const box_selection e = box_selection::list(vector_view<const index_t>(indices));
#endif
#if WRONG == 6  // says: -Wdangling
  const focal_targets<float> f(make_labels());
#else
  const focal_targets<float> f(labels_view{labels});
#endif
#if WRONG == 7  // says: -Wdangling
  const regression_targets<float> g(make_weights());
#else
  const regression_targets<float> g(boxes_view<const float>{weights});
#endif
  smooth_l1_loss(make_weights(), make_weights(), make_labels());
  (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g;
}
