// SPDX-License-Identifier: Apache-2.0
// From RetinaNet's head outputs for an 800 x 800 picture to detections: threshold and top-k alone,
// and the whole.
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/postprocess.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace vecdet {
namespace bench {
namespace {

constexpr index_t class_count = 91;

template <class T>
struct head {
  std::vector<float> anchors;
  std::vector<index_t> level_sizes;
  std::vector<T> logits, deltas;
  std::vector<image_size> sizes{{800, 800}};
  filter_topk_workspace topk;
  postprocess_workspace workspace;

  index_t rows() const { return static_cast<index_t>(anchors.size()) / 4; }
  matrix_view<const T> x() const { return {logits.data(), rows(), class_count}; }
};

template <class T>
std::shared_ptr<head<T>> make_head() {
  static std::shared_ptr<head<T>> current;
  if (current != nullptr) return current;
  current = std::make_shared<head<T>>();
  current->anchors = retinanet_anchors();
  current->level_sizes = retinanet_level_sizes();
  current->logits =
      head_logits<T>(assign(current->anchors, scene(), class_count).labels, class_count);
  current->deltas = head_deltas<T>(current->rows());
  return current;
}

template <class T>
void register_type() {
  const double elements = 120087.0 * class_count;
  const std::string shape = std::string(dtype_name<T>()) + "/120087x91";
  if (std::is_same<T, float>::value) {
    register_implementation(
        "filter_topk/threshold0.05/" + shape, "reference", 1, {elements, elements * sizeof(T)},
        [](benchmark::State& state) {
          const auto data = make_head<T>();
          std::vector<index_t> above;
          for (auto _ : state) {
            above.clear();
            for (index_t i = 0; i < data->x().size(); ++i)
              if (static_cast<double>(data->logits[static_cast<std::size_t>(i)]) > logit_of(0.05))
                above.push_back(i);
            const auto better = [&](index_t a, index_t b) {
              const T x = data->logits[static_cast<std::size_t>(a)];
              const T y = data->logits[static_cast<std::size_t>(b)];
              return x > y || (x == y && a < b);
            };
            std::partial_sort(above.begin(), above.begin() + 1000, above.end(), better);
            benchmark::DoNotOptimize(above.data());
          }
        });
  }
  register_vecdet("filter_topk/threshold0.05/" + shape, {elements, elements * sizeof(T)},
                  make_head<T>, [](head<T>& data, execution policy) {
                    benchmark::DoNotOptimize(filter_topk(data.x(), 0.05, 1000, data.topk, policy));
                  });
  register_vecdet(
      "postprocess/retinanet/" + shape, {elements, elements * sizeof(T)}, make_head<T>,
      [](head<T>& data, execution policy) {
        const head_outputs<T> outputs{data.x(), data.deltas, {}};
        benchmark::DoNotOptimize(postprocess(outputs, boxes_view<const float>(data.anchors),
                                             vector_view<const index_t>(data.level_sizes),
                                             vector_view<const image_size>(data.sizes),
                                             retinanet_postprocess(), data.workspace, policy));
      });
}

/// The same head as its convolutions leave it, channels first.
struct planes {
  std::shared_ptr<head<float>> rows = make_head<float>();
  std::vector<float> logits = rows->logits, deltas = rows->deltas, boxes = rows->deltas;
  std::vector<head_level<const float>> logit_levels, delta_levels;

  planes() {
    index_t first = 0;
    for (const index_t side : {100, 50, 25, 13, 7}) {
      const index_t plane = side * side;
      const auto transpose = [&](const std::vector<float>& from, std::vector<float>& to,
                                 index_t columns) {
        const index_t channels = 9 * columns, begin = first * columns;
        for (index_t p = 0; p < plane; ++p)
          for (index_t c = 0; c < channels; ++c)
            to[static_cast<std::size_t>(begin + c * plane + p)] =
                from[static_cast<std::size_t>(begin + p * channels + c)];
        return to.data() + begin;
      };
      logit_levels.push_back({transpose(rows->logits, logits, class_count), side, side});
      delta_levels.push_back({transpose(rows->deltas, deltas, 4), side, side});
      first += 9 * plane;
    }
  }
  head_view<const float> x() const { return {logit_levels, 1, 9, class_count, head_layout::nchw}; }
  head_view<const float> d() const { return {delta_levels, 1, 9, 4, head_layout::nchw}; }
};

void register_planes() {
  const double elements = 120087.0 * class_count;
  const auto prepare = [] {
    static const auto data = std::make_shared<planes>();
    return data;
  };
  register_vecdet(
      "filter_topk/nchw/f32/120087x91", {elements, elements * sizeof(float)}, prepare,
      [](planes& data, execution policy) {
        benchmark::DoNotOptimize(filter_topk(data.x(), 0.05, 1000, data.rows->topk, policy));
      });
  register_vecdet("postprocess/nchw_retinanet/f32/120087x91", {elements, elements * sizeof(float)},
                  prepare, [](planes& data, execution policy) {
                    head_level_outputs<float> outputs;
                    outputs.logits = data.x();
                    outputs.deltas = data.d();
                    benchmark::DoNotOptimize(
                        postprocess(outputs, boxes_view<const float>(data.rows->anchors),
                                    vector_view<const image_size>(data.rows->sizes),
                                    retinanet_postprocess(), data.rows->workspace, policy));
                  });
  register_vecdet("decode_boxes/nchw/f32/120087", {120087.0, 48.0 * 120087}, prepare,
                  [](planes& data, execution policy) {
                    decode_boxes(data.d(), data.rows->anchors, {}, data.boxes, coder_params{},
                                 policy);
                  });
}

const bool registered = [] {
  register_planes();
  register_type<float>();
  register_type<bfloat16>();
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
