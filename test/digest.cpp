// SPDX-License-Identifier: Apache-2.0
// Prints the detected instruction set, then a hash of every function's results on each instruction
// set that this processor has. A line must be the same on every processor that prints it.
//
// No oneTBB threads and no doctest: under an emulator the whole takes seconds.
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
class digest {
 public:
  template <class T>
  void add(const T* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      T value = values[i];
      if (value != value) value = to<T>(0.125);  // the sign of a NaN is no result: Arm's differs
      const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
      for (std::size_t k = 0; k < sizeof(T); ++k) hash_ = (hash_ ^ bytes[k]) * 0x100000001b3u;
    }
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size());
  }
  void add(double value) { add(&value, 1); }

  void print(isa set, const std::string& what) const {
    std::printf("%s %s %016" PRIx64 "\n", isa_name(set), what.c_str(), hash_);
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

template <class T>
std::vector<T> finite_logits(index_t count, std::uint64_t seed) {
  random_generator generator(seed);
  std::vector<T> logits(static_cast<std::size_t>(count));
  for (T& x : logits) x = to<T>(generator.uniform(-30, 30));
  return logits;
}

template <class T>
void focal_loss(isa set) {
  const index_t rows = 41, cols = 91;
  const auto logits = finite_logits<T>(rows * cols, 1);
  const matrix_view<const T> x(logits.data(), rows, cols);
  const auto labels = random_labels(rows, cols, 2);
  random_generator generator(3);
  std::vector<T> targets(logits.size());
  for (T& t : targets) t = to<T>(generator.chance(0.01) ? generator.uniform() : 0.0);
  std::vector<T> out(logits.size());
  const matrix_view<T> out_view(out.data(), rows, cols);
  for (const double gamma : {2.0, 1.0, 0.0, 1.5}) {
    digest hash;
    focal_loss_params params;
    params.gamma = gamma;
    const auto add_all = [&](const focal_targets<T>& truth) {
      hash.add(sigmoid_focal_loss_and_grad(x, truth, out_view, params, execution::sequential));
      hash.add(out);
      sigmoid_focal_loss_unreduced(x, truth, out_view, params, execution::sequential);
      hash.add(out);
    };
    add_all(labels);
    add_all(matrix_view<const T>(targets.data(), rows, cols));
    hash.print(set,
               std::string("focal_loss/") + dtype_name<T>() + "/gamma " + std::to_string(gamma));
  }
}

template <class T>
void boxes(isa set) {
  const index_t count = 333;
  const execution sequential = execution::sequential;
  const auto a_values = random_boxes<T>(count, 1), b_values = random_boxes<T>(count, 2);
  const boxes_view<const T> a(a_values), b(b_values);
  std::vector<T> out(a_values.size()), ious(static_cast<std::size_t>(count) * 40);
  const boxes_view<T> view(out);
  const std::string type = dtype_name<T>();

  digest coding;
  encode_boxes(a, b, view, {}, sequential);
  coding.add(out);
  decode_boxes(boxes_view<const T>(out), b, image_size{500, 400}, view, {}, sequential);
  coding.add(out);
  convert_boxes(a, box_format::xyxy, box_format::cxcywh, view, sequential);
  coding.add(out);
  coding.print(set, "box_coding/" + type);

  digest losses;
  const auto labels = random_labels(count, 5, 3);
  for (const box_selection& selection : {box_selection::all(), box_selection(labels)}) {
    losses.add(smooth_l1_loss_and_grad(a, b, selection, view, {}, sequential));
    losses.add(out);
  }
  losses.add(giou_loss_and_grad(a, b, view, {}, sequential));
  losses.add(out);
  losses.print(set, "box_losses/" + type);

  digest overlaps;
  for (const auto kind : {iou_kind::iou, iou_kind::giou, iou_kind::diou}) {
    iou_params params;
    params.kind = kind;
    pairwise_iou(a, boxes_view<const T>(b_values.data(), 40),
                 matrix_view<T>(ious.data(), count, 40), params, sequential);
    overlaps.add(ious);
  }
  overlaps.print(set, "iou/" + type);

  digest kept;
  random_generator generator(4);
  std::vector<T> scores(static_cast<std::size_t>(count));
  for (T& score : scores) score = to<T>(generator.uniform());
  kept.add(nms(a, vector_view<const T>(scores), nms_params{}, sequential));
  kept.print(set, "nms/" + type);
}

template <class T>
void all_functions(isa set) {
  focal_loss<T>(set);
  boxes<T>(set);
}

}  // namespace

int main() {
  std::printf("detected %s\n", isa_name(detected_isa()));
  for (const isa set : {isa::baseline, isa::avx2, isa::avx512}) {
    if (!isa_available(set)) continue;
    set_isa(set);
    all_functions<float>(set);
    all_functions<bfloat16>(set);
    all_functions<double>(set);
  }
}
