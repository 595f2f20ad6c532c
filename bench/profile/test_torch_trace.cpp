// SPDX-License-Identifier: Apache-2.0
// Traces of torch.profiler: parsing, what operators mean, nesting, and what vecdet can replace.
#include "aten_convolutions.hpp"
#include "import_torch_trace.hpp"
#include "tied_convolutions.hpp"
#include "torch_rules.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace profile = vecdet::profile;

namespace {

/// Reads a text in pieces of so many bytes.
profile::trace_reader reader(const std::string& text, std::size_t piece = 7) {
  return [text, piece, at = std::size_t{0}](char* to, std::size_t most) mutable {
    const std::size_t size = std::min({piece, most, text.size() - at});
    text.copy(to, size, at);
    at += size;
    return size;
  };
}

std::vector<profile::trace_event> events(const std::string& text,
                                         profile::trace_header* header = nullptr) {
  std::vector<profile::trace_event> all;
  const profile::trace_header found = profile::read_trace_events(
      reader(text), [&](const profile::trace_event& e) { all.push_back(e); });
  if (header != nullptr) *header = found;
  return all;
}

profile::torch_import import(const std::string& text,
                             const std::vector<profile::logged_execution>& executions = {}) {
  return profile::import_torch_trace(reader(text), executions);
}

profile::torch_import import_file(const char* name) {
  return profile::import_torch_trace(std::string(VECDET_SOURCE_DIR "/test/data/") + name);
}

const profile::entry& find(const profile::report& r, const std::string& name) {
  for (const profile::entry& e : r.entries) {
    if (e.name == name) return e;
  }
  FAIL("no entry " << name);
  return r.entries[0];
}

const profile::replaceable* find_part(const profile::torch_import& in, const std::string& start) {
  for (const profile::replaceable& part : in.parts) {
    if (part.what.rfind(start, 0) == 0) return &part;
  }
  return nullptr;
}

/// An event of an operator, in microseconds.
std::string op(const std::string& name, double begin, double duration, const std::string& args) {
  std::ostringstream text;
  text << R"({"ph":"X","cat":"cpu_op","name":")" << name << R"(","pid":5,"tid":6,"ts":)" << begin
       << R"(,"dur":)" << duration << R"(,"args":{)" << args << "}}";
  return text.str();
}
std::string trace(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& each : all) text += (text.empty() ? "" : ",") + each;
  return R"({"schemaVersion":1,"traceEvents":[)" + text + "]}";
}

constexpr const char* recorded_convolution =
    R"("Input Dims":[[2,8,16,16],[8,8,3,3],[8],[],[],[],[],[],[]],
       "Input Strides":[[2048,256,16,1],[72,9,3,1],[1],[],[],[],[],[],[]],
       "Input type":["float","float","float","ScalarList","ScalarList","ScalarList","Scalar","ScalarList","Scalar"],
       "Concrete Inputs":["","","","[1, 1]","[1, 1]","[1, 1]","False","[0, 0]","1"])";

}  // namespace

TEST_CASE("trace: an operator's inputs, and time to the nanosecond") {
  profile::trace_header header;
  const auto all = events(
      R"({"distributedInfo":{"rank":3},"baseTimeNanoseconds":1743521598000000000,"traceEvents":[)" +
          op("aten::cat", 1, 2,
             R"("Input Dims":[[[1,2],[3,4]],[]],"Input type":["TensorList","Scalar"],
                "Concrete Inputs":["",[1,2]],"Sequence number":7)") +
          R"(,{"ph":"X","cat":"c","name":"n","pid":"Spans","tid":1,"ts":198093488368.463,"dur":0.5},
             {"ph":"X","name":"no times"},{"ph":"M","name":"m"}]})",
      &header);
  REQUIRE(all.size() == 3);
  CHECK(header.base_ns == 1743521598000000000);
  CHECK(header.rank == 3);
  CHECK(header.malformed == 1);
  REQUIRE(all[0].inputs.size() == 2);
  CHECK(all[0].inputs[0].sizes == std::vector<profile::tensor_sizes>{{1, 2}, {3, 4}});
  CHECK(all[0].inputs[0].type == "TensorList");
  CHECK(all[0].inputs[1].concrete == "[1, 2]");
  CHECK(all[0].sequence == 7);
  CHECK(all[0].begin_ns == 1000);
  CHECK(all[1].begin_ns == 198093488368463);
  CHECK(all[1].duration_ns == 500);
  CHECK(all[1].process == "Spans");
}

