// SPDX-License-Identifier: Apache-2.0
// From head outputs for an 800 x 800 picture to detections or proposals: threshold and top-k alone,
// decoding alone, and the whole, for RetinaNet, FCOS and an RPN, in rows and in the channels-first
// layout of convolutions.
#include "plain/box_coding.hpp"
#include "plain/postprocess.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/anchors.hpp>
#include <vecdet/box_coding.hpp>
#include <vecdet/postprocess.hpp>
#include <vecdet/quantised_outputs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr double threshold = 0.05;
constexpr index_t best = 1000;

/// A head and its detector.
struct head_kind {
  postprocess_params params;
  std::vector<anchor_shapes> shapes;
  std::vector<index_t> sides;  ///< of the levels
  index_t classes;

  static head_kind of(dense_detector detector) {
    const std::vector<index_t> sides{100, 50, 25, 13, 7};
    if (detector == dense_detector::fcos)
      return {postprocess_params::fcos(), anchor_shapes::fcos(), sides, 91};
    if (detector == dense_detector::rpn)
      return {postprocess_params::rpn(), anchor_shapes::rpn(), {200, 100, 50, 25, 13}, 1};
    return {postprocess_params::retinanet(), anchor_shapes::retinanet(), sides, 91};
  }
  index_t at_location() const { return shapes[0].count(); }
};

/// Rows, level by level: for one image, a level is a part of each matrix.
template <class T>
struct head {
  const head_kind kind;
  std::vector<float> anchors;
  std::vector<index_t> level_sizes;
  std::vector<T> logits, deltas, centerness;
  std::vector<image_size> sizes{image_size::height_width(800, 800)};
  filter_topk_workspace topk;
  postprocess_workspace workspace;
  // The results of the last call.
  vector_view<const float> scores;
  boxes_view<const float> boxes;

  explicit head(dense_detector detector) : kind(head_kind::of(detector)) {
    std::vector<grid_size> grids;
    for (const index_t side : kind.sides) {
      grids.push_back({side, side});
      level_sizes.push_back(kind.at_location() * side * side);
    }
    anchors.resize(static_cast<std::size_t>(4 * count_anchors(kind.shapes, grids)));
    make_anchors(kind.shapes, {800, 800}, grids, anchors);
    const bool is_rpn = detector == dense_detector::rpn;
    const std::vector<index_t> labels =
        is_rpn ? std::vector<index_t>(static_cast<std::size_t>(rows()), -1)
               : assign(anchors, scene(), kind.classes).labels;
    logits = head_logits<T>(labels, kind.classes);
    deltas = head_deltas<T>(rows());
    if (detector != dense_detector::fcos) return;
    centerness = head_logits<T>(std::vector<index_t>(static_cast<std::size_t>(rows()), 0), 1);
    // Distances in units of the anchor's size.
    for (T& d : deltas) d = T(static_cast<compute_type<T>>(2 + 4 * static_cast<double>(d)));
  }

  index_t rows() const { return static_cast<index_t>(anchors.size()) / 4; }
  matrix_view<const T> x() const { return {logits.data(), rows(), kind.classes}; }
  void set(const detections_view& found) {
    boxes = found.boxes;
    scores = found.scores;
  }
  void detect(threading policy) {
    const head_outputs<T> outputs{x(), deltas, centerness};
    set(postprocess(outputs, boxes_view<const float>(anchors),
                    vector_view<const index_t>(level_sizes), vector_view<const image_size>(sizes),
                    kind.params, workspace, policy));
  }
};

/// The head of the current problem.
template <class T>
auto make_head(dense_detector detector) {
  return current_data<head<T>>(std::to_string(static_cast<int>(detector)), detector);
}

/// A head of floats in either layout, and the scratch memory of its plain loops.
struct float_head {
  std::shared_ptr<head<float>> rows;
  bool planes;
  std::vector<float> logits, deltas, centerness, decoded;
  std::vector<head_level<const float>> logit_levels, delta_levels, centerness_levels;
  std::vector<plain_level> levels;
  plain_postprocess_memory plain_memory;
  std::vector<float> found;  ///< the logits or scores found by the last call

