// SPDX-License-Identifier: Apache-2.0
#include "evaluation.hpp"

#include "losses.hpp"
#include "torch_postprocess.hpp"
#include <vecdet/torch.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>
#include <tuple>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <nlohmann/json.hpp>

namespace detector {

namespace {

/// Enables autocast to bfloat16 during its lifetime, if requested.
class autocast_scope {
 public:
  explicit autocast_scope(bool is_on) : is_on_(is_on) {
    if (!is_on) return;
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(true);
  }
  autocast_scope(const autocast_scope&) = delete;
  autocast_scope& operator=(const autocast_scope&) = delete;
  ~autocast_scope() {
    if (!is_on_) return;
    at::autocast::clear_cache();
    at::autocast::set_cpu_enabled(false);
  }

 private:
  bool is_on_;
};

}  // namespace

head_outputs compute_heads(retinanet& model, const at::Tensor& images,
                           precision_options precision) {
  const autocast_scope autocast(precision.bfloat16);
  return model.forward(precision.channels_last ? images.contiguous(at::MemoryFormat::ChannelsLast)
                                               : images);
}

std::vector<std::vector<detection>> detect(retinanet& model, vecdet::anchor_cache& anchors,
                                           const batch& pictures, canvas_size canvas,
                                           double score_threshold, precision_options precision,
                                           postprocessing_kind kind) {
  const at::NoGradGuard no_grad;
  const head_outputs outputs = compute_heads(model, pictures.images, precision);
  const vecdet::boxes_view<const float> boxes = anchors_of(anchors, outputs, canvas).boxes();
  std::vector<std::int64_t> level_sizes;
  for (const at::Tensor& level : outputs.logits)
    level_sizes.push_back(level.size(2) * level.size(3) * retinanet::anchors_of_location);
  std::vector<double> image_sizes;
  for (const drawn_picture& drawn : pictures.pictures) {
    image_sizes.push_back(drawn.place.height);
    image_sizes.push_back(drawn.place.width);
  }
  const at::Tensor logits = joined(outputs.logits, model.config().classes),
                   deltas = joined(outputs.deltas, 4),
                   rows = at::from_blob(const_cast<float*>(boxes.data()), {boxes.size(), 4});
  at::Tensor corners, scores, labels, offsets;
  std::tie(corners, scores, labels, offsets) =
      kind == postprocessing_kind::torch
          ? torch_postprocess(logits, deltas, rows, image_sizes, level_sizes, score_threshold)
          : vecdet::ops::postprocess(logits, deltas, rows, image_sizes, level_sizes,
                                     vecdet::ops::detector::retinanet, score_threshold);

  const float* const corner = corners.data_ptr<float>();
  const float* const score = scores.data_ptr<float>();
  const std::int64_t *const label = labels.data_ptr<std::int64_t>(),
                            *const offset = offsets.data_ptr<std::int64_t>();
  std::vector<std::vector<detection>> found(pictures.pictures.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const placement& place = pictures.pictures[i].place;
    for (std::int64_t d = offset[i]; d < offset[i + 1]; ++d) {
      const float* const b = corner + 4 * d;
      found[i].push_back({place.onto_picture({b[0], b[1], b[2], b[3]}), label[d], score[d]});
    }
  }
  return found;
}

evaluation evaluate(retinanet& model, const dataset& data, loader_params params,
                    precision_options precision, process_group& processes,
                    postprocessing_kind kind) {
  params.training = false;
  params.rank = processes.rank();
  params.ranks = processes.size();
  model.eval();
  vecdet::anchor_cache anchors(model.anchor_shapes());
  // One row per detection, with numbers that a double can hold: picture, label, x, y, width,
  // height, score.
  constexpr std::size_t columns = 7;
  std::vector<double> rows, broken;
  std::vector<std::pair<std::size_t, std::string>> reasons;
  loader batches(data, params, 0);
  for (std::size_t b = 0; b < batches.batches(); ++b) {
    const batch pictures = batches.next();
    for (const auto& picture : pictures.broken) {
      broken.push_back(static_cast<double>(picture.first));
      reasons.push_back(picture);
    }
    if (pictures.pictures.empty()) continue;
    const auto found = detect(model, anchors, pictures, params.canvas, 0.05, precision, kind);
    for (std::size_t i = 0; i < found.size(); ++i)
      for (const detection& d : found[i]) {
        const box& c = d.corners;
        for (const double number : {static_cast<double>(pictures.pictures[i].index),
                                    static_cast<double>(d.label), double{c[0]}, double{c[1]},
                                    double{c[2]} - c[0], double{c[3]} - c[1], double{d.score}})
          rows.push_back(number);
      }
  }
  model.train();
  rows = processes.joined(rows);
  std::set<std::size_t> left_out;
  for (const double index : processes.joined(broken))
    left_out.insert(static_cast<std::size_t>(index));
  if (left_out.size() == data.pictures.size())
    throw std::runtime_error("no picture could be read" +
                             (reasons.empty() ? "" : "; the first error: " + reasons[0].second));

  evaluation result;
  result.broken = reasons;
  result.pictures = data.pictures.size() - left_out.size();
  for (std::size_t r = 0; r < rows.size(); r += columns) {
    const double* const row = rows.data() + r;
    result.detections.push_back({data.pictures[static_cast<std::size_t>(row[0])].id,
                                 static_cast<std::int64_t>(row[1]), row[2], row[3], row[4], row[5],
                                 row[6], false});
  }
  vecdet::coco::coco_dataset truth;
  for (std::size_t i = 0; i < data.pictures.size(); ++i) {
    if (left_out.count(i) > 0) continue;
    for (const object& o : data.pictures[i].objects) {
      const box& c = o.corners;
      truth.objects.push_back(
          {data.pictures[i].id, o.label, c[0], c[1], c[2] - c[0], c[3] - c[1], 1, o.crowd});
    }
  }
  result.precision = vecdet::coco::evaluate(truth, result.detections);
  return result;
}

void write_results(const std::string& file, const dataset& data,
                   const std::vector<vecdet::coco::coco_box>& detections) {
  nlohmann::json results = nlohmann::json::array();
  for (const auto& d : detections)
    results.push_back({{"image_id", d.image_id},
                       {"category_id", data.category_ids[static_cast<std::size_t>(d.category_id)]},
                       {"bbox", {d.x, d.y, d.width, d.height}},
                       {"score", d.score}});
  std::ofstream stream(file);
  stream << results << "\n";
  if (!stream.flush()) throw std::runtime_error(file + ": cannot be written");
}

}  // namespace detector
