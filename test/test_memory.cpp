// SPDX-License-Identifier: Apache-2.0
// No function reads or writes outside its arguments, and where they lie changes no bit of a result:
// every function, element type and instruction set, at lengths around the vector and block widths,
// with arrays that end at an inaccessible page, that start after one, and at every misalignment.
#include "support/isa.hpp"
#include "support/placed_memory.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// The bytes of all results of a call.
class result_bytes {
 public:
  template <class T>
  void add(const T* values, index_t count) {
    const char* first = reinterpret_cast<const char*>(values);
    bytes_.insert(bytes_.end(), first, first + count * static_cast<index_t>(sizeof(T)));
  }
  template <class T>
  void add(const T& value) {
    add(&value, 1);
  }
  bool operator==(const result_bytes& other) const { return bytes_ == other.bytes_; }

 private:
  std::vector<char> bytes_;
};

/// Runs call(memory, results), which takes all its arrays from `memory`, at every placement on
/// every instruction set, and compares the results with those of aligned memory.
template <class Call>
void check_placements(const Call& call) {
  placed_memory memory;
  for_each_isa([&](isa) {
    const auto results_at = [&](placement place) {
      memory.place = place;
      memory.release();
      result_bytes results;
      call(memory, results);
      return results;
    };
    const result_bytes aligned = results_at({placement::offset, 0});
    CHECK(results_at({placement::ends_at_guard}) == aligned);
    CHECK(results_at({placement::starts_at_guard}) == aligned);
  });
}

/// Likewise at every distance from an aligned address in steps of the element.
template <class T, class Call>
void check_alignments(const Call& call) {
  placed_memory memory;
  for_each_isa([&](isa) {
    result_bytes aligned;
    for (index_t offset = 0; offset < 64; offset += static_cast<index_t>(sizeof(T))) {
      memory.place = {placement::offset, offset};
      memory.release();
      result_bytes results;
      call(memory, results);
      if (offset == 0) aligned = results;
      INFO("offset ", offset, " bytes");
      CHECK(results == aligned);
    }
  });
}

/// Element counts around the lanes of a batch, of a row and of a block.
const std::vector<index_t> lengths = {1,   2,   3,   4,   5,   7,   8,   9,   15,  16,  17, 23,
                                      31,  32,  33,  47,  63,  64,  65,  80,  91,  95,  96, 97,
                                      112, 126, 127, 128, 129, 130, 255, 256, 257, 383, 385};

constexpr execution sequential = execution::sequential;

// ---- focal loss

template <class T>
void focal_loss_call(placed_memory& memory, result_bytes& results, index_t rows, index_t cols,
                     index_t padding, double gamma, bool dense) {
  const index_t stride = cols + padding, extent = (rows - 1) * stride + cols;
  const T* logits = memory.copy(random_logits<T>(extent, 1));
  const matrix_view<const T> x(logits, rows, cols, stride);
  focal_loss_params params;
  params.gamma = gamma;
  const index_t* labels = memory.copy(random_labels(rows, cols, 2));
  std::vector<T> target_values(static_cast<std::size_t>(extent));
  random_generator generator(3);
  for (T& t : target_values) t = to<T>(generator.chance(0.1) ? generator.uniform() : 0.0);
  const matrix_view<const T> targets(memory.copy(target_values), rows, cols, stride);
  const std::vector<float> weights(static_cast<std::size_t>(rows), 0.5f);
  if (padding > 0) params.row_weights = {memory.copy(weights), rows};
  const focal_targets<T> truth =
      dense ? focal_targets<T>(targets) : focal_targets<T>(labels_view(labels, rows));
  const matrix_view<T> out(memory.make<T>(extent), rows, cols, stride);

  results.add(sigmoid_focal_loss(x, truth, params, sequential));
  results.add(sigmoid_focal_loss_and_grad(x, truth, out, params, sequential));
  results.add(out.data(), extent);  // with the padding, which must stay as it was
  sigmoid_focal_loss_unreduced(x, truth, out, params, sequential);
  results.add(out.data(), extent);
  const matrix_view<const T> upstream(memory.copy(random_logits<T>(extent, 4)), rows, cols, stride);
  sigmoid_focal_loss_grad(x, truth, upstream, out, params, sequential);
  results.add(out.data(), extent);
}