  float_head(dense_detector detector, bool channels_first)
      : rows(make_head<float>(detector)),
        planes(channels_first),
        logits(rows->logits),
        deltas(rows->deltas),
        centerness(rows->centerness),
        decoded(deltas.size()) {
    const index_t a = rows->kind.at_location(), classes = rows->kind.classes;
    index_t first = 0;
    for (const index_t side : rows->kind.sides) {
      const index_t locations = side * side;
      plain_level level{logits.data() + first * classes,
                        deltas.data() + first * 4,
                        centerness.empty() ? nullptr : centerness.data() + first,
                        a,
                        classes,
                        locations};
      if (planes) {
        transpose(rows->logits, logits, first * classes, a * classes, locations);
        transpose(rows->deltas, deltas, first * 4, a * 4, locations);
      }
      logit_levels.push_back({level.logits, side, side});
      delta_levels.push_back({level.deltas, side, side});
      if (!centerness.empty()) centerness_levels.push_back({level.centerness, side, side});
      levels.push_back(level);
      first += a * locations;
    }
  }
  static void transpose(const std::vector<float>& from, std::vector<float>& to, index_t begin,
                        index_t channels, index_t locations) {
    for (index_t p = 0; p < locations; ++p)
      for (index_t c = 0; c < channels; ++c)
        to[static_cast<std::size_t>(begin + c * locations + p)] =
            from[static_cast<std::size_t>(begin + p * channels + c)];
  }

  head_view<const float> view(const std::vector<head_level<const float>>& of,
                              index_t classes) const {
    return {of, 1, rows->kind.at_location(), classes, head_layout::nchw};
  }
  head_view<const float> x() const { return view(logit_levels, rows->kind.classes); }
  head_view<const float> d() const { return view(delta_levels, 4); }

  void detect(threading policy) {
    if (planes) {
      head_level_outputs<float> outputs{x(), d(), {}};
      if (!centerness.empty()) outputs.centerness = view(centerness_levels, 1);
      rows->set(postprocess(outputs, boxes_view<const float>(rows->anchors),
                            vector_view<const image_size>(rows->sizes), rows->kind.params,
                            rows->workspace, policy));
    } else {
      rows->detect(policy);
    }
  }
  void detect_plain() {
    const postprocess_params& p = rows->kind.params;
    const plain_detector detector = p.detector == dense_detector::fcos  ? plain_detector::fcos
                                    : p.detector == dense_detector::rpn ? plain_detector::rpn
                                                                        : plain_detector::retinanet;
    VECDET_PLAIN(plain_postprocess)
    (levels.data(), static_cast<index_t>(levels.size()), rows->anchors.data(),
     {detector, planes, static_cast<float>(p.score_threshold), static_cast<float>(p.iou_threshold),
      static_cast<float>(p.min_size), p.max_candidates, p.max_detections, 800, 800},
     plain_memory);
    rows->boxes = plain_memory.best_boxes;
    rows->scores = plain_memory.best_scores;
  }
  /// Boxes and scores of the last call.
  std::vector<float> detected() const {
    std::vector<float> all(rows->scores.begin(), rows->scores.end());
    all.insert(all.end(), rows->boxes.data(), rows->boxes.data() + 4 * rows->boxes.size());
    return all;
  }

  void search_plain(const plain_level& level) {
    VECDET_PLAIN(plain_topk)
    (level, planes, static_cast<float>(logit_of(threshold)), best, plain_memory.candidates);
    for (const plain_candidate& c : plain_memory.candidates) found.push_back(c.value);
  }
};

auto prepare(dense_detector detector, bool planes) {
  return [=] {
    const std::string layout = planes ? "planes" : "rows";
    return current_data<float_head>(layout + std::to_string(static_cast<int>(detector)), detector,
                                    planes);
  };
}

constexpr double elements = 120087.0 * 91;

/// The best of all rows together, or of each level in planes.
struct quantised_logits {
  std::vector<std::uint8_t> stored;
  filter_topk_workspace workspace;
};

