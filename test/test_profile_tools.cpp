// SPDX-License-Identifier: Apache-2.0
// The functions of vecdet-profile: reading back, importing, merging and comparing.
#include "../bench/profile/compare.hpp"
#include "../bench/profile/read.hpp"
#include "support/json_schema.hpp"
#include "support/paths.hpp"
#include "support/random.hpp"
#include <vecdet/profile.hpp>

#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace profile = vecdet::profile;
using nlohmann::json;
using vecdet::test::source_path;

namespace {

std::string test_file(const std::string& name) { return source_path("test/data/" + name); }

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

const profile::entry& find(const profile::report& r, const char* name) {
  for (const profile::entry& e : r.entries) {
    if (e.name == name) return e;
  }
  FAIL("no entry " << name);
  return r.entries[0];
}

profile::entry make_entry(const std::string& name, const std::vector<double>& durations) {
  profile::entry e;
  e.name = e.function = name;
  e.seen_on_threads = 1;
  for (const double d : durations) {
    profile::entry one = e;
    one.count = 1;
    one.total_ns = one.inclusive_ns = one.self_ns = one.min_ns = one.max_ns = d;
    one.histogram[profile::histogram_bucket(static_cast<std::int64_t>(d))] = 1;
    one.samples = {static_cast<float>(d)};
    profile::detail::merge_entry(e, one);
  }
  return e;
}

profile::report make_report(const std::vector<profile::entry>& entries) {
  profile::report r;
  r.processes.emplace_back();
  r.entries = entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    profile::path p;
    p.entries = {i};
    p.count = entries[i].count;
    p.total_ns = p.self_ns = entries[i].self_ns;
    r.paths.push_back(p);
  }
  return r;
}

std::vector<double> noisy(std::uint64_t seed, double mean, double noise, int n) {
  vecdet::test::random_generator random(seed);
  std::vector<double> values;
  for (int i = 0; i < n; ++i) {
    const double u = static_cast<double>(random.bits() >> 11) * 0x1p-53;
    values.push_back(mean * (1 + noise * (u - 0.5)));
  }
  return values;
}

}  // namespace

TEST_CASE("vecdet-profile: a profile reads back as it was written") {
  profile::report r = make_report({make_entry("a \"b\"", {100, 200, 4000}), make_entry("c", {7})});
  r.entries[0].shape = {3, 4};
  r.entries[0].threads = 2;
  r.entries[0].bytes = 123;
  r.machine.memory_gbs = 38.5;
  r.machine.processor = "some processor";
  r.processes[0].rank = 3;
  r.warnings = {"careful"};
  std::ostringstream first, second;
  write_json(first, r);
  write_json(second, profile::read_profile(json::parse(first.str())));
  CHECK(first.str() == second.str());
}

TEST_CASE("vecdet-profile: an invalid profile is an error that says why") {
  std::ostringstream out;
  write_json(out, make_report({make_entry("a", {1, 2})}));
  const json good = json::parse(out.str());
  CHECK_NOTHROW(profile::read_profile(good));
  const auto broken = [&](const char* pointer, const json& value) {
    json j = good;
    j[json::json_pointer(pointer)] = value;
    return j;
  };
  CHECK_THROWS_WITH(profile::read_profile(broken("/schema", "other/2")),
                    "its schema is \"other/2\", expected \"vecdet-profile/1\"");
  CHECK_THROWS_WITH(profile::read_profile(broken("/entries/0/total_ns", -1)),
                    "\"total_ns\" is -1, expected a number from 0 to 1e38");
  CHECK_THROWS_WITH(profile::read_profile(broken("/paths/0/entries", {9})),
                    "a path names entry 9 of 1");
  CHECK_THROWS_WITH(profile::read_profile(broken("/entries/0/shape", {1000, 0})),
                    "a dimension of \"a\" is 0, expected 1 or more");
  CHECK_THROWS(profile::read_profile(broken("/entries/0/shape", {-3})));
  CHECK_THROWS_WITH(profile::read_profile(broken("/entries/0/threads", -1)),
                    "\"threads\" of \"a\" is -1, expected 0 to 2147483647");
  CHECK_THROWS(profile::read_profile(broken("/entries/0/threads", 4294967297)));
  for (const json& wrong : {json(-1), json(1.5), json(1e300), json("2")}) {
    const std::string is = " is " + wrong.dump() + ", expected ";
    for (const char* key : {"count", "seen_on_threads"}) {
      CHECK_THROWS_WITH(
          profile::read_profile(broken((std::string("/entries/0/") + key).c_str(), wrong)),
          ("\"" + std::string(key) + "\"" + is + "0 or more").c_str());
    }
    CHECK_THROWS_WITH(profile::read_profile(broken("/entries/0/histogram/0/1", wrong)),
                      ("the number of calls in a histogram's bucket" + is + "0 or more").c_str());
  }
  CHECK_THROWS_WITH(profile::read_profile(broken("/entries/0/samples_ns/0", -5)),
                    "a sample is -5, expected a number from 0 to 1e38");
  CHECK_THROWS(profile::read_profile(broken("/entries/0/name", 5)));
  CHECK_THROWS(profile::read_profile(broken("/entries/0/histogram/0", {1})));
  CHECK_THROWS(profile::read_profile(json::parse("{}")));
  CHECK_THROWS(profile::read_profile(json::parse("{\"schema\":\"vecdet-profile/1\"}")));
  CHECK_THROWS_WITH_AS(profile::read_report("/nowhere/x.json"),
                       "cannot read \"/nowhere/x.json\": No such file or directory",
                       std::runtime_error);
  CHECK_THROWS_AS(profile::read_report("/"), std::runtime_error);
  CHECK_THROWS_AS(profile::read_report(source_path("test/test_profile_tools.cpp")),
                  std::runtime_error);
}

