// SPDX-License-Identifier: Apache-2.0
// NMS and batched NMS with any boxes, scores, groups and options: the reference's indices, in its
// order, on every instruction set and with any number of threads.
#include "class_lists.hpp"
#include "score_input.hpp"
#include <vecdet/reference/nms.hpp>

#include <algorithm>

using namespace vecdet;

namespace {

nms_params any_params(fuzz::input& in) {
  nms_params params;
  params.iou_threshold = in.one_of({0.5, 0.3, 0.7, 0.0, 1.0, 0.25, 1e-9, in.tame(0, 1), -0.5});
  const int options = in.byte();
  if (options >= 240 && params.iou_threshold >= 0) {
    const double iou = params.iou_threshold;
    return in.one_of({nms_params::torchvision(iou), nms_params::mmcv(iou),
                      nms_params::mmcv(iou, true), nms_params::ipex(iou), nms_params::onnx(iou, 3),
                      nms_params::onnx(iou, 3, true), nms_params::opencv(iou, 0.25)});
  }
  params.suppress_equal = (options & 1) != 0;
  params.float_threshold = (options & 2) != 0;
  params.plus_one = (options & 4) != 0;
  params.drop_nan_scores = (options & 8) != 0;
  params.drop_degenerate = (options & 16) != 0;
  if ((options & 32) != 0) params.score_threshold = in.one_of({0.25, 0.0, -1e300, 1e300});
  params.format = in.one_of({nms_format::corners, nms_format::any_corners, nms_format::centre});
  params.overlap =
      in.one_of({nms_overlap::plain, nms_overlap::positive_area, nms_overlap::jaccard});
  params.order = in.one_of(
      {nms_order::score, nms_order::index, nms_order::image_score, nms_order::image_class_score});
  for (const auto limit :
       {&nms_params::max_per_class, &nms_params::max_per_image, &nms_params::max_total})
    if (in.byte() < 64) params.*limit = in.integer(0, 12);
  return params;
}

/// Boxes of T with scores of S.
template <class T, class S>
void nms_of(fuzz::input& in) {
  nms_params params = any_params(in);
  const auto scene = fuzz::any_scene<T, S>(in, 4000);
  // Classes are -1 to 2, or multiples of them: the lists have elements for 0 to 2.
  const fuzz::class_lists lists(in, 0, scene.classes.size() > 0 ? 3 : 0);
  lists.give(params);
  bool known = lists.thresholds.size() == 0 && lists.groups.size() == 0;
  if (!known)
    known = std::all_of(scene.classes.begin(), scene.classes.end(), [&](index_t c) {
      return !fuzz::is_wanted(params, c) || (c >= 0 && c < 3);
    });
  const nms_groups groups = scene.groups();
  const bool grouped = scene.classes.size() > 0 || scene.images.size() > 0;
  std::vector<index_t> expected;
  if (params.iou_threshold >= 0 && known)
    expected = reference::nms(
        scene.b(), scene.s(), params,
        {vector_view<const index_t>(scene.classes), vector_view<const index_t>(scene.images)});
  const boxes_view<const T> half(scene.b().data(), scene.size() / 2);
  nms_workspace workspace;
  fuzz::on_every_isa(
      std::string("NMS ") + dtype_name<T>() + " by " + dtype_name<S>(),
      [&](fuzz::results& results) {
        const auto expect = [&](const auto& kept) {
          results.add(static_cast<double>(kept.size()));
          if (!known) fuzz::fail("NMS takes a class without an element in a list");
          if (std::vector<index_t>(kept.begin(), kept.end()) != expected)
            fuzz::fail(std::string("NMS on ") + isa_name(active_isa()) +
                       " differs from the reference");
        };
        for (const threading policy : {threading::sequential, threading::parallel}) {
          expect(batched_nms(scene.b(), scene.s(), groups, params, workspace, policy));
          if (!grouped) expect(nms(scene.b(), scene.s(), params, workspace, policy));
        }
        // A workspace that has held other boxes, and one for this call only.
        nms_params others = params;
        fuzz::class_lists().give(others);
        nms(half, vector_view<const S>(scene.s().data(), half.size()), others, workspace);
        expect(batched_nms(scene.b(), scene.s(), groups, params, workspace));
        expect(batched_nms(scene.b(), scene.s(), groups, params));
        if (!grouped) expect(nms(scene.b(), scene.s(), params));
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_types(in, [&](auto score, auto box) { nms_of<decltype(box), decltype(score)>(in); });
}