template <class T>
void focal_loss_memory() {
  for (const index_t cols : lengths) {
    const index_t rows = 1 + cols % 3, padding = cols % 2 == 0 ? 0 : 1 + cols % 5;
    for (const bool dense : {false, true}) {
      for (const double gamma : {2.0, 1.5}) {
        INFO("rows ", rows, " cols ", cols, " padding ", padding, " gamma ", gamma, " dense ",
             dense);
        check_placements([&](placed_memory& memory, result_bytes& results) {
          focal_loss_call<T>(memory, results, rows, cols, padding, gamma, dense);
        });
      }
    }
  }
  for (const bool dense : {false, true}) {
    check_alignments<T>([&](placed_memory& memory, result_bytes& results) {
      focal_loss_call<T>(memory, results, 3, 91, 0, 2, dense);
    });
  }
}

// ---- boxes

template <class T>
boxes_view<const T> placed_boxes(placed_memory& memory, index_t boxes, std::uint64_t seed) {
  auto values = random_boxes<T>(boxes, seed);
  const auto special = special_boxes_as<T>();
  for (std::size_t i = 0; i + 7 < values.size(); i += 37) values[i] = special[i % special.size()];
  return {memory.copy(values), boxes};
}

template <class T>
void box_coding_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto a = placed_boxes<T>(memory, boxes, 1), b = placed_boxes<T>(memory, boxes, 2);
  const boxes_view<T> out(memory.make<T>(4 * boxes), boxes);
  const auto add = [&] { results.add(out.data(), 4 * boxes); };
  const image_size image{300, 200};
  encode_boxes(a, b, out, {}, sequential), add();
  encode_boxes(a, b, out, coder_params::ssd(), sequential), add();
  decode_boxes(a, b, out, {}, sequential), add();
  decode_boxes(a, b, image, out, coder_params::ssd(), sequential), add();
  encode_distances(a, b, out, {}, sequential), add();
  decode_distances(a, b, image, out, {}, sequential), add();
  for (const auto from : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
    for (const auto to : {box_format::xyxy, box_format::xywh, box_format::cxcywh}) {
      convert_boxes(a, from, to, out, sequential), add();
    }
  }
  clip_boxes(a, image, out, sequential), add();
  const vector_view<T> areas(memory.make<T>(boxes), boxes);
  box_areas(a, areas, sequential);
  results.add(areas.data(), boxes);
  const vector_view<std::uint8_t> mask(memory.make<std::uint8_t>(boxes), boxes);
  large_box_mask(a, 20, mask, sequential);
  results.add(mask.data(), boxes);
  const vector_view<index_t> indices(memory.make<index_t>(boxes), boxes);
  const index_t count = large_boxes(a, 20, indices);
  results.add(indices.data(), count);
}

template <class T>
void box_loss_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto a = placed_boxes<T>(memory, boxes, 1), b = placed_boxes<T>(memory, boxes, 2);
  const auto deltas_of = [&] {
    random_generator generator(3);
    std::vector<T> values(static_cast<std::size_t>(4 * boxes));
    for (T& v : values) v = to<T>(generator.uniform(-2, 2));
    return values;
  };
  const boxes_view<const T> deltas(memory.copy(deltas_of()), boxes);
  const boxes_view<T> out(memory.make<T>(4 * boxes), boxes);
  const vector_view<T> losses(memory.make<T>(boxes), boxes);
  const std::vector<float> weight_values(static_cast<std::size_t>(boxes), 0.5f);
  const vector_view<const float> weights(memory.copy(weight_values), boxes);
  const index_t* labels = memory.copy(random_labels(boxes, 5, 4));
  std::vector<index_t> list;
  for (index_t i = 0; i < boxes; i += 3) list.push_back(i);
  const auto listed = static_cast<index_t>(list.size());
  const box_selection selections[] = {
      box_selection::all(), box_selection(labels_view(labels, boxes)),
      box_selection::list(vector_view<const index_t>(memory.copy(list), listed))};
  for (const box_selection& selection : selections) {
    smooth_l1_params params;
    params.box_weights = weights;
    results.add(smooth_l1_loss_and_grad(a, b, selection, out, params, sequential));
    results.add(out.data(), 4 * boxes);
    smooth_l1_loss_unreduced(a, b, selection, out, params, sequential);
    results.add(out.data(), 4 * boxes);
    for (const auto loss : {box_loss::smooth_l1, box_loss::giou, box_loss::ciou}) {
      regression_loss_params regression;
      regression.loss = loss;
      results.add(regression_loss_and_grad(deltas, a, regression_targets<T>(b), selection, out,
                                           regression, sequential));
      results.add(out.data(), 4 * boxes);
    }
  }
  for (const auto loss :
       {giou_loss_and_grad<const T>, diou_loss_and_grad<const T>, ciou_loss_and_grad<const T>}) {
    results.add(loss(a, b, out, {}, sequential));
    results.add(out.data(), 4 * boxes);
  }
  giou_loss_unreduced(a, b, losses, {}, sequential);
  results.add(losses.data(), boxes);
}