TEST_CASE("trace: a list of events, as written without Kineto") {
  const auto in = import(
      R"([{"name":"ProfilerStep#0","ph":"X","ts":0,"dur":10,"tid":1,"pid":"CPU functions","args":{}},
          {"name":"aten::mul","ph":"X","ts":2,"dur":3,"tid":1,"pid":"CPU functions","args":{}},
          {"name":"k","ph":"X","ts":2,"dur":3,"tid":1,"pid":"CUDA functions","args":{}}])");
  CHECK(find(in.recorded, "ProfilerStep").self_ns == 7000);
  CHECK(find(in.recorded, "aten::mul").self_ns == 3000);
  REQUIRE(in.recorded.warnings.size() == 2);
  CHECK(in.recorded.warnings[0].find("record_shapes=True") != std::string::npos);
  CHECK(in.recorded.warnings[1].find("other devices") != std::string::npos);
}

TEST_CASE("trace: what is not one is refused, and memory is bounded") {
  CHECK_THROWS_WITH_AS(events("{\"traceEvents\": [nonsense"), "not JSON at byte 19",
                       std::runtime_error);
  CHECK_THROWS_AS(events(R"({"traceEvents":[{"ph":"X")"), std::runtime_error);
  CHECK_THROWS_WITH_AS(events(std::string(1000, '[')), "nested deeper than 64", std::runtime_error);
  CHECK_THROWS_WITH_AS(events("[\"" + std::string(2 << 20, 'x') + "\"]"),
                       "a string or number is longer than 1 MB", std::runtime_error);
  std::string escapes = "[\"";
  for (int i = 0; i < 1 << 20; ++i) escapes += "\\\"";
  CHECK_THROWS_AS(events(escapes + "\"]"), std::runtime_error);
  CHECK_THROWS_AS(events("[" + std::string(2 << 20, '1') + "]"), std::runtime_error);
  CHECK_THROWS_AS(import("{}"), std::runtime_error);
  CHECK_THROWS_AS(import(R"({"traceEvents":[]})"), std::runtime_error);
  std::string many = "[1";
  for (int i = 0; i < 10000; ++i) many += ",1";
  const auto all = events(trace({op("a", 0, 1, "\"Input Dims\":[" + many + "]]")}));
  REQUIRE(all.size() == 1);
  CHECK(all[0].inputs[0].sizes[0].size() <= 4096);
  for (const char* wrong : {"1e300", "-1", "\"x\"", "null", "99999999999999999999"}) {
    profile::trace_header header;
    CHECK(events(std::string(R"([{"ph":"X","name":"n","ts":1,"dur":)") + wrong + "}]", &header)
              .empty());
    CHECK(header.malformed == 1);
  }
}

TEST_CASE("trace: calls nest, also when rounded times overlap") {
  const auto in = import(trace({op("outer", 0, 10, ""), op("inner", 2, 9, ""), op("leaf", 3, 1, ""),
                                op("next", 10, 1, ""), op("inner", 11, 0, "")}));
  CHECK(find(in.recorded, "outer").self_ns == 2000);
  CHECK(find(in.recorded, "inner").total_ns == 8000);
  CHECK(find(in.recorded, "inner").self_ns == 7000);
  CHECK(find(in.recorded, "inner").count == 2);
  CHECK(find(in.recorded, "next").self_ns == 1000);
  CHECK(in.recorded.whole_ns() == 11000);
  CHECK(in.recorded.processes[0].pid == 5);
  CHECK(in.recorded.paths.size() == 5);
}

TEST_CASE("trace: calls that overlap without nesting keep their times") {
  const auto path = [](const profile::torch_import& in, const std::vector<std::string>& names) {
    for (const profile::path& p : in.recorded.paths) {
      std::vector<std::string> found;
      for (const std::size_t e : p.entries) found.push_back(in.recorded.entries[e].name);
      if (found == names) return true;
    }
    return false;
  };
  SUBCASE("two operators") {
    const auto in = import(trace({op("first", 0, 100, ""), op("second", 50, 100, "")}));
    CHECK(find(in.recorded, "first").total_ns == 100000);
    CHECK(find(in.recorded, "first").self_ns == 50000);
    CHECK(find(in.recorded, "second").total_ns == 100000);
    CHECK(find(in.recorded, "second").self_ns == 100000);
    CHECK(in.recorded.whole_ns() == 150000);
    CHECK(path(in, {"second"}));
    REQUIRE(in.recorded.warnings.size() == 2);
    CHECK(in.recorded.warnings[1].find(
              "1 calls begin inside a call of their thread and end after it: \"second\"") == 0);
  }
  SUBCASE("inside another one, with calls inside of them") {
    const auto in =
        import(trace({op("outer", 0, 100, ""), op("first", 10, 40, ""), op("part", 20, 5, ""),
                      op("second", 30, 40, ""), op("late", 60, 5, ""), op("after", 80, 5, "")}));
    CHECK(find(in.recorded, "outer").self_ns == 10000 + 10000 + 15000);
    CHECK(find(in.recorded, "first").self_ns == 15000);
    CHECK(find(in.recorded, "first").total_ns == 40000);
    CHECK(find(in.recorded, "second").self_ns == 35000);
    CHECK(find(in.recorded, "second").total_ns == 40000);
    CHECK(in.recorded.whole_ns() == 100000);
    CHECK(path(in, {"outer", "first", "part"}));
    CHECK(path(in, {"outer", "second", "late"}));
    CHECK(path(in, {"outer", "after"}));
  }
  SUBCASE("one operator, again and again") {
    std::vector<std::string> all;
    for (int i = 0; i < 1000; ++i) all.push_back(op("torchvision::nms", 50 * i, 75, ""));
    const auto in = import(trace(all));
    const profile::entry& e = find(in.recorded, "torchvision::nms");
    CHECK(e.count == 1000);
    CHECK(e.total_ns == 75e6);
    CHECK(e.self_ns == 50.025e6);
    CHECK(e.inclusive_ns == 50.025e6);
    CHECK(in.recorded.paths.size() == 1);
    REQUIRE(in.parts.size() == 1);
    CHECK(in.parts[0].calls == 1000);
    CHECK(in.parts[0].observed_ns == 75e6);
  }
  SUBCASE("an operator that calls itself") {
    const auto in = import(trace({op("torchvision::nms", 0, 10, ""), op("other", 1, 8, ""),
                                  op("torchvision::nms", 2, 6, "")}));
    CHECK(find(in.recorded, "torchvision::nms").total_ns == 16000);
    CHECK(find(in.recorded, "torchvision::nms").inclusive_ns == 10000);
    CHECK(in.parts.at(0).calls == 1);
  }
}