TEST_CASE("vecdet-profile: oneDNN's verbose log of version 2.6") {
  const profile::report r = profile::import_onednn(read_file(test_file("onednn_v2.log"))).recorded;
  CHECK(r.warnings.empty());
  const profile::entry& conv = find(r,
                                    "convolution/forward_training/f32/"
                                    "mb1_ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1/"
                                    "jit:avx512_core,aBcd16b,ABcd16b16a,aBcd16b/threads:2");
  CHECK(conv.source == "onednn");
  CHECK(conv.count == 3);
  CHECK(conv.total_ns == doctest::Approx((0.792969 + 0.488037 + 0.452881) * 1e6));
  CHECK(conv.max_ns == doctest::Approx(0.792969e6));
  CHECK(conv.flops == 3 * 2.0 * 64 * 64 * 56 * 56 * 9);
  CHECK(conv.bytes == 3 * 4.0 * (2 * 64 * 56 * 56 + 64 * 64 * 9));
  const profile::entry& grouped =
      find(r,
           "convolution/forward_training/f32/"
           "g32mb1_ic128oc128_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1/"
           "jit:avx512_core,aBcd4b,aBCde4c4b,aBcd4b/threads:2");
  CHECK(grouped.flops == 3 * 2.0 * 128 * 4 * 56 * 56 * 9);
  const profile::entry& half =
      find(r,
           "convolution/forward_training/bf16/"
           "mb1_ic256oc720_ih25oh25kh3sh1dh0ph1_iw25ow25kw3sw1dw0pw1/"
           "jit_bf16:avx512_core_bf16,aBcd16b,ABcd8b16a2b,aBcd16b/threads:2");
  CHECK(half.bytes == 3 * 2.0 * (256 * 25 * 25 + 720 * 25 * 25 + 720 * 256 * 9));
  const profile::entry& product =
      find(r, "matmul/f32/64x256:256x128:64x128/brg:avx512_core,ab,ab,ab/threads:2");
  CHECK(product.flops == 2 * 2.0 * 64 * 256 * 128);
  CHECK(product.bytes == 2 * 4.0 * (64 * 256 + 256 * 128 + 64 * 128));
  CHECK(find(r, "reorder/f32/1x64x56x56/jit:uni,abcd,acdb/threads:2").count == 2);
}

TEST_CASE("vecdet-profile: oneDNN's verbose log of version 3.7 gives the same problems") {
  const profile::report r = profile::import_onednn(read_file(test_file("onednn_v3.log"))).recorded;
  CHECK(r.warnings.empty());
  const profile::entry& conv = find(r,
                                    "convolution/forward_training/f32/"
                                    "mb1_ic64oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1/"
                                    "jit:avx512_core,aBcd16b,ABcd16b16a,aBcd16b/threads:2");
  CHECK(conv.count == 3);
  CHECK(conv.flops == 3 * 2.0 * 64 * 64 * 56 * 56 * 9);
  CHECK(conv.bytes == 3 * 4.0 * (2 * 64 * 56 * 56 + 64 * 64 * 9));
  const profile::entry& product =
      find(r, "matmul/f32/64x256:256x128/brg_matmul:avx512_core,ab,ab,ab/threads:2");
  CHECK(product.bytes / static_cast<double>(product.count) ==
        4.0 * (64 * 256 + 256 * 128 + 64 * 128));
  std::ostringstream out;
  write_json(out, r);
  CHECK(json::accept(out.str()));
}

