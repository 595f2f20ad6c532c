// SPDX-License-Identifier: Apache-2.0
// Primitives of oneDNN are rebuilt only from the log, never from stale memory.
#include "onednn_log.hpp"
#include "primitives.hpp"
#include "vecdet_convolutions.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>

#include <doctest/doctest.h>

namespace {

std::atomic<bool> new_memory_is_filled{false};

}  // namespace

// New memory looks like a descriptor of 13 GB: 3 dimensions, in the layout of Winograd's weights.
// Not inlined, because GCC would then warn of freed memory from operator new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  if (new_memory_is_filled)
    std::fill_n(static_cast<std::int32_t*>(memory), bytes / sizeof(std::int32_t), 3);
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace vecdet::profile;

TEST_CASE("primitives: post-operations without an operand have no memory") {
  if (!why_no_primitives().empty()) return;
  const onednn_line sum = parse_onednn_line(
      "onednn_verbose,exec,cpu,convolution,any,forward_training,src_f32::blocked:acdb:f0 "
      "wei_f32::blocked:abcd:f0 bia_f32::blocked:a:f0 dst_f32::blocked:acdb:f0,"
      "attr-post-ops:sum+eltwise_relu ,alg:convolution_direct,"
      "mb1_ic16oc32_ih12oh6kh3sh2dh0ph1_iw12ow6kw3sw2dw0pw1,1");
  const onednn_line product = parse_onednn_line(
      "onednn_verbose,exec,cpu,matmul,any,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
      "dst_f32::blocked:ab:f0,attr-post-ops:eltwise_gelu_erf+binary_mul:f32:1 "
      ",,20x32:32x12:20x12,1");
  for (const onednn_line* const line : {&sum, &product}) {
    REQUIRE(line->what == onednn_line::kind::execution);
    CAPTURE(line->problem.primitive);
    new_memory_is_filled = true;
    runnable_primitive made;
    std::string error;
    try {
      made = make_primitive(line->problem);
    } catch (const std::exception& e) {
      error = e.what();
    }
    new_memory_is_filled = false;
    CHECK(error == "");
    if (made.run) made.run();
  }
}

TEST_CASE("primitives: convolutions that vecdet computes, with their gradients") {
  const auto made_of = [](const char* shapes, const char* layout, const char* propagation) {
    onednn_problem problem;
    problem.primitive = "convolution";
    problem.propagation = propagation;
    problem.shapes = shapes;
    return make_vecdet_convolution(problem, layout);
  };
  constexpr const char* plain = "mb1_ic32oc32_ih40oh40kh3sh1dh0ph1_iw40ow40kw3sw1dw0pw1";
  constexpr const char* in_fours = "g8mb1_ic32oc32_ih7oh7kh3sh1dh0ph1_iw9ow9kw3sw1dw0pw1";
  constexpr const char* in_sixteens = "g2mb1_ic32oc32_ih7oh7kh3sh1dh0ph1_iw9ow9kw3sw1dw0pw1";
  constexpr const char* strided = "mb2_ic32oc48_ih7oh4kh3sh2dh0ph1_iw8ow4kw3sw2dw0pw1";
  for (const char* propagation : {"forward_training", "backward_data", "backward_weights"}) {
    for (const char* layout : {"nchw", "channels_last"}) {
      for (const char* shapes : {plain, in_fours, strided}) {
        CAPTURE(shapes);
        const runnable_primitive made = made_of(shapes, layout, propagation);
        CHECK(made.implementation == (shapes == plain ? "conv3x3" : "grouped_conv3x3"));
        REQUIRE(made.run);
        made.run();
        made.drop_output_pages();
        made.run();
      }
    }
    CHECK(!made_of(in_sixteens, "nchw", propagation).run);
    CHECK(made_of(in_sixteens, "channels_last", propagation).run);
  }
  // Other sizes of outputs, strides that differ, dilation, 1x1, deconvolution.
  for (const char* other : {"mb2_ic32oc48_ih8oh3kh3sh2dh0ph1_iw8ow4kw3sw2dw0pw1",
                            "mb2_ic32oc48_ih7oh4kh3sh2dh0ph1_iw8ow8kw3sw1dw0pw1",
                            "mb1_ic32oc32_ih40oh38kh3sh1dh1ph1_iw40ow38kw3sw1dw1pw1",
                            "mb1_ic32oc32_ih40oh42kh1sh1dh0ph1_iw40ow42kw1sw1dw0pw1", ""}) {
    CAPTURE(other);
    CHECK(!made_of(other, "nchw", "forward_training").run);
  }
}
