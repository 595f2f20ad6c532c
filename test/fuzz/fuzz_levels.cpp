// SPDX-License-Identifier: Apache-2.0
// A head's levels with any sizes, layout and channels against the same numbers as rows. Losses,
// gradients, top-k and postprocessing must be bit-identical. The whole losses of RetinaNet and FCOS
// on the levels must agree across instruction sets.
#include "box_input.hpp"

using namespace vecdet;

namespace {

struct level_sizes {
  head_layout layout;
  index_t images, anchors, others;
  std::vector<grid_size> levels;

  explicit level_sizes(fuzz::input& in)
      : layout(in.flag() ? head_layout::nchw : head_layout::nhwc),
        images(in.integer(0, 3)),
        anchors(in.one_of<index_t>({1, 3, 2, 9})),
        others(in.one_of<index_t>({0, 0, 1, 5})) {
    for (index_t l = in.integer(0, 3); l > 0; --l)
      levels.push_back({in.integer(0, 9), in.integer(0, 20)});
  }
  index_t anchors_per_image() const {
    index_t count = 0;
    for (const grid_size& level : levels) count += level.height * level.width * anchors;
    return count;
  }
  index_t rows() const { return images * anchors_per_image(); }
};

/// Numbers as levels, each a tensor that ends at an inaccessible page, and as rows.
template <class T>
struct head {
  const level_sizes& sizes;
  index_t columns, channels;
  fuzz::tensor<T> rows;
  std::vector<fuzz::tensor<T>> tensors;
  std::vector<head_level<const T>> inputs;
  std::vector<head_level<T>> outputs;