TEST_CASE("vecdet-profile: malformed lines are counted, never fatal") {
  const std::string good =
      "onednn_verbose,exec,cpu,eltwise,jit:avx512_core,forward_training,data_f32::blocked:abcd:f0 "
      "diff_undef::undef::f0,,alg:eltwise_relu alpha:0 beta:0,1x64x56x56,2.41382\n";
  const std::string text =
      "Epoch 1\n" + good +
      "onednn_verbose,exec,cpu,eltwise,jit\r\n"
      "onednn_verbose,exec,cpu,eltwise,j,f,d,,a,1x2,not a number\n"
      "onednn_verbose,exec,cpu,eltwise,j,f,d,,a,1x2,-5\n"
      "onednn_verbose,exec,cpu,eltwise,j,f,d,,a,1x2,inf\n"
      "onednn_verbose\n"
      "onednn_verbose,v1,primitive,exec\n"
      "onednn_verbose,v1,primitive,exec,cpu,convolution,j,f,d,,a,mb_ic99999999999999999999999oc,1\n"
      "onednn_verbose,v1,primitive,exec,cpu,matmul,j,f,:::: _ _:,,a,:x:,1\n" +
      good.substr(0, good.size() / 2);
  const profile::report r = profile::import_onednn(text).recorded;
  CHECK(r.entries.size() == 3);
  REQUIRE(r.warnings.size() == 2);
  CHECK(r.warnings[0] == "7 malformed lines of the oneDNN log, left out");
  CHECK(r.warnings[1] == "1 lines in the log that are not oneDNN's, passed over");
  // A real log with any cut and any changed byte.
  const std::string real = read_file(test_file("onednn_v3.log"));
  vecdet::test::random_generator random(3);
  for (int i = 0; i < 200; ++i) {
    std::string damaged = real.substr(0, random.bits() % real.size());
    for (int k = 0; k < 5 && !damaged.empty(); ++k) {
      damaged[random.bits() % damaged.size()] = static_cast<char>(random.bits());
    }
    CHECK_NOTHROW(profile::import_onednn(damaged));
  }
}

TEST_CASE("vecdet-profile: google-benchmark's JSON") {
  const json j = json::parse(R"({
    "context": {"host_name": "h", "executable": "./bin/vecdet_bench", "num_cpus": 2},
    "benchmarks": [
      {"name": "nms/torchvision/f32/1000/avx2/threads:1/real_time", "run_type": "iteration",
       "iterations": 100, "real_time": 2.5, "time_unit": "us", "bytes_per_second": 2e9},
      {"name": "nms/torchvision/f32/1000/avx2/threads:1/real_time", "run_type": "iteration",
       "iterations": 300, "real_time": 3.5, "time_unit": "us", "bytes_per_second": 2e9},
      {"name": "nms_mean", "run_type": "aggregate", "iterations": 2, "real_time": 3, "time_unit": "us"},
      {"name": "my own/8", "iterations": 7, "real_time": 1.0, "time_unit": "ms"},
      {"name": "broke", "run_type": "iteration", "error_occurred": true},
      {"name": "odd", "run_type": "iteration", "iterations": "many", "real_time": 1},
      {"name": "few", "run_type": "iteration", "iterations": -1, "real_time": 1},
      {"name": "lots", "run_type": "iteration", "iterations": 1e300, "real_time": 1},
      {"name": "long", "run_type": "iteration", "iterations": 1, "real_time": 1e300}]})");
  const profile::report r = profile::import_google_benchmark(j);
  REQUIRE(r.entries.size() == 2);
  const profile::entry& nms = find(r, "nms/torchvision/f32/1000/avx2/threads:1");
  CHECK(nms.function == "nms");
  CHECK(nms.variant == "torchvision");
  CHECK(nms.shape == std::vector<std::int64_t>{1000});
  CHECK(nms.threads == 1);
  CHECK(nms.count == 400);
  CHECK(nms.total_ns == doctest::Approx(100 * 2500 + 300 * 3500));
  CHECK(nms.samples.size() == 2);
  CHECK(nms.bytes == doctest::Approx(2 * nms.total_ns));
  CHECK(find(r, "my own/8").total_ns == doctest::Approx(7e6));
  CHECK(r.warnings == std::vector<std::string>{"1 benchmarks ended in an error, left out",
                                               "4 benchmarks could not be read, left out"});
}

