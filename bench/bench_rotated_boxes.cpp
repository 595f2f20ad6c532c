// SPDX-License-Identifier: Apache-2.0
// IoU of 1,000 rotated boxes with each other: spread over an image, and clustered around objects as
// a detector's outputs are. NMS of clustered boxes. The same by ProbIoU.
#include "plain/rotated_boxes.hpp"
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/prob_iou.hpp>
#include <vecdet/prob_iou_loss.hpp>
#include <vecdet/prob_iou_nms.hpp>
#include <vecdet/reference/rotated_boxes.hpp>
#include <vecdet/rotated_boxes.hpp>
#include <vecdet/rotated_nms.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr index_t count = 1000;

struct turned_pairs {
  std::vector<float> boxes, out;

  matrix_view<const float> in() const { return {boxes.data(), count, 5}; }
  matrix_view<float> result() { return {out.data(), count, count}; }
};

/// The boxes of a detector's outputs, or boxes of such sizes anywhere in the image, turned.
template <bool Spread>
std::shared_ptr<turned_pairs> make_pairs() {
  return shared_data([] {
    turned_pairs pairs;
    const detections found = clustered_detections(count);
    std::uint32_t state = 1;
    const auto uniform = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<float>(state >> 8) * 0x1p-24f;
    };
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const float* const box = &found.boxes[4 * i];
      const float x = Spread ? 800 * uniform() : (box[0] + box[2]) / 2;
      const float y = Spread ? 800 * uniform() : (box[1] + box[3]) / 2;
      for (const float v : {x, y, box[2] - box[0], box[3] - box[1], 360 * uniform() - 180})
        pairs.boxes.push_back(v);
    }
    pairs.out.resize(static_cast<std::size_t>(count * count));
    return pairs;
  });
}

template <bool Spread>
void register_scene(const std::string& scene) {
  constexpr double size = static_cast<double>(count * count);
  const std::string problem = "pairwise_rotated_iou/" + scene + "/f32/1000x1000";
  const work amount{size, 4 * (size + 10.0 * static_cast<double>(count))};
  register_implementation(problem, "reference", 1, amount, [](benchmark::State& state) {
    const auto data = make_pairs<Spread>();
    std::vector<double> out(static_cast<std::size_t>(count * count));
    time_calls(state, [&] {
      for (index_t i = 0; i < count; ++i) {
        const auto a = reference::load_rotated_box(data->in(), i, angle_convention::torchvision);
        for (index_t j = 0; j < count; ++j)
          out[static_cast<std::size_t>(i * count + j)] = reference::rotated_iou(
              a, reference::load_rotated_box(data->in(), j, angle_convention::torchvision));
      }
      benchmark::ClobberMemory();
    });
  });
  register_with_plain(
      problem, amount, make_pairs<Spread>,
      [](turned_pairs& data, threading policy) {
        pairwise_rotated_iou(data.in(), data.in(), angle_convention::torchvision, data.result(),
                             empty_iou::nan, policy);
      },
      [](turned_pairs& data) {
        VECDET_PLAIN(plain_pairwise_rotated_iou)
        (data.boxes.data(), count, data.boxes.data(), count, data.out.data());
      },
      &turned_pairs::out);
  show_in_figures(problem);
}

template <bool Spread>
void register_prob(const std::string& scene) {
  constexpr double size = static_cast<double>(count * count);
  const std::string problem = "pairwise_prob_iou/" + scene + "/f32/1000x1000";
  register_with_plain(
      problem, work{size, 4 * (size + 10.0 * static_cast<double>(count))}, make_pairs<Spread>,
      [](turned_pairs& data, threading policy) {
        pairwise_prob_iou(data.in(), data.in(), angle_convention::torchvision, data.result(),
                          policy);
      },
      [](turned_pairs& data) {
        VECDET_PLAIN(plain_pairwise_prob_iou)
        (data.boxes.data(), count, data.boxes.data(), count, data.out.data());
      },
      &turned_pairs::out);
  show_in_figures(problem);
}

/// Detections of 200 objects; those of an object have similar angles.
struct turned_detections {
  std::vector<float> boxes, scores;
  std::vector<index_t> is_kept;
  nms_workspace workspace;
};

