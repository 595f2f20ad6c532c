// SPDX-License-Identifier: Apache-2.0
// Outputs in the memory of an input: where that is allowed, the results are bit-identical; where it
// is not, the call throws std::invalid_argument and changes nothing.
#include "calls/catalogue.hpp"
#include "support/box_tensor.hpp"
#include "support/isa.hpp"
#include "support/paths.hpp"
#include "support/refusals.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

/// call(in, out) gives the same bits if both are the same memory, every time.
template <class Call>
void check_in_place(const char* what, const std::vector<float>& from, const Call& call) {
  CAPTURE(what);
  std::vector<float> other(from.size());
  call(from.data(), other.data());
  for (int i = 0; i < 5; ++i) {
    std::vector<float> same = from;
    call(same.data(), same.data());
    CHECK(same_bits(same, other));
  }
}

/// Leaves room on both sides of each array, for outputs that lie partly beside it.
class roomy_memory : public plain_memory {
 public:
  static constexpr std::size_t room = std::size_t{1} << 20;
  void* take(std::size_t bytes, std::size_t alignment) override {
    return static_cast<char*>(plain_memory::take(bytes + 2 * room, alignment)) + room;
  }
};

/// Places an output of a call in the memory of another array, `bytes` after its first byte, and
/// restores both. The output's bytes outside that array are 0xa5.
class shared_memory {
 public:
  shared_memory(placed_bytes& output, const placed_bytes& input, std::ptrdiff_t bytes)
      : output_(output),
        input_(input),
        address_(output.address),
        held_(static_cast<const char*>(input.address), input.bytes) {
    output.address = static_cast<char*>(input.address) + bytes;
    std::memset(output.address, 0xa5, output.bytes);
    std::memcpy(input.address, held_.data(), held_.size());
  }
  ~shared_memory() {
    output_.address = address_;
    std::memcpy(input_.address, held_.data(), held_.size());
  }
  shared_memory(const shared_memory&) = delete;
  shared_memory& operator=(const shared_memory&) = delete;

 private:
  placed_bytes& output_;
  const placed_bytes& input_;
  void* address_;
  std::string held_;
};

/// What the error of a call says about shared memory; empty if it has no such error.
struct refusal {
  std::string output, other, text;
  bool may_be_same = false;
};

refusal refusal_of(const call& c) {
  try {
    c.run(threading::sequential);
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    std::smatch parts;
    const std::regex expected("vecdet::" + c.function +
                              ": (.+) is in the memory of ((?:another level of )?(.+)), "
                              "expected separate memory( or exactly the same)?");
    if (std::regex_match(text, parts, expected)) {
      return {parts[1].str(), parts[3].str(),
              c.function + ": " + parts[1].str() + " / " + parts[2].str(), parts[4].matched};
    }
  }
  return {};
}

/// Places outputs of a call in the memory of its other arrays, and adds a line "function: output /
/// other array" per refused pair.
class overlaps {
 public:
  overlaps(const call& c, std::set<std::string>& refused) : call_(c), refused_(refused) {}

  /// Every overlap with an input or another output is refused, except exactly the same memory if
  /// that `is_allowed`.
  void check(placed_bytes& output, const placed_bytes& other, bool is_allowed) {
    const auto step = static_cast<std::ptrdiff_t>(output.element),
               other_bytes = static_cast<std::ptrdiff_t>(other.bytes),
               out_bytes = static_cast<std::ptrdiff_t>(output.bytes);
    if (other_bytes == 0 || out_bytes == 0) return;
    REQUIRE(output.bytes <= roomy_memory::room);
    const std::ptrdiff_t last = (other_bytes - 1) / step * step;
    std::set<std::ptrdiff_t> places{0, last, step - out_bytes};
    if (last > 0) places.insert(step);
    if (is_allowed) places.erase(0);
    for (const std::ptrdiff_t at : places) check_refused(output, other, at, is_allowed);
    // Neighbours share nothing.
    for (const std::ptrdiff_t beside : {last + step, -out_bytes}) {
      CAPTURE(beside);
      const shared_memory shared(output, other, beside);
      CHECK_NOTHROW(call_.run(threading::sequential));
    }
  }
  /// Each array has a name of its own in errors, except the levels of RoIAlign.
  void check_names() const {
    std::set<std::string> all;
    for (const auto& name : names_) all.insert(name.second);
    CHECK((all.size() == names_.size() || call_.function.rfind("multiscale", 0) == 0));
  }

