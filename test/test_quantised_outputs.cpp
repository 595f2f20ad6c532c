// SPDX-License-Identifier: Apache-2.0
// Quantised outputs: every result equals that of the function in float on the dequantised tensor,
// bit for bit, in every layout and with every option, and the same inputs are errors; thresholds at
// and between the numbers of all integers; and every documented error.
#include "support/class_lists.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"
#include <vecdet/quantised_outputs.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// A matrix of integers with its own memory, and the same numbers in float, computed as ONNX's
/// DequantizeLinear has it: the difference in integers, then one product in float.
template <class T>
struct quantised_tensor {
  index_t rows, cols, gap, shift;
  float scale;
  int zero_point;
  std::vector<T> integers;
  std::vector<float> floats;

  /// The numbers are `gap` apart between rows, and the first is `shift` bytes behind the start.
  quantised_tensor(index_t row_count, index_t col_count, float scale_of_all, int zero, index_t gaps,
                   index_t shifts)
      : rows(row_count),
        cols(col_count),
        gap(gaps),
        shift(shifts),
        scale(scale_of_all),
        zero_point(zero),
        integers(static_cast<std::size_t>(shifts + row_count * (col_count + gaps))) {}

  /// Sets every integer to next(row, column).
  template <class Next>
  void fill(const Next& next) {
    floats.assign(integers.size(), 0.0f);
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < cols; ++j) {
        const auto at = static_cast<std::size_t>(shift + i * (cols + gap) + j);
        integers[at] = static_cast<T>(next(i, j));
        const volatile float difference = static_cast<float>(int{integers[at]} - zero_point);
        floats[at] = difference * scale;
      }
  }
  /// Fills with any integers, most of them from few values, so that many are equal.
  void fill_at_random(random_generator& generator, double share) {
    fill([&](index_t, index_t) {
      return generator.chance(share) ? generator.below(256) : 5 * generator.below(8);
    });
  }

  quantised_matrix<T> quantised() const {
    return {matrix_view<const T>(integers.data() + shift, rows, cols, cols + gap), scale,
            zero_point};
  }
  matrix_view<const float> dequantised() const {
    return {floats.data() + shift, rows, cols, cols + gap};
  }
};

/// What a call returns or throws, with the bits of floats.
struct outcome {
  std::string error;
  std::vector<std::uint32_t> bits;
  std::vector<index_t> numbers;

  void add(const vector_view<const float>& floats) {
    for (const float x : floats) {
      std::uint32_t raw;
      std::memcpy(&raw, &x, sizeof raw);
      bits.push_back(raw);
    }
  }
  void add(const vector_view<const index_t>& integers) {
    numbers.insert(numbers.end(), integers.begin(), integers.end());
  }
  bool operator==(const outcome& other) const {
    return error == other.error && bits == other.bits && numbers == other.numbers;
  }
};

template <class Call>
outcome outcome_of(const Call& call) {
  outcome result;
  try {
    const auto found = call();
    if constexpr (std::is_same<decltype(found), const filter_topk_result>::value) {
      result.add(found.logits);
      result.add(found.elements);
    } else {
      result.add(vector_view<const float>(found.boxes.data(), 4 * found.boxes.size()));
      result.add(found.scores);
      result.add(vector_view<const float>(found.extras.data(), found.extras.size()));
      result.add(found.labels);
      result.add(found.sources);
      result.add(found.offsets);
    }
  } catch (const std::invalid_argument& error) {
    result.error = error.what();
  }
  return result;
}

/// Checks that quantised(policy) gives on every instruction set and on any number of threads what
/// dequantised() gives; returns the number of detections.
template <class Quantised, class Float>
index_t check_same(const Quantised& quantised, const Float& dequantised) {
  index_t count = 0;
  for_each_isa([&](isa) {
    const outcome expected = outcome_of(dequantised);
    for (const threading policy : {threading::sequential, threading::parallel}) {
      const outcome found = outcome_of([&] { return quantised(policy); });
      CHECK(found.error == expected.error);
      CHECK(found == expected);
    }
    count = static_cast<index_t>(expected.bits.size());
  });
  return count;
}

template <class T>
constexpr int least_of = std::numeric_limits<T>::min();

constexpr float fraction = 1.0f / 255;

std::vector<postprocess_yolo_params> all_models() {
  auto rows = postprocess_yolo_params::v8();
  rows.layout = yolo_layout::rows;
  std::vector<postprocess_yolo_params> models{postprocess_yolo_params::v5(),
                                              postprocess_yolo_params::v8(),
                                              postprocess_yolo_params::rt_detr(), rows};
  for (auto& params : models) {
    params.extras = 0;
    params.normalised = true;
  }
  return models;
}

