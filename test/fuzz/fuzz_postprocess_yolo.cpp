// SPDX-License-Identifier: Apache-2.0
// Raw outputs of YOLO models, merging and letterboxes for any shape, numbers and options:
// bit-identical to the references.
#include "class_lists.hpp"
#include "score_input.hpp"
#include <vecdet/reference/letterbox.hpp>
#include <vecdet/reference/merging.hpp>
#include <vecdet/reference/postprocess_yolo.hpp>

#include <algorithm>
#include <map>
#include <utility>

using namespace vecdet;

namespace {

template <class T>
void yolo(fuzz::input& in) {
  postprocess_yolo_params params =
      in.one_of({postprocess_yolo_params::v8(), postprocess_yolo_params::v5(),
                 postprocess_yolo_params::v10(), postprocess_yolo_params::rt_detr()});
  if (params.scores == yolo_scores::classes)
    params.layout = in.one_of({yolo_layout::channels, yolo_layout::rows});
  const bool is_scored = params.scores == yolo_scores::score_and_class;
  params.model_format =
      in.one_of({params.model_format, box_format::xyxy, box_format::xywh, box_format::cxcywh});
  params.result_format = in.one_of({box_format::xyxy, box_format::xywh, box_format::cxcywh});
  params.score_threshold = in.one_of({0.25, 0.0, 1.0, in.tame(0, 1), -0.5});
  params.iou_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1), 1.5});
  params.multi_label = !is_scored && in.flag();
  params.class_agnostic = in.flag();
  params.suppress = in.flag();
  params.normalised = in.flag();
  params.max_candidates = in.one_of<index_t>({30000, 0, 1, in.integer(0, 300), -1});
  params.max_detections = in.one_of<index_t>({300, 0, 1, in.integer(0, 300), -1});
  params.keypoint_size = in.one_of<index_t>({0, 2, 3});
  params.extras = in.one_of<index_t>({0, 0, 6, 12});
  const index_t images = in.integer(0, 3), boxes = in.integer(0, 100), classes = in.integer(1, 40);
  const fuzz::class_lists lists(in, 0, is_scored ? 0 : classes);
  lists.give_limits(params);
  if (params.suppress && !params.class_agnostic) params.class_groups = lists.groups;
  const index_t before = params.scores == yolo_scores::objectness ? 5 : 4;
  const index_t numbers = before + (is_scored ? 2 : classes) + params.extras;
  const bool by_rows = params.layout == yolo_layout::rows;
  const index_t rows_per_image = by_rows ? boxes : numbers, cols = by_rows ? numbers : boxes;
  const index_t stride = cols + in.one_of<index_t>({0, 0, 3});
  const index_t rows = images * rows_per_image;
  const auto values = in.numbers<T>(rows == 0 ? 0 : (rows - 1) * stride + cols);
  const matrix_view<const T> output(values.data(), rows, cols, stride);
  std::vector<letterbox_transform> transforms;
  if (in.flag())
    for (index_t i = 0; i < images; ++i)
      transforms.push_back({in.tame(0.1, 5), in.tame(0.1, 5), in.tame(-50, 50), in.tame(-50, 50),
                            image_size::height_width(in.tame(1, 900), in.tame(1, 900))});

  const bool valid = params.score_threshold >= 0 && params.iou_threshold <= 1 &&
                     params.max_candidates >= 0 && params.max_detections >= 0;
  std::vector<std::vector<reference::yolo_detection>> expected;
  for (index_t i = 0; i < images && valid; ++i) {
    std::vector<std::vector<float>> box_numbers;
    for (index_t b = 0; b < boxes; ++b) {
      box_numbers.emplace_back();
      for (index_t k = 0; k < numbers; ++k)
        box_numbers.back().push_back(
            static_cast<float>(by_rows ? output(i * boxes + b, k) : output(i * numbers + k, b)));
    }
    expected.push_back(reference::postprocess_yolo(
        box_numbers, transforms.empty() ? nullptr : &transforms[static_cast<std::size_t>(i)],
        params));
  }

  postprocess_workspace workspace;
  fuzz::on_every_isa(std::string("raw output ") + dtype_name<T>(), [&](fuzz::results& results) {
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const auto found =
          postprocess_yolo(yolo_outputs<T>{output, images}, transforms, params, workspace, policy);
      if (!valid) fuzz::fail("a raw output takes bad parameters");
      for (index_t i = 0; i < images; ++i) {
        const auto& wanted = expected[static_cast<std::size_t>(i)];
        const index_t first = found.offsets[i];
        if (found.offsets[i + 1] - first != static_cast<index_t>(wanted.size()))
          fuzz::fail("a raw output's number of detections differs from the reference's");
        for (std::size_t d = 0; d < wanted.size(); ++d) {
          const index_t at = first + static_cast<index_t>(d);
          bool same = found.labels[at] == wanted[d].label &&
                      found.sources[at] == wanted[d].source && found.scores[at] == wanted[d].score;
          const auto equals = [&](float a, float b) { return a == b || (a != a && b != b); };
          for (int k = 0; k < 4; ++k) same = same && equals(found.boxes(at, k), wanted[d].box[k]);
          for (index_t k = 0; k < params.extras; ++k)
            same =
                same && equals(found.extras(at, k), wanted[d].extras[static_cast<std::size_t>(k)]);
          if (!same) fuzz::fail("a detection differs from the reference's");
          results.add(static_cast<double>(found.boxes(at, 0)));
        }
      }
    }
  });
}

