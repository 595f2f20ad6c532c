// SPDX-License-Identifier: Apache-2.0
// Host code does not depend on the caller's floating-point flags. This program is compiled without
// such flags, with -ffast-math -march=native and with -ffp-contract=fast -march=native; it prints
// the bits of what host code computes from NaN, infinities and ordinary numbers, and the messages
// of the errors for NaN parameters. compare_digests.sh compares the outputs.
#include "support/available_isas.hpp"
#include <vecdet/vecdet.hpp>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

using namespace vecdet;

namespace {

const char* isa_now = "";

/// From bits: with -ffast-math, compilers assume that there is no NaN.
double nan_number() {
  const std::uint64_t bits = 0x7ff8000000000000;
  double number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}
const double nan = nan_number();

/// Numbers that are exact in float. If `has_special`, every eleventh is NaN, infinite or -infinite.
std::vector<float> numbers(index_t count, int modulus, bool has_special = false) {
  const std::uint32_t special[] = {0x7fc00000, 0x7f800000, 0xff800000};
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<float>((i * 37 + i / 7) % static_cast<std::size_t>(modulus));
    if (has_special && i % 11 == 3) std::memcpy(&all[i], &special[i / 11 % 3], sizeof(float));
  }
  return all;
}

class line {
 public:
  explicit line(const char* name) : name_(name) {}
  line(const line&) = delete;
  line& operator=(const line&) = delete;
  ~line() { std::printf("%s %s %016" PRIx64 "\n", isa_now, name_, hash_); }

  template <class View>
  void add(const View& numbers) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(numbers.size()); ++i)
      add_bytes(numbers.data()[i]);
  }
  template <class T>
  void add_bytes(const T& number) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &number, sizeof bytes);
    for (const unsigned char byte : bytes) hash_ = (hash_ ^ byte) * 0x100000001b3u;
  }

 private:
  const char* name_;
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

void merge() {
  line out("merge_boxes");
  for (const bool has_special : {false, true}) {
    std::vector<float> boxes = numbers(8000, 101, has_special);
    for (std::size_t i = 0; i < boxes.size(); ++i)
      if (i % 4 > 1) boxes[i] += 30;
    const std::vector<float> scores(2000, 0.5f);
    merge_workspace workspace;
    for (const merge_params& params :
         {merge_params::sahi_nmm(0.3), merge_params::sahi_greedy_nmm(0.3)}) {
      const auto merged = merge_boxes(boxes_view<const float>(boxes),
                                      vector_view<const float>(scores), {}, params, workspace);
      out.add(merged.members);
      out.add(merged.offsets);
      out.add(vector_view<const float>(merged.boxes.data(), 4 * merged.boxes.size()));
    }
  }
}

void postprocess() {
  line out("postprocess");
  const std::vector<float> rows = numbers(300 * 6, 100, true);
  std::vector<float> scaled(rows);
  for (std::size_t i = 4; i < scaled.size(); i += 6) scaled[i] /= 64;
  const std::vector<letterbox_transform> transforms{
      {0.3, 0.7, 1.1, 2.3, image_size::height_width(90, 110)}};
  postprocess_workspace workspace;
  yolo_outputs<float> outputs;
  outputs.boxes_and_scores = matrix_view<const float>(scaled.data(), 300, 6);
  postprocess_yolo_params yolo = postprocess_yolo_params::v10();
  yolo.extras = 0;  // the scores need not be probabilities
  const detections_view found = postprocess_yolo(outputs, transforms, yolo, workspace);
  out.add_bytes(found.scores.size());
  out.add(found.scores);
  out.add(vector_view<const float>(found.boxes.data(), 4 * found.boxes.size()));

  const std::vector<float> logits = numbers(200 * 9, 13, true), boxes = numbers(200 * 4, 7);
  detr_outputs<float> detr;
  detr.logits = matrix_view<const float>(logits.data(), 200, 9);
  detr.boxes = boxes_view<const float>(boxes);
  postprocess_detr_params params = postprocess_detr_params::detr();
  params.score_threshold = 0.1;
  const std::vector<image_size> sizes{image_size::height_width(33, 77)};
  const detections_view best = postprocess_detr(detr, sizes, params, workspace);
  out.add(best.scores);
  out.add(best.labels);
}