index_t numbers_of(const postprocess_yolo_params& params, index_t classes) {
  return 4 + std::max(params.extras, index_t{0}) + index_t{params.rotated} +
         (params.scores == yolo_scores::objectness ? 1 + classes : classes);
}

std::vector<letterbox_transform> transforms_of(index_t images) {
  std::vector<letterbox_transform> list;
  for (index_t i = 0; i < images; ++i)
    list.push_back(letterbox_transform::centred(
        image_size::height_width(100.0 + 70.0 * static_cast<double>(i), 333),
        image_size::height_width(640, 640)));
  return list;
}

struct yolo_shape {
  index_t images, boxes, classes;
};

/// Compares one tensor, and the same numbers as separate tensors, with floats.
template <class T>
index_t check_yolo(const postprocess_yolo_params& params, const yolo_shape& shape, int zero,
                   double share, std::uint64_t seed) {
  CAPTURE(shape.boxes);
  CAPTURE(shape.classes);
  CAPTURE(seed);
  random_generator generator(seed);
  const bool by_rows = params.layout == yolo_layout::rows;
  const index_t numbers = numbers_of(params, shape.classes);
  const auto tensor = [&](index_t count, float scale, int zero_point) {
    return quantised_tensor<T>(shape.images * (by_rows ? shape.boxes : count),
                               by_rows ? count : shape.boxes, scale, zero_point, generator.below(4),
                               generator.below(70));
  };
  const auto transforms = transforms_of(shape.images);
  postprocess_workspace workspace, other_workspace;
  auto joint = tensor(numbers, fraction, zero);
  joint.fill_at_random(generator, share);
  const index_t count = check_same(
      [&](threading policy) {
        return postprocess_yolo(quantised_yolo_outputs<T>{joint.quantised(), shape.images},
                                transforms, params, workspace, policy);
      },
      [&] {
        return postprocess_yolo(yolo_outputs<float>{joint.dequantised(), shape.images}, transforms,
                                params, other_workspace);
      });
  // The same scores with coordinates of another scale.
  auto boxes = tensor(4, 0.37f, least_of<T> + 3);
  boxes.fill_at_random(generator, 1);
  auto scores = tensor(numbers - 4, fraction, zero);
  auto both = tensor(numbers, fraction, zero);
  const auto element = [&](index_t i, index_t j, index_t skipped) {
    // The element of `both` behind `skipped` numbers of each box.
    const index_t per_image = numbers - skipped;
    const index_t row = by_rows ? i : i / per_image * numbers + i % per_image + skipped;
    const index_t col = by_rows ? j + skipped : j;
    return static_cast<std::size_t>(both.shift + row * (both.cols + both.gap) + col);
  };
  both.fill_at_random(generator, share);
  scores.fill([&](index_t i, index_t j) { return both.integers[element(i, j, 4)]; });
  for (index_t i = 0; i < boxes.rows; ++i)
    for (index_t j = 0; j < boxes.cols; ++j) {
      const index_t row = by_rows ? i : i / 4 * numbers + i % 4;
      both.floats[static_cast<std::size_t>(both.shift + row * (both.cols + both.gap) + j)] =
          boxes.dequantised()(i, j);
    }
  const auto expected = [&] {
    return postprocess_yolo(yolo_outputs<float>{both.dequantised(), shape.images}, transforms,
                            params, other_workspace);
  };
  if (!outcome_of(expected).error.empty()) return count;  // the message names another argument
  check_same(
      [&](threading policy) {
        return postprocess_yolo(
            separate_yolo_outputs{boxes.quantised(), scores.quantised(), shape.images}, transforms,
            params, workspace, policy);
      },
      expected);
  check_same(
      [&](threading policy) {
        return postprocess_yolo(
            separate_yolo_outputs<matrix_view<const float>, quantised_matrix<T>>{
                boxes.dequantised(), scores.quantised(), shape.images},
            transforms, params, workspace, policy);
      },
      expected);
  check_same(
      [&](threading policy) {
        return postprocess_yolo(
            separate_yolo_outputs<matrix_view<const float>>{boxes.dequantised(),
                                                            scores.dequantised(), shape.images},
            transforms, params, workspace, policy);
      },
      expected);
  // Coordinates of the other type of integers: the same differences from the zero point.
  using other = std::conditional_t<std::is_signed<T>::value, std::uint8_t, std::int8_t>;
  constexpr int moved = least_of<other> - least_of<T>;
  quantised_tensor<other> other_boxes(boxes.rows, boxes.cols, boxes.scale, boxes.zero_point + moved,
                                      2, 3);
  other_boxes.fill([&](index_t i, index_t j) { return boxes.quantised().stored()(i, j) + moved; });
  check_same(
      [&](threading policy) {
        return postprocess_yolo(
            separate_yolo_outputs{other_boxes.quantised(), scores.quantised(), shape.images},
            transforms, params, workspace, policy);
      },
      expected);
  // Coordinates in bfloat16, which rounds them.
  std::vector<bfloat16> rounded;
  for (index_t i = 0; i < boxes.rows; ++i)
    for (index_t j = 0; j < boxes.cols; ++j) {
      rounded.push_back(bfloat16(boxes.dequantised()(i, j)));
      const index_t row = by_rows ? i : i / 4 * numbers + i % 4;
      both.floats[static_cast<std::size_t>(both.shift + row * (both.cols + both.gap) + j)] =
          static_cast<float>(rounded.back());
    }
  check_same(
      [&](threading policy) {
        return postprocess_yolo(separate_yolo_outputs{matrix_view<const bfloat16>(
                                                          rounded.data(), boxes.rows, boxes.cols),
                                                      scores.quantised(), shape.images},
                                transforms, params, workspace, policy);
      },
      expected);
  return count;
}