 private:
  void check_refused(placed_bytes& output, const placed_bytes& other, std::ptrdiff_t at,
                     bool may_be_same) {
    CAPTURE(at);
    for (const accesses::output& out : call_.arrays.outputs)
      std::memset(out.array->address, 0xa5, out.array->bytes);
    const shared_memory shared(output, other, at);
    const std::vector<std::string> before = contents();
    refusal error = refusal_of(call_);
    CHECK(contents() == before);
    CHECK_MESSAGE(!error.text.empty(), "shared memory is not refused");
    if (error.text.empty()) return;
    CHECK(error.may_be_same == may_be_same);
    // The first two levels stand for all.
    static const std::regex other_level(R"(levels\(\)\[[2-9])");
    if (!std::regex_search(error.text, other_level)) refused_.insert(error.text);
    const auto known = names_.find(&output);
    if (known != names_.end() && known->second == error.other)
      std::swap(error.output, error.other);  // of two outputs, either may be named first
    CHECK(names_.emplace(&output, error.output).first->second == error.output);
    CHECK(names_.emplace(&other, error.other).first->second == error.other);
  }
  /// The bytes of all arrays.
  std::vector<std::string> contents() const {
    std::vector<std::string> all = call_.arrays.copied_inputs();
    for (const accesses::output& out : call_.arrays.outputs)
      all.emplace_back(static_cast<const char*>(out.array->address), out.array->bytes);
    return all;
  }

  const call& call_;
  std::set<std::string>& refused_;
  std::map<const placed_bytes*, std::string> names_;
};

/// The elements of `a` that are not in `b`, one per line.
std::string only_in(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::string lines;
  for (const std::string& each : a)
    if (b.count(each) == 0) lines += each + '\n';
  return lines;
}

}  // namespace

TEST_CASE("in place: outputs that may overwrite inputs hold the same bits") {
  constexpr int rounds = under_sanitizer ? 1 : 3;
  int overwritten = 0;
  const auto check = [&](const family& f, const call& c) {
    const accesses& arrays = c.arrays;
    if (arrays.replaceable.empty()) return;
    INFO(f.type, " ", c.name);
    const results apart = c.results_of(threading::sequential);
    for (int i = 0; i < rounds; ++i) {
      std::deque<shared_memory> shared;
      for (std::size_t k = 0; k < arrays.replaceable.size(); ++k)
        shared.emplace_back(*arrays.outputs[k].array, *arrays.replaceable[k], 0);
      CHECK(c.results_in_place(threading::parallel) == apart);
      ++overwritten;
    }
  };
  for_each_isa([&](isa) {
    plain_memory at;
    for_each_call(at, 24000, source::ordinary, check);
    for (const index_t length : {1, 7, 8, 15, 16, 17, 31, 33, 300})
      for (const family& f : catalogue())
        for (const shape& s : f.sweep(length)) {
          CAPTURE(profile::shape_text(s));
          const call_set set = f.make(at, {s});
          for (const call& c : set.calls) check(f, c);
        }
  });
  CHECK(overwritten > 1500 * rounds);
}

// shared_memory.txt lists what is refused, as errors name it. VECDET_UPDATE=1 in the environment
// writes it.
TEST_CASE("in place: other outputs are refused if they share memory with an input or an output") {
  std::set<std::string> refused;
  for (const family& f : catalogue()) {
    roomy_memory at;
    const call_set set = f.make(at, {f.sized(40)});
    for (const call& c : set.calls) {
      const accesses& arrays = c.arrays;
      overlaps with(c, refused);
      for (std::size_t out = 0; out < arrays.outputs.size(); ++out) {
        INFO(f.type, " ", c.name, ", output ", out);
        placed_bytes& output = *arrays.outputs[out].array;
        for (std::size_t in = 0; in < arrays.inputs.size(); ++in) {
          INFO("input ", in);
          const placed_bytes* const input = arrays.inputs[in];
          with.check(output, *input,
                     out < arrays.replaceable.size() && arrays.replaceable[out] == input);
        }
        for (std::size_t other = 0; other < out; ++other) {
          INFO("output ", other);
          with.check(output, *arrays.outputs[other].array, false);
        }
      }
      INFO(f.type, " ", c.name);
      with.check_names();
    }
  }
  const std::string path = source_path("test/shared_memory.txt");
  if (std::getenv("VECDET_UPDATE") != nullptr) std::ofstream(path) << only_in(refused, {});
  std::ifstream file(path);
  std::set<std::string> listed;
  for (std::string line; std::getline(file, line);) listed.insert(line);
  CHECK_MESSAGE(only_in(refused, listed) == "", "not in shared_memory.txt");
  CHECK_MESSAGE(only_in(listed, refused) == "", "no longer refused");
}