TEST_CASE("trace: calls as a begin and an end") {
  const auto mark = [](const char* phase, const std::string& name, int time, int thread = 6) {
    std::ostringstream text;
    text << R"({"ph":")" << phase << R"(","cat":"cpu_op","pid":5,"tid":)" << thread << R"(,"ts":)"
         << time << (name.empty() ? "" : R"(,"name":")" + name + '"') << "}";
    return text.str();
  };
  const auto warning = [](const profile::torch_import& in, const std::string& part) {
    return std::any_of(in.recorded.warnings.begin(), in.recorded.warnings.end(),
                       [&](const std::string& w) { return w.find(part) != w.npos; });
  };
  SUBCASE("nested, on two threads, beside complete events") {
    const auto in =
        import(trace({mark("B", "outer", 0), mark("B", "same", 0), mark("B", "elsewhere", 1, 7),
                      mark("E", "", 10), mark("E", "elsewhere", 4, 7), mark("B", "inner", 20),
                      op("whole", 22, 3, ""), mark("E", "inner", 30), mark("E", "outer", 40)}));
    CHECK(find(in.recorded, "outer").total_ns == 40000);
    CHECK(find(in.recorded, "outer").self_ns == 20000);
    CHECK(find(in.recorded, "same").self_ns == 10000);
    CHECK(find(in.recorded, "inner").self_ns == 7000);
    CHECK(find(in.recorded, "whole").self_ns == 3000);
    CHECK(find(in.recorded, "elsewhere").self_ns == 3000);
    CHECK(in.recorded.warnings.size() == 1);  // the trace has no shapes
  }
  SUBCASE("an outer call that begins and ends with an inner one") {
    const auto in = import(trace({mark("B", "outer", 0), mark("B", "inner", 0),
                                  mark("E", "inner", 9), mark("E", "outer", 9)}));
    CHECK(find(in.recorded, "outer").self_ns == 0);
    CHECK(find(in.recorded, "inner").self_ns == 9000);
  }
  SUBCASE("with shapes") {
    std::string begin = mark("B", "aten::convolution", 0);
    begin.insert(begin.size() - 1, std::string(R"(,"args":{)") + recorded_convolution + "}");
    const auto in = import(trace({begin, mark("E", "", 5)}));
    CHECK(find(in.recorded, "aten::convolution/s1,p1,d1,g1/f32/2x8x16x16,8x8x3x3,8").self_ns ==
          5000);
  }
  SUBCASE("what does not match is named") {
    const auto in =
        import(trace({mark("E", "before", 0), mark("B", "outer", 1), mark("B", "lost", 2),
                      mark("E", "outer", 10), mark("B", "endless", 11), mark("E", "other", 12),
                      mark("B", "back", 20, 7), mark("E", "back", 19, 7), mark("B", "", 21)}));
    REQUIRE(in.recorded.entries.size() == 1);
    CHECK(find(in.recorded, "outer").self_ns == 9000);
    CHECK(warning(in,
                  R"(2 calls that begin ("B") and do not end ("E"), left out: "lost", "endless")"));
    CHECK(warning(in,
                  R"(2 ends ("E") of calls that do not begin ("B"), left out: "before", "other")"));
    CHECK(warning(in, "2 malformed events"));
  }
  SUBCASE("nothing but begins") {
    CHECK_THROWS_AS(import(trace({mark("B", "a", 0)})), std::runtime_error);
  }
}

