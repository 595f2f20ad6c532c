// SPDX-License-Identifier: Apache-2.0
// Soft-NMS of any boxes, scores and groups, against the reference's picks. If exp is involved,
// nearly equal scores may swap, and scores near the floor may be dropped.
#include "score_input.hpp"
#include <vecdet/reference/soft_nms.hpp>

#include <algorithm>

using namespace vecdet;

namespace {

template <class T>
void soft_nms_of(fuzz::input& in) {
  using real = compute_type<T>;
  soft_nms_params params;
  params.method =
      in.one_of({soft_nms_method::linear, soft_nms_method::gaussian, soft_nms_method::hard});
  params.iou_threshold = in.one_of({0.3, 0.0, 1.0, in.tame(0, 1), -0.5, 1e-50});
  params.sigma = in.one_of({0.5, 0.01, in.tame(0.01, 5), 0.0});
  params.score_floor = in.one_of({1e-3, 0.2, 0.0, -1.0});
  params.plus_one = in.flag();
  const auto scene = fuzz::any_scene<T>(in, 600);
  const bool valid = params.iou_threshold >= 0 && params.sigma > 0;
  std::vector<reference::rescored<real>> expected;
  if (valid)
    expected = reference::soft_nms(
        scene.b(), scene.s(), params,
        {vector_view<const index_t>(scene.classes), vector_view<const index_t>(scene.images)});
  // By score, like the result: a pick may raise a negative score of its group to 0, after scores of
  // 0 have been picked.
  std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) {
    return a.score > b.score || (a.score == b.score && a.index < b.index);
  });
  const bool exact = params.method != soft_nms_method::gaussian;

  soft_nms_workspace<real> workspace;
  fuzz::on_every_isa(std::string("soft-NMS ") + dtype_name<T>(), [&](fuzz::results& results) {
    const auto actual =
        soft_nms(scene.b(), scene.s(), scene.groups(), params, workspace, threading::sequential);
    const std::vector<index_t> kept(actual.kept.begin(), actual.kept.end());
    const std::vector<real> scores(actual.scores.begin(), actual.scores.end());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      results.add(static_cast<double>(kept[i]));
      results.add(static_cast<double>(scores[i]));
    }
    const auto again =
        soft_nms(scene.b(), scene.s(), scene.groups(), params, workspace, threading::parallel);
    if (kept != std::vector<index_t>(again.kept.begin(), again.kept.end()))
      fuzz::fail("soft-NMS depends on threads");
    if (scene.classes.size() == 0 && scene.images.size() == 0) {
      const auto as_one = soft_nms(scene.b(), scene.s(), params, workspace);
      if (kept != std::vector<index_t>(as_one.kept.begin(), as_one.kept.end()))
        fuzz::fail("soft-NMS of one group differs without groups");
    }

    // Compared up to the first difference, which must have a reason.
    for (std::size_t i = 0; i < std::max(kept.size(), expected.size()); ++i) {
      if (i < std::min(kept.size(), expected.size()) && kept[i] == expected[i].index) {
        fuzz::expect_near([&] { return "score left"; }, static_cast<double>(scores[i]),
                          static_cast<double>(expected[i].score), exact ? 0 : 1e-6, 1e-30);
        continue;
      }
      if (exact) fuzz::fail("soft-NMS picks a different box than the reference");
      const double mine = i < kept.size() ? static_cast<double>(scores[i]) : params.score_floor;
      const double exact_score =
          i < expected.size() ? static_cast<double>(expected[i].score) : params.score_floor;
      fuzz::expect_near([&] { return "score of another pick"; }, mine, exact_score, 1e-5, 1e-30);
      return;
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { soft_nms_of<decltype(zero)>(in); });
}