TEST_CASE("vecdet-profile: names are split into their parts") {
  profile::entry e;
  CHECK(profile::parse_problem_text("f/v/f32/12x3x4/avx2/threads:16", e));
  CHECK(e.shape == std::vector<std::int64_t>{12, 3, 4});
  CHECK(e.threads == 16);
  for (const char* other :
       {"", "f", "f/v/f32/12/avx2", "f/v/f32/x/avx2/threads:1", "f/v/f32//a/threads:1",
        "f/v/f32/12y/avx2/threads:1", "f/v/f32/12/avx2/threads:", "f/v/f32/12/avx2/threads:x",
        "f/v/f32/99999999999999999999/a/threads:1"}) {
    profile::entry untouched;
    CHECK_FALSE(profile::parse_problem_text(other, untouched));
    CHECK(untouched.function == other);
    CHECK(untouched.shape.empty());
  }
}

TEST_CASE("vecdet-profile: ranks merge into one profile") {
  profile::report a = make_report({make_entry("x", {100, 300}), make_entry("only a", {5})});
  profile::report b = make_report({make_entry("only b", {9}), make_entry("x", {500})});
  a.processes[0].rank = 0;
  b.processes[0].rank = 1;
  b.warnings = {"from b"};
  b.machine.memory_gbs = 40;
  profile::path nested;
  nested.entries = {0, 1};  // only b; x
  nested.count = 1;
  nested.total_ns = nested.self_ns = 500;
  b.paths[1] = nested;
  const profile::report r = profile::merge_reports({a, b});
  CHECK(r.processes.size() == 2);
  CHECK(r.entries.size() == 3);
  CHECK(find(r, "x").count == 3);
  CHECK(find(r, "x").total_ns == 900);
  CHECK(find(r, "x").max_ns == 500);
  CHECK(r.whole_ns() == a.whole_ns() + b.whole_ns());
  CHECK(r.machine.memory_gbs == 40);
  CHECK(r.warnings.size() == 1);
  REQUIRE(r.paths.size() == 4);
  CHECK(r.entries[r.paths[3].entries[0]].name == "only b");
  CHECK(r.entries[r.paths[3].entries[1]].name == "x");
}

TEST_CASE("vecdet-profile: the merged profile says which ranks waited for the others") {
  const auto rank = [](int number, double computing, double waiting) {
    profile::report r = make_report({make_entry("step", {computing})});
    r.processes[0].rank = number;
    r.processes[0].recorded_ns = computing + waiting;
    r.processes[0].waiting_ns = waiting;
    std::ostringstream text;
    write_json(text, r);
    return profile::read_profile(json::parse(text.str()));
  };
  const auto table_of = [](const std::vector<profile::report>& ranks) {
    std::ostringstream text;
    profile::write_table(text, profile::merge_reports(ranks));
    return text.str();
  };
  const std::string table = table_of({rank(0, 9e9, 1e9), rank(1, 6e9, 4e9)});
  CAPTURE(table);
  const auto has = [&](const char* line) { return table.find(line) != std::string::npos; };
  CHECK(has("  computing  waiting  of all  process\n"));
  CHECK(has("     9.00 s   1.00 s  10.0 %  rank 0\n"));
  CHECK(has("     6.00 s   4.00 s  40.0 %  rank 1\n"));
  CHECK(has(
      "waiting for other processes: 25.0 % of all; the process that computes most takes x1.50"));
  CHECK(table_of({rank(0, 9e9, 0), rank(1, 6e9, 0)}).find("waiting") == std::string::npos);

  // Older profiles, which lack this.
  json old = json::parse([] {
    std::ostringstream text;
    write_json(text, make_report({make_entry("step", {5})}));
    return text.str();
  }());
  old["processes"][0].erase("recorded_ns");
  old["processes"][0].erase("waiting_ns");
  CHECK(profile::read_profile(old).processes[0].waiting_ns == 0);
}

TEST_CASE("vecdet-profile: the rank test") {
  // Computed by hand, as in Conover's Practical Nonparametric Statistics: U = 0, n = 5 and 5, z =
  // (12.5 - 0.5) / sqrt(25 * 11 / 12) = 2.5067, p = 0.01219.
  CHECK(profile::rank_test({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}) ==
        doctest::Approx(0.01219).epsilon(1e-3));
  CHECK(profile::rank_test({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5}) == 1);
  CHECK(profile::rank_test({1, 1, 1, 1}, {1, 1, 1, 1}) == 1);
  CHECK(profile::rank_test({1, 2, 3}, {100, 200, 300}) == 1);  // too few samples
  CHECK(profile::rank_test({}, {}) == 1);
}

