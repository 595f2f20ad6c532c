// SPDX-License-Identifier: Apache-2.0
// Postprocessing of any head outputs. Every detection must be a candidate by its score, decoded and
// clipped, and must not overlap another of its class. If no limit is reached, each candidate must
// be detected or suppressed by a detection.
#include "box_input.hpp"
#include <vecdet/reference/box.hpp>
#include <vecdet/reference/iou.hpp>

#include <algorithm>
#include <map>

using namespace vecdet;

namespace {

/// Whether a score is the sigmoid of its logit alone. Such scores are compared as logits.
bool is_sigmoid(dense_detector detector) {
  return detector == dense_detector::retinanet || detector == dense_detector::rpn;
}

template <class T>
struct head {
  index_t images, anchors, classes;
  fuzz::tensor<index_t> levels;
  fuzz::tensor<T> logits, deltas, centerness;
  fuzz::tensor<float> boxes;
  fuzz::tensor<image_size> sizes;
  index_t stride;

  head_outputs<T> outputs() const {
    return {matrix_view<const T>(logits.data(), images * anchors, classes, stride),
            boxes_view<const T>(deltas), vector_view<const T>(centerness)};
  }

  /// The label of a detection in this column of an anchor: the column, or for an RPN the level.
  index_t label_of(dense_detector detector, index_t anchor, index_t column) const {
    if (detector != dense_detector::rpn) return column;
    index_t level = 0;
    for (index_t first = 0; level < levels.size(); ++level) {
      first += levels.data()[level];
      if (anchor < first) return level;
    }
    return 0;
  }
  index_t label_count(dense_detector detector) const {
    return detector == dense_detector::rpn ? std::max(index_t{1}, levels.size()) : classes;
  }