TEST_CASE("trace: what is left out is counted") {
  const auto in = import(trace(
      {op("a", 0, 1, ""), R"({"ph":"b","cat":"cpu_op","id":1,"name":"n","ts":1})",
       R"({"ph":"e","cat":"cpu_op","id":1,"name":"n","ts":2})",
       R"({"ph":"M","name":"process_name"})", R"({"ph":"s","id":1,"name":"n","ts":1})",
       R"({"ph":"b","cat":"cpu_op","id":2,"name":"n","ts":1})",
       R"({"ph":"X","cat":"python","name":"n","pid":5,"tid":6,"ts":1,"dur":9})",
       R"({"ph":"X","cat":"Trace","name":"PyTorch Profiler","pid":5,"tid":6,"ts":1,"dur":9})"}));
  REQUIRE(in.recorded.entries.size() == 1);
  REQUIRE(in.recorded.warnings.size() == 3);
  CHECK(in.recorded.warnings[1] ==
        "1 calls of categories that torch.profiler does not have, left out: \"python\"");
  CHECK(in.recorded.warnings[2] ==
        "4 events that are no calls, left out: 2 of phase \"b\", 1 of phase \"e\", 1 of phase "
        "\"s\"");
}

TEST_CASE("trace: strides that are not dense are part of the problem") {
  const auto in = import(trace(
      {op("aten::copy_", 0, 1,
          R"("Input Dims":[[8,16],[8,16]],"Input Strides":[[16,1],[1,8]],"Input type":["float","c10::BFloat16"])"),
       op("aten::relu", 1, 1,
          R"("Input Dims":[[2,3,4,5]],"Input Strides":[[60,1,15,3]],"Input type":["c10::BFloat16"])")}));
  CHECK(find(in.recorded, "aten::copy_/f32/8x16,8x16:1x8").bytes == 8 * 16 * (4 + 2));
  CHECK(find(in.recorded, "aten::relu/bf16/2x3x4x5:nhwc").bytes == 2 * 2 * 120);
}

TEST_CASE("trace: a convolution with its arguments is the bridge's problem, which replay reads") {
  const auto in = import(trace({op("aten::convolution", 0, 5, recorded_convolution)}));
  const profile::entry& e =
      find(in.recorded, "aten::convolution/s1,p1,d1,g1/f32/2x8x16x16,8x8x3x3,8");
  CHECK(e.flops == 2.0 * 2 * 8 * 16 * 16 * 8 * 9);
  CHECK(profile::read_aten_convolution(e).problems.size() == 1);
  CHECK(in.recorded.warnings.empty());
  REQUIRE(in.parts.size() == 1);
  CHECK(in.parts[0].by == "conv3x3");
  CHECK(in.parts[0].problems[0].shape == std::vector<std::int64_t>{2, 8, 16, 16, 8});
}

