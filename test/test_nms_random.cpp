// SPDX-License-Identifier: Apache-2.0
// NMS on a million random cases against the reference: ties, duplicates, overlaps exactly at the
// threshold, degenerate and NaN boxes, with every option.
#include "support/class_lists.hpp"
#include "support/isa.hpp"
#include "support/nms_scene.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/nms.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Scores with few distinct values, so that ties are common.
template <class T>
std::vector<T> tied_scores(index_t count, random_generator& generator) {
  std::vector<T> scores;
  for (index_t i = 0; i < count; ++i)
    scores.push_back(to<T>(static_cast<double>(generator.below(8)) / 8));
  return scores;
}

/// All parameters, drawn from a random number.
nms_params random_params(random_generator& generator) {
  nms_params params;
  const double thresholds[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 0.25, 0.75, 1e-9};
  params.iou_threshold = thresholds[generator.below(14)];
  params.suppress_equal = generator.chance(0.3);
  params.float_threshold = generator.chance(0.3);
  params.plus_one = generator.chance(0.2);
  params.drop_nan_scores = generator.chance(0.3);
  params.drop_degenerate = generator.chance(0.2);
  if (generator.chance(0.2)) params.score_threshold = 0.25;
  if (generator.chance(0.2))
    params.format = generator.chance(0.5) ? nms_format::any_corners : nms_format::centre;
  if (generator.chance(0.2))
    params.overlap = generator.chance(0.5) ? nms_overlap::positive_area : nms_overlap::jaccard;
  params.order = static_cast<nms_order>(generator.below(4));
  if (generator.chance(0.2)) params.max_per_class = generator.below(4);
  if (generator.chance(0.2)) params.max_per_image = generator.below(6);
  if (generator.chance(0.2)) params.max_total = generator.below(10);
  return params;
}

/// A few boxes on a coarse grid: equal, nested, touching, without area, inverted; occasionally
/// special.
template <class T>
scene_of<T> small_scene(random_generator& generator) {
  scene_of<T> scene;
  const index_t count = generator.below(generator.chance(0.1) ? 70 : 12);
  const bool special = generator.chance(0.1);
  const double shift = generator.chance(0.3) ? -6 : 0;
  for (index_t i = 0; i < count; ++i) {
    if (special && generator.chance(0.3)) {
      const auto& boxes = special_boxes();
      const auto& box =
          boxes[static_cast<std::size_t>(generator.below(static_cast<index_t>(boxes.size())))];
      for (const double c : box) scene.boxes.push_back(to<T>(c));
      continue;
    }
    const double x = static_cast<double>(generator.below(6)) + shift;
    const double y = static_cast<double>(generator.below(6)) + shift;
    for (const double c :
         {x, y, x + static_cast<double>(generator.below(11)) - (generator.chance(0.05) ? 5 : 0),
          y + static_cast<double>(generator.below(11))})
      scene.boxes.push_back(to<T>(c));
  }
  scene.scores = tied_scores<T>(count, generator);
  if (special)
    for (T& score : scene.scores)
      if (generator.chance(0.1)) score = to<T>(generator.chance(0.5) ? quiet_nan : -0.0);
  const index_t wide = index_t{1} << 61;
  if (generator.chance(0.3))
    for (index_t i = 0; i < count; ++i) scene.classes.push_back(generator.below(3) - 1);
  else if (generator.chance(0.1))
    for (index_t i = 0; i < count; ++i) scene.classes.push_back((generator.below(3) - 1) * wide);
  if (generator.chance(0.2))
    for (index_t i = 0; i < count; ++i) scene.images.push_back(generator.below(2) - 1);
  else if (generator.chance(0.1))
    for (index_t i = 0; i < count; ++i) scene.images.push_back((generator.below(4) - 2) * wide);
  return scene;
}

/// Options per class, in some cases. Classes without an element in a list are not wanted.
class_lists random_lists(const indices& classes, random_generator& generator) {
  class_lists lists;
  if (classes.empty() || !generator.chance(0.4)) return lists;
  const index_t most = *std::max_element(classes.begin(), classes.end());
  const index_t least = *std::min_element(classes.begin(), classes.end());
  if (least < 0 || most > 2 || generator.chance(0.3)) {
    lists.classes = {1, 0, 1};
    if (generator.chance(0.3)) lists.classes = {2};
    if (generator.chance(0.3)) lists.classes = {index_t{1} << 61, -1};
  }
  if (!lists.classes.empty() && lists.classes.back() < 0) return lists;
  if (generator.chance(0.5)) lists.thresholds = {0.25, generator.uniform(), 0.5};
  if (generator.chance(0.2)) lists.thresholds = {0.25, -infinity, infinity};
  if (generator.chance(0.5)) lists.groups = {generator.below(2), -7, generator.below(2)};
  return lists;
}

template <class T>
void check_random_cases(index_t cases, std::uint64_t seed) {
  std::vector<isa> sets;
  for_each_isa([&](isa set) { sets.push_back(set); });
  const isa before = active_isa();
  nms_workspace workspace;
  index_t wrong = 0;
  for (index_t c = 0; c < cases && wrong < 5; ++c) {
    random_generator generator(seed + static_cast<std::uint64_t>(c));
    const scene_of<T> scene = small_scene<T>(generator);
    nms_params params = random_params(generator);
    const class_lists lists = random_lists(scene.classes, generator);
    lists.give(params);
    const indices expected = expected_of(scene, params);
    // The instruction sets take turns: each gets its share of the cases.
    set_isa(sets[static_cast<std::size_t>(c) % sets.size()]);
    if (actual_of(scene, params, workspace, threading::sequential) == expected) continue;
    ++wrong;
    FAIL_CHECK("case ", c, " on ", std::string(isa_name(active_isa())));
  }
  set_isa(before);
}

}  // namespace

TEST_CASE("NMS: a million random cases") {
  const index_t cases = under_sanitizer ? 50000 : 1000000;
  check_random_cases<float>(cases / 20 * 16, 1);
  check_random_cases<double>(cases / 20 * 3, 1u << 30);
  check_random_cases<bfloat16>(cases / 20, 1u << 31);
}
