// SPDX-License-Identifier: Apache-2.0
// The cost of a head's layout: times each loss on one matrix of rows, on NHWC levels and on NCHW
// levels with the same numbers. The three run in turns, so that all see the same machine. Prints
// the median time on the matrix and the medians of the ratios.
#include <vecdet/focal_loss.hpp>
#include <vecdet/iou_loss.hpp>
#include <vecdet/regression_loss.hpp>
#include <vecdet/smooth_l1.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace vecdet::bench {
namespace {

constexpr threading sequential = threading::sequential;

/// The levels of one image, with nine anchors per location.
struct pyramid {
  std::vector<index_t> sides;

  index_t anchors() const {
    index_t count = 0;
    for (const index_t side : sides) count += 9 * side * side;
    return count;
  }
};

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The same numbers in the three layouts, each with its gradient.
template <class T>
class tensors {
 public:
  tensors(const pyramid& levels, index_t classes, std::vector<T> rows)
      : classes_(classes), x_(3, rows), grad_(3, rows), sides_(levels.sides) {
    index_t begin = 0;
    for (const index_t side : sides_) {
      const index_t plane = side * side;
      for (index_t p = 0; p < plane; ++p)
        for (index_t k = 0; k < 9 * classes; ++k)
          x_[2][static_cast<std::size_t>(begin + k * plane + p)] =
              rows[static_cast<std::size_t>(begin + p * 9 * classes + k)];
      begin += plane * 9 * classes;
    }
    for (std::size_t l = 0; l < 3; ++l) {
      index_t at = 0;
      for (const index_t side : sides_) {
        levels_[l].push_back({x_[l].data() + at, side, side});
        grad_levels_[l].push_back({grad_[l].data() + at, side, side});
        at += side * side * 9 * classes;
      }
    }
  }
  tensors(const tensors&) = delete;

  const std::vector<T>& x() const { return x_[0]; }
  std::vector<T>& grad() { return grad_[0]; }
  head_view<const T> levels(head_layout layout) const {
    return {levels_[index(layout)], 1, 9, classes_, layout};
  }
  head_view<T> grad_levels(head_layout layout) const {
    return {grad_levels_[index(layout)], 1, 9, classes_, layout};
  }

 private:
  static std::size_t index(head_layout layout) { return layout == head_layout::nhwc ? 1 : 2; }

  index_t classes_;
  std::vector<std::vector<T>> x_, grad_;
  std::vector<index_t> sides_;
  std::vector<head_level<const T>> levels_[3];
  std::vector<head_level<T>> grad_levels_[3];
};

template <class T>
std::vector<T> normal(index_t size, float mean, float deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> number(mean, deviation);
  std::vector<T> result(static_cast<std::size_t>(size));
  for (T& x : result) x = T(number(random));
  return result;
}

/// Boxes of 8 to 160 pixels anywhere in a picture of 800 x 800.
template <class T>
std::vector<T> random_boxes(index_t count) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> place(0, 640), size(8, 160);
  std::vector<T> boxes;
  for (index_t i = 0; i < count; ++i) {
    const float x = place(random), y = place(random);
    for (const float number : {x, y, x + size(random), y + size(random)})
      boxes.push_back(T(number));
  }
  return boxes;
}

/// One anchor in a thousand is foreground.
std::vector<index_t> sparse_labels(index_t count, index_t classes) {
  std::vector<index_t> labels(static_cast<std::size_t>(count), -1);
  for (std::size_t i = 7; i < labels.size(); i += 1000)
    labels[i] = static_cast<index_t>(i) % classes;
  return labels;
}

/// Times flat(), and levels(layout) in both layouts.
template <class Flat, class Levels>
void compare(const std::string& name, index_t rows, const Flat& flat, const Levels& levels) {
  const auto time_of = [](const auto& call, int calls) {
    const double begin = seconds();
    for (int i = 0; i < calls; ++i) call();
    return (seconds() - begin) / calls;
  };
  const auto nhwc = [&] { levels(head_layout::nhwc); };
  const auto nchw = [&] { levels(head_layout::nchw); };
  for (int i = 0; i < 3; ++i) flat(), nhwc(), nchw();
  const int calls = 1 + static_cast<int>(5e-4 / time_of(flat, 3));
  std::vector<double> times, nhwc_ratios, nchw_ratios;
  for (int round = 0; round < 101; ++round) {
    const double time = time_of(flat, calls);
    times.push_back(time);
    nhwc_ratios.push_back(time_of(nhwc, calls) / time);
    nchw_ratios.push_back(time_of(nchw, calls) / time);
  }
  std::printf("%-44s %8ld %9.1f %7.2f %7.2f\n", name.c_str(), static_cast<long>(rows),
              1e6 * median(times), median(nhwc_ratios), median(nchw_ratios));
  std::fflush(stdout);
}

class layouts {
 public:
  layouts(pyramid levels, const char* filter)
      : levels_(std::move(levels)), rows_(levels_.anchors()), filter_(filter) {}