/// Any rotated boxes: the same on every instruction set, with regular angles and falling scores.
template <class T>
void rotated_yolo(fuzz::input& in) {
  postprocess_yolo_params params =
      in.one_of({postprocess_yolo_params::v8_obb(), postprocess_yolo_params::v26_obb()});
  const bool is_scored = params.scores == yolo_scores::score_and_class;
  params.rotated_result_format = in.one_of({rotated_format::cxcywhr, rotated_format::xyxyxyxy});
  params.result_format = in.one_of({box_format::xyxy, box_format::xywh, box_format::cxcywh});
  params.iou_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1)});
  params.class_agnostic = in.flag();
  params.suppress = in.flag();
  params.extras = 0;
  const index_t boxes = in.integer(0, 100), classes = in.integer(1, 20);
  const index_t numbers = 5 + (is_scored ? 2 : classes);
  const auto values = in.numbers<T>(boxes * numbers);
  const matrix_view<const T> output(values.data(), is_scored ? boxes : numbers,
                                    is_scored ? numbers : boxes);
  std::vector<letterbox_transform> transforms;
  if (in.flag()) {
    const double scale = in.tame(0.1, 5);
    transforms.push_back(
        {scale, scale, in.tame(-50, 50), in.tame(-50, 50), image_size::height_width(90, 70)});
  }
  postprocess_workspace workspace;
  fuzz::on_every_isa(std::string("rotated boxes ") + dtype_name<T>(), [&](fuzz::results& results) {
    const auto found = postprocess_yolo(yolo_outputs<T>{output, 1}, transforms, params, workspace);
    for (index_t i = 0; i < found.scores.size(); ++i) {
      if (i > 0 && found.scores[i] > found.scores[i - 1]) fuzz::fail("scores rise");
      if (found.extras.cols() == 5 && (found.extras(i, 4) < 0 || found.extras(i, 4) > 1.5707964f))
        fuzz::fail("an angle is not regular");
      results.add(static_cast<double>(found.sources[i]));
      for (int k = 0; k < 4; ++k) results.add(static_cast<double>(found.boxes(i, k)));
      for (index_t k = 0; k < found.extras.cols(); ++k)
        results.add(static_cast<double>(found.extras(i, k)));
    }
  });
}