TEST_CASE(
    "vecdet-profile: the bootstrap interval contains the true ratio about as often as stated") {
  int held = 0;
  constexpr int rounds = 100;
  for (int i = 0; i < rounds; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const profile::entry a = make_entry("a", noisy(2 * seed, 1e6, 0.4, 60));
    const profile::entry b = make_entry("a", noisy(2 * seed + 1, 1.1e6, 0.4, 60));
    const profile::interval r = profile::bootstrap_ratio(a.samples, b.samples);
    held += r.low <= 1.1 && r.high >= 1.1 ? 1 : 0;
  }
  CHECK(held >= 86);
}

TEST_CASE("vecdet-profile: compare finds what changed, sorted by what it costs") {
  const profile::report before = make_report(
      {make_entry("step", {10, 10}), make_entry("slower", noisy(1, 1e6, 0.05, 100)),
       make_entry("faster", noisy(2, 5e6, 0.05, 100)), make_entry("same", noisy(3, 2e6, 0.05, 100)),
       make_entry("gone", {400}), make_entry("few", {1000, 1000})});
  const profile::report after = make_report(
      {make_entry("step", {10, 10, 10, 10}), make_entry("slower", noisy(4, 1.1e6, 0.05, 200)),
       make_entry("faster", noisy(5, 4e6, 0.05, 200)), make_entry("same", noisy(6, 2e6, 0.05, 200)),
       make_entry("new", {600}), make_entry("few", {1100, 1100, 1100, 1100})});
  const profile::comparison c = profile::compare_reports(before, after, "step");
  CHECK(c.steps_before == 2);
  CHECK(c.steps_after == 4);
  REQUIRE(c.problems.size() == 7);
  CHECK(c.problems[0].name == "faster");
  CHECK(c.problems[0].result == profile::verdict::faster);
  CHECK(c.problems[0].ratio == doctest::Approx(0.8).epsilon(0.02));
  CHECK(c.problems[1].name == "slower");
  CHECK(c.problems[1].result == profile::verdict::slower);
  CHECK(c.problems[1].cost_ns() == doctest::Approx(50 * 0.1e6).epsilon(0.1));
  for (const profile::difference& d : c.problems) {
    if (d.name == "same") CHECK(d.result == profile::verdict::same);
    if (d.name == "few") CHECK(d.result == profile::verdict::unclear);
    if (d.name == "new") CHECK(d.result == profile::verdict::appeared);
    if (d.name == "gone") CHECK(d.result == profile::verdict::vanished);
  }
  CHECK_THROWS_WITH(profile::compare_reports(before, after, "no such"),
                    "there is no scope \"no such\" to count steps by");
}

TEST_CASE("vecdet-profile: compare across implementations") {
  profile::entry a = make_entry("nms/x/f32/10/avx2/threads:1", {100, 200});
  profile::entry b = make_entry("nms/x/f32/10/avx512/threads:2", {50});
  a.implementation = "avx2";
  b.implementation = "avx512";
  a.threads = 1;
  b.threads = 2;
  profile::report both = make_report({a, b, make_entry("scope/avx2/threads:1", {1})});
  both.machine.memory_gbs = 40;
  both.warnings = {"kept"};
  const profile::report r = profile::without_implementation(both);
  REQUIRE(r.entries.size() == 2);
  CHECK(r.processes.size() == 1);
  CHECK(r.machine.memory_gbs == 40);
  CHECK(r.warnings.size() == 1);
  REQUIRE(r.paths.size() == 2);
  CHECK(r.paths[0].count == 3);
  CHECK(find(r, "nms/x/f32/10").count == 3);
  CHECK(find(r, "scope/avx2/threads:1").count == 1);
}

TEST_CASE("vecdet-profile: compare rarely reports differences that are chance") {
  int wrong = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    std::vector<profile::entry> before, after;
    for (std::uint64_t k = 0; k < 20; ++k) {
      const std::string name = "p" + std::to_string(k);
      before.push_back(make_entry(name, noisy(1000 * i + k, 1e5, 0.5, 40)));
      after.push_back(make_entry(name, noisy(500000 + 1000 * i + k, 1e5, 0.5, 40)));
    }
    for (const auto& d :
         profile::compare_reports(make_report(before), make_report(after), "").problems) {
      wrong += d.result != profile::verdict::same ? 1 : 0;
    }
  }
  CHECK(wrong <= 4);  // of 400
}