/// Checks both types; in `share` of the elements, all integers are equally frequent.
index_t check_both(const postprocess_yolo_params& params, const yolo_shape& shape, int zero,
                   double share, std::uint64_t seed) {
  return check_yolo<std::uint8_t>(params, shape, zero, share, seed) +
         check_yolo<std::int8_t>(params, shape, zero - 128, share, seed + 1);
}

template <class T>
index_t check_topk(const quantised_tensor<T>& logits, double threshold, index_t k,
                   score_kind kind = score_kind::logits) {
  CAPTURE(threshold);
  CAPTURE(k);
  filter_topk_workspace workspace, other_workspace;
  return check_same(
      [&](threading policy) {
        return filter_topk(logits.quantised(), threshold, k, workspace, policy, kind);
      },
      [&] {
        return filter_topk(logits.dequantised(), threshold, k, other_workspace, threading::parallel,
                           kind);
      });
}

}  // namespace

TEST_CASE("quantised postprocess_yolo: every model and length") {
  std::uint64_t seed = 1;
  index_t found = 0;
  for (const auto& params : all_models()) {
    for (const index_t boxes : {0, 1, 15, 16, 63, 64, 65, 127, 128, 255, 256, 257, 320, 511, 700})
      found += check_both(params, {2, boxes, 7}, 0, 0.3, seed += 2);
    for (const index_t classes : {1, 2, 15, 16, 17, 63, 64, 65, 80, 128, 257})
      found += check_both(params, {2, 100, classes}, 0, 0.01, seed += 2);
    for (const index_t boxes : {8447, 8448, 8449, 17000})
      found += check_both(params, {1, boxes, 3}, 0, 0.02, seed += 2);
    found += check_both(params, {1, 9000, 80}, 0, 0.001, seed += 2);
  }
  CHECK(found > 10000);
}

TEST_CASE("quantised postprocess_yolo: more classes than two bytes count") {
  auto params = postprocess_yolo_params::v8();
  params.extras = 0;
  CHECK(check_both(params, {1, 66, 66000}, 0, 0.0001, 3) > 0);
}

TEST_CASE("quantised postprocess_yolo: options") {
  std::uint64_t seed = 1000;
  index_t found = 0;
  for (auto params : all_models()) {
    params.multi_label = true;
    found += check_both(params, {2, 300, 20}, 0, 0.2, seed += 2);
    found += check_both(params, {1, 9000, 20}, 0, 0.1, seed += 2);
    params.max_candidates = 100;
    found += check_both(params, {2, 3000, 20}, 0, 0.9, seed += 2);
    params.multi_label = false;
    params.max_candidates = 70;
    params.result_format = box_format::cxcywh;
    found += check_both(params, {2, 12000, 5}, 0, 0.9, seed += 2);
    for (const double threshold : {0.0, 1.0, 0.001, static_cast<double>(100 * fraction)}) {
      params.score_threshold = threshold;
      found += check_both(params, {2, 400, 5}, 0, 0.5, seed += 2);
      found += check_both(params, {2, 400, 5}, 255, 0.5, seed += 2);
    }
    params.extras = 32;
    found += check_both(params, {2, 200, 5}, 0, 0.4, seed += 2);
    params.extras = 51;
    params.keypoint_size = 3;
    found += check_both(params, {2, 200, 1}, 0, 0.4, seed += 2);
    params.max_candidates = 0;
    found += check_both(params, {2, 200, 1}, 0, 0.4, seed += 2);
  }
  CHECK(found > 10000);
}