TEST_CASE("trace: grouped and strided convolutions, where PyTorch's are slower") {
  using sizes = std::vector<std::int64_t>;
  const auto text = [](const sizes& numbers) {
    std::string all;
    for (const std::int64_t n : numbers) all += (all.empty() ? "[" : ",") + std::to_string(n);
    return all + "]";
  };
  const auto parts_of = [&](const sizes& source, const sizes& weights, int stride, int groups,
                            bool is_nhwc, bool backward, const std::string& wanted,
                            const std::string& type = "float", int padding = 1) {
    const std::string n = "[" + std::to_string(stride) + ", " + std::to_string(stride) + "]";
    const std::string p = "[" + std::to_string(padding) + ", " + std::to_string(padding) + "]";
    const sizes result{source[0], weights[0], (source[2] + stride - 1) / stride,
                       (source[3] + stride - 1) / stride};
    const sizes strides =
        is_nhwc ? sizes{source[1] * source[2] * source[3], 1, source[1] * source[3], source[1]}
                : sizes{source[1] * source[2] * source[3], source[2] * source[3], source[3], 1};
    const std::string maps = text(source) + "," + text(weights);
    const std::string window =
        "\"" + n + "\",\"" + p + R"(","[1, 1]","False","[0, 0]",")" + std::to_string(groups) + "\"";
    if (!backward)
      return import(trace({op("aten::convolution", 0, 5,
                              R"("Input Dims":[)" + maps + R"(,[]],"Input Strides":[)" +
                                  text(strides) + R"(,[],[]],"Input type":[")" + type + R"(",")" +
                                  type + R"(",""],"Concrete Inputs":["","","",)" + window + "]")}))
          .parts;
    return import(trace({op("aten::convolution_backward", 0, 5,
                            R"("Input Dims":[)" + text(result) + "," + maps +
                                R"(,[]],"Input Strides":[[],)" + text(strides) +
                                R"(,[],[]],"Input type":[")" + type + R"(",")" + type + R"(",")" +
                                type + R"(",""],"Concrete Inputs":["","","","",)" + window + ",\"" +
                                wanted + "\"]")}))
        .parts;
  };
  const auto check = [](const std::vector<profile::replaceable>& parts, const std::string& by,
                        const std::string& variant, const sizes& shape) {
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].by == by);
    CHECK(parts[0].why_unknown.empty());
    REQUIRE(!parts[0].problems.empty());
    std::string functions;
    for (const profile::entry& problem : parts[0].problems) {
      functions += (functions.empty() ? "" : ", ") + problem.function;
      CHECK(problem.variant == variant);
      CHECK(problem.type == "f32");
      CHECK(problem.shape == shape);
    }
    CHECK(functions == by);
  };
  const std::string all = "[True, True, False]";
  check(parts_of({1, 128, 8, 9}, {128, 4, 3, 3}, 1, 32, false, false, ""), "grouped_conv3x3",
        "groups32", {1, 128, 8, 9, 128});
  check(parts_of({1, 256, 8, 9}, {256, 8, 3, 3}, 2, 32, false, true, all),
        "grouped_conv3x3_input_grad, grouped_conv3x3_weight_grad", "stride2_groups32",
        {1, 256, 8, 9, 256});
  check(parts_of({1, 512, 8, 9}, {512, 16, 3, 3}, 1, 32, true, true, "[False, True, False]"),
        "grouped_conv3x3_weight_grad", "nhwc_groups32", {1, 512, 8, 9, 512});
  check(parts_of({2, 1024, 9, 8}, {1024, 32, 3, 3}, 2, 32, true, true, "[True, False, False]"),
        "grouped_conv3x3_input_grad", "nhwc_stride2_groups32", {2, 1024, 9, 8, 1024});
  check(parts_of({4, 64, 9, 8}, {128, 64, 3, 3}, 2, 1, false, false, ""), "grouped_conv3x3",
        "stride2_groups1", {4, 64, 9, 8, 128});
  check(parts_of({4, 128, 20, 19}, {256, 128, 3, 3}, 2, 1, true, false, ""), "grouped_conv3x3",
        "nhwc_stride2_groups1", {4, 128, 20, 19, 256});
  // Those that PyTorch computes, and those that are no such convolutions.
  const auto is_none = [&](const sizes& source, const sizes& weights, int stride, int groups,
                           bool is_nhwc, const std::string& type = "float", int padding = 1) {
    CHECK(parts_of(source, weights, stride, groups, is_nhwc, false, "", type, padding).empty());
  };
  is_none({1, 512, 8, 9}, {512, 16, 3, 3}, 1, 32, false);   // 16 channels in NCHW
  is_none({1, 2048, 8, 9}, {2048, 64, 3, 3}, 1, 32, true);  // 64 channels
  is_none({1, 96, 8, 9}, {96, 12, 3, 3}, 2, 8, true);       // 12 channels
  is_none({1, 32, 8, 9}, {64, 4, 3, 3}, 1, 8, true);        // of 4, 8
  is_none({4, 256, 9, 8}, {512, 256, 3, 3}, 2, 1, false);   // more than 128 channels
  is_none({4, 128, 20, 18}, {64, 128, 3, 3}, 2, 1, true);   // more than 64, fewer than 400 outputs
  is_none({4, 3, 9, 8}, {32, 3, 3, 3}, 2, 1, false);        // fewer than 32
  is_none({4, 64, 9, 8}, {512, 64, 3, 3}, 2, 1, false);     // more than 256 outputs
  is_none({4, 64, 9, 8}, {64, 64, 3, 3}, 3, 1, false);      // stride 3
  is_none({1, 128, 8, 9}, {128, 4, 3, 3}, 1, 32, false, "c10::BFloat16");
  is_none({1, 128, 8, 9}, {128, 4, 3, 3}, 1, 32, false, "float", 0);  // without padding
  is_none({1, 128, 8, 9}, {128, 5, 3, 3}, 1, 32, false);              // sizes that do not fit
  is_none({1, 128, 8, 9}, {128, 4, 3, 3}, 1, 0, false);
}

