// SPDX-License-Identifier: Apache-2.0
// postprocess against its individual steps in the scalar references: scores and their threshold,
// the best of each level or class, decoding, clipping, small boxes, NMS per class, the limit per
// image. Results must be equal, in the same order.
//
// For images for which rounding may decide differently than the references' double, such as a score
// within 2e-6 of the threshold, and for deltas of any numbers, detections must only descend, be
// above the threshold and not overlap others of their class. To keep such images rare, logits come
// from few values, which also creates ties, and all arithmetic on boxes is exact; alternatively,
// boxes are arbitrary.
#include "box_input.hpp"
#include "class_lists.hpp"
#include "detections.hpp"
#include "support/random.hpp"
#include <vecdet/reference/box_coding.hpp>
#include <vecdet/reference/nms.hpp>

#include <algorithm>
#include <cmath>
#include <map>

using namespace vecdet;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
struct head {
  index_t images, anchors, classes, stride;
  std::vector<index_t> levels;
  bool exact, has_any_deltas;
  fuzz::tensor<T> logits, deltas, centerness;
  fuzz::tensor<float> boxes;
  fuzz::tensor<image_size> sizes;
  fuzz::tensor<index_t> level_sizes;

  head_outputs<T> outputs() const {
    return {matrix_view<const T>(logits.data(), images * anchors, classes, stride),
            boxes_view<const T>(deltas), vector_view<const T>(centerness)};
  }
  const T* row(index_t r) const { return logits.data() + r * stride; }
  double centre(index_t r) const { return static_cast<double>(centerness.data()[r]); }
  index_t label_count(dense_detector detector) const {
    return detector == dense_detector::rpn
               ? std::max(index_t{1}, static_cast<index_t>(levels.size()))
               : classes;
  }
};

/// Numbers from a fuzzer's bytes; if there are many, from a seed in the bytes.
class source {
 public:
  source(fuzz::input& in, bool seeded)
      : in_(in), random_(seeded ? in.bits<std::uint64_t>() : 0), seeded_(seeded) {}

  index_t below(index_t count) {
    return seeded_ ? random_.below(count) : in_.byte() % static_cast<int>(count);
  }
  /// One of 4 (high - low) + 1 multiples of 1/4.
  double quarter(int low, int high) {
    return low + static_cast<double>(below(4 * (high - low) + 1)) / 4;
  }

 private:
  fuzz::input& in_;
  test::random_generator random_;
  bool seeded_;
};