TEST_CASE("quantised postprocess_yolo: numbers that are no probabilities give the same errors") {
  std::uint64_t seed = 2000;
  for (auto params : all_models()) {
    params.extras = postprocess_yolo_params::unknown_extras;
    for (const bool is_multi : {false, true}) {
      params.multi_label = is_multi;
      for (const double threshold : {0.01, 0.5, 0.9})
        for (const int zero : {0, 1, 3, 200})
          for (const index_t boxes : {1, 20, 64, 300}) {
            params.score_threshold = threshold;
            check_both(params, {2, boxes, 3}, zero, 0.02, seed += 2);
          }
    }
  }
  // One number that is too great, or too small, in a class that is not wanted.
  const std::vector<index_t> wanted{0};
  auto params = postprocess_yolo_params::v8();
  params.classes = wanted;
  for (const index_t boxes : {1, 64, 300})
    for (const int outside : {1, 255})
      for (const bool is_multi : {false, true}) {
        params.multi_label = is_multi;
        quantised_tensor<std::uint8_t> tensor(7, boxes, 0.01f, 50, 0, 0);
        tensor.fill([&](index_t i, index_t j) { return i == 6 && j == boxes - 1 ? outside : 60; });
        postprocess_workspace workspace;
        const auto call = [&] {
          return postprocess_yolo(quantised_yolo_outputs<std::uint8_t>{tensor.quantised()}, {},
                                  params, workspace);
        };
        for_each_isa([&](isa) {
          CHECK_THROWS_WITH_AS(call(), doctest::Contains("number 6 of box "),
                               std::invalid_argument);
        });
      }
}

TEST_CASE("quantised postprocess_yolo: wanted classes, thresholds and groups of classes") {
  random_generator generator(500);
  std::uint64_t seed = 3000;
  index_t found = 0;
  for (auto params : all_models()) {
    for (int k = 0; k < 12; ++k) {
      for (const index_t classes : {1, 9, 40}) {
        const class_lists lists(0, classes, generator);
        lists.give(params);
        params.suppress = true;
        params.multi_label = generator.chance(0.4);
        params.max_candidates = generator.chance(0.3) ? 40 : 30000;
        params.extras = generator.chance(0.5) ? 0 : postprocess_yolo_params::unknown_extras;
        found +=
            check_both(params, {2, 400, classes}, generator.chance(0.3) ? 30 : 0, 0.1, seed += 2);
      }
    }
    params.classes = {};
    params.class_thresholds = {};
    params.class_groups = {};
  }
  CHECK(found > 10000);
}

TEST_CASE("quantised postprocess_yolo: products of tiny numbers may be equal") {
  auto params = postprocess_yolo_params::v5();
  params.extras = 0;
  params.score_threshold = 0;
  for (const float scale : {0x1p-126f, 0x1p-80f, 0x1p-75f, 0x1p-70f}) {
    random_generator generator(7);
    quantised_tensor<std::uint8_t> tensor(90, 4 + 1 + 20, scale, 0, 0, 0);
    tensor.fill_at_random(generator, 0.5);
    for (const bool is_multi : {false, true}) {
      params.multi_label = is_multi;
      postprocess_workspace workspace, other_workspace;
      check_same(
          [&](threading policy) {
            return postprocess_yolo(quantised_yolo_outputs<std::uint8_t>{tensor.quantised()}, {},
                                    params, workspace, policy);
          },
          [&] {
            return postprocess_yolo(yolo_outputs<float>{tensor.dequantised()}, {}, params,
                                    other_workspace);
          });
    }
  }
}

TEST_CASE("quantised filter_topk: a threshold at and between the numbers of all integers") {
  random_generator generator(11);
  for (int round = 0; round < 40; ++round) {
    const auto scale =
        static_cast<float>(round == 0 ? 1.0 / 255 : std::exp(generator.uniform(-8, 0)) / 40);
    quantised_tensor<std::int8_t> logits(16, 16, scale,
                                         static_cast<int>(generator.below(256)) - 128, 0, 0);
    index_t next = 0;
    logits.fill([&](index_t, index_t) { return next++ * 37 % 256; });
    for (int k = 0; k < 30; ++k) {
      const auto at = static_cast<std::size_t>(generator.below(256));
      const double x = static_cast<double>(logits.floats[at]);
      const float above = std::nextafter(logits.floats[at], 9.0f);
      for (const double near : {x, (x + static_cast<double>(above)) / 2}) {
        if (near >= 0 && near <= 1) check_topk(logits, near, 1000, score_kind::probabilities);
        const double score = 1 / (1 + std::exp(-near));
        check_topk(logits, score, 1000);
        check_topk(logits, std::nextafter(score, 0), 1000);
      }
    }
  }
}

