// SPDX-License-Identifier: Apache-2.0
#include "evaluation.hpp"

#include "losses.hpp"
#include <vecdet/torch.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>
#include <tuple>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

namespace detector {

std::vector<std::vector<detection>> detect(retinanet& model, vecdet::anchor_cache& anchors,
                                           const batch& pictures, canvas_size canvas,
                                           double score_threshold) {
  const at::NoGradGuard no_grad;
  const head_outputs outputs = model.forward(pictures.images);
  const vecdet::boxes_view<const float> boxes = anchors_of(anchors, outputs, canvas).boxes();
  std::vector<std::int64_t> level_sizes;
  for (const at::Tensor& level : outputs.logits)
    level_sizes.push_back(level.size(2) * level.size(3) * retinanet::anchors_of_location);
  std::vector<double> image_sizes;
  for (const drawn_picture& drawn : pictures.pictures) {
    image_sizes.push_back(drawn.place.height);
    image_sizes.push_back(drawn.place.width);
  }
  at::Tensor corners, scores, labels, offsets;
  std::tie(corners, scores, labels, offsets) = vecdet::ops::postprocess(
      joined(outputs.logits, model.config().classes), joined(outputs.deltas, 4),
      at::from_blob(const_cast<float*>(boxes.data()), {boxes.size(), 4}), image_sizes, level_sizes,
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

evaluation evaluate(retinanet& model, const dataset& data, loader_params params) {
  params.training = false;
  model.eval();
  vecdet::anchor_cache anchors(model.anchor_shapes());
  evaluation result;
  loader batches(data, params, 0);
  for (std::size_t b = 0; b < batches.batches(); ++b) {
    const batch pictures = batches.next();
    result.broken.insert(result.broken.end(), pictures.broken.begin(), pictures.broken.end());
    if (pictures.pictures.empty()) continue;
    const auto found = detect(model, anchors, pictures, params.canvas);
    for (std::size_t i = 0; i < found.size(); ++i)
      for (const detection& d : found[i]) {
        const box& c = d.corners;
        result.detections.push_back({data.pictures[pictures.pictures[i].index].id, d.label, c[0],
                                     c[1], c[2] - c[0], c[3] - c[1], d.score, false});
      }
  }
  model.train();

  std::set<std::size_t> broken;
  for (const auto& picture : result.broken) broken.insert(picture.first);
  if (broken.size() == data.pictures.size())
    throw std::runtime_error("no picture could be read; the first: " + result.broken[0].second);
  vecdet::coco::coco_dataset truth;
  for (std::size_t i = 0; i < data.pictures.size(); ++i) {
    if (broken.count(i) > 0) continue;
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