template <class T>
void iou_call(placed_memory& memory, result_bytes& results, index_t boxes, index_t others) {
  const auto a = placed_boxes<T>(memory, boxes, 1), same = placed_boxes<T>(memory, boxes, 2);
  const auto b = placed_boxes<T>(memory, others, 3);
  const index_t stride = others + boxes % 3, extent = (boxes - 1) * stride + others;
  const matrix_view<T> out(memory.make<T>(extent), boxes, others, stride);
  const vector_view<T> pairs(memory.make<T>(boxes), boxes);
  for (const auto kind : {iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou}) {
    iou_params params;
    params.kind = kind;
    pairwise_iou(a, b, out, params, sequential);
    results.add(out.data(), extent);
    elementwise_iou(a, same, pairs, params, sequential);
    results.add(pairs.data(), boxes);
  }
}

template <class T>
void nms_call(placed_memory& memory, result_bytes& results, index_t boxes) {
  const auto b = placed_boxes<T>(memory, boxes, 1);
  random_generator generator(2);
  std::vector<T> score_values(static_cast<std::size_t>(boxes));
  for (T& score : score_values) score = to<T>(generator.uniform());
  const vector_view<const T> scores(memory.copy(score_values), boxes);
  nms_workspace workspace;
  const auto kept = nms(b, scores, nms_params{}, workspace, sequential);
  results.add(kept.data(), kept.size());
  soft_nms_workspace<compute_type<T>> soft_workspace;
  const auto soft = soft_nms(b, scores, soft_nms_params{}, soft_workspace, sequential);
  results.add(soft.kept.data(), soft.kept.size());
  results.add(soft.scores.data(), soft.scores.size());
  if constexpr (!std::is_same<T, double>::value) {
    const index_t rows = 1 + boxes / 7;
    const index_t stride = 9, extent = (rows - 1) * stride + 7;
    const matrix_view<const T> logits(memory.copy(random_logits<T>(extent, 5)), rows, 7, stride);
    filter_topk_workspace topk_workspace;
    const auto top = filter_topk(logits, 0.01, 1 + boxes / 2, topk_workspace, sequential);
    results.add(top.elements.data(), top.elements.size());
    results.add(top.logits.data(), top.logits.size());
  }
}

/// call(memory, results, length) at all lengths and placements, and 91 long at all alignments.
template <class T, class Call>
void sweep_memory(const Call& call) {
  for (const index_t length : lengths) {
    INFO("length ", length);
    check_placements(
        [&](placed_memory& memory, result_bytes& results) { call(memory, results, length); });
  }
  check_alignments<T>(
      [&](placed_memory& memory, result_bytes& results) { call(memory, results, 91); });
}

}  // namespace

TEST_CASE("memory: a guard page traps") {
  // The tests below rest on it.
  placed_memory memory;
  const auto dies = [&](placement place, index_t element) {
    memory.place = place;
    memory.release();
    volatile char* array = memory.make<char>(100);
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      array[element] = array[element];
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  };
  CHECK(dies({placement::ends_at_guard}, 100));
  CHECK_FALSE(dies({placement::ends_at_guard}, 99));
  CHECK(dies({placement::starts_at_guard}, -1));
  CHECK_FALSE(dies({placement::starts_at_guard}, 0));
}

TEST_CASE("memory: focal loss, float") { focal_loss_memory<float>(); }
TEST_CASE("memory: focal loss, bfloat16") { focal_loss_memory<bfloat16>(); }
TEST_CASE("memory: focal loss, double") { focal_loss_memory<double>(); }

TEST_CASE_TEMPLATE("memory: box coding and box operations", T, float, bfloat16, double) {
  sweep_memory<T>(box_coding_call<T>);
}
TEST_CASE_TEMPLATE("memory: box losses", T, float, bfloat16, double) {
  sweep_memory<T>(box_loss_call<T>);
}
TEST_CASE_TEMPLATE("memory: IoU", T, float, bfloat16, double) {
  sweep_memory<T>([](placed_memory& memory, result_bytes& results, index_t length) {
    iou_call<T>(memory, results, length, 1 + length % 19);
    iou_call<T>(memory, results, 1 + length % 7, length);
  });
}
TEST_CASE_TEMPLATE("memory: NMS, soft-NMS and top-k filter", T, float, bfloat16, double) {
  sweep_memory<T>(nms_call<T>);
}