TEST_CASE("quantised filter_topk: shapes, limits and ties") {
  random_generator generator(12);
  index_t found = 0;
  for (const index_t rows : {0, 1, 2, 9, 300, 5000})
    for (const index_t cols : {1, 7, 63, 64, 65, 91, 512, 577})
      for (const index_t k : {0, 1, 60, 3000}) {
        if (rows * cols > 400000) continue;
        const int zero = static_cast<int>(generator.below(256));
        quantised_tensor<std::uint8_t> u8(rows, cols, 0.05f, zero, generator.below(2) * 3,
                                          generator.below(70));
        u8.fill_at_random(generator, generator.chance(0.5) ? 0.01 : 0.9);
        quantised_tensor<std::int8_t> i8(rows, cols, 0.05f, zero - 128, generator.below(2) * 3,
                                         generator.below(70));
        i8.fill_at_random(generator, generator.chance(0.5) ? 0.01 : 0.9);
        for (const double threshold : {0.0, 0.05, 0.5, 0.99, 1.0}) {
          found += check_topk(u8, threshold, k) + check_topk(i8, threshold, k);
          found += check_topk(u8, threshold, k, score_kind::probabilities);
        }
      }
  CHECK(found > 100000);
  // All are equal, at either end of the range.
  for (const int all : {0, 255})
    for (const index_t k : {1, 500}) {
      quantised_tensor<std::uint8_t> same(3000, 80, 0.01f, 100, 0, 0);
      same.fill([&](index_t, index_t) { return all; });
      CHECK(check_topk(same, 0, k) > 0);
    }
}

TEST_CASE("quantised postprocess_detr: softmax and sigmoid, with and without options") {
  random_generator generator(13);
  index_t found = 0;
  for (auto params : {postprocess_detr_params::detr(), postprocess_detr_params::rt_detr()}) {
    for (int round = 0; round < 150; ++round) {
      const index_t images = 1 + generator.below(3), classes = 1 + generator.below(92);
      const index_t queries = round == 0 ? 0 : 1 + generator.below(300);
      params.score_threshold = round < 6               ? 0.2 * round
                               : generator.chance(0.5) ? generator.uniform()
                                                       : 0.3;
      params.max_detections = generator.chance(0.5) ? 300 : generator.below(20);
      class_lists lists;
      if (classes > 2 && generator.chance(0.5))
        lists = class_lists(0, classes - (params.softmax ? 1 : 0), generator);
      lists.give_limits(params);
      quantised_tensor<std::int8_t> logits(
          images * queries, classes, static_cast<float>(generator.uniform(0.01, 0.2)),
          static_cast<int>(generator.below(256)) - 128, generator.below(3), generator.below(9));
      const index_t most = 1 + generator.below(255);
      const bool has_background = generator.chance(0.7);
      logits.fill([&](index_t, index_t j) {
        return has_background && j == classes - 1 ? 127 - generator.below(60)
                                                  : generator.below(most) - 128;
      });
      quantised_tensor<std::int8_t> boxes(images * queries, 4, fraction, -128, generator.below(2),
                                          0);
      boxes.fill_at_random(generator, 1);
      std::vector<float> packed;
      for (index_t i = 0; i < images * queries; ++i)
        for (int k = 0; k < 4; ++k) packed.push_back(boxes.dequantised()(i, k));
      const std::vector<image_size> sizes(static_cast<std::size_t>(images),
                                          image_size::height_width(480, 600));
      postprocess_workspace workspace, other_workspace;
      const vector_view<const image_size> all_sizes(sizes);
      const auto expected = [&] {
        return postprocess_detr(detr_outputs<float>{logits.dequantised(), packed}, all_sizes,
                                params, other_workspace);
      };
      found += check_same(
          [&](threading policy) {
            return postprocess_detr(
                quantised_detr_outputs<std::int8_t>{logits.quantised(), boxes.quantised()},
                all_sizes, params, workspace, policy);
          },
          expected);
      check_same(
          [&](threading policy) {
            return postprocess_detr(quantised_detr_outputs{logits.quantised(), boxes.dequantised()},
                                    all_sizes, params, workspace, policy);
          },
          expected);
    }
  }
  CHECK(found > 10000);
}

