// SPDX-License-Identifier: Apache-2.0
// The smallest user of vecdet. It computes a focal loss whose value and gradient were derived by
// hand from the paper's equation, one large enough to be summed from many chunks, and bad
// arguments, which -ffast-math must not hide. It prints the losses' bits, a hash of anchors,
// matches and a whole loss, whose host code must not be affected by -ffast-math, and the active
// instruction set.
#include <vecdet/vecdet.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#ifdef HEADER_ONLY_TOO
double loss_of_the_headers(const std::vector<float>& logits, const std::vector<int>& labels);
#endif

double loss_of_many() {
  const int rows = 100000, classes = 20;
  std::vector<float> logits(std::size_t{rows} * classes);
  std::vector<int> labels(rows);
  int i = 0;
  for (float& x : logits) x = static_cast<float>(i++ % 2003 - 1500) / 256;  // exact by any flags
  for (int& label : labels) label = i++ % 30 == 0 ? i % classes : -1;
  return vecdet::sigmoid_focal_loss(vecdet::matrix_view<const float>(logits.data(), rows, classes),
                                    labels);
}

struct hash {
  std::uint64_t value = 0xcbf29ce484222325u;

  template <class T>
  void add(const std::vector<T>& numbers) {
    for (const T& number : numbers) {
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &number, sizeof bytes);
      for (const unsigned char byte : bytes) value = (value ^ byte) * 0x100000001b3u;
    }
  }
};