template <class T>
head<T> any_head(fuzz::input& in, dense_detector detector) {
  // If large: more candidates than the memory holds at once, and more boxes than NMS handles
  // without an index.
  const bool large = in.byte() > 250;
  const int mode = large ? 0 : in.byte();
  const bool exact = mode < 192, has_any_deltas = mode >= 240;
  source from(in, large);
  const index_t images = large ? 1 : in.one_of<index_t>({1, 2, 3, 0});
  const index_t columns = in.one_of<index_t>({3, 1, 6, in.integer(0, large ? 6 : 40)});
  const index_t classes = detector == dense_detector::rpn ? 1 : columns;
  std::vector<index_t> levels;
  const index_t anchors = large ? in.integer(500, 1500) : 60 - in.integer(0, 60);
  if (in.flag()) {
    for (index_t left = anchors; left > 0; left -= levels.back())
      levels.push_back(std::min(left, in.integer(0, anchors) + (levels.size() > 5 ? left : 0)));
  }
  const index_t rows = images * anchors, stride = classes + in.one_of<index_t>({0, 0, 1, 7, 40});

  const fuzz::tensor<T> logits(rows == 0 ? 0 : (rows - 1) * stride + classes);
  for (T& logit : logits) logit = test::to<T>(1000);  // between rows, where none may be read
  const auto templates = fuzz::some_rows<T>(
      in, classes, [&] { return test::to<T>(4 - in.tame(0, 10)); },
      [&] { return static_cast<std::size_t>(from.below(6)); });
  for (index_t r = 0; r < rows; ++r) {
    const auto& row =
        templates[static_cast<std::size_t>(from.below(static_cast<index_t>(templates.size())))];
    std::copy(row.begin(), row.end(), logits.data() + r * stride);
  }
  const bool fcos = detector == dense_detector::fcos;
  const fuzz::tensor<T> centerness(fcos ? rows : 0);
  const T values[] = {test::to<T>(0), test::to<T>(in.tame(-3, 3)), in.number<T>(), in.number<T>()};
  for (T& c : centerness) c = values[from.below(4)];

  const fuzz::tensor<T> deltas =
      has_any_deltas ? in.numbers<T>(4 * rows) : fuzz::tensor<T>(4 * rows);
  const fuzz::tensor<float> boxes(4 * anchors);
  std::vector<image_size> sizes;
  if (exact) {
    const double sides[] = {infinity, -infinity, std::nan("")};
    for (std::size_t k = 0; k < static_cast<std::size_t>(deltas.size()); ++k) {
      const bool is_size = !fcos && k % 4 >= 2;
      const index_t kind = from.below(64);
      const double plain = is_size ? 0 : fcos ? from.quarter(-1, 3) : from.quarter(-2, 2);
      // exp(-inf) is 0, and the clamp's exp(4.1) is not exact.
      deltas[k] = test::to<T>(kind < 3 && !(is_size && kind == 0) ? sides[kind] : plain);
    }
    const double extent = in.one_of({8, 40, 200});
    for (index_t a = 0; a < anchors; ++a) {
      for (index_t k = 0; k < 2; ++k) {
        const double low = std::floor(extent * static_cast<double>(from.below(64)) / 64) - 4;
        boxes.data()[4 * a + k] = static_cast<float>(low);
        boxes.data()[4 * a + k + 2] = static_cast<float>(low + static_cast<double>(from.below(16)));
      }
    }
    for (index_t i = 0; i < images; ++i) {
      const auto width = static_cast<double>(in.integer(1, 250));
      sizes.push_back(image_size::height_width(0.5 + in.byte(), width));
    }
  } else {
    for (T& delta : deltas)
      if (!has_any_deltas) delta = test::to<T>(fcos ? in.tame(0, 3) : in.tame(-1.5, 1.5));
    const auto tame = fuzz::some_boxes<float>(in, anchors, fuzz::box_kind::tame);
    std::copy(tame.begin(), tame.end(), boxes.begin());
    for (index_t i = 0; i < images; ++i) {
      const double width = in.tame(1, 800), height = in.tame(1, 800);
      sizes.push_back(image_size::height_width(height, width));
    }
  }
  return {images,
          anchors,
          classes,
          stride,
          levels,
          exact,
          has_any_deltas,
          logits,
          deltas,
          centerness,
          boxes,
          fuzz::tensor<image_size>(sizes),
          fuzz::tensor<index_t>(levels)};
}

/// A logit whose score is above the threshold.
struct candidate {
  float score;
  double rank;  ///< by which the best of a level or class are selected
  index_t anchor, label;
};

template <class T>
class steps {
 public:
  steps(const head<T>& h, const postprocess_params& params, index_t image)
      : h_(h), params_(params), image_(image) {}