  void run() const {
    for (const index_t classes : {1, 4, 20, 91}) {
      focal<float>(classes);
      focal<bfloat16>(classes);
    }
    for (const bool all : {false, true}) {
      for (const box_loss loss : {box_loss::smooth_l1, box_loss::giou}) {
        regression<float>(loss, all);
        regression<bfloat16>(loss, all);
      }
      smooth_l1<float>(all);
      smooth_l1<bfloat16>(all);
    }
    iou<float>();
    iou<bfloat16>();
  }

 private:
  bool is_wanted(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  template <class T>
  void focal(index_t classes) const {
    const std::string name =
        std::string("focal ") + dtype_name<T>() + " " + std::to_string(classes) + " classes";
    if (!is_wanted(name)) return;
    tensors<T> data(levels_, classes, normal<T>(rows_ * classes, -4.6f, 1));
    const std::vector<index_t> labels = sparse_labels(rows_, classes);
    compare(
        name, rows_,
        [&] {
          sigmoid_focal_loss_and_grad(matrix_view<const T>(data.x().data(), rows_, classes), labels,
                                      matrix_view<T>(data.grad().data(), rows_, classes), {},
                                      sequential);
        },
        [&](head_layout layout) {
          sigmoid_focal_loss_and_grad(data.levels(layout), labels, data.grad_levels(layout), {}, {},
                                      sequential);
        });
  }

  template <class T>
  void regression(box_loss loss, bool all) const {
    const std::string name = std::string("regression ") +
                             (loss == box_loss::giou ? "giou " : "smooth_l1 ") + dtype_name<T>() +
                             (all ? " all" : " labels");
    if (!is_wanted(name)) return;
    tensors<T> data(levels_, 4, normal<T>(4 * rows_, 0, 0.2f));
    const std::vector<float> anchors = random_boxes<float>(rows_), targets(anchors);
    const std::vector<index_t> labels = sparse_labels(rows_, 80);
    const box_selection selection = all ? box_selection::all() : box_selection(labels);
    regression_loss_params params;
    params.loss = loss;
    compare(
        name, rows_,
        [&] {
          regression_loss_and_grad(boxes_view<const T>(data.x()), anchors, targets, selection,
                                   data.grad(), params, sequential);
        },
        [&](head_layout layout) {
          regression_loss_and_grad(data.levels(layout), anchors, targets, selection,
                                   data.grad_levels(layout), {}, params, sequential);
        });
  }

  template <class T>
  void smooth_l1(bool all) const {
    const std::string name =
        std::string("smooth_l1 ") + dtype_name<T>() + (all ? " all" : " labels");
    if (!is_wanted(name)) return;
    tensors<T> data(levels_, 4, normal<T>(4 * rows_, 0, 0.2f));
    const std::vector<T> targets = normal<T>(4 * rows_, 0, 0.2f);
    const std::vector<index_t> labels = sparse_labels(rows_, 80);
    const box_selection selection = all ? box_selection::all() : box_selection(labels);
    compare(
        name, rows_,
        [&] {
          smooth_l1_loss_and_grad(boxes_view<const T>(data.x()), targets, selection, data.grad(),
                                  {}, sequential);
        },
        [&](head_layout layout) {
          smooth_l1_loss_and_grad(data.levels(layout), targets, selection, data.grad_levels(layout),
                                  {}, {}, sequential);
        });
  }

  template <class T>
  void iou() const {
    const std::string name = std::string("giou ") + dtype_name<T>() + " all";
    if (!is_wanted(name)) return;
    tensors<T> data(levels_, 4, random_boxes<T>(rows_));
    const std::vector<T> targets = random_boxes<T>(rows_);
    compare(
        name, rows_,
        [&] {
          iou_loss_and_grad(boxes_view<const T>(data.x()), targets, data.grad(), iou_kind::giou, {},
                            sequential);
        },
        [&](head_layout layout) {
          iou_loss_and_grad(data.levels(layout), targets, box_selection::all(),
                            data.grad_levels(layout), iou_kind::giou, {}, {}, sequential);
        });
  }

  pyramid levels_;
  index_t rows_;
  const char* filter_;
};

}  // namespace
}  // namespace vecdet::bench

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && std::strncmp(argv[1], "--", 2) == 0)) {
    std::printf(
        "usage: %s [PART-OF-A-NAME]\n"
        "Times each loss whose name contains the text on one matrix of rows, on NHWC levels "
        "and on NCHW levels.\n",
        argv[0]);
    return argc == 2 && std::strcmp(argv[1], "--help") == 0 ? EXIT_SUCCESS : 2;
  }
  const char* filter = argc == 2 ? argv[1] : "";
  std::printf("%s\n%-44s %8s %9s %7s %7s\n", vecdet::isa_name(vecdet::active_isa()), "loss",
              "anchors", "flat/us", "nhwc/1", "nchw/1");
  using vecdet::bench::pyramid;
  for (const pyramid& levels :
       {pyramid{{100, 50, 25, 13, 7}}, pyramid{{40, 20, 10, 5, 3}}, pyramid{{20, 10, 5, 3, 2}}})
    vecdet::bench::layouts(levels, filter).run();
  return EXIT_SUCCESS;
}