/// Constructs NaN and infinities from bits, because -ffast-math assumes that there are none.
float float_of(std::uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

/// Anchors, their matches with boxes (some of them invalid), and the losses of RetinaNet and FCOS.
std::uint64_t step() {
  hash all;
  const std::vector<vecdet::grid_size> features{{38, 38}, {19, 19}, {10, 10},
                                                {5, 5},   {3, 3},   {1, 1}};
  const vecdet::ssd_shapes ssd;
  std::vector<float> boxes(static_cast<std::size_t>(4 * vecdet::count_anchors(ssd, features)));
  vecdet::make_anchors(ssd, {300, 300}, features, boxes);
  all.add(boxes);
  std::vector<float> points(2 * 38 * 38);
  vecdet::make_points(features[0], 7.3, points);
  all.add(points);
  const std::vector<vecdet::grid_size> levels{{12, 16}, {6, 8}, {3, 4}};
  std::vector<vecdet::anchor_shapes> shapes = vecdet::anchor_shapes::retinanet();
  shapes.resize(3);
  shapes[1].ratios = {0.3, 0.7, 1.9};
  std::vector<float> anchors(static_cast<std::size_t>(4 * vecdet::count_anchors(shapes, levels)));
  vecdet::make_anchors(shapes, {96, 128}, levels, anchors);
  all.add(anchors);

  std::vector<float> known;
  std::vector<int> classes;
  for (int i = 0; i < 40; ++i) {
    const auto x = static_cast<float>(i * 37 % 100), y = static_cast<float>(i * 23 % 70);
    known.insert(known.end(),
                 {x, y, x + static_cast<float>(10 + i), y + static_cast<float>(50 - i)});
    classes.push_back(i % 5);
  }
  const std::uint32_t no_numbers[] = {0x7fc00000u, 0x7f800000u, 0xff800000u};
  for (std::size_t i = 0; i < 12; ++i) known[12 * i + i % 4] = float_of(no_numbers[i % 3]);
  vecdet::ground_truth truth{known, classes};
  const vecdet::anchor_index index{vecdet::boxes_view<const float>(anchors)};
  const auto count = static_cast<std::size_t>(index.size());
  std::vector<vecdet::index_t> matches(count);
  std::vector<float> ious(count);
  const vecdet::match_results results{matches, {}, ious};
  vecdet::match_workspace matching;
  vecdet::match_anchors(index, truth, results, {}, matching);
  all.add(matches);

  // For the boxes that are finite.
  truth.boxes = vecdet::boxes_view<const float>(known.data() + 4 * 36, 4);
  truth.classes = vecdet::labels_view(classes.data() + 36, 4);
  std::vector<float> logits(5 * count), deltas(4 * count);
  int i = 0;
  for (float& x : logits) x = static_cast<float>(i++ % 2003 - 1500) / 256;
  for (float& x : deltas) x = static_cast<float>(i++ % 211 - 100) / 512;
  std::vector<vecdet::head_level<const float>> logit_levels, delta_levels;
  std::vector<vecdet::head_level<float>> logits_grad, deltas_grad;
  std::ptrdiff_t first = 0;
  for (const vecdet::grid_size& level : levels) {
    logit_levels.push_back({logits.data() + 5 * first, level.height, level.width});
    delta_levels.push_back({deltas.data() + 4 * first, level.height, level.width});
    logits_grad.push_back({logits.data() + 5 * first, level.height, level.width});
    deltas_grad.push_back({deltas.data() + 4 * first, level.height, level.width});
    first += level.height * level.width * 9;
  }
  const vecdet::head_layout nchw = vecdet::head_layout::nchw;
  vecdet::retinanet_loss_workspace workspace;
  vecdet::retinanet_loss_params params;
  params.scale = 1.0 / 3;
  vecdet::retinanet_loss_and_grad<float>({{logit_levels, 1, 9, 5, nchw},
                                          {delta_levels, 1, 9, 4, nchw},
                                          {logits_grad, 1, 9, 5, nchw},
                                          {deltas_grad, 1, 9, 4, nchw}},
                                         index, truth, params, workspace);
  all.add(logits);
  all.add(deltas);

  const std::vector<vecdet::anchor_shapes> squares{{{8}, {1}}, {{16}, {1}}, {{32}, {1}}};
  std::vector<float> about(static_cast<std::size_t>(4 * vecdet::count_anchors(squares, levels)));
  vecdet::make_anchors(squares, {96, 128}, levels, about);
  truth.boxes = known;
  truth.classes = classes;
  matches.resize(about.size() / 4);
  vecdet::assigner_workspace assigner;
  vecdet::assign_fcos(about, levels, truth, matches, {}, assigner);
  all.add(matches);
  return all.value;
}

bool refuses_gamma(double gamma) {
  const std::vector<float> logits(3);
  vecdet::focal_loss_params params;
  params.gamma = gamma;
  try {
    vecdet::sigmoid_focal_loss(vecdet::matrix_view<const float>(logits.data(), 1, 3),
                               std::vector<int>{0}, params);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

int main() {
  const std::vector<float> logits{2, -1, 0.5f, 0, 0, 0, -3, 4, 1, 1, 1, 1};
  const std::vector<int> labels{0, -1, 1, -2};  // a class, background, a class, ignored
  std::vector<float> grad(logits.size());
  const double loss = vecdet::sigmoid_focal_loss_and_grad(
      vecdet::matrix_view<const float>(logits.data(), 4, 3), labels, {grad.data(), 4, 3});

  const double known_loss = 1.216883081494029;
  const double known_grad[] = {-0.0012177350488481945,
                               0.039435847483170465,
                               0.3946138664059373,
                               0.22371509635498976,
                               0.22371509635498976,
                               0.22371509635498976,
                               0.000236153884866211,
                               -4.337632805384432e-06,
                               0.5761760423994883,
                               0,
                               0,
                               0};
  bool right = std::abs(loss - known_loss) <= 1e-6;
  for (std::size_t i = 0; i < grad.size(); ++i) {
    right = right && std::abs(grad[i] - known_grad[i]) <= 1e-6 * std::abs(known_grad[i]);
  }
#ifdef HEADER_ONLY_TOO
  right = right && std::abs(loss_of_the_headers(logits, labels) - known_loss) <= 1e-6;
#endif
  right = right && refuses_gamma(std::numeric_limits<double>::infinity()) &&
          refuses_gamma(std::numeric_limits<double>::quiet_NaN());
  std::printf("%a %a %016llx %s\n", loss, loss_of_many(), static_cast<unsigned long long>(step()),
              vecdet::isa_name(vecdet::active_isa()));
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