TEST_CASE("trace: windows that were not recorded follow from the sizes") {
  using profile::assumed_window;
  CHECK(assumed_window({2, 8, 16, 16}, {4, 8, 3, 3}, {2, 4, 16, 16}) == "s1,p1,d1,g1");
  CHECK(assumed_window({2, 8, 16, 16}, {4, 8, 3, 3}, {2, 4, 14, 14}) == "s1,p0,d1,g1");
  CHECK(assumed_window({2, 3, 224, 224}, {4, 3, 7, 7}, {2, 4, 112, 112}) == "s2,p3,d1,g1");
  CHECK(assumed_window({2, 8, 16, 20}, {8, 1, 3, 3}, {2, 8, 8, 20}) == "s2x1,p1,d1,g8");
  CHECK(assumed_window({2, 8, 16, 16}, {4, 8, 3, 3}, {2, 5, 16, 16}).empty());
  CHECK(assumed_window({2, 8, 16, 16}, {4, 8, 3, 3}, {}).empty());
  CHECK(profile::convolution_result({2, 3, 224, 224}, {4, 3, 7, 7}, "s2,p3,d1,g1") ==
        profile::tensor_sizes{2, 4, 112, 112});
}

TEST_CASE("trace: backward is tied to forward by sequence number") {
  // Forward without arguments takes its result's size from backward; backward has no shapes.
  const std::string sizes =
      R"("Input Dims":[[2,8,16,16],[4,8,3,3],[4]],"Input type":["float","float","float"])";
  const auto in =
      import(trace({op("aten::convolution", 0, 5, sizes + R"(,"Sequence number":9)"),
                    op("ConvolutionBackward0", 10, 5,
                       R"("Input Dims":[[2,4,8,8]],"Input type":["float"],"Sequence number":9)"),
                    op("aten::convolution_backward", 11, 3, "")}));
  find(in.recorded, "aten::convolution/s2,p1,d1,g1/f32/2x8x16x16,4x8x3x3,4");
  const profile::entry& backward = find(
      in.recorded, "aten::convolution_backward/s2,p1,d1,g1,grads111/f32/2x4x8x8,2x8x16x16,4x8x3x3");
  CHECK(backward.count == 1);
}

TEST_CASE("trace: executions of oneDNN's log join the operator they ran in") {
  profile::logged_execution inside, outside;
  inside.problem.name = inside.problem.function = "convolution";
  inside.problem.source = "onednn";
  outside.problem = inside.problem;
  inside.begin_ns = 2000, inside.duration_ns = 1500;
  outside.begin_ns = 90000, outside.duration_ns = 1000;
  const auto in =
      import(trace({op("aten::convolution", 0, 5, recorded_convolution)}), {inside, outside});
  CHECK(find(in.recorded, "convolution").self_ns == 1500);
  CHECK(find(in.recorded, "aten::convolution/s1,p1,d1,g1/f32/2x8x16x16,8x8x3x3,8").self_ns == 3500);
  REQUIRE(in.recorded.warnings.size() == 1);
  CHECK(in.recorded.warnings[0].find("1 of 2 executions") == 0);
}

TEST_CASE("trace: times of many calls are kept as evenly spaced samples") {
  std::vector<std::string> all;
  for (int i = 0; i < 1000; ++i) all.push_back(op("a", 20 * i, i % 10 + 1, ""));
  const auto in = import(trace(all));
  const profile::entry& e = find(in.recorded, "a");
  CHECK(e.count == 1000);
  CHECK(e.min_ns == 1000);
  CHECK(e.max_ns == 10000);
  CHECK(e.mean_ns() == doctest::Approx(5500));
  CHECK(e.stddev_ns() == doctest::Approx(2872.28).epsilon(1e-4));
  CHECK(e.samples.size() >= 128);
  CHECK(e.samples.size() <= 256);
}

TEST_CASE("trace: files of PyTorch 1.13 and 2.14 with what vecdet can replace") {
  for (const char* file : {"torch_trace_1.13.json.gz", "torch_trace_2.14.json.gz"}) {
    CAPTURE(file);
    CHECK(profile::is_torch_trace(std::string(VECDET_SOURCE_DIR "/test/data/") + file));
    const profile::torch_import in = import_file(file);
    CHECK(find(in.recorded, "ProfilerStep").count == 2);
    CHECK(find(in.recorded, "nn.Module: Conv2d_0").count == 2);
    CHECK(find(in.recorded, "aten::convolution/s2,p1,d1,g1/f32/2x3x32x32,8x3x3x3,8").count == 2);
    find(in.recorded,
         "aten::convolution_backward/s1,p1,d1,g1,grads111/f32/2x8x16x16,2x8x16x16,8x8x3x3");
    const struct {
      const char *start, *by;
      std::vector<std::int64_t> shape;
    } expected[] = {
        {"aten::convolution/s1,p1", "conv3x3", {2, 8, 16, 16, 8}},
        {"aten::convolution_backward/s1,p1",
         "conv3x3_input_grad, conv3x3_weight_grad",
         {2, 8, 16, 16, 8}},
        {"torchvision.ops.sigmoid_focal_loss/f32/100x4 and its backward",
         "sigmoid_focal_loss_and_grad",
         {100, 4}},
        {"torchvision.ops.box_iou/f32/", "pairwise_iou", {100, 100}},
        {"torchvision::nms/iou0.5/", "nms", {100}},
        {"torchvision::roi_align/scale1.", "roi_align", {200, 8, 7, 7}},
    };
    for (const auto& each : expected) {
      CAPTURE(each.start);
      const profile::replaceable* const part = find_part(in, each.start);
      REQUIRE(part != nullptr);
      CHECK(part->by == each.by);
      CHECK(part->calls == 2);
      REQUIRE(!part->problems.empty());
      CHECK(part->problems[0].shape == each.shape);
    }
    const profile::replaceable* const attention =
        find_part(in, "deformable attention by grid_sample/f32/4x8x8x8,4x8x4x4,4x20x4x2");
    REQUIRE(attention != nullptr);
    CHECK(attention->by == "deformable_attention");
    CHECK(attention->calls == 2);
    CHECK(attention->why_unknown.empty());
    REQUIRE(attention->problems.size() == 1);
    CHECK(attention->problems[0].variant == "points8");
    CHECK(attention->problems[0].shape == std::vector<std::int64_t>{4, 80, 20, 1, 8});
  }
}

