// SPDX-License-Identifier: Apache-2.0
// postprocess_box_head against its individual steps: softmax in double and its threshold, each
// class's own deltas decoded and clipped, small boxes, the scalar reference's NMS per class, the
// limit per image. Results must be equal, in the same order. Box coding has its own fuzzer, so its
// bits are trusted here.
//
// Nothing is expected of images for which rounding may decide differently than softmax in double,
// for example if a score is within 2e-6 of the threshold. To keep them rare, logits come from a few
// distinct rows.
#include "box_input.hpp"
#include "detections.hpp"
#include <vecdet/reference/box.hpp>
#include <vecdet/reference/nms.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

using namespace vecdet;

namespace {

template <class T>
struct head {
  index_t classes, stride;
  fuzz::tensor<T> logits, deltas;
  fuzz::tensor<float> proposals;
  fuzz::tensor<index_t> offsets;
  fuzz::tensor<image_size> sizes;

  index_t rows() const { return proposals.size() / 4; }
  const T* row(index_t proposal) const { return logits.data() + proposal * stride; }
  box_head_outputs<T> outputs() const {
    return {matrix_view<const T>(logits.data(), rows(), classes, stride),
            boxes_view<const T>(deltas)};
  }
};

template <class T>
head<T> any_head(fuzz::input& in) {
  const index_t classes = in.one_of<index_t>({3, 1, 7, in.integer(0, 40)});
  const index_t stride = classes + in.one_of<index_t>({0, 0, 1, 9});
  std::vector<index_t> offsets{0};
  std::vector<image_size> sizes;
  for (index_t left = in.integer(0, 3); left > 0; --left) {
    offsets.push_back(offsets.back() + in.integer(0, 25));
    const double width = in.tame(1, 800), height = in.tame(1, 800);
    sizes.push_back(image_size::height_width(height, width));
  }
  const index_t rows = offsets.back();
  const fuzz::tensor<T> logits(rows == 0 ? 0 : (rows - 1) * stride + classes);
  for (T& logit : logits) logit = test::to<T>(1000);  // between rows, where none may be read
  const auto templates = fuzz::some_rows<T>(
      in, classes, [&] { return test::to<T>(in.tame(-4, 4)); },
      [&]() -> std::size_t { return in.byte() % 6; });
  for (index_t r = 0; r < rows; ++r) {
    const std::vector<T>& from = templates[in.byte() % templates.size()];
    std::copy(from.begin(), from.end(), logits.data() + r * stride);
  }
  const bool any_deltas = in.byte() < 64;
  const fuzz::tensor<T> deltas =
      any_deltas ? in.numbers<T>(4 * rows * classes) : fuzz::tensor<T>(4 * rows * classes);
  if (!any_deltas)
    for (T& delta : deltas) delta = test::to<T>((in.byte() - 128) / 32.0);
  return {classes,
          stride,
          logits,
          deltas,
          fuzz::some_boxes<float>(in, rows, fuzz::any_box_kind(in)),
          fuzz::tensor<index_t>(offsets),
          fuzz::tensor<image_size>(sizes)};
}

/// A logit whose score is above the threshold.
struct candidate {
  float score;
  index_t proposal, label;
};

/// The expected result of an image; none for an uncertain one.
struct expectation {
  bool certain = true;
  std::vector<candidate> candidates;  ///< in the order of the logits
};

template <class T>
expectation candidates_of(const head<T>& h, const box_head_params& params, index_t image) {
  expectation out;
  const auto threshold = static_cast<double>(static_cast<float>(params.score_threshold));
  for (index_t p = h.offsets.data()[image]; p < h.offsets.data()[image + 1]; ++p) {
    const T* const x = h.row(p);
    double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (index_t c = 0; c < h.classes; ++c)
      greatest = std::max(greatest, static_cast<double>(x[c]));
    for (index_t c = 0; c < h.classes; ++c) sum += std::exp(static_cast<double>(x[c]) - greatest);
    for (index_t c = 1; c < h.classes; ++c) {
      const double score = std::exp(static_cast<double>(x[c]) - greatest) / sum;
      const bool is_close = std::abs(score - threshold) <= fuzz::softmax_within * threshold;
      if (is_close || (score > 1e-46 && score < 1e-37)) out.certain = false;
      if (static_cast<double>(static_cast<float>(score)) > threshold)
        out.candidates.push_back({static_cast<float>(score), p, c});
    }
  }
  if (fuzz::any_close_scores(out.candidates, h.classes,
                             [&](const candidate& c) { return h.row(c.proposal); }))
    out.certain = false;
  return out;
}

/// A candidate's box, clipped, on the active instruction set.
template <class T>
reference::box_of<float> box_of(const head<T>& h, const box_head_params& params, index_t image,
                                const candidate& c) {
  float box[4];
  decode_boxes(boxes_view<const T>(h.deltas.data() + 4 * (c.proposal * h.classes + c.label), 1),
               boxes_view<const float>(h.proposals.data() + 4 * c.proposal, 1),
               h.sizes.data()[image], boxes_view<float>(box, 1), params.coder,
               threading::sequential);
  return {box[0], box[1], box[2], box[3]};
}

/// The candidates' boxes, the large ones, NMS, the best.
template <class T>
fuzz::expected_detections expected_of(const head<T>& h, const box_head_params& params,
                                      const expectation& from, index_t image) {
  fuzz::expected_detections expected;
  expected.certain = from.certain;
  std::vector<float> boxes, scores;
  std::vector<index_t> labels;
  const auto least = static_cast<float>(params.min_size);
  for (const candidate& c : from.candidates) {
    const auto box = box_of(h, params, image, c);
    if (least > 0 && !(box.width() >= least && box.height() >= least)) continue;
    boxes.insert(boxes.end(), {box.x1, box.y1, box.x2, box.y2});
    scores.push_back(c.score);
    labels.push_back(c.label);
  }
  nms_params suppression = nms_params::torchvision(params.iou_threshold);
  suppression.max_per_image = params.max_detections;
  const auto kept = reference::nms(boxes_view<const float>(boxes), vector_view<const float>(scores),
                                   suppression, {vector_view<const index_t>(labels), {}});
  for (const index_t i : kept) {
    const auto at = static_cast<std::size_t>(i);
    expected.boxes.insert(expected.boxes.end(), &boxes[4 * at], &boxes[4 * at] + 4);
    expected.scores.push_back(scores[at]);
    expected.labels.push_back(labels[at]);
  }
  return expected;
}

template <class T>
void box_head_of(fuzz::input& in) {
  box_head_params params;
  params.score_threshold = in.one_of({params.score_threshold, 0.0, 1.0, in.tame(0, 1), -0.5});
  params.iou_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1), 1.0 / 3});
  params.max_detections = in.one_of<index_t>({100, 0, 1, in.integer(0, 40), 100000});
  params.min_size = in.one_of({params.min_size, 0.0, 3.0, 30.0});
  coder_params& coder = params.coder;
  coder.size_limit = in.one_of({coder.size_limit, coder.size_limit, 0.5, 0.0});
  for (double* weight : {&coder.weight_x, &coder.weight_y, &coder.weight_w, &coder.weight_h})
    *weight = in.one_of({*weight, 1.0, in.tame(0.1, 20)});
  const head<T> h = any_head<T>(in);
  std::vector<expectation> expected;
  for (index_t image = 0; image < h.sizes.size(); ++image)
    expected.push_back(candidates_of(h, params, image));
  postprocess_workspace workspace;
  fuzz::on_every_isa(std::string("box head ") + dtype_name<T>(), [&](fuzz::results& results) {
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const detections_view found = postprocess_box_head(
          h.outputs(), boxes_view<const float>(h.proposals), vector_view<const index_t>(h.offsets),
          vector_view<const image_size>(h.sizes), params, workspace, policy);
      if (found.offsets.size() != h.sizes.size() + 1) fuzz::fail("wrong number of offsets");
      for (index_t image = 0; image < h.sizes.size(); ++image)
        fuzz::check_image(expected_of(h, params, expected[static_cast<std::size_t>(image)], image),
                          image, found, 0);
      for (const index_t label : found.labels) results.add(static_cast<double>(label));
      fuzz::add_boxes(results, found.boxes);
      for (const float score : found.scores) results.add(static_cast<double>(score));
    }
  });
}

}  // namespace

void fuzz::target(input& in) { in.flag() ? box_head_of<float>(in) : box_head_of<bfloat16>(in); }
