// SPDX-License-Identifier: Apache-2.0
// Sigmoid focal loss and its gradient on the heads of RetinaNet (COCO's 91 and OpenImages' 264
// classes), of SSD300, and on a block that stays in the cache.
#include "plain/focal_loss.hpp"
#if defined(VECDET_BENCH_LIBTORCH)
#include "peers/libtorch.hpp"
#endif
#include "support/implementations.hpp"
#include "support/scene.hpp"
#include <vecdet/focal_loss.hpp>
#include <vecdet/reference/focal_loss.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace vecdet::bench {
namespace {

enum class truth { labels, dense, soft };

template <class T>
struct head {
  index_t rows, cols;
  std::vector<index_t> labels;
  std::vector<T> logits, targets, grad;

  matrix_view<const T> x() const { return {logits.data(), rows, cols}; }
  matrix_view<const T> t() const { return {targets.data(), rows, cols}; }
  matrix_view<T> g() { return {grad.data(), rows, cols}; }
};

/// Labels of `rows` anchors of the scene: RetinaNet's, SSD's, or the first of RetinaNet's.
std::vector<index_t> scene_labels(index_t rows, index_t classes) {
  static std::map<std::pair<index_t, index_t>, std::vector<index_t>> known;
  auto& labels = known[{rows, classes}];
  if (labels.empty()) {
    labels = rows == 8732
                 ? assign(corners_of_centres(ssd300_priors()), scaled(scene(), 300), classes).labels
                 : assign(retinanet_anchors(), scene(), classes).labels;
    // The rows of a small head are spread over the picture.
    const std::size_t step = labels.size() / static_cast<std::size_t>(rows);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) labels[i] = labels[i * step];
    labels.resize(static_cast<std::size_t>(rows));
  }
  return labels;
}

/// The head of the current problem; the previous one is freed.
template <class T>
std::shared_ptr<head<T>> make_head(index_t rows, index_t cols, truth kind) {
  static std::tuple<index_t, index_t, truth> which{0, 0, truth::labels};
  static std::shared_ptr<head<T>> current;
  if (current != nullptr && which == std::make_tuple(rows, cols, kind)) return current;
  current.reset();
  auto made = std::make_shared<head<T>>();
  made->rows = rows;
  made->cols = cols;
  made->labels = scene_labels(rows, cols);
  made->logits = head_logits<T>(made->labels, cols);
  made->grad.resize(made->logits.size());
  if (kind != truth::labels) {
    const T off(static_cast<compute_type<T>>(kind == truth::soft ? 0.05f : 0.0f));
    const T on(static_cast<compute_type<T>>(kind == truth::soft ? 0.95f : 1.0f));
    made->targets.assign(made->logits.size(), off);
    for (std::size_t i = 0; i < made->labels.size(); ++i) {
      if (made->labels[i] >= 0) {
        made->targets[i * static_cast<std::size_t>(cols) +
                      static_cast<std::size_t>(made->labels[i])] = on;
      }
    }
  }
  which = std::make_tuple(rows, cols, kind);
  return current = made;
}

template <class T>
void register_loss_and_grad(index_t rows, index_t cols, truth kind) {
  const char* variant = kind == truth::labels ? "labels" : kind == truth::dense ? "dense" : "soft";
  const std::string problem = std::string("sigmoid_focal_loss_and_grad/") + variant + "/" +
                              dtype_name<T>() + "/" + std::to_string(rows) + "x" +
                              std::to_string(cols);
  const double elements = static_cast<double>(rows * cols);
  const double tensors = kind == truth::labels ? 2 : 3;
  const work amount{elements, elements * sizeof(T) * tensors +
                                  (kind == truth::labels ? 8.0 * static_cast<double>(rows) : 0)};
  const auto prepare = [=] { return make_head<T>(rows, cols, kind); };

  register_implementation(problem, "reference", 1, amount, [=](benchmark::State& state) {
    const auto data = prepare();
    std::vector<double> grad(data->logits.size());
    const matrix_view<double> g(grad.data(), rows, cols);
    time_calls(state, [&] {
      benchmark::DoNotOptimize(kind == truth::labels
                                   ? reference::sigmoid_focal_loss(data->x(), data->labels, {}, g)
                                   : reference::sigmoid_focal_loss(data->x(), data->t(), {}, g));
    });
  });
#if defined(VECDET_BENCH_LIBTORCH)
  if (std::is_same<T, float>::value && kind == truth::labels) {
    register_implementation(problem, "libtorch", 1, amount, [=](benchmark::State& state) {
      const auto data = make_head<float>(rows, cols, kind);
      std::vector<index_t> labels = data->labels;
      for (index_t& label : labels) label = std::max(label, index_t{-1});  // none are ignored
      const auto run = [&] {
        return libtorch_focal_loss(data->logits.data(), labels.data(), rows, cols);
      };
      const double loss = sigmoid_focal_loss(data->x(), labels);
      if (!(std::abs(run() - loss) <= 1e-4 * loss)) {
        state.SkipWithError("libtorch has another loss than vecdet");
        return;
      }
      time_calls(state, [&] { benchmark::DoNotOptimize(run()); });
    });
  }
#endif
  const auto call = [=](head<T>& data, threading policy) {
    return kind == truth::labels
               ? sigmoid_focal_loss_and_grad(data.x(), data.labels, data.g(), {}, policy)
               : sigmoid_focal_loss_and_grad(data.x(), data.t(), data.g(), {}, policy);
  };
  if constexpr (std::is_same<T, float>::value) {
    const auto plain = [=](head<T>& data) {
      return kind == truth::labels
                 ? VECDET_PLAIN(plain_focal_loss_labels)(data.logits.data(), data.labels.data(),
                                                         data.grad.data(), rows, cols)
                 : VECDET_PLAIN(plain_focal_loss_dense)(data.logits.data(), data.targets.data(),
                                                        data.grad.data(), rows * cols);
    };
    register_with_plain(problem, amount, prepare, call, plain, &head<T>::grad);
  } else {
    register_vecdet(problem, amount, prepare, call);
  }
}

