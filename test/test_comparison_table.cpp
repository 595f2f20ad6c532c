// SPDX-License-Identifier: Apache-2.0
// The table at the end of a benchmark run.
#include "../bench/support/comparison_table.hpp"

#include <sstream>
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

TEST_CASE("comparison table: a row per instruction set, at most 120 columns") {
  bench::comparison_table table;
  CHECK(table.empty());
  table.add("f/labels/f32/8x2/plain_avx512/threads:1", {4e-3, 0.125});
  table.add("f/labels/f32/8x2/avx2/threads:1", {2e-3, 0.25});
  table.add("f/labels/f32/8x2/avx512/threads:1", {1e-3, 0.5});
  table.add("f/labels/f32/8x2/avx512/threads:2", {5e-4, 0.6});
  table.add("nms/clustered/f32/1000/torch/threads:1", {2.9e-4});
  table.add("not of this form", {1});
  // AVX2 has no plain loop of its own and is not compared with AVX-512's.
  const std::string expected =
      "| problem                                       | vecdet on | plain, ms | vecdet, ms |    "
      "faster | 2 threads | of copy |\n"
      "|-----------------------------------------------|-----------|----------:|-----------:|------"
      "----:|----------:|--------:|\n"
      "| f                                             |           |           |            |      "
      "     |           |         |\n"
      "|   labels/f32/8x2                              | avx512    |      4.00 |       1.00 |     "
      "4.00x |     0.500 |     50% |\n"
      "|   labels/f32/8x2                              | avx2      |           |       2.00 |      "
      "     |           |     25% |\n"
      "| nms                                           |           |           |            |      "
      "     |           |         |\n"
      "|   clustered/f32/1000                          | (torch)   |           |      0.290 |      "
      "     |           |         |\n";
  CHECK(table.has("f/labels/f32/8x2/plain_avx512/threads:1"));
  CHECK(!table.has("f/labels/f32/8x2/plain_avx512/threads:2"));
  CHECK(table.text().substr(0, expected.size()) == expected);
  std::istringstream lines(table.text());
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
}

TEST_CASE("comparison table: marks of slower and of unsteady results") {
  bench::comparison_table table;
  table.add("f/a/f32/8/plain_avx2/threads:1", {1e-3});
  table.add("f/a/f32/8/avx2/threads:1", {2e-3});
  CHECK(table.rows("f/a/f32/8").find("0.500x <") != std::string::npos);
  table.add("f/b/f32/8/plain_avx2/threads:1", {4e-3, 0, 1.33});
  table.add("f/b/f32/8/avx2/threads:1", {2e-3, 0, 1.34});
  CHECK(table.rows("f/b/f32/8").find("4.00 |     2.00 ~ |     2.00x ") != std::string::npos);
}

TEST_CASE("comparison table: summary") {
  bench::comparison_table table;
  const double times[] = {8e-3, 1e-3, 3e-3};
  for (int i = 0; i < 3; ++i) {
    const std::string problem = "f/a/f32/" + std::to_string(i);
    table.add(problem + "/plain_avx2/threads:1", {times[i]});
    table.add(problem + "/avx2/threads:1", {2e-3, 0, i == 2 ? 2.0 : 1.0});
    table.add(problem + "/avx2/threads:2", {1e-3});
  }
  CHECK(table.summary("avx2") ==
        "Summary of 3 problems: vecdet on avx2, one thread, compared with plain loops\n"
        "  times faster, median      1.50x\n"
        "  most                      4.00x  f/a/f32/0\n"
        "  least                     0.500x  f/a/f32/1\n"
        "  slower (<)                1: f/a/f32/1\n"
        "  2 threads, median         2.00x as fast as one thread\n"
        "  unsteady (~)              1: f/a/f32/2\n");
  CHECK(table.summary("avx512").empty());
}