TEST_CASE(
    "quantised postprocess_yolo: an objectness or a score above 1 behind a probable product") {
  auto params = postprocess_yolo_params::v5();
  // Numbers of 0.6 and 1.2: the objectness is too great in the first box, a score in the second.
  const std::vector<std::uint8_t> stored[] = {{9, 9, 9, 9, 120, 60, 20}, {9, 9, 9, 9, 60, 20, 120}};
  for (const auto& box : stored)
    for (const bool is_multi : {false, true}) {
      params.multi_label = is_multi;
      postprocess_workspace workspace;
      const quantised_matrix<std::uint8_t> numbers({box.data(), 1, 7}, 0.01, 0);
      for_each_isa([&](isa) {
        CHECK_THROWS_WITH_AS(
            postprocess_yolo(quantised_yolo_outputs{numbers}, {}, params, workspace),
            doctest::Contains("of box 0 of image 0 of outputs.boxes_and_scores is 1.1999"),
            std::invalid_argument);
      });
    }
}

TEST_CASE("quantised postprocess_detr: softmax at and beside a score of every difference") {
  quantised_tensor<std::uint8_t> logits(1, 2, 0.05f, 0, 0, 0), boxes(1, 4, fraction, 0, 0, 0);
  boxes.fill([](index_t, index_t) { return 100; });
  std::vector<float> packed(boxes.floats.begin(), boxes.floats.end());
  const std::vector<image_size> sizes(1, image_size::height_width(480, 600));
  const vector_view<const image_size> all_sizes(sizes);
  postprocess_workspace workspace, other_workspace;
  auto params = postprocess_detr_params::detr();
  index_t found = 0;
  for (int difference = -255; difference <= 255; ++difference) {
    logits.fill([&](index_t, index_t j) {
      return j == 0 ? std::max(difference, 0) : std::max(-difference, 0);
    });
    const auto expected = [&] {
      return postprocess_detr(detr_outputs<float>{logits.dequantised(), packed}, all_sizes, params,
                              other_workspace);
    };
    params.score_threshold = 0;
    const auto score = static_cast<double>(expected().scores[0]);
    for (const double threshold : {score, std::nextafter(score, 0), 0.99 * score}) {
      params.score_threshold = static_cast<double>(
          std::nextafter(static_cast<float>(threshold), threshold < score ? 0.0f : 1.0f));
      found += check_same(
          [&](threading policy) {
            return postprocess_detr(quantised_detr_outputs{logits.quantised(), boxes.quantised()},
                                    all_sizes, params, workspace, policy);
          },
          expected);
    }
  }
  CHECK(found > 4000);
}

TEST_CASE("quantised postprocess_detr: thresholds of classes where threads share the queries") {
  random_generator generator(15);
  const index_t queries = 2500, classes = 91;
  quantised_tensor<std::int8_t> logits(queries, classes, 0.05f, 10, 0, 0),
      boxes(queries, 4, fraction, -128, 0, 0);
  logits.fill_at_random(generator, 0.02);
  boxes.fill_at_random(generator, 1);
  const std::vector<float> packed(boxes.floats.begin(), boxes.floats.end());
  std::vector<double> thresholds;
  for (index_t c = 0; c < classes; ++c) thresholds.push_back(0.2 + 0.008 * static_cast<double>(c));
  auto params = postprocess_detr_params::rt_detr();
  params.class_thresholds = thresholds;
  params.max_detections = 100000;
  const std::vector<image_size> sizes(1, image_size::height_width(480, 600));
  const vector_view<const image_size> all_sizes(sizes);
  postprocess_workspace workspace, other_workspace;
  CHECK(check_same(
            [&](threading policy) {
              return postprocess_detr(quantised_detr_outputs{logits.quantised(), boxes.quantised()},
                                      all_sizes, params, workspace, policy);
            },
            [&] {
              return postprocess_detr(detr_outputs<float>{logits.dequantised(), packed}, all_sizes,
                                      params, other_workspace);
            }) > 1000);
}