  head(const level_sizes& of, index_t c, const fuzz::tensor<T>& numbers)
      : sizes(of), columns(c), channels(c + of.others), rows(numbers) {
    for (const grid_size& s : of.levels) {
      const index_t plane = s.height * s.width;
      tensors.emplace_back(of.images * of.anchors * channels * plane);
      for (T& x : tensors.back()) x = test::to<T>(-12345);
      const index_t first = of.layout == head_layout::nhwc ? of.others : of.others * plane;
      inputs.push_back({tensors.back().data() + (plane == 0 ? 0 : first), s.height, s.width});
      outputs.push_back({tensors.back().data() + (plane == 0 ? 0 : first), s.height, s.width});
    }
    index_t i = 0;
    visit([&](T& x) { x = rows[static_cast<std::size_t>(i++)]; });
  }
  head_view<const T> in() const {
    return {inputs, sizes.images, sizes.anchors, columns, sizes.layout, channels};
  }
  head_view<T> out() const {
    return {outputs, sizes.images, sizes.anchors, columns, sizes.layout, channels};
  }
  /// In the order of rows.
  template <class Visit>
  void visit(const Visit& use) const {
    for (index_t n = 0; n < sizes.images; ++n) {
      for (std::size_t l = 0; l < sizes.levels.size(); ++l) {
        const index_t plane = sizes.levels[l].height * sizes.levels[l].width;
        for (index_t p = 0; p < plane; ++p)
          for (index_t a = 0; a < sizes.anchors; ++a)
            for (index_t c = 0; c < columns; ++c) {
              const index_t channel = a * channels + sizes.others + c;
              const index_t at = sizes.layout == head_layout::nhwc
                                     ? (n * plane + p) * sizes.anchors * channels + channel
                                     : (n * sizes.anchors * channels + channel) * plane + p;
              use(tensors[l][static_cast<std::size_t>(at)]);
            }
      }
    }
  }
  void add_to(fuzz::results& results) const {
    visit([&](T& x) { results.add(static_cast<double>(x)); });
  }
};

template <class T>
fuzz::results head_results(const head<T>& from) {
  fuzz::results all;
  from.add_to(all);
  return all;
}
template <class T>
fuzz::results row_results(const fuzz::tensor<T>& rows) {
  fuzz::results all;
  all.add(rows);
  return all;
}

template <class T>
void check_losses(fuzz::input& in) {
  const level_sizes sizes(in);
  const index_t classes = in.integer(1, 9), rows = sizes.rows();
  const head<T> logits(sizes, classes, in.numbers<T>(rows * classes));
  const head<T> grad(sizes, classes, fuzz::tensor<T>(rows * classes));
  const head<T> deltas(sizes, 4, in.numbers<T>(4 * rows));
  const head<T> deltas_grad(sizes, 4, fuzz::tensor<T>(4 * rows));
  std::vector<index_t> labels;
  std::vector<float> scales, weights;
  for (index_t i = 0; i < rows; ++i)
    labels.push_back(in.one_of<index_t>({-1, -1, -2, in.integer(0, classes - 1)}));
  for (index_t n = 0; n < sizes.images; ++n) scales.push_back(in.one_of({1.0f, 0.25f, 3.0f}));
  for (index_t i = 0; i < rows; ++i)
    weights.push_back(scales[static_cast<std::size_t>(i / sizes.anchors_per_image())]);
  focal_loss_params focal;
  focal.gamma = in.one_of({2.0, 0.0, 1.0, 1.5});
  focal_loss_params weighted = focal;
  weighted.row_weights = weights;
  const auto anchors =
      fuzz::some_boxes<float>(in, sizes.anchors_per_image(), fuzz::any_box_kind(in));
  const auto truth = fuzz::some_boxes<float>(in, rows, fuzz::any_box_kind(in));
  std::vector<float> all_anchors;
  for (index_t n = 0; n < sizes.images; ++n)
    all_anchors.insert(all_anchors.end(), anchors.begin(), anchors.end());
  regression_loss_params regression;
  regression.loss =
      in.one_of({box_loss::smooth_l1, box_loss::giou, box_loss::diou, box_loss::ciou});
  regression_loss_params regression_weighted = regression;
  regression_weighted.box_weights = weights;
  const double threshold = in.one_of({0.05, 0.0, 0.5, 1.0});
  const index_t k = in.one_of<index_t>({10, 1, 100, 0, 10000});
  const fuzz::tensor<T> out(rows * classes), boxes_out(4 * rows);
  const fuzz::tensor<float> decoded(4 * rows), expected(4 * rows);
  fuzz::on_every_isa("levels", [&](fuzz::results& results) {
    sigmoid_focal_loss_and_grad(logits.in(), labels, grad.out(), scales, focal,
                                threading::parallel);
    sigmoid_focal_loss_and_grad(matrix_view<const T>(logits.rows.data(), rows, classes), labels,
                                matrix_view<T>(out.data(), rows, classes), weighted,
                                threading::sequential);
    fuzz::expect_same("the focal loss of levels differs", head_results(grad), row_results(out));
    grad.add_to(results);

    regression_loss_and_grad(deltas.in(), boxes_view<const float>(anchors),
                             boxes_view<const float>(truth), labels, deltas_grad.out(), scales,
                             regression, threading::parallel);
    regression_loss_and_grad(boxes_view<const T>(deltas.rows), boxes_view<const float>(all_anchors),
                             boxes_view<const float>(truth), labels, boxes_view<T>(boxes_out),
                             regression_weighted, threading::sequential);
    fuzz::expect_same("the regression loss of levels differs", head_results(deltas_grad),
                      row_results(boxes_out));
    deltas_grad.add_to(results);

    decode_boxes(deltas.in(), boxes_view<const float>(anchors), {}, boxes_view<float>(decoded));
    decode_boxes(boxes_view<const T>(deltas.rows), boxes_view<const float>(all_anchors),
                 boxes_view<float>(expected));
    fuzz::expect_same("decoded levels differ", row_results(decoded), row_results(expected));

    filter_topk_workspace topk, topk_rows;
    const auto found = filter_topk(logits.in(), threshold, k, topk, threading::parallel);
    index_t row = 0, group = 0;
    for (index_t n = 0; n < sizes.images; ++n) {
      index_t first_anchor = 0;
      for (const grid_size& level : sizes.levels) {
        const index_t count = level.height * level.width * sizes.anchors;
        const auto best =
            filter_topk(matrix_view<const T>(logits.rows.data() + row * classes, count, classes),
                        threshold, k, topk_rows, threading::sequential);
        const index_t begin = found.offsets[group++];
        if (found.offsets[group] - begin != best.elements.size())
          fuzz::fail("top-k of levels differs");
        for (index_t i = 0; i < best.elements.size(); ++i)
          if (found.elements[begin + i] != best.elements[i] + first_anchor * classes)
            fuzz::fail("top-k of levels differs");
        row += count;
        first_anchor += count;
      }
    }
    results.add(static_cast<double>(found.elements.size()));
  });
}

template <class T>
void check_detectors(fuzz::input& in) {
  level_sizes sizes(in);
  const std::uint8_t kind = in.byte();
  const bool is_fcos = kind % 2 == 1, is_rpn = kind % 4 == 2;
  if (is_fcos) sizes.anchors = 1;
  const index_t classes = is_rpn ? 1 : in.integer(1, 9), rows = sizes.rows();
  const head<T> logits(sizes, classes, in.numbers<T>(rows * classes));
  const head<T> boxes(sizes, 4, in.numbers<T>(4 * rows));
  const head<T> centers(sizes, 1, in.numbers<T>(rows));
  const head<T> logits_grad(sizes, classes, fuzz::tensor<T>(rows * classes));
  const head<T> boxes_grad(sizes, 4, fuzz::tensor<T>(4 * rows));
  const head<T> centers_grad(sizes, 1, fuzz::tensor<T>(rows));
  std::vector<float> corners;
  float stride = 8;
  for (const grid_size& level : sizes.levels) {
    for (index_t i = 0; i < level.height * level.width * sizes.anchors; ++i) {
      const float x = stride * static_cast<float>(i / sizes.anchors % level.width);
      const float y = stride * static_cast<float>(i / sizes.anchors / level.width);
      const float half = stride / 2 + static_cast<float>(i % sizes.anchors);
      corners.insert(corners.end(), {x - half, y - half, x + half, y + half});
    }
    stride *= 2;
  }
  const fuzz::tensor<float> anchors(corners);
  const index_t count = in.integer(0, 12);
  const auto truth_boxes = fuzz::some_boxes<float>(in, count, fuzz::any_box_kind(in));
  std::vector<index_t> ids, offsets{0};
  for (index_t i = 0; i < count; ++i) ids.push_back(in.integer(0, classes - 1));
  for (index_t n = 1; n < sizes.images; ++n) offsets.push_back(in.integer(offsets.back(), count));
  if (sizes.images > 0) offsets.push_back(count);
  const ground_truth truth{boxes_view<const float>(truth_boxes), ids, offsets};
  head_level_outputs<T> outputs{logits.in(), boxes.in()};
  head_outputs<T> flat{{logits.rows.data(), rows, classes}, boxes_view<const T>(boxes.rows)};
  postprocess_params params = is_fcos  ? postprocess_params::fcos()
                              : is_rpn ? postprocess_params::rpn()
                                       : postprocess_params::retinanet();
  params.max_candidates = in.one_of<index_t>({20, 1, 1000});
  if (is_fcos) {
    outputs.centerness = centers.in();
    flat.centerness = vector_view<const T>(centers.rows);
  }
  std::vector<index_t> level_counts;
  for (const grid_size& level : sizes.levels)
    level_counts.push_back(level.height * level.width * sizes.anchors);
  const std::vector<image_size> images(static_cast<std::size_t>(sizes.images),
                                       image_size::height_width(100, 200));
  const boxes_view<const float> about(anchors);
  fuzz::on_every_isa("detectors of levels", [&](fuzz::results& results) {
    postprocess_workspace workspace, flat_workspace;
    const auto kept = postprocess(outputs, about, images, params, workspace, threading::parallel);
    if (!level_counts.empty() && rows > 0) {
      const auto known = postprocess(flat, about, level_counts, images, params, flat_workspace,
                                     threading::sequential);
      fuzz::results a, b;
      for (index_t i = 0; i < kept.scores.size(); ++i) {
        a.add(static_cast<double>(kept.scores[i]));
        a.add(static_cast<double>(kept.labels[i]));
      }
      for (index_t i = 0; i < known.scores.size(); ++i) {
        b.add(static_cast<double>(known.scores[i]));
        b.add(static_cast<double>(known.labels[i]));
      }
      fuzz::expect_same("detections of levels differ", a, b);
    }
    for (index_t i = 0; i < kept.scores.size(); ++i)
      results.add(static_cast<double>(kept.scores[i]));
    if (is_fcos) {
      fcos_loss_workspace loss_workspace;
      const fcos_losses losses =
          fcos_loss_and_grad<T>({logits.in(), boxes.in(), centers.in(), logits_grad.out(),
                                 boxes_grad.out(), centers_grad.out()},
                                about, truth, {}, loss_workspace, threading::parallel);
      results.add(losses.centerness);
      centers_grad.add_to(results);
    } else {
      retinanet_loss_workspace loss_workspace;
      retinanet_loss_and_grad<T>({logits.in(), boxes.in(), logits_grad.out(), boxes_grad.out()},
                                 anchor_index(about), truth, {}, loss_workspace,
                                 threading::parallel);
    }
    logits_grad.add_to(results);
    boxes_grad.add_to(results);
  });
}

}  // namespace

void fuzz::target(input& in) {
  const std::uint8_t kind = in.byte();
  if (kind % 4 == 0) return check_losses<float>(in);
  if (kind % 4 == 1) return check_losses<bfloat16>(in);
  if (kind % 4 == 2) return check_detectors<float>(in);
  check_detectors<bfloat16>(in);
}