template <index_t Count>
std::shared_ptr<turned_detections> make_detections() {
  return shared_data([] {
    turned_detections data;
    const detections found = clustered_detections(Count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(Count); ++i) {
      const float* const box = &found.boxes[4 * i];
      const auto angle =
          static_cast<float>(found.classes[i] * 41 % 360) + 10 * (found.scores[i] - 0.5f);
      for (const float v : {(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0],
                            box[3] - box[1], angle - 180})
        data.boxes.push_back(v);
    }
    data.scores = found.scores;
    data.is_kept.resize(static_cast<std::size_t>(Count));
    return data;
  });
}

template <index_t Count>
void register_nms() {
  const std::string problem = "rotated_nms/clustered/f32/" + std::to_string(Count);
  register_with_plain(
      problem, work{static_cast<double>(Count), 24.0 * static_cast<double>(Count)},
      make_detections<Count>,
      [](turned_detections& data, threading policy) {
        const auto kept =
            rotated_nms(matrix_view<const float>(data.boxes.data(), Count, 5),
                        vector_view<const float>(data.scores), {}, angle_convention::torchvision,
                        nms_params(0.5), data.workspace, policy);
        std::fill(data.is_kept.begin(), data.is_kept.end(), index_t{0});
        for (const index_t i : kept) data.is_kept[static_cast<std::size_t>(i)] = 1;
      },
      [](turned_detections& data) {
        VECDET_PLAIN(plain_rotated_nms)
        (data.boxes.data(), data.scores.data(), Count, 0.5f, data.is_kept.data());
      },
      &turned_detections::is_kept);
  show_in_figures(problem);
}

template <index_t Count>
void register_prob_nms() {
  const std::string problem = "prob_iou_nms/clustered/f32/" + std::to_string(Count);
  register_with_plain(
      problem, work{static_cast<double>(Count), 24.0 * static_cast<double>(Count)},
      make_detections<Count>,
      [](turned_detections& data, threading policy) {
        const auto kept =
            prob_iou_nms(matrix_view<const float>(data.boxes.data(), Count, 5),
                         vector_view<const float>(data.scores), {}, angle_convention::torchvision,
                         nms_params::ultralytics_obb(0.5), data.workspace, policy);
        std::fill(data.is_kept.begin(), data.is_kept.end(), index_t{0});
        for (const index_t i : kept) data.is_kept[static_cast<std::size_t>(i)] = 1;
      },
      [](turned_detections& data) {
        VECDET_PLAIN(plain_prob_iou_nms)
        (data.boxes.data(), data.scores.data(), Count, 0.5f, data.is_kept.data());
      },
      &turned_detections::is_kept);
  show_in_figures(problem);
}

constexpr index_t loss_count = 120087;

/// Predicted boxes and targets near them.
struct turned_predictions {
  std::vector<float> predicted, targets, grad;
};

void register_prob_loss() {
  const auto make = [] {
    return shared_data([] {
      turned_predictions data;
      std::uint32_t state = 1;
      const auto uniform = [&] {
        state = state * 1664525u + 1013904223u;
        return static_cast<float>(state >> 8) * 0x1p-24f;
      };
      for (index_t i = 0; i < loss_count; ++i) {
        for (const float v : {800 * uniform(), 800 * uniform(), 10 + 90 * uniform(),
                              10 + 90 * uniform(), 360 * uniform() - 180}) {
          data.predicted.push_back(v);
          data.targets.push_back(v + 8 * uniform());
        }
      }
      data.grad.resize(data.predicted.size());
      return data;
    });
  };
  const std::string problem = "prob_iou_loss_and_grad/f32/120087";
  const auto boxes = static_cast<double>(loss_count);
  register_with_plain(
      problem, work{boxes, 60 * boxes}, make,
      [](turned_predictions& data, threading policy) {
        return prob_iou_loss_and_grad(
            matrix_view<const float>(data.predicted.data(), loss_count, 5),
            matrix_view<const float>(data.targets.data(), loss_count, 5),
            angle_convention::torchvision, matrix_view<float>(data.grad.data(), loss_count, 5), {},
            policy);
      },
      [](turned_predictions& data) {
        return VECDET_PLAIN(plain_prob_iou_loss)(data.predicted.data(), data.targets.data(),
                                                 loss_count, data.grad.data());
      },
      &turned_predictions::grad);
  show_in_figures(problem);
}

const bool registered = [] {
  register_prob_loss();
  register_scene<true>("spread");
  register_scene<false>("clustered");
  register_prob<true>("spread");
  register_prob<false>("clustered");
  register_prob_nms<5000>();
  register_nms<1000>();
  register_nms<20000>();
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