TEST_CASE("quantised_matrix: numbers and errors") {
  const std::vector<std::int8_t> stored{-128, -1, 0, 127};
  const matrix_view<const std::int8_t> view(stored.data(), 2, 2);
  const quantised_matrix matrix(view, 0.1f, -1);
  CHECK(matrix(0, 0) == -127.0f * 0.1f);
  CHECK(matrix(0, 1) == 0.0f);
  CHECK(!std::signbit(matrix(0, 1)));
  CHECK(matrix(1, 1) == 128.0f * 0.1f);
  CHECK(quantised_matrix<std::int8_t>(view, 0x1p-126, 0).scale() == 0x1p-126f);
  CHECK(quantised_matrix<std::int8_t>(view, 0x1p120f, 0).scale() == 0x1p120f);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double scale : {0.0, -0.5, std::nan(""), infinity, -infinity, 1e-39, 1e37, 1e300})
    CHECK_THROWS_WITH_AS((quantised_matrix<std::int8_t>{view, scale, 0}),
                         doctest::Contains("expected a positive number from 2^-126 to 2^120"),
                         std::invalid_argument);
  for (const index_t zero : {index_t{-129}, index_t{128}, index_t{1} << 32})
    CHECK_THROWS_WITH_AS((quantised_matrix<std::int8_t>{view, 0.1, zero}),
                         doctest::Contains("expected -128 to 127, because the numbers are int8"),
                         std::invalid_argument);
  const std::vector<std::uint8_t> unsigned_bytes(4);
  for (const index_t zero : {-1, 256})
    CHECK_THROWS_WITH_AS((quantised_matrix<std::uint8_t>{{unsigned_bytes.data(), 2, 2}, 0.1, zero}),
                         doctest::Contains("expected 0 to 255, because the numbers are uint8"),
                         std::invalid_argument);
}

TEST_CASE("quantised_matrix: zero points of every type of integers") {
  const std::vector<std::int8_t> stored(4);
  const matrix_view<const std::int8_t> view(stored.data(), 2, 2);
  const auto throws = [&](auto zero, const char* message) {
    CHECK_THROWS_WITH_AS((quantised_matrix<std::int8_t>{view, 0.1, zero}),
                         doctest::Contains(message), std::invalid_argument);
  };
  throws(~std::uint64_t{0}, "zero_point is 18446744073709551615, expected -128 to 127");
  throws(std::uint64_t{0} - 128, "zero_point is 18446744073709551488, expected -128 to 127");
  throws(std::uint8_t{200}, "zero_point is 200, expected -128 to 127");
  CHECK(quantised_matrix<std::int8_t>(view, 0.1, std::int8_t{-128}).zero_point() == -128);
  CHECK(quantised_matrix<std::int8_t>(view, 0.1, std::uint64_t{127}).zero_point() == 127);
}

TEST_CASE("quantised postprocess_yolo: scores and classes as floats beside quantised boxes") {
  random_generator generator(17);
  auto params = postprocess_yolo_params::v10();
  quantised_tensor<std::uint8_t> boxes(90, 4, 2.5f, 3, 1, 5);
  boxes.fill_at_random(generator, 1);
  std::vector<float> scores(90 * 2), joint(90 * 6);
  for (index_t i = 0; i < 90; ++i) {
    scores[static_cast<std::size_t>(2 * i)] = static_cast<float>(generator.uniform());
    scores[static_cast<std::size_t>(2 * i + 1)] = static_cast<float>(generator.below(80));
    for (index_t k = 0; k < 6; ++k)
      joint[static_cast<std::size_t>(6 * i + k)] =
          k < 4 ? boxes.dequantised()(i, k) : scores[static_cast<std::size_t>(2 * i + k - 4)];
  }
  postprocess_workspace workspace, other_workspace;
  const auto transforms = transforms_of(2);
  CHECK(check_same(
            [&](threading policy) {
              return postprocess_yolo(
                  separate_yolo_outputs{boxes.quantised(),
                                        matrix_view<const float>(scores.data(), 90, 2), 2},
                  transforms, params, workspace, policy);
            },
            [&] {
              return postprocess_yolo(
                  yolo_outputs<float>{matrix_view<const float>(joint.data(), 90, 6), 2}, transforms,
                  params, other_workspace);
            }) > 50);
}

TEST_CASE("quantised postprocess_yolo: rotated boxes") {
  // Angles share the scale of the scores, in [0, 1].
  auto params = postprocess_yolo_params::v8_obb();
  std::uint64_t seed = 5000;
  index_t found = 0;
  for (const auto results : {rotated_format::cxcywhr, rotated_format::xyxyxyxy}) {
    params.rotated_result_format = results;
    for (const index_t boxes : {1, 64, 300})
      for (const bool is_multi : {false, true}) {
        params.multi_label = is_multi;
        found += check_both(params, {2, boxes, 5}, 0, 0.1, seed += 2);
      }
  }
  CHECK(found > 1000);
}

