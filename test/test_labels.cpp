// SPDX-License-Identifier: Apache-2.0
// Labels and ids of every integer type in the public functions, by value: -1 differs from
// 4294967295. label_types.cpp tests that a call reads what the caller last wrote.
#include "support/isa.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

#define VECDET_ID_TYPES                                                                         \
  std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, int, unsigned, long, unsigned long, \
      long long, unsigned long long

namespace {

/// Three boxes that overlap nothing, with descending scores.
const std::vector<float> apart{0, 0, 1, 1, 10, 10, 11, 11, 20, 20, 21, 21};
const std::vector<float> scores{0.9f, 0.8f, 0.7f};

std::vector<index_t> by_class(const nms_groups& groups) {
  nms_params params;
  params.order = nms_order::image_class_score;
  return batched_nms(boxes_view<const float>(apart), vector_view<const float>(scores), groups,
                     params);
}

}  // namespace

TEST_CASE_TEMPLATE("labels: NMS accepts ids of every type", Id, VECDET_ID_TYPES) {
  constexpr Id most = std::numeric_limits<Id>::max(), least = std::numeric_limits<Id>::min();
  for_each_isa([&](isa) {
    // Ids that are far apart, which are numbered by sorting, and ids that are close together, which
    // are not.
    for (const std::vector<Id>& ids :
         {std::vector<Id>{most, least, 5},
          std::vector<Id>{most, static_cast<Id>(most - 2), static_cast<Id>(most - 1)},
          std::vector<Id>{
              static_cast<Id>(most / 2 + 1 + (std::is_signed<Id>::value ? most / 4 : 0)), 5,
              static_cast<Id>(most / 2)}}) {
      nms_groups classes, images;
      classes.classes = ids;
      images.images = ids;
      const std::vector<index_t> expected{1, 2, 0};
      CHECK(by_class(classes) == expected);
      CHECK(by_class(images) == expected);
    }
    // All bits set: -1, or the maximum.
    const std::vector<Id> ones{static_cast<Id>(-1), 5, 6};
    const nms_groups classes{ones};
    CHECK(by_class(classes) == (std::is_signed<Id>::value ? std::vector<index_t>{0, 1, 2}
                                                          : std::vector<index_t>{1, 2, 0}));
  });
  if (sizeof(Id) == 4 && !std::is_signed<Id>::value) {
    const std::vector<Id> ids{static_cast<Id>(3000000000u), 5, 7};
    const nms_groups classes{ids};
    CHECK(by_class(classes) == std::vector<index_t>{1, 2, 0});
  }
}

TEST_CASE_TEMPLATE("labels: losses accept labels of every type", Label, VECDET_ID_TYPES) {
  constexpr bool is_signed = std::is_signed<Label>::value;
  const index_t rows = 200;
  const std::vector<float> logits(static_cast<std::size_t>(3 * rows), 0.5f);
  const matrix_view<const float> x(logits.data(), rows, 3);
  for_each_isa([&](isa) {
    std::vector<Label> labels(static_cast<std::size_t>(rows), 100);
    labels[3] = labels[130] = 2;
    const std::vector<std::int64_t> as_signed(labels.begin(), labels.end());
    focal_loss_params focal;
    focal.background = 100;
    CHECK(sigmoid_focal_loss(x, labels, focal) == sigmoid_focal_loss(x, as_signed, focal));
    CHECK(count_foreground(labels, 100) == 2);

    const auto boxes = random_boxes<float>(rows, 1), targets = random_boxes<float>(rows, 2);
    const boxes_view<const float> p(boxes), t(targets);
    CHECK(smooth_l1_loss(p, t, box_selection(labels, 100)) ==
          smooth_l1_loss(p, t, box_selection(as_signed, 100)));

    // A label with all bits set is background if the type is signed. Otherwise it is a large
    // number: no class, but selected.
    labels.assign(labels.size(), static_cast<Label>(-1));
    labels[70] = 1;
    if (is_signed) {
      CHECK_NOTHROW(sigmoid_focal_loss(x, labels));
    } else {
      const std::string value = sizeof(Label) == 8 ? "18446744073709551615" : "4294967295";
      const std::string start = "vecdet::sigmoid_focal_loss: labels[0] is " + value +
                                ", expected 0 to " + std::to_string(x.cols() - 1) + " (" +
                                std::to_string(x.cols()) + " classes), ";
      for (const index_t background : {index_t{-1}, std::numeric_limits<index_t>::max()}) {
        focal.background = background;
        const std::string message =
            start + std::to_string(background) + " or " + std::to_string(focal.ignore);
        CHECK_THROWS_WITH_AS(sigmoid_focal_loss(x, labels, focal), message.c_str(),
                             std::invalid_argument);
      }
    }
    const std::vector<index_t> one{70};
    CHECK(smooth_l1_loss(p, t, labels) ==
          (is_signed ? smooth_l1_loss(p, t, box_selection::list(one))
                     : smooth_l1_loss(p, t, box_selection(std::vector<int>(labels.size(), 5)))));
    CHECK(count_foreground(labels) == (is_signed ? 1 : rows));
  });
}