/// RetinaNet's levels of one image, with the logits and labels of the matrix.
struct levels {
  std::shared_ptr<head<float>> matrix;
  std::vector<float> logits, grad;
  std::vector<head_level<const float>> logit_levels;
  std::vector<head_level<float>> grad_levels;
  head_layout layout;

  head_view<const float> x() const { return {logit_levels, 1, 9, matrix->cols, layout}; }
  head_view<float> g() const { return {grad_levels, 1, 9, matrix->cols, layout}; }
};

std::shared_ptr<levels> make_levels(head_layout layout, index_t rows, index_t cols) {
  const auto made = std::make_shared<levels>();
  made->matrix = make_head<float>(rows, cols, truth::labels);
  made->layout = layout;
  made->logits = made->matrix->logits;
  made->grad.resize(made->logits.size());
  index_t begin = 0;
  // 13343 locations with nine anchors each, as in retinanet_anchors().
  for (const index_t side : {100, 50, 25, 13, 7}) {
    const index_t plane = side * side;
    if (layout == head_layout::nchw) {
      for (index_t p = 0; p < plane; ++p)
        for (index_t a = 0; a < 9; ++a)
          for (index_t c = 0; c < cols; ++c)
            made->logits[static_cast<std::size_t>(begin + (a * cols + c) * plane + p)] =
                made->matrix->logits[static_cast<std::size_t>(begin + (p * 9 + a) * cols + c)];
    }
    made->logit_levels.push_back({made->logits.data() + begin, side, side});
    made->grad_levels.push_back({made->grad.data() + begin, side, side});
    begin += plane * 9 * cols;
  }
  return made;
}

void register_levels(head_layout layout) {
  const index_t rows = 120087, cols = 91;
  const std::string problem = std::string("sigmoid_focal_loss_and_grad/") +
                              (layout == head_layout::nchw ? "nchw" : "levels") + "/f32/120087x91";
  const double elements = static_cast<double>(rows * cols);
  const work amount{elements, 8 * elements + 8.0 * static_cast<double>(rows)};
  const auto prepare = [=] {
    static std::shared_ptr<levels> current;
    if (current == nullptr || current->layout != layout) current = make_levels(layout, rows, cols);
    return current;
  };
  const auto plain = [=](levels& data) {
    if (layout == head_layout::nhwc) {  // the levels of one image are parts of one matrix
      return VECDET_PLAIN(plain_focal_loss_labels)(data.logits.data(), data.matrix->labels.data(),
                                                   data.grad.data(), rows, cols);
    }
    double sum = 0;
    const index_t* labels = data.matrix->labels.data();
    for (std::size_t l = 0; l < data.grad_levels.size(); ++l) {
      const index_t plane = data.grad_levels[l].height * data.grad_levels[l].width;
      sum += VECDET_PLAIN(plain_focal_loss_planes)(data.logit_levels[l].data, labels,
                                                   data.grad_levels[l].data, 9, cols, plane);
      labels += 9 * plane;
    }
    return sum;
  };
  register_with_plain(
      problem, amount, prepare,
      [](levels& data, threading policy) {
        return sigmoid_focal_loss_and_grad(data.x(), data.matrix->labels, data.g(), {}, {}, policy);
      },
      plain, &levels::grad);
}

void register_loss(index_t rows, index_t cols) {
  const std::string problem =
      "sigmoid_focal_loss/labels/f32/" + std::to_string(rows) + "x" + std::to_string(cols);
  const double elements = static_cast<double>(rows * cols);
  register_vecdet(
      problem, {elements, elements * sizeof(float)},
      [=] { return make_head<float>(rows, cols, truth::labels); },
      [](head<float>& data, threading policy) {
        benchmark::DoNotOptimize(sigmoid_focal_loss(data.x(), data.labels, {}, policy));
      });
}

const bool registered = [] {
  register_loss_and_grad<float>(4096, 80, truth::labels);
  register_loss_and_grad<bfloat16>(4096, 80, truth::labels);
  register_loss_and_grad<float>(4096, 80, truth::dense);
  register_loss_and_grad<float>(4096, 80, truth::soft);
  register_loss(4096, 80);
  register_loss_and_grad<float>(8732, 81, truth::labels);
  register_loss_and_grad<float>(120087, 91, truth::labels);
  register_loss_and_grad<bfloat16>(120087, 91, truth::labels);
  register_loss_and_grad<float>(120087, 91, truth::dense);
  register_loss(120087, 91);
  register_levels(head_layout::nchw);
  register_levels(head_layout::nhwc);
  register_loss_and_grad<float>(120087, 264, truth::labels);
  show_in_figures("sigmoid_focal_loss_and_grad/(labels|dense)/(f32/[0-9x]+|bf16/4096x80)");
  return true;
}();

}  // namespace
}  // namespace vecdet::bench