TEST_CASE("trace: deformable attention with heads, levels of their own points and a backward") {
  // What the models' functions for the CPU do, from the samples on.
  const auto step = [](const std::string& transposed, const std::string& value,
                       const std::string& after) {
    const std::string types = R"(,"Input type":["float","float"],"Sequence number":)";
    return trace({
        op("aten::grid_sampler", 0, 10,
           R"("Input Dims":[)" + value + R"(,[6,20,4,2]])" + types + "1"),
        op("aten::grid_sampler", 20, 10, R"("Input Dims":[[6,8,4,5],[6,20,3,2]])" + types + "2"),
        op("aten::cat", 40, 10, R"("Input Dims":[[]])" + types + "3"),
        op("aten::mul", 60, 10, R"("Input Dims":[[6,8,20,7],[6,1,20,7]])" + types + "4"),
        op("aten::sum", 80, 10, R"("Input Dims":[[6,8,20,7]])" + types + "5"),
        op("aten::reshape", 100, 10, R"("Input Dims":[[6,8,20]])" + types + "6"),
        op(after, 120, 10, R"("Input Dims":[)" + transposed + "]" + types + "7"),
        op("autograd::engine::evaluate_function: SumBackward1", 140, 7, R"("Sequence number":5)"),
    });
  };
  const std::string transposed = "[2,24,20]", value = "[6,8,8,9]";
  const auto in = import(step(transposed, value, "aten::permute"));
  REQUIRE(in.parts.size() == 1);
  const profile::replaceable& part = in.parts[0];
  CHECK(part.what ==
        "deformable attention by grid_sample/f32/6x8x8x9,6x8x4x5,6x20x4x2,6x20x3x2 and its "
        "backward");
  CHECK(part.by == "deformable_attention, deformable_attention_grad");
  CHECK(part.why_unknown.empty());
  CHECK(part.observed_ns == 57000);
  REQUIRE(part.problems.size() == 2);
  CHECK(part.problems[0].function == "deformable_attention");
  CHECK(part.problems[1].function == "deformable_attention_grad");
  for (const profile::entry& problem : part.problems) {
    CHECK(problem.variant == "points7");
    CHECK(problem.type == "f32");
    CHECK(problem.shape == std::vector<std::int64_t>{2, 92, 20, 3, 8});
  }

  // Without what tells images from heads, or with sizes that do not fit.
  for (const std::string& unknown :
       {step(transposed, value, "aten::add"), step("[2,23,20]", value, "aten::permute"),
        step("[0,24,20]", value, "aten::permute"), step("[2,24,21]", value, "aten::permute"),
        step("[24,20]", value, "aten::permute"), step(transposed, "[3,8,8,9]", "aten::permute"),
        step(transposed, "[6,8,4000000000,4000000000]", "aten::permute")}) {
    const auto found = import(unknown);
    REQUIRE(found.parts.size() == 1);
    CHECK(found.parts[0].problems.empty());
    CHECK_FALSE(found.parts[0].why_unknown.empty());
  }
}