TEST_CASE("in place: parts of arrays") {
  // The gap after the last row does not count as part of the rows.
  std::vector<float> memory(700, 1), boxes(400);
  const matrix_view<const float> rows(memory.data() + 1, 100, 5, 6);
  CHECK_NOTHROW(split_detections(rows, boxes, vector_view<float>(memory.data() + 600, 100)));

  constexpr index_t n = 100;
  std::vector<float> anchors(4 * n), out(4 * n);
  const auto planes = [](float* data) {
    return boxes_soa_view<float>(data, data + n, data + 2 * n, data + 3 * n, n);
  };
  const boxes_soa_view<float> one_shared(anchors.data() + 3 * n, out.data(), out.data() + n,
                                         out.data() + 2 * n, n);
  refusals(anchors)("encode_boxes: deltas is in the memory of anchors", [&] {
    encode_boxes(planes(boxes.data()), planes(anchors.data()), one_shared);
  });

  // A gradient may overwrite logits only if its rows have the same distance.
  const std::vector<index_t> labels(32, 0);
  refusals(memory)("grad is in the memory of logits", [&] {
    sigmoid_focal_loss_and_grad(matrix_view<const float>(memory.data(), 32, 4), labels,
                                matrix_view<float>(memory.data(), 32, 4, 7));
  });
}

TEST_CASE("in place: a head's gradients, also all in one tensor") {
  // Channels of one tensor: at each of 9 anchors 5 logits, and then 4 deltas.
  constexpr index_t images = 2, anchors = 9, channels = 9, height = 30, width = 40;
  constexpr index_t plane = height * width, size = images * anchors * channels * plane;
  const auto numbers = random_boxes<float>(size / 4, 9);
  const auto boxes = random_boxes<float>(anchors * plane, 8),
             truth_boxes = random_boxes<float>(6, 7);
  const anchor_index index{boxes_view<const float>(boxes)};
  const std::vector<index_t> classes{0, 1, 2, 3, 4, 0}, offsets{0, 4, 6};
  const ground_truth truth{truth_boxes, classes, offsets};
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    const index_t first_delta = 5 * (layout == head_layout::nhwc ? 1 : plane);
    retinanet_loss_workspace workspace;
    check_in_place("RetinaNet's loss", numbers, [&](const float* in, float* out) {
      const head_level<const float> logits{in, height, width};
      const head_level<const float> deltas{in + first_delta, height, width};
      const head_level<float> logits_grad{out, height, width};
      const head_level<float> deltas_grad{out + first_delta, height, width};
      const retinanet_head<float> head{{{&logits, 1}, images, anchors, 5, layout, channels},
                                       {{&deltas, 1}, images, anchors, 4, layout, channels},
                                       {{&logits_grad, 1}, images, anchors, 5, layout, channels},
                                       {{&deltas_grad, 1}, images, anchors, 4, layout, channels}};
      retinanet_loss_and_grad(head, index, truth, {}, workspace);
    });
  }
}

TEST_CASE("in place: levels are refused if they share memory with another level") {
  constexpr index_t anchors = 3, height = 4, width = 5, count = anchors * height * width;
  std::vector<float> memory(static_cast<std::size_t>(4 * 4 * count), 1.0f);
  const auto before = memory;
  const auto boxes = random_boxes<float>(count, 8);
  const std::vector<index_t> labels(static_cast<std::size_t>(count), 0);
  const auto fails = refusals(memory);
  const auto run = [&](index_t in_at, index_t out_at, head_layout layout, index_t channels) {
    return [&memory, &boxes, &labels, in_at, out_at, layout, channels] {
      const head_level<const float> in{memory.data() + in_at, height, width};
      const head_level<float> out{memory.data() + out_at, height, width};
      smooth_l1_loss_and_grad(head_view<const float>({&in, 1}, 1, anchors, 4, layout, channels),
                              boxes, labels,
                              head_view<float>({&out, 1}, 1, anchors, 4, layout, channels));
    };
  };
  const char* const message =
      "grad.levels()[0] is in the memory of predictions.levels()[0], expected separate memory";
  constexpr index_t plane = height * width;
  for (const head_layout layout : {head_layout::nhwc, head_layout::nchw}) {
    const index_t step = layout == head_layout::nhwc ? 1 : plane;
    fails(message, run(0, 1, layout, 4));
    fails(message, run(4 * count - 1, 0, layout, 4));
    // Of 9 channels, the four from 5 on are separate from the first four; the four from 3 on
    // overlap them, in the same and in the next anchor.
    fails(message, run(0, 3 * step, layout, 9));
    fails(message, run(0, 6 * step, layout, 9));
    fails(message, run(5 * step, 2 * step, layout, 9));
    fails(message, run(0, 9 * step, layout, 9));
    run(0, 5 * step, layout, 9)();
    run(5 * step, 0, layout, 9)();
    run(0, 4 * count, layout, 4)();
    memory = before;
  }
}