  fuzz::expected_detections run() {
    std::vector<index_t> levels = h_.levels;
    if (levels.empty() || params_.detector == dense_detector::ssd) levels = {h_.anchors};
    doubt_if(h_.has_any_deltas);
    index_t first = 0;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      keep_best(candidates(first, first + levels[l], static_cast<index_t>(l)));
      first += levels[l];
    }
    if (!out_.certain) return out_;
    suppress();
    return out_;
  }

 private:
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  index_t row_of(index_t anchor) const { return image_ * h_.anchors + anchor; }

  bool is_ssd() const { return params_.detector == dense_detector::ssd; }

  void doubt_if(bool condition) {
    if (condition) out_.certain = false;
  }

  /// The candidates of anchors [first, last) of a level, in the order of the logits.
  std::vector<candidate> candidates(index_t first, index_t last, index_t level) {
    const bool is_rpn = params_.detector == dense_detector::rpn;
    std::vector<candidate> found;
    for (index_t a = first; a < last; ++a) {
      const T* const row = h_.row(row_of(a));
      double greatest = -infinity, sum = 0;
      for (index_t c = 0; c < h_.classes; ++c)
        greatest = std::max(greatest, static_cast<double>(row[c]));
      for (index_t c = 0; c < h_.classes; ++c)
        sum += std::exp(static_cast<double>(row[c]) - greatest);
      for (index_t c = is_ssd() ? 1 : 0; c < h_.classes; ++c) {
        const auto x = static_cast<double>(row[c]);
        const double own = fuzz::threshold_of(params_, c);
        const auto threshold = static_cast<double>(static_cast<float>(own));
        if (!fuzz::is_wanted(params_, c)) continue;
        if (is_rpn || params_.detector == dense_detector::retinanet) {
          // Compared and ranked as logits.
          if (x > logit_of(own))
            found.push_back({static_cast<float>(sigmoid(x)), x, a, is_rpn ? level : c});
          continue;
        }
        const double score = is_ssd() ? std::exp(x - greatest) / sum
                                      : std::sqrt(sigmoid(x) * sigmoid(h_.centre(row_of(a))));
        // Softmax sums floats; sqrt is computed in double and rounded.
        const double within = is_ssd() ? fuzz::softmax_within : 1e-12;
        doubt_if(std::abs(score - threshold) <= within * threshold);
        doubt_if(score > 1e-46 && score < 1e-37);
        doubt_if(!is_ssd() && static_cast<float>(score * (1 - within)) !=
                                  static_cast<float>(score * (1 + within)));
        const auto rounded = static_cast<float>(score);
        if (static_cast<double>(rounded) > threshold)
          found.push_back({rounded, static_cast<double>(rounded), a, c});
      }
    }
    doubt_if(is_ssd() && fuzz::any_close_scores(found, h_.classes, [&](const candidate& c) {
               return h_.row(row_of(c.anchor));
             }));
    return found;
  }

  /// Ties are broken by the lower logit. SSD's limit is per class.
  void keep_best(std::vector<candidate> found) {
    std::stable_sort(found.begin(), found.end(),
                     [](const candidate& a, const candidate& b) { return a.rank > b.rank; });
    std::map<index_t, index_t> kept;
    for (const candidate& c : found)
      if (kept[is_ssd() ? c.label : 0]++ < params_.max_candidates) add(c);
  }

  void add(const candidate& c) {
    const auto deltas = reference::load_box(boxes_view<const T>(h_.deltas), row_of(c.anchor));
    const auto anchor = reference::load_box(boxes_view<const float>(h_.boxes), c.anchor);
    const auto decoded =
        params_.detector == dense_detector::fcos
            ? reference::decode_distances(deltas, anchor)
            : reference::decode_box(deltas, anchor,
                                    {params_.coder.weight_x, params_.coder.weight_y,
                                     params_.coder.weight_w, params_.coder.weight_h},
                                    reference::size_clamp::above, params_.coder.size_limit);
    const image_size& size = h_.sizes.data()[image_];
    const auto box = reference::clip_box(decoded, size.width, size.height);
    const std::vector<float> rounded{static_cast<float>(box.x1), static_cast<float>(box.y1),
                                     static_cast<float>(box.x2), static_cast<float>(box.y2)};
    if (params_.min_size > 0) {
      for (const double side : {box.width(), box.height()})
        doubt_if(!h_.exact && std::abs(side - params_.min_size) < 2 * corner_within);
      if (!reference::is_large_enough(boxes_view<const float>(rounded), 0, params_.min_size))
        return;
    }
    boxes_.insert(boxes_.end(), rounded.begin(), rounded.end());
    scores_.push_back(c.score);
    labels_.push_back(c.label);
    anchors_.push_back(c.anchor);
  }

  void suppress() {
    const boxes_view<const float> boxes(boxes_);
    if (!h_.exact) doubt_close_overlaps(boxes);
    nms_params params = nms_params::torchvision(params_.iou_threshold);
    params.max_per_image = params_.max_detections;
    params.class_groups = params_.class_groups;
    const auto kept = reference::nms(boxes, vector_view<const float>(scores_), params,
                                     {vector_view<const index_t>(labels_), {}});
    for (const index_t i : kept) {
      for (index_t k = 0; k < 4; ++k) out_.boxes.push_back(boxes(i, k));
      out_.scores.push_back(scores_[static_cast<std::size_t>(i)]);
      out_.labels.push_back(labels_[static_cast<std::size_t>(i)]);
    }
  }

  /// Whether any two boxes of a class overlap by more than the threshold must not depend on errors
  /// of up to corner_within in their corners.
  void doubt_close_overlaps(boxes_view<const float> boxes) {
    for (index_t i = 0; i < boxes.size(); ++i) {
      for (index_t k = 0; k < i; ++k) {
        const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(k);
        if (fuzz::group_of(params_, labels_[a]) != fuzz::group_of(params_, labels_[b])) continue;
        const auto p = reference::load_box(boxes, i), q = reference::load_box(boxes, k);
        const double gap = std::max(std::max(p.x1, q.x1) - std::min(p.x2, q.x2),
                                    std::max(p.y1, q.y1) - std::min(p.y2, q.y2));
        if (gap > 2 * corner_within) continue;
        const double side = std::min({p.width(), p.height(), q.width(), q.height()});
        const double within = 1e-5 + 8 * corner_within / side;
        doubt_if(!(side > 0.05) || std::abs(reference::iou(p, q) - params_.iou_threshold) < within);
      }
    }
  }

 public:
  /// The error of corners in float against the references, for boxes that are not exact.
  static constexpr double corner_within = 4e-3;

 private:
  const head<T>& h_;
  const postprocess_params& params_;
  const index_t image_;
  std::vector<float> boxes_, scores_;
  std::vector<index_t> labels_, anchors_;
  fuzz::expected_detections out_;
};