void padding() {
  line out("letterbox");
  std::vector<std::uint8_t> pixels(3 * 31 * 47);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  const std::vector<byte_image> images{{pixels.data(), 31, 47, 0}};
  std::vector<float> batch(3 * 64 * 64);
  letterbox_workspace workspace;
  letterbox_params params;
  params.scale = 1.0 / 255;
  const double mean[] = {0.4, 0.43, 0.46}, deviation[] = {0.2, 0.21, 0.22};
  for (int c = 0; c < 3; ++c) {
    params.mean[c] = mean[c];
    params.deviation[c] = deviation[c];
  }
  letterbox(images, vector_view<float>(batch), grid_size{64, 64}, params, workspace);
  out.add(batch);
}

void targets() {
  line out("anchors");
  const std::vector<grid_size> features{{38, 38}, {19, 19}, {10, 10}, {5, 5}, {3, 3}, {1, 1}};
  const ssd_shapes ssd;
  std::vector<float> boxes(static_cast<std::size_t>(4 * count_anchors(ssd, features)));
  make_anchors(ssd, {300, 300}, features, boxes);
  out.add(boxes);
  const std::vector<grid_size> levels{{12, 16}};
  std::vector<anchor_shapes> shapes(1);
  for (int i = 1; i < 40; ++i) {
    shapes[0].sizes.push_back(7.3 * i);
    shapes[0].ratios.push_back(0.13 * i);
  }
  std::vector<float> anchors(static_cast<std::size_t>(4 * count_anchors(shapes, levels)));
  make_anchors(shapes, {96, 128}, levels, anchors);
  out.add(anchors);
}

template <class Call>
void refused(const Call& call) {
  try {
    call();
    std::printf("%s accepted NaN\n", isa_now);
  } catch (const std::invalid_argument& error) {
    std::printf("%s %s\n", isa_now, error.what());
  }
}

void parameters() {
  const std::vector<float> boxes = numbers(40, 10), scores = numbers(10, 10);
  std::vector<float> out(40);
  const boxes_view<const float> in(boxes);
  const vector_view<const float> of(scores);
  const matrix_view<const float> logits(boxes.data(), 10, 4);
  const std::vector<int> labels(10, 0);
  refused([&] {
    merge_params params;
    params.match_threshold = nan;
    merge_workspace workspace;
    merge_boxes(in, of, {}, params, workspace);
  });
  refused([&] { nms(in, of, nan); });
  refused([&] {
    nms_params params;
    params.score_threshold = nan;
    nms(in, of, params);
  });
  refused([&] {
    soft_nms_params params;
    params.sigma = nan;
    soft_nms_workspace<> workspace;
    soft_nms(in, of, params, workspace);
  });
  refused([&] {
    focal_loss_params params;
    params.gamma = nan;
    sigmoid_focal_loss(logits, labels, params);
  });
  refused([&] {
    smooth_l1_params params;
    params.beta = nan;
    smooth_l1_loss(in, in, box_selection::all(), params);
  });
  refused([&] {
    iou_loss_params params;
    params.epsilon = nan;
    iou_loss(in, in, iou_kind::giou, params);
  });
  refused([&] {
    coder_params params;
    params.weight_w = nan;
    decode_boxes(boxes, in, boxes_view<float>(out), params);
  });
  refused([&] {
    coder_params params;
    params.size_limit = nan;
    decode_boxes(boxes, in, boxes_view<float>(out), params);
  });
  refused([&] { clip_boxes(in, image_size::height_width(nan, 1), boxes_view<float>(out)); });
  refused([&] {
    filter_topk_workspace workspace;
    filter_topk(logits, nan, 3, workspace);
  });
  refused([&] {
    postprocess_yolo_params params = postprocess_yolo_params::v10();
    params.score_threshold = nan;
    postprocess_workspace workspace;
    postprocess_yolo(yolo_outputs<float>(), {}, params, workspace);
  });
  refused([&] {
    const std::vector<letterbox_transform> transforms{
        {1, nan, 0, 0, image_size::height_width(9, 9)}};
    yolo_outputs<float> outputs;
    outputs.boxes_and_scores = matrix_view<const float>(boxes.data(), 6, 6);
    postprocess_workspace workspace;
    postprocess_yolo(outputs, transforms, postprocess_yolo_params::v10(), workspace);
  });
  refused([&] {
    letterbox_params params;
    params.deviation[1] = nan;
    letterbox_workspace workspace;
    letterbox({}, {}, {8, 8}, params, workspace);
  });
  refused([&] { make_points(grid_size{1, 5}, nan, vector_view<float>(out.data(), 10)); });
}

}  // namespace

int main() {
  std::printf("detected %s\n", isa_name(detected_isa()));
  vecdet::test::for_each_available_isa([](isa set) {
    isa_now = isa_name(set);
    merge();
    postprocess();
    padding();
    targets();
    parameters();
  });
}