template <class T>
void merge(fuzz::input& in) {
  using real = compute_type<T>;
  merge_params params;
  params.overlap = in.one_of({nms_overlap::smaller_area, nms_overlap::positive_area});
  params.match_threshold = in.one_of({0.5, 0.1, 1.0, in.tame(0.01, 1), 0.0, 1e-9});
  params.transitive = in.flag();
  params.recheck = in.flag();
  const auto scene = fuzz::any_scene<T>(in, 600);
  const bool valid = params.match_threshold > 0;
  std::map<std::pair<index_t, index_t>, std::vector<index_t>> members;
  for (index_t i = 0; i < scene.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    members[{scene.images.size() == 0 ? 0 : scene.images[at],
             scene.classes.size() == 0 ? 0 : scene.classes[at]}]
        .push_back(i);
  }
  std::map<index_t, std::vector<index_t>> expected;
  for (const auto& part : members) {
    std::vector<real> boxes, scores;
    for (const index_t i : part.second) {
      for (int k = 0; k < 4; ++k) boxes.push_back(static_cast<real>(scene.b()(i, k)));
      scores.push_back(static_cast<real>(scene.s()[i]));
    }
    if (!valid) break;
    for (auto group : reference::merge_boxes<real>(boxes, scores, params)) {
      for (index_t& member : group) member = part.second[static_cast<std::size_t>(member)];
      expected[group[0]] = group;
    }
  }

  merge_workspace workspace;
  fuzz::on_every_isa(std::string("merging ") + dtype_name<T>(), [&](fuzz::results& results) {
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const auto found =
          merge_boxes(scene.b(), scene.s(), scene.groups(), params, workspace, policy);
      if (!valid) fuzz::fail("merging takes a threshold of 0");
      if (found.scores.size() != static_cast<index_t>(expected.size()))
        fuzz::fail("the number of merged groups differs from the reference's");
      for (index_t g = 0; g < found.scores.size(); ++g) {
        const std::vector<index_t> group(found.members.begin() + found.offsets[g],
                                         found.members.begin() + found.offsets[g + 1]);
        if (group != expected[group[0]]) fuzz::fail("a merged group differs from the reference's");
        for (const index_t member : group) results.add(static_cast<double>(member));
        for (int k = 0; k < 4; ++k) results.add(static_cast<double>(found.boxes(g, k)));
      }
    }
  });
}

void box_letters(fuzz::input& in) {
  letterbox_params params = in.one_of({letterbox_params::yolo(), letterbox_params::yolox()});
  params.upscale = in.flag();
  params.swap_channels = in.flag();
  params.fill = in.tame(-10, 300);
  for (int c = 0; c < 3; ++c) {
    params.mean[c] = in.tame(-1, 1);
    params.deviation[c] = in.one_of({1.0, in.tame(0.1, 2)});
  }
  const grid_size input{in.integer(1, 70), in.integer(1, 70)};
  const index_t height = in.integer(1, 90), width = in.integer(1, 90);
  test::random_generator random(in.bits<std::uint64_t>());
  const fuzz::tensor<std::uint8_t> pixels(3 * height * width);
  for (std::uint8_t& byte : pixels) byte = static_cast<std::uint8_t>(random.below(256));
  const byte_image image{pixels.data(), height, width, 0};
  const auto expected =
      reference::letterbox({pixels.begin(), pixels.end()}, height, width, input, params);

  letterbox_workspace workspace;
  fuzz::on_every_isa("letterbox", [&](fuzz::results& results) {
    const fuzz::tensor<float> batch(3 * input.height * input.width);
    letterbox(vector_view<const byte_image>(&image, 1),
              vector_view<float>(batch.data(), batch.size()), input, params, workspace);
    if (!std::equal(expected.begin(), expected.end(), batch.begin()))
      fuzz::fail("a letterbox differs from the reference's");
    results.add(batch);
  });
}

}  // namespace

void fuzz::target(input& in) {
  switch (in.byte() % 5) {
    case 0:
      return yolo<float>(in);
    case 1:
      return yolo<bfloat16>(in);
    case 4:
      return in.flag() ? rotated_yolo<float>(in) : rotated_yolo<bfloat16>(in);
    case 2:
      return with_any_type(in, [&](auto zero) { merge<decltype(zero)>(in); });
    default:
      return box_letters(in);
  }
}
