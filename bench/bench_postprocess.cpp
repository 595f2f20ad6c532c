// SPDX-License-Identifier: Apache-2.0
// From RetinaNet's head outputs for an 800 x 800 picture to detections: threshold and top-k alone,
// and the whole.
#include "support/implementations.hpp"
#include "support/scene.hpp"
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

const bool registered = [] {
  register_type<float>();
  register_type<bfloat16>();
  return true;
}();

}  // namespace
}  // namespace bench
}  // namespace vecdet