TEST_CASE("trace: batch normalisation with its activation, max pooling, and their backward") {
  const auto step = [](const std::string& sizes, const std::string& norm,
                       const std::string& activation, const std::string& pool) {
    const std::string map = R"("Input Dims":[)" + sizes + R"(],"Input type":["float"],)";
    return import(trace({
        op("aten::batch_norm", 0, 10,
           map + R"("Concrete Inputs":["","","","","",")" + norm + R"("],"Sequence number":3)"),
        op(activation, 20, 5, map + R"("Sequence number":4)"),
        op("aten::max_pool2d", 40, 7,
           map + R"("Sequence number":5,"Concrete Inputs":["",)" + pool + "]"),
        op("autograd::engine::evaluate_function: MaxPool2DWithIndicesBackward0", 60, 1,
           R"("Sequence number":5)"),
        op("autograd::engine::evaluate_function: SiluBackward0", 70, 2, R"("Sequence number":4)"),
        op("autograd::engine::evaluate_function: NativeBatchNormBackward0", 80, 4,
           R"("Sequence number":3)"),
    }));
  };
  const std::string five = R"("[5, 5]","[1, 1]","[2, 2]","[1, 1]","False")";
  const auto in = step("[2,16,100,90]", "True", "aten::silu_", five);
  REQUIRE(in.parts.size() == 2);
  const profile::replaceable &norm = in.parts[0], &pool = in.parts[1];
  CHECK(norm.what == "batch_norm and silu/f32/2x16x100x90 and its backward");
  CHECK(norm.by == "batch_norm, batch_norm_grad");
  CHECK(norm.observed_ns == 21000);
  CHECK(pool.what == "max_pool2d/[5, 5],[1, 1],[2, 2]/f32/2x16x100x90 and its backward");
  CHECK(pool.by == "max_pool, max_pool_grad");
  CHECK(pool.observed_ns == 8000);
  for (const profile::replaceable* part : {&norm, &pool}) {
    CHECK(part->why_unknown.empty());
    REQUIRE(part->problems.size() == 2);
    CHECK(part->problems[0].function + ", " + part->problems[1].function == part->by);
  }
  CHECK(norm.problems[1].variant == "silu");
  CHECK(norm.problems[1].shape == std::vector<std::int64_t>{2, 16, 100, 90});
  CHECK(pool.problems[1].variant == "window5");
  CHECK(pool.problems[1].shape == std::vector<std::int64_t>{2, 16, 100, 90, 1});

  // A stride that was left out is the window's side.
  const auto relu =
      step("[2,16,100,90]", "True", "aten::relu", R"("[3, 3]","[]","[1, 1]","[1, 1]","False")");
  REQUIRE(relu.parts.size() == 2);
  CHECK(relu.parts[0].problems[0].variant == "relu");
  CHECK(relu.parts[1].problems[0].shape == std::vector<std::int64_t>{2, 16, 100, 90, 3});
  // In evaluation mode, on small maps, and with another operator, PyTorch computes it.
  CHECK(step("[2,16,100,90]", "False", "aten::silu_", five).parts.size() == 1);
  CHECK(step("[2,16,60,60]", "True", "aten::silu_", five).parts.size() == 1);
  CHECK(step("[2,16,100,90]", "True", "aten::gelu", five).parts.size() == 1);
  CHECK(step("[2,16,100]", "True", "aten::silu_", five).parts.empty());
  CHECK(step("[2,-16,100,90]", "True", "aten::silu_", five).parts.empty());
  // Arguments that are missing, or that the catalogue does not have.
  for (const char* other : {R"("[5, 4]","[1, 1]","[2, 2]","[1, 1]","False")",
                            R"("[5, 5]","[1, 2]","[2, 2]","[1, 1]","False")",
                            R"("[5, 5]","[1, 1]","[0, 0]","[1, 1]","False")",
                            R"("[5, 5]","[1, 1]","[2, 2]","[2, 2]","False")",
                            R"("[5, 5]","[1, 1]","[2, 2]","[1, 1]","True")", R"("","","","","")"}) {
    CAPTURE(other);
    const auto found = step("[2,16,60,60]", "True", "aten::silu", other);
    REQUIRE(found.parts.size() == 1);
    CHECK(found.parts[0].problems.empty());
    CHECK_FALSE(found.parts[0].why_unknown.empty());
  }
}

TEST_CASE("trace: the rules are those of the Python package") {
  std::ifstream table(VECDET_SOURCE_DIR "/test/data/torch_rules.txt");
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    CAPTURE(line);
    std::istringstream words(line);
    std::string kind, layout, expected, found = "pytorch";
    words >> kind;
    if (kind == "conv") {
      profile::conv_layer c{};
      words >> c.inputs >> c.outputs >> c.groups >> c.stride >> layout >> c.locations >> expected;
      c.is_channels_last = layout == "nhwc";
      if (profile::is_for_grouped_conv3x3(c)) found = "grouped_conv3x3";
      if (profile::is_for_conv3x3(c)) found = "conv3x3";
    } else {
      REQUIRE(kind == "batch_norm");
      std::int64_t images = 0, channels = 0, height = 0, width = 0;
      std::string type, activation;
      words >> images >> channels >> height >> width >> layout >> type >> activation >> expected;
      if (profile::is_for_batch_norm(images * channels * height * width, channels, layout == "nhwc",
                                     type == "f32", activation == "silu"))
        found = "batch_norm";
    }
    REQUIRE(words);
    CHECK(found == expected);
    ++rows;
  }
  CHECK(rows > 40);
}
