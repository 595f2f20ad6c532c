// SPDX-License-Identifier: Apache-2.0
// No call reads or writes outside its arrays or changes its inputs, and results do not depend on
// where the arrays are: every call of the catalogue on every instruction set, at lengths around the
// vector and block widths, with arrays that end at an inaccessible page, that start after one, and
// at every misalignment.
#include "calls/catalogue.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/placed_memory.hpp"
#include "support/sanitizer.hpp"
#include "support/values.hpp"
#include <vecdet/vecdet.hpp>

#include <csignal>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr threading sequential = threading::sequential;

/// The results of all calls of a family. Their inputs must not change.
std::vector<results> results_at(placed_memory& at, placement place, const family& f,
                                const problem& p) {
  at.place = place;
  at.release();
  const call_set set = f.make(at, p);
  std::vector<results> all;
  for (const call& c : set.calls) {
    CAPTURE(c.name);
    const std::vector<std::string> inputs = c.arrays.copied_inputs();
    all.push_back(c.results_of(sequential));
    CHECK(c.arrays.copied_inputs() == inputs);
  }
  return all;
}

void check_beside_inaccessible_pages(const family& f, const shape& s) {
  placed_memory at;
  INFO(f.name, " ", f.type, " ", profile::shape_text(s));
  for_each_isa([&](isa) {
    const problem p{s, source::special};
    const auto aligned = results_at(at, {placement::offset, 0}, f, p);
    CHECK(results_at(at, {placement::ends_at_guard}, f, p) == aligned);
    CHECK(results_at(at, {placement::starts_at_guard}, f, p) == aligned);
  });
}

/// At every distance from an aligned address in steps of the element.
void check_misaligned(const family& f, const shape& s) {
  placed_memory at;
  INFO(f.name, " ", f.type, " ", profile::shape_text(s));
  for_each_isa([&](isa) {
    const problem p{s, source::special};
    const index_t step = f.type == "f64" ? 8 : f.type == "bf16" ? 2 : 4;
    const auto aligned = results_at(at, {placement::offset, 0}, f, p);
    for (index_t offset = step; offset < 64; offset += step) {
      CAPTURE(offset);
      CHECK(results_at(at, {placement::offset, offset}, f, p) == aligned);
    }
  });
}

/// Element counts around the lanes of a batch, of a row and of a block.
constexpr index_t lengths[] = {1,   2,   3,   4,   5,   7,   8,   9,   15,  16,  17, 23,
                               31,  32,  33,  47,  63,  64,  65,  80,  91,  95,  96, 97,
                               112, 126, 127, 128, 129, 130, 255, 256, 257, 383, 385};

}  // namespace

TEST_CASE("memory: a guard page traps") {
  // The tests below depend on this.
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

TEST_CASE("memory: arrays beside inaccessible pages") {
  // Sanitizers take several times as long.
  const std::size_t step = under_sanitizer ? 4 : full_tests() ? 1 : 3;
  for (std::size_t k = 0; k < std::size(lengths); k += step)
    for (const family& f : catalogue())
      for (const shape& s : f.sweep(lengths[k])) check_beside_inaccessible_pages(f, s);
}

TEST_CASE("memory: enough boxes for NMS to build its index") {
  for (const family& f : catalogue())
    if (f.name == "nms" && f.type == "f32")
      for (const index_t boxes : {2600, 2601, 4097}) check_beside_inaccessible_pages(f, {boxes});
}

TEST_CASE("memory: misaligned arrays") {
  for (const family& f : catalogue())
    for (const shape& s : f.sweep(91)) check_misaligned(f, s);
}

TEST_CASE("memory: weights that are empty are not read, wherever they point") {
  placed_memory memory;
  memory.place = {placement::ends_at_guard};
  const vector_view<const float> none(memory.make<float>(0), 0);  // at the inaccessible page
  const index_t rows = 37;
  const auto labels = random_labels(rows, 4, 1);
  const auto a = random_boxes<float>(rows, 2), b = random_boxes<float>(rows, 3);
  const boxes_view<const float> boxes(a);
  focal_loss_params focal;
  smooth_l1_params l1;
  iou_loss_params giou;
  regression_loss_params regression;
  focal.row_weights = l1.box_weights = giou.box_weights = regression.box_weights = none;
  for_each_isa([&](isa) {
    const matrix_view<const float> logits(a.data(), rows, 4);
    CHECK(sigmoid_focal_loss(logits, labels, focal) == sigmoid_focal_loss(logits, labels));
    CHECK(smooth_l1_loss(boxes, b, labels, l1) == smooth_l1_loss(boxes, b, labels));
    CHECK(smooth_l1_loss(boxes, b, box_selection::all(), l1) ==
          smooth_l1_loss(boxes, b, box_selection::all()));
    CHECK(iou_loss(boxes, b, iou_kind::giou, giou) == iou_loss(boxes, b, iou_kind::giou));
    CHECK(regression_loss(boxes, a, b, labels, regression) == regression_loss(boxes, a, b, labels));
  });
}