/// Holds for any outputs.
template <class T>
void check_order(const head<T>& h, const postprocess_params& params, index_t image,
                 const detections_view& found) {
  const index_t first = found.offsets[image], last = found.offsets[image + 1];
  if (last - first > params.max_detections) fuzz::fail("too many detections");
  const bool by_logit =
      params.detector == dense_detector::retinanet || params.detector == dense_detector::rpn;
  const auto box = [&](index_t i) { return reference::load_box<float>(found.boxes, i); };
  for (index_t i = first; i < last; ++i) {
    // Those compared as logits are rounded afterwards.
    const auto least = static_cast<float>(fuzz::threshold_of(params, found.labels[i]));
    if (!(by_logit ? found.scores[i] >= least : found.scores[i] > least))
      fuzz::fail("a score is not above the threshold");
    if (i > first && found.scores[i] > found.scores[i - 1]) fuzz::fail("scores ascend");
    if (found.labels[i] < 0 || found.labels[i] >= h.label_count(params.detector))
      fuzz::fail("no such label");
    for (index_t k = first; k < i; ++k)
      if (fuzz::group_of(params, found.labels[k]) == fuzz::group_of(params, found.labels[i]) &&
          static_cast<double>(reference::iou<float>(box(k), box(i))) > params.iou_threshold)
        fuzz::fail("two detections of a class overlap");
  }
}

template <class T>
void postprocess_of(fuzz::input& in) {
  postprocess_params params =
      in.one_of({postprocess_params::retinanet(), postprocess_params::fcos(),
                 postprocess_params::ssd(), postprocess_params::rpn()});
  params.score_threshold = in.one_of({params.score_threshold, 0.0, 1.0, in.tame(0, 1)});
  params.max_candidates = in.one_of<index_t>({1000, 0, 1, in.integer(0, 50), in.integer(0, 2000)});
  params.iou_threshold = in.one_of({0.5, 0.0, 1.0, in.tame(0, 1), 1.0 / 3});
  params.max_detections = in.one_of<index_t>({300, 0, 1, in.integer(0, 40), 100000});
  params.min_size = in.one_of({0.0, 0.0, 3.0, 0.25, 30.0});
  coder_params& coder = params.coder;
  coder.size_limit = in.one_of({coder.size_limit, coder.size_limit, 0.5, 0.0});
  const head<T> h = any_head<T>(in, params.detector);
  for (double* weight : {&coder.weight_x, &coder.weight_y, &coder.weight_w, &coder.weight_h})
    *weight = h.exact ? in.one_of({1.0, 2.0, 0.5}) : in.one_of({1.0, *weight, in.tame(1, 10)});

  const bool is_rpn = params.detector == dense_detector::rpn;
  const fuzz::class_lists lists(in, params.detector == dense_detector::ssd, is_rpn ? 0 : h.classes);
  lists.give(params);

  std::vector<fuzz::expected_detections> expected;
  for (index_t image = 0; image < h.images; ++image)
    expected.push_back(steps<T>(h, params, image).run());
  postprocess_workspace workspace;
  fuzz::on_every_isa(std::string("postprocess ") + dtype_name<T>(), [&](fuzz::results& results) {
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const detections_view found = postprocess(
          h.outputs(), boxes_view<const float>(h.boxes), vector_view<const index_t>(h.level_sizes),
          vector_view<const image_size>(h.sizes), params, workspace, policy);
      if (found.offsets.size() != h.images + 1) fuzz::fail("wrong number of offsets");
      for (index_t image = 0; image < h.images; ++image) {
        check_order(h, params, image, found);
        fuzz::check_image(expected[static_cast<std::size_t>(image)], image, found,
                          h.exact ? 0 : steps<T>::corner_within);
      }
      fuzz::add_boxes(results, found.boxes);
      for (const float score : found.scores) results.add(static_cast<double>(score));
    }
  });
}

}  // namespace

void fuzz::target(input& in) {
  in.flag() ? postprocess_of<float>(in) : postprocess_of<bfloat16>(in);
}
