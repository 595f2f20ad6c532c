// SPDX-License-Identifier: Apache-2.0
// The table at the end of a benchmark run.
#include "../bench/support/comparison_table.hpp"

#include <string>

#include <doctest/doctest.h>

using namespace vecdet;

TEST_CASE("comparison table: names") {
  const auto name = bench::parse_result_name("smooth_l1_loss/all/f32/120087x4/avx512/threads:2");
  CHECK(name.problem == "smooth_l1_loss/all/f32/120087x4");
  CHECK(name.implementation == "avx512");
  CHECK(name.threads == 2);
  CHECK(bench::parse_result_name("something").threads == 0);
  CHECK(bench::parse_result_name("threads:2").threads == 0);
  CHECK(bench::parse_result_name("a/b").threads == 0);
}

TEST_CASE("comparison table: numbers") {
  CHECK(bench::three_digits(0.2714) == "0.271");
  CHECK(bench::three_digits(4.7) == "4.70");
  CHECK(bench::three_digits(15.61) == "15.6");
  CHECK(bench::three_digits(123.4) == "123");
  CHECK(bench::three_digits(15600) == "15600");
  CHECK(bench::three_digits(0.00271) == "0.00271");
  CHECK(bench::three_digits(0) == "0");
}

TEST_CASE("comparison table: text") {
  bench::comparison_table table;
  CHECK(table.empty());
  table.add("f/labels/f32/8x2/avx2/threads:1", {2e-3, 0.5, 20, 0.25});
  table.add("f/labels/f32/8x2/avx512/threads:1", {1e-3, 0.25, 40, 0.5});
  table.add("f/labels/f32/8x2/plain_avx512/threads:1", {4e-3, 1, 10, 0.125});
  table.add("f/labels/f32/8x2/avx512/threads:2", {5e-4, 0.125, 80, 0.6});
  table.add("nms/clustered/f32/1000/torch/threads:1", {2.9e-4, 0, 0, 0});
  table.add("not of this form", {1, 1, 1, 1});
  // AVX2 has no plain loop of its own and is not compared with AVX-512's.
  const std::string expected =
      "| problem                | threads |       unit | plain_avx512 |  avx2 | avx512 | torch | "
      "avx512 / plain_avx512 | GB/s | of copy |\n"
      "|------------------------|--------:|-----------:|-------------:|------:|-------:|------:|"
      "----------------------:|-----:|--------:|\n"
      "| f/labels/f32/8x2       |       1 | ns/element |         1.00 | 0.500 |  0.250 |       | "
      "                4.00x | 40.0 |     50% |\n"
      "| f/labels/f32/8x2       |       2 | ns/element |              |       |  0.125 |       | "
      "                8.00x | 80.0 |     60% |\n"
      "| nms/clustered/f32/1000 |       1 |         ms |              |       |        | 0.290 | "
      "                      |      |         |\n";
  CHECK(table.has("f/labels/f32/8x2/plain_avx512/threads:1"));
  CHECK(!table.has("f/labels/f32/8x2/plain_avx512/threads:2"));
  CHECK(table.text().substr(0, expected.size()) == expected);
}