TEST_CASE("quantised outputs: errors of shapes and parameters") {
  const std::vector<std::uint8_t> bytes(2000);
  const auto matrix = [&](index_t rows, index_t cols) {
    return quantised_matrix<std::uint8_t>({bytes.data(), rows, cols}, 0.01, 0);
  };
  postprocess_workspace workspace;
  const auto separate = [&](const quantised_matrix<std::uint8_t>& boxes,
                            const quantised_matrix<std::uint8_t>& scores, index_t images,
                            postprocess_yolo_params params) {
    return postprocess_yolo(
        separate_yolo_outputs<quantised_matrix<std::uint8_t>>{boxes, scores, images}, {}, params,
        workspace);
  };
  const auto channels = postprocess_yolo_params::v8();
  auto rows = postprocess_yolo_params::v8();
  rows.layout = yolo_layout::rows;
  CHECK(separate(matrix(8, 30), matrix(6, 30), 2, channels).offsets.size() == 3);
  CHECK(separate(matrix(60, 4), matrix(60, 3), 2, rows).offsets.size() == 3);
  const auto throws = [](const auto& call, const char* message) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), std::invalid_argument);
  };
  throws([&] { return separate(matrix(7, 30), matrix(6, 30), 2, channels); },
         "postprocess_yolo: outputs.boxes.rows() is 7, expected 4 per image");
  throws([&] { return separate(matrix(8, 29), matrix(6, 30), 2, channels); },
         "outputs.boxes.cols() is 29, expected 30, the columns of outputs.scores");
  throws([&] { return separate(matrix(59, 4), matrix(60, 3), 2, rows); },
         "outputs.boxes.rows() is 59, expected the rows of outputs.scores");
  throws([&] { return separate(matrix(60, 5), matrix(60, 3), 2, rows); },
         "outputs.boxes.cols() is 5, expected 4, the coordinates of a box");
  throws([&] { return separate(matrix(8, 30), matrix(7, 30), 2, channels); },
         "outputs.scores.rows() is 7, expected the numbers of a box times the number of images");
  throws([&] { return separate(matrix(60, 4), matrix(60, 1), 2, postprocess_yolo_params::v5()); },
         "the numbers of a box in outputs.boxes and scores is 5, expected 4, 1 for the objectness");
  throws(
      [&] { return separate(matrix(60, 4), matrix(60, 2), 2, postprocess_yolo_params::v10()); },
      "postprocess_yolo: outputs.scores is quantised, expected floats: models with a class index "
      "per box give it as a float tensor");
  throws(
      [&] {
        return postprocess_yolo(quantised_yolo_outputs{matrix(60, 7)}, {},
                                postprocess_yolo_params::v26_obb(), workspace);
      },
      "postprocess_yolo: outputs.boxes_and_scores is quantised, expected floats: models with a "
      "class index");
  const std::vector<float> floats(180);
  throws(
      [&] {
        return postprocess_yolo(
            separate_yolo_outputs{matrix(60, 4), matrix_view<const float>(floats.data(), 60, 3)},
            {}, postprocess_yolo_params::v10(), workspace);
      },
      "the numbers of a box in outputs.boxes and scores is 7, expected 6 if rotated boxes");
  throws(
      [&] {
        return postprocess_yolo(quantised_yolo_outputs{matrix(4, 10)}, {}, channels, workspace);
      },
      "outputs.boxes_and_scores.rows() / outputs.images is 4, expected 4, 1 for the objectness");
  const std::vector<image_size> sizes(1, image_size::height_width(480, 600));
  const auto detr = [&](index_t boxes, index_t cols) {
    return postprocess_detr(
        quantised_detr_outputs<std::uint8_t>{matrix(10, 5), matrix(boxes, cols)},
        vector_view<const image_size>(sizes), postprocess_detr_params::rt_detr(), workspace);
  };
  CHECK(detr(10, 4).offsets.size() == 2);
  throws([&] { return detr(9, 4); },
         "postprocess_detr: outputs.boxes.rows() is 9, expected the rows of the logits");
  throws([&] { return detr(10, 5); },
         "outputs.boxes.cols() is 5, expected 4, the numbers of a box");
  filter_topk_workspace topk_workspace;
  throws([&] { return filter_topk(matrix(3, 4), 1.5, 9, topk_workspace); },
         "filter_topk: score_threshold is 1.5, expected a number in [0, 1]");
  throws([&] { return filter_topk(matrix(3, 4), 0.5, -1, topk_workspace); },
         "filter_topk: k is -1, expected 0 or more");
}