void register_topk() {
  const std::string shape = "f32/120087x91";
  const work amount{elements, elements * sizeof(float)};
  register_implementation(
      "filter_topk/threshold0.05/" + shape, "reference", 1, amount, [](benchmark::State& state) {
        const auto data = make_head<float>(dense_detector::retinanet);
        std::vector<index_t> above;
        time_calls(state, [&] {
          above.clear();
          for (index_t i = 0; i < data->x().size(); ++i)
            if (static_cast<double>(data->logits[static_cast<std::size_t>(i)]) >
                logit_of(threshold))
              above.push_back(i);
          const auto better = [&](index_t a, index_t b) {
            const float x = data->logits[static_cast<std::size_t>(a)];
            const float y = data->logits[static_cast<std::size_t>(b)];
            return x > y || (x == y && a < b);
          };
          std::partial_sort(above.begin(), above.begin() + best, above.end(), better);
          benchmark::DoNotOptimize(above.data());
        });
      });
  register_with_plain(
      "filter_topk/threshold0.05/" + shape, amount, prepare(dense_detector::retinanet, false),
      [](float_head& data, threading policy) {
        const auto of = filter_topk(data.rows->x(), threshold, best, data.rows->topk, policy);
        data.found.assign(of.logits.begin(), of.logits.end());
      },
      [](float_head& data) {
        plain_level all = data.levels[0];
        all.locations = data.rows->rows() / all.at_location;
        data.found.clear();
        data.search_plain(all);
      },
      &float_head::found);
  register_with_plain(
      "filter_topk/nchw/" + shape, amount, prepare(dense_detector::retinanet, true),
      [](float_head& data, threading policy) {
        const auto of = filter_topk(data.x(), threshold, best, data.rows->topk, policy);
        data.found.assign(of.logits.begin(), of.logits.end());
      },
      [](float_head& data) {
        data.found.clear();
        for (const plain_level& level : data.levels) data.search_plain(level);
      },
      &float_head::found);
  register_vecdet(
      "filter_topk/threshold0.05/u8/120087x91", {elements, elements},
      [] {
        const auto floats = make_head<float>(dense_detector::retinanet);
        const auto data = std::make_shared<quantised_logits>();
        for (const float x : floats->logits)
          data->stored.push_back(
              static_cast<std::uint8_t>(std::min(std::max(16 * x + 128.5f, 0.0f), 255.0f)));
        return data;
      },
      [](quantised_logits& data, threading policy) {
        const quantised_matrix<std::uint8_t> logits({data.stored.data(), 120087, 91}, 1.0 / 16,
                                                    128);
        benchmark::DoNotOptimize(filter_topk(logits, threshold, best, data.workspace, policy));
      });
}

void register_decoding() {
  register_with_plain(
      "decode_boxes/nchw/f32/120087", {120087.0, 48.0 * 120087},
      prepare(dense_detector::retinanet, true),
      [](float_head& data, threading policy) {
        decode_boxes(data.d(), data.rows->anchors, {}, data.decoded, coder_params{}, policy);
      },
      [](float_head& data) {
        index_t first = 0;
        for (const plain_level& level : data.levels) {
          VECDET_PLAIN(plain_decode_channels)
          (level.deltas, data.rows->anchors.data() + 4 * first, data.decoded.data() + 4 * first,
           level.at_location, level.locations);
          first += level.at_location * level.locations;
        }
      },
      &float_head::decoded);
}

/// Registers the detector in rows and channels first.
void register_detector(dense_detector detector, const std::string& name, index_t anchors,
                       index_t classes) {
  const double logits = static_cast<double>(anchors * classes);
  for (const bool planes : {false, true})
    register_with_plain(
        "postprocess/" + (planes ? "nchw_" + name : name) + "/f32/" + std::to_string(anchors) +
            "x" + std::to_string(classes),
        {logits, logits * sizeof(float)}, prepare(detector, planes),
        [](float_head& data, threading policy) { data.detect(policy); },
        [](float_head& data) { data.detect_plain(); },
        [](const float_head& data) { return data.detected(); });
}

void register_bfloat16() {
  const work amount{elements, elements * sizeof(bfloat16)};
  const auto make = [] { return make_head<bfloat16>(dense_detector::retinanet); };
  register_vecdet(
      "filter_topk/threshold0.05/bf16/120087x91", amount, make,
      [](head<bfloat16>& data, threading policy) {
        benchmark::DoNotOptimize(filter_topk(data.x(), threshold, best, data.topk, policy));
      });
  register_vecdet("postprocess/retinanet/bf16/120087x91", amount, make,
                  [](head<bfloat16>& data, threading policy) { data.detect(policy); });
}

const bool registered = [] {
  register_topk();
  register_decoding();
  register_detector(dense_detector::retinanet, "retinanet", 120087, 91);
  register_detector(dense_detector::fcos, "fcos", 13343, 91);
  register_detector(dense_detector::rpn, "rpn", 159882, 1);
  register_bfloat16();
  show_in_figures("filter_topk/threshold0.05/f32/120087x91");
  show_in_figures("postprocess/retinanet/f32/120087x91");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
