// SPDX-License-Identifier: Apache-2.0
// One image_size for all images gives what a list of equal sizes gives, in every function that
// takes either; a head's single level is like a list of one level.
#include "support/box_tensor.hpp"
#include "support/head_tensor.hpp"
#include "support/refusals.hpp"
#include <vecdet/box_coding.hpp>
#include <vecdet/box_head.hpp>
#include <vecdet/postprocess.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

const image_size image = image_size::height_width(30, 40);
const std::vector<image_size> three(3, image);

struct copied_detections {
  std::vector<float> boxes, scores;
  std::vector<index_t> labels, offsets;
  copied_detections(const detections_view& from)
      : boxes(from.boxes.data(), from.boxes.data() + 4 * from.boxes.size()),
        scores(from.scores.begin(), from.scores.end()),
        labels(from.labels.begin(), from.labels.end()),
        offsets(from.offsets.begin(), from.offsets.end()) {}
  bool operator==(const copied_detections& other) const {
    return boxes == other.boxes && scores == other.scores && labels == other.labels &&
           offsets == other.offsets;
  }
};

/// The heads of one level with two anchors per location, for three images.
struct one_level {
  head_tensor<float> logits{head_layout::nchw, 3, 2, 5, {{4, 6}}},
      deltas{head_layout::nchw, 3, 2, 4, {{4, 6}}};
  std::vector<float> anchors = random_boxes<float>(48, 3, 50), rows, boxes;

  one_level() {
    random_generator generator(7);
    logits.for_each(
        [&](float& x, index_t, index_t) { x = static_cast<float>(generator.normal()); });
    deltas.for_each(
        [&](float& x, index_t, index_t) { x = static_cast<float>(generator.normal()); });
    rows = logits.flat();
    boxes = deltas.flat();
  }
  head_outputs<float> flat() const { return {{rows.data(), rows.size() / 5, 5}, boxes, {}}; }
};

}  // namespace

TEST_CASE("image sizes: one for all is like a list") {
  const one_level heads;
  postprocess_workspace workspace;
  const auto flat = [&](const image_sizes_view& sizes) {
    return copied_detections(postprocess(heads.flat(), heads.anchors, {}, sizes, {}, workspace));
  };
  const auto levels = [&](const image_sizes_view& sizes) {
    return copied_detections(postprocess(
        head_level_outputs<float>{heads.logits.const_view(), heads.deltas.const_view(), {}},
        heads.anchors, sizes, {}, workspace));
  };
  REQUIRE(flat(three).boxes.size() > 40);
  CHECK(flat(image) == flat(three));
  CHECK(levels(image) == levels(three));
  CHECK(levels(image) == flat(image));
  CHECK(flat(image).offsets.size() == 4);

  const std::vector<float> proposals = random_boxes<float>(12, 8, 50);
  const std::vector<index_t> offsets{0, 5, 5, 12};
  std::vector<float> class_deltas(heads.boxes.begin(), heads.boxes.begin() + 4 * 12 * 5);
  const auto box_head = [&](const image_sizes_view& sizes) {
    return copied_detections(
        postprocess_box_head(box_head_outputs<float>{{heads.rows.data(), 12, 5}, class_deltas},
                             proposals, offsets, sizes, {}, workspace));
  };
  REQUIRE(box_head(three).boxes.size() > 20);
  CHECK(box_head(image) == box_head(three));

  const auto decoded = [&](bool distances, const image_sizes_view& sizes) {
    std::vector<float> out(heads.boxes.size());
    if (distances)
      decode_distances(heads.deltas.const_view(), heads.anchors, sizes, out);
    else
      decode_boxes(heads.deltas.const_view(), heads.anchors, sizes, out);
    return out;
  };
  for (const bool distances : {false, true}) {
    CHECK(decoded(distances, image) == decoded(distances, three));
    CHECK(decoded(distances, image) != decoded(distances, {}));
  }
}

TEST_CASE("image sizes: errors") {
  const one_level heads;
  postprocess_workspace workspace;
  const auto fails = refusals();
  const image_size empty = image_size::height_width(30, 0),
                   negative = image_size::height_width(30, -1);
  head_outputs<float> outputs = heads.flat();
  fails("image_sizes is 0, expected a finite float above 0",
        [&] { postprocess(outputs, heads.anchors, {}, empty, {}, workspace); });
  outputs.logits = {heads.rows.data(), heads.rows.size() / 5 - 1, 5};
  fails("outputs.logits.rows() is 143, expected 2 x 48, images x anchors",
        [&] { postprocess(outputs, heads.anchors, {}, image, {}, workspace); });
  std::vector<float> out(heads.boxes.size());
  fails("decode_boxes: image.width is -1, expected a finite float, 0 or more",
        [&] { decode_boxes(heads.deltas.const_view(), heads.anchors, negative, out); });
  fails("image_offsets.size() is 0, expected 1, the number of images + 1",
        [&] { postprocess_box_head(box_head_outputs<float>{}, {}, {}, image, {}, workspace); });
}

TEST_CASE("levels: a single level by value") {
  one_level heads;
  const auto view = [&](auto* data) {
    using T = std::remove_pointer_t<decltype(data)>;
    return head_view<T>({data, 4, 6}, 3, 2, 5, head_layout::nchw);
  };
  const head_view<const float> logits = view(std::as_const(heads.logits.data[0]).data());
  head_view<const float> copy;
  copy = logits;
  CHECK(copy.levels().data() != logits.levels().data());  // each has its own level
  CHECK(copy.levels()[0].data == heads.logits.data[0].data());
  CHECK(copy.anchors_per_image() == 48);
  CHECK(copy.size() == 720);
  const head_level<const float> named{heads.deltas.data[0].data(), 4, 6};
  const head_view deltas(named, 3, 2, 4, head_layout::nchw);
  postprocess_workspace workspace, other;
  const auto found =
      postprocess(head_level_outputs<float>{copy, deltas, {}}, heads.anchors, image, {}, workspace);
  const auto expected = postprocess(
      head_level_outputs<float>{heads.logits.const_view(), heads.deltas.const_view(), {}},
      heads.anchors, image, {}, other);
  CHECK(copied_detections(found) == copied_detections(expected));
  // Some of a location's channels, as from one convolution for both heads.
  const head_view<float> some({heads.logits.data[0].data() + 24, 4, 6}, 3, 2, 4, head_layout::nchw,
                              5);
  CHECK(some.classes() == 4);
  CHECK(some.channels() == 5);
  const auto fails = refusals();
  float x = 0;
  fails("head_view: levels[0] is -1 x 3", [&] {
    head_view<float>({&x, -1, 3}, 1, 1, 1, head_layout::nchw);
  });
  fails("head_view: levels[0] is null, expected memory of all elements", [] {
    head_view<float>(head_level<float>{nullptr, 1, 3}, 1, 1, 1, head_layout::nchw);
  });
  fails("head_view: channels is 1", [&] {
    head_view<float>({&x, 1, 1}, 1, 1, 2, head_layout::nchw, 1);
  });
}
