// SPDX-License-Identifier: Apache-2.0
// Parsing of lines of oneDNN's log, and of PyTorch's convolutions.
#include "../bench/profile/aten_convolutions.hpp"
#include "../bench/profile/import_onednn.hpp"
#include "../bench/profile/onednn_log.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace profile = vecdet::profile;
using kind = profile::onednn_line::kind;

namespace {

std::string read_file(const std::string& name) {
  std::ifstream in(vecdet::test::source_path("test/data/" + name), std::ios::binary);
  REQUIRE_MESSAGE(in.good(), name);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

profile::onednn_tensor tensor(const char* text) {
  const auto found = profile::parse_onednn_tensor(text);
  REQUIRE_MESSAGE(found.has_value(), text);
  return *found;
}

profile::entry aten(const char* function, const char* variant, const char* shapes) {
  profile::entry e;
  e.function = function;
  e.variant = variant;
  e.type = "f32";
  e.implementation = shapes;
  return e;
}

}  // namespace

TEST_CASE("oneDNN's log: memory descriptors of all versions") {
  for (const char* text : {"src_f32::blocked:aBcd16b:f0", "src_f32:a:blocked:aBcd16b::f0",
                           "src:f32:ap:blocked:aBcd16b::f0", "src_f32:p:blocked:aBcd16b:f0"}) {
    CAPTURE(text);
    const profile::onednn_tensor t = tensor(text);
    CHECK(t.name == "src");
    CHECK(t.type == "f32");
    CHECK(t.format == "blocked");
    CHECK(t.layout == "aBcd16b");
    CHECK(t.strides.empty());
    CHECK(t.extra.empty());
    CHECK(t.mask == -1);
  }
  CHECK(tensor("diff_dst_bf16::blocked:ab:f0").name == "diff_dst");
  CHECK(tensor("diff_dst_bf16::blocked:ab:f0").type == "bf16");
  CHECK(tensor("diff_dst:f8_e5m2::blocked:ab::f0").type == "f8_e5m2");
  CHECK(tensor("diff:f32::blocked:abcd::f0").name == "diff");
  CHECK(tensor("diff_f32:a:blocked:abcd::f0").name == "diff");
  CHECK(tensor("src_fused:f32::blocked:acdb::f0").name == "src_fused");
  CHECK(tensor("src:f32::blocked:ab:100x1:f0").strides == "100x1");
  CHECK(tensor("wei_s8::blocked:ABcd4b16a4b:f1:s8m3").extra == "f1:s8m3");
  CHECK(tensor("wei:s8:a:blocked:ABcd4b16a4b::f1:s8m3").extra == "f1:s8m3");
  CHECK(tensor("bia_f32::blocked:ab:f0_mask2").mask == 2);
  CHECK(tensor("bia:f32::blocked:ab::f0_mask3").mask == 3);
  for (const char* none : {"", ":", "::::", "_", "src", "_f32::blocked:a:f0", "src_::blocked:a:f0"})
    CHECK_FALSE(profile::parse_onednn_tensor(none));
  CHECK(profile::parse_onednn_tensors("bia_undef::undef::f0 bia:undef::undef:::").empty());
  CHECK(profile::parse_onednn_tensors("src_f32::blocked:ab:f0 src_f32::blocked:ba:f0 ").size() ==
        2);
}

TEST_CASE("oneDNN's log: lines") {
  const std::string tail =
      ",cpu,matmul,brg:avx512_core,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ab:f0,"
      "attr-scratchpad:user ,,20x32:32x12,0.25";
  for (const char* head :
       {"onednn_verbose,exec", "dnnl_verbose,exec", "onednn_verbose,1795253278325.25,exec",
        "onednn_verbose,v1,primitive,exec", "onednn_verbose,v1,1795253278325.25,primitive,exec"}) {
    const profile::onednn_line line = profile::parse_onednn_line(head + tail);
    CAPTURE(head);
    REQUIRE(line.what == kind::execution);
    CHECK(line.engine == "cpu");
    CHECK(line.milliseconds == 0.25);
    CHECK(line.problem.primitive == "matmul");
    CHECK(line.problem.implementation == "brg:avx512_core");
    CHECK(line.problem.propagation.empty());
    CHECK(line.problem.tensors.size() == 2);
    CHECK(line.problem.attributes == "attr-scratchpad:user ");
    CHECK(line.problem.shapes == "20x32:32x12");
    CHECK(line.stamp_ms.value_or(0) ==
          (std::string(head).find("325.25") != std::string::npos ? 1795253278325.25 : 0));
  }
  const auto what = [](const std::string& text) { return profile::parse_onednn_line(text).what; };
  CHECK(what("onednn_verbose,create:cache_miss" + tail) == kind::creation);
  CHECK(what("onednn_verbose,v1,primitive,create:cache_hit" + tail) == kind::creation);
  CHECK(what("onednn_verbose,v1,graph,exec,cpu") == kind::other);
  CHECK(what("onednn_verbose,info,gpu,runtime:OpenCL") == kind::other);
  CHECK(what("Epoch 1,exec" + tail) == kind::foreign);
  CHECK(what("") == kind::foreign);
  const profile::onednn_line threads =
      profile::parse_onednn_line("onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2");
  CHECK(threads.what == kind::threads);
  CHECK(threads.problem.threads == 2);
  for (const char* bad :
       {"onednn_verbose", "onednn_verbose,", "onednn_verbose,exec", "onednn_verbose,v1,primitive",
        "onednn_verbose,exec,cpu,,j,f,d,,a,1x2,1", "onednn_verbose,exec,cpu,sum,j,f,d,,a,1x2,nan",
        "onednn_verbose,exec,cpu,sum,j,f,d,,a,1x2,-1", "onednn_verbose,exec,cpu,sum,j,f,d,,a,1x2,"})
    CHECK_MESSAGE(what(bad) == kind::malformed, bad);
  // A truncated line is not an execution, unless only digits of its time are missing.
  const std::string whole = "onednn_verbose,exec" + tail;
  for (std::size_t length = 0; length <= whole.rfind(',') + 1; ++length)
    CHECK(what(whole.substr(0, length)) != kind::execution);
}

TEST_CASE("oneDNN's log: sizes") {
  const auto sizes = profile::onednn_sizes("g32mb1_ic128oc256_ih56oh28kh3sh2dh0ph1_iw56");
  CHECK(sizes.at("g") == 32);
  CHECK(sizes.at("mb") == 1);
  CHECK(sizes.at("oc") == 256);
  CHECK(sizes.at("ph") == 1);
  CHECK(sizes.size() == 11);
  for (const char* none : {"", "64x56", "mb", "mb1_", "1mb", "mb-1", "mb1 ic2", "mb1ic",
                           "mb99999999999999999999", "mb1099511627777"})
    CHECK_MESSAGE(profile::onednn_sizes(none).empty(), none);
  CHECK(profile::onednn_dimensions("64x56x0") == std::vector<std::int64_t>{64, 56, 0});
  for (const char* none : {"", "x", "64x", "x64", "64xx2", "*x3", "64x-1", "6 4", "mb1"})
    CHECK_MESSAGE(profile::onednn_dimensions(none).empty(), none);
}

TEST_CASE("oneDNN's log: layouts, attributes and algorithms distinguish problems") {
  const auto line = [](const char* layout, const char* attributes, const char* algorithm) {
    return std::string("onednn_verbose,exec,cpu,eltwise,jit,forward_training,data_f32::blocked:") +
           layout + ":f0," + attributes + ",alg:" + algorithm + " alpha:0 beta:0,1x64x56x56,1\n";
  };
  const profile::onednn_import imported = profile::import_onednn(
      line("abcd", "", "eltwise_relu") + line("abcd", "attr-scratchpad:user ", "eltwise_relu") +
      line("acdb", "", "eltwise_relu") + line("abcd", "", "eltwise_tanh") +
      line("abcd", "attr-post-ops:sum", "eltwise_relu"));
  REQUIRE(imported.recorded.entries.size() == 4);
  CHECK(imported.problems.size() == 4);
  CHECK(imported.recorded.entries[0].count == 2);
  CHECK(imported.problems.count("eltwise/forward_training,eltwise_relu/f32/1x64x56x56/jit,acdb") ==
        1);
}

TEST_CASE("oneDNN's log: samples of all primitives, whole and damaged") {
  for (const char* name : {"onednn_primitives_v2.log", "onednn_primitives_v3.log"}) {
    const std::string text = read_file(name);
    const profile::onednn_import imported = profile::import_onednn(text);
    CHECK(imported.recorded.warnings.empty());
    CHECK(imported.problems.size() >= 38);
    CHECK(imported.problems.size() == imported.recorded.entries.size());
    for (const auto& problem : imported.problems) {
      CHECK(problem.second.threads == 2);
      CHECK(!problem.second.tensors.empty());
    }
    vecdet::test::random_generator random(5);
    for (int i = 0; i < 100; ++i) {
      std::string damaged = text.substr(0, random.bits() % text.size());
      for (int k = 0; k < 20 && !damaged.empty(); ++k)
        damaged[random.bits() % damaged.size()] = static_cast<char>(random.bits());
      CHECK_NOTHROW(profile::import_onednn(damaged));
    }
  }
}

TEST_CASE("PyTorch's convolutions as oneDNN's problems") {
  const profile::aten_convolution forward = profile::read_aten_convolution(
      aten("aten::convolution", "s2,p3,d1,g1", "1x3x224x225,64x3x7x7,64"));
  REQUIRE(forward.problems.size() == 1);
  CHECK(forward.layout == "nchw");
  CHECK(forward.problems[0].propagation == "forward_training");
  CHECK(forward.problems[0].shapes == "mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw225ow113kw7sw2dw0pw3");
  CHECK(forward.problems[0].find("bia") != nullptr);
  const profile::aten_convolution backward = profile::read_aten_convolution(
      aten("aten::convolution_backward", "s1x2,p1x0,d2x1,g2,channels_last,grads110",
           "1x6x8x4,1x8x10x9,6x4x3x3"));
  REQUIRE(backward.problems.size() == 2);
  CHECK(backward.layout == "channels_last");
  CHECK(backward.problems[0].propagation == "backward_data");
  CHECK(backward.problems[1].propagation == "backward_weights");
  CHECK(backward.problems[0].shapes == "g2mb1_ic8oc6_ih10oh8kh3sh1dh1ph1_iw9ow4kw3sw2dw0pw0");
  CHECK(profile::read_aten_convolution(
            aten("aten::convolution_backward", "s1,p1,d1,g1,grads010", "1x6x8x8,1x8x8x8,6x8x3x3"))
            .problems.size() == 1);
  for (const char* variant :
       {"", "p1,d1,g1", "s0,p1,d1,g1", "s1,p1,d0,g1", "s1,p1,d1,g0", "sx,p1,d1,g1",
        "s1,p1,d1,g1,odd!", "s1,p1,d1,g1,z", "s1,p1,d1,g1,transposed,o0", "s9999999999,p1,d1,g1"}) {
    CAPTURE(variant);
    const profile::entry e = aten("aten::convolution", variant, "1x3x9x9,4x3x3x3");
    CHECK_THROWS_AS(profile::read_aten_convolution(e), std::runtime_error);
  }
  for (const char* shapes : {"", "1x3x9x9", "1x3,4x3", "1x3x9x9,4x3x3", "1x3x2x2,4x3x9x9", ",,",
                             "1x3x9x9,4x3x99999999999x3", "1x3x9x9x9x9,1x3x9x9x9x9"}) {
    CAPTURE(shapes);
    CHECK_THROWS_AS(
        profile::read_aten_convolution(aten("aten::convolution", "s1,p1,d1,g1", shapes)),
        std::runtime_error);
  }
}