  /// The score of every logit, in double.
  std::vector<double> scores(const postprocess_params& params) const {
    std::vector<double> all;
    const auto sigmoid = [](double logit) { return 1 / (1 + std::exp(-logit)); };
    for (index_t row = 0; row < images * anchors; ++row) {
      const T* const x = logits.data() + row * stride;
      double greatest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (index_t c = 0; c < classes; ++c)
        greatest = std::max(greatest, static_cast<double>(x[c]));
      for (index_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(x[c]) - greatest);
      for (index_t c = 0; c < classes; ++c) {
        const double logit = static_cast<double>(x[c]);
        all.push_back(
            is_sigmoid(params.detector) ? sigmoid(logit)
            : params.detector == dense_detector::ssd
                ? std::exp(logit - greatest) / sum
                : std::sqrt(sigmoid(static_cast<double>(centerness.data()[row])) * sigmoid(logit)));
      }
    }
    return all;
  }
};

/// Numbers typical of a head, or any.
template <class T>
fuzz::tensor<T> head_numbers(fuzz::input& in, index_t count, bool tame, double low, double high) {
  if (!tame) return in.numbers<T>(count);
  const fuzz::tensor<T> numbers(count);
  for (T& number : numbers) number = test::to<T>(low + (high - low) * in.byte() / 255.0);
  return numbers;
}

template <class T>
head<T> any_head(fuzz::input& in, dense_detector detector, bool tame) {
  // More candidates than the memory holds. The number of anchors is limited, because check_image
  // compares each candidate with all detections of its class: up to anchors^2 x classes.
  const bool large = in.byte() < 16;
  const bool is_rpn = detector == dense_detector::rpn;
  const index_t images = in.integer(0, 3);
  const index_t classes = is_rpn ? 1 : in.integer(0, large ? 100 : 20);
  std::vector<index_t> levels;
  index_t anchors = in.integer(0, large ? 100 : 40);
  if (in.flag()) {
    for (index_t left = anchors; left > 0; left -= levels.back())
      levels.push_back(std::min(left, in.integer(0, 30) + (levels.size() > 3 ? left : 0)));
  }
  std::vector<image_size> sizes;
  for (index_t i = 0; i < images; ++i) {
    const double width = in.tame(1, 800), height = in.tame(1, 800);
    sizes.push_back(image_size::height_width(height, width));
  }
  const index_t rows = images * anchors, stride = classes + in.one_of<index_t>({0, 0, 3});
  const bool fcos = detector == dense_detector::fcos;
  const double shift = in.one_of({0.0, 0.0, 1000.0, -1e6});
  return {images,
          anchors,
          classes,
          fuzz::tensor<index_t>(levels),
          head_numbers<T>(in, rows == 0 ? 0 : (rows - 1) * stride + classes, tame, shift - 6,
                          shift + 4),
          head_numbers<T>(in, 4 * rows, tame, fcos ? 0 : -1, fcos ? 3 : 1),
          head_numbers<T>(in, fcos ? rows : 0, tame, -3, 3),
          fuzz::some_boxes<float>(in, anchors, fuzz::box_kind::tame),
          fuzz::tensor<image_size>(sizes),
          stride};
}

using corners = reference::box_of<float>;

/// A candidate of an image: a logit whose score may be above the threshold.
struct candidate {
  double score;
  corners box;
};

/// The boxes of an image, clipped. Box coding has its own fuzzer, so its bits are trusted here.
template <class T>
std::vector<float> boxes_of(const head<T>& h, index_t image, const postprocess_params& params) {
  std::vector<float> boxes(static_cast<std::size_t>(4 * h.anchors));
  const boxes_view<const T> deltas(h.deltas.data() + 4 * image * h.anchors, h.anchors);
  const boxes_view<const float> anchors(h.boxes);
  const image_size& size = h.sizes.data()[image];
  if (params.detector == dense_detector::fcos) {
    decode_distances(deltas, anchors, size, boxes_view<float>(boxes), {}, threading::sequential);
  } else {
    decode_boxes(deltas, anchors, size, boxes_view<float>(boxes), params.coder,
                 threading::sequential);
  }
  return boxes;
}

/// The candidates of an image by label, including those with a score close to the threshold.
template <class T>
std::map<index_t, std::vector<candidate>> candidates_of(const head<T>& h,
                                                        const std::vector<double>& scores,
                                                        index_t image,
                                                        const postprocess_params& params) {
  std::map<index_t, std::vector<candidate>> found;
  const std::vector<float> boxes = boxes_of(h, image, params);
  const double* score = scores.data() + image * h.anchors * h.classes;
  for (index_t a = 0; a < h.anchors; ++a, score += h.classes) {
    const auto box = reference::load_box<float>(boxes_view<const float>(boxes), a);
    const auto least = static_cast<float>(params.min_size);
    if (least > 0 && !(box.width() >= least && box.height() >= least)) continue;
    for (index_t c = params.detector == dense_detector::ssd ? 1 : 0; c < h.classes; ++c)
      if (score[c] >= params.score_threshold * (1 - 1e-5))
        found[h.label_of(params.detector, a, c)].push_back({score[c], box});
  }
  return found;
}

bool overlap(const corners& a, const corners& b, double threshold) {
  return reference::iou<float>(a, b) > threshold;
}
bool equal(const corners& a, const corners& b) {
  return a.x1 == b.x1 && a.y1 == b.y1 && a.x2 == b.x2 && a.y2 == b.y2;
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * b; }

template <class T>
void check_image(const head<T>& h, const std::vector<double>& scores, index_t image,
                 const postprocess_params& params, const detections_view& found, bool tame) {
  const index_t first = found.offsets[image], last = found.offsets[image + 1];
  if (last - first > params.max_detections) fuzz::fail("too many detections");
  const auto box = [&](index_t i) { return reference::load_box<float>(found.boxes, i); };
  std::map<index_t, std::vector<index_t>> by_label;
  for (index_t i = first; i < last; ++i) {
    // Those compared as logits are rounded afterwards.
    const float least = static_cast<float>(params.score_threshold);
    if (!(is_sigmoid(params.detector) ? found.scores[i] >= least : found.scores[i] > least))
      fuzz::fail("a score is not above the threshold");
    if (i > first && found.scores[i] > found.scores[i - 1]) fuzz::fail("scores ascend");
    if (found.labels[i] < 0 || found.labels[i] >= h.label_count(params.detector))
      fuzz::fail("no such label");
    std::vector<index_t>& same_label = by_label[found.labels[i]];
    for (const index_t k : same_label)
      if (overlap(box(k), box(i), params.iou_threshold))
        fuzz::fail("two detections of a class overlap");
    same_label.push_back(i);
  }
  if (!tame) return;
  const auto candidates = candidates_of(h, scores, image, params);
  std::size_t total = 0;
  for (const auto& same_label : candidates) total += same_label.second.size();
  const bool complete =
      static_cast<index_t>(total) <= params.max_candidates && last - first < params.max_detections;
  for (const auto& same_label : by_label) {
    const auto known = candidates.find(same_label.first);
    for (const index_t i : same_label.second) {
      if (known == candidates.end() ||
          std::none_of(known->second.begin(), known->second.end(), [&](const candidate& c) {
            return near(static_cast<double>(found.scores[i]), c.score) && equal(box(i), c.box);
          }))
        fuzz::fail("a detection is not among the candidates");
    }
  }
  for (const auto& same_label : candidates) {
    const std::vector<index_t>& detected = by_label[same_label.first];
    for (const candidate& c : same_label.second) {
      if (!complete || near(c.score, params.score_threshold)) continue;
      if (std::none_of(detected.begin(), detected.end(), [&](index_t i) {
            return static_cast<double>(found.scores[i]) >= c.score * (1 - 1e-5) &&
                   (equal(box(i), c.box) || overlap(box(i), c.box, params.iou_threshold));
          }))
        fuzz::fail("a candidate is neither detected nor suppressed");
    }
  }
}

template <class T>
void postprocess_of(fuzz::input& in) {
  postprocess_params params =
      in.one_of({postprocess_params::retinanet(), postprocess_params::fcos(),
                 postprocess_params::ssd(), postprocess_params::rpn()});
  params.score_threshold = in.one_of({params.score_threshold, 0.0, 1.0, in.tame(0, 1), -0.5});
  params.max_candidates = in.one_of<index_t>({1000, 0, 1, in.integer(0, 5000)});
  params.iou_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1)});
  params.max_detections = in.one_of<index_t>({300, 0, 1, 100000});
  params.min_size = in.one_of({0.0, 0.0, 30.0});
  const bool tame = in.flag();
  const head<T> h = any_head<T>(in, params.detector, tame);

  // The scores of moderate heads: finite and not large.
  const std::vector<double> scores = tame ? h.scores(params) : std::vector<double>();
  postprocess_workspace workspace;
  fuzz::on_every_isa(std::string("postprocess ") + dtype_name<T>(), [&](fuzz::results& results) {
    const auto run = [&](threading policy) {
      return postprocess(h.outputs(), boxes_view<const float>(h.boxes),
                         vector_view<const index_t>(h.levels),
                         vector_view<const image_size>(h.sizes), params, workspace, policy);
    };
    const auto add_to = [](fuzz::results& numbers, const detections_view& found) {
      for (const index_t offset : found.offsets) numbers.add(static_cast<double>(offset));
      for (index_t i = 0; i < found.boxes.size(); ++i) {
        for (index_t k = 0; k < 4; ++k) numbers.add(static_cast<double>(found.boxes(i, k)));
        numbers.add(static_cast<double>(found.scores[i]));
        numbers.add(static_cast<double>(found.labels[i]));
      }
    };
    const detections_view found = run(threading::sequential);
    if (found.offsets.size() != h.images + 1 || found.offsets[0] != 0 ||
        found.offsets[h.images] != found.scores.size())
      fuzz::fail("wrong number of offsets");
    for (index_t image = 0; image < h.images; ++image)
      check_image(h, scores, image, params, found, tame);
    add_to(results, found);
    fuzz::results again;
    add_to(again, run(threading::parallel));
    fuzz::expect_same("postprocess depends on threads", results, again);
  });
}

}  // namespace

void fuzz::target(input& in) {
  in.flag() ? postprocess_of<float>(in) : postprocess_of<bfloat16>(in);
}
