// SPDX-License-Identifier: Apache-2.0
// The benchmarks' plots: exponents of lines with a known law, and the file.
#include "bench/support/line_plot.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

using vecdet::bench::line_plot;

namespace {

/// The text of the plot's file.
std::string written(const line_plot& plot) {
  char path[] = "vecdet_plot_XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  plot.write(path);
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::remove(path);
  return text;
}

}  // namespace

TEST_CASE("line plot: exponents") {
  line_plot plot("a title", "boxes", "ms");
  for (double x = 10; x < 2e6; x *= 10) {
    plot.add("linear", x, 3 * x);
    plot.add("quadratic", x, 1e-6 * x * x);
    plot.add("with a constant", x, 1000 + x);
  }
  plot.add("one point", 5, 5);
  plot.add("linear", 100, 1e9);  // of two times, the lower one is kept
  CHECK(plot.exponent("linear") == doctest::Approx(1));
  CHECK(plot.exponent("quadratic") == doctest::Approx(2));
  CHECK(plot.exponent("with a constant") < 0.7);
  CHECK(plot.exponent("with a constant", 1e5) > 0.9);
  CHECK(std::isnan(plot.exponent("one point")));
  CHECK(std::isnan(plot.exponent("no such line")));
  const std::string table = plot.exponents();
  CHECK(table.find("a title: time ~ boxes^e") == 0);
  CHECK(table.find("quadratic") != std::string::npos);
  CHECK(table.find("2.00") != std::string::npos);
  CHECK(table.find("one point") == std::string::npos);
  CHECK(line_plot("empty", "x", "y").exponents().empty());
}

TEST_CASE("line plot: the file") {
  line_plot plot("a title", "boxes", "ms");
  for (double x = 10; x < 2e4; x *= 10)
    for (const char* name : {"one", "two", "three"}) plot.add(name, x, 3 * x);
  const std::string text = written(plot);
  CHECK(text.find("<svg ") == 0);
  CHECK(text.find("a title") != std::string::npos);
  CHECK(text.find("three ~ 1.00") != std::string::npos);
  // The names of lines that end at the same place do not overlap.
  const auto place = [&](const std::string& name) {
    const std::size_t text_at = text.rfind("<text", text.find(">" + name + " ~"));
    const std::size_t y = text.find("y=\"", text_at) + 3;
    return std::stod(text.substr(y));
  };
  CHECK(std::abs(place("one") - place("two")) >= 12);
  CHECK(std::abs(place("two") - place("three")) >= 12);
}

TEST_CASE("line plot: many lines with long names are within the picture") {
  line_plot plot("a title", "boxes", "ms");
  for (int i = 0; i < 60; ++i) {
    const std::string name = std::to_string(i) + " sigmoid_focal_loss_and_grad/labels/gamma2";
    for (double x = 10; x < 2e4; x *= 10) plot.add(name + "/and/more/of/it", x, x);
  }
  const std::string text = written(plot);
  double width = 0, height = 0, x = 0, y = 0;
  REQUIRE(std::sscanf(text.c_str(),
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %lf %lf", &width,
                      &height) == 2);
  int names = 0;
  for (std::size_t at = 0; (at = text.find("<text", at)) != std::string::npos; ++at) {
    REQUIRE(std::sscanf(text.c_str() + at, "<text x=\"%lf\" y=\"%lf\"", &x, &y) == 2);
    const std::size_t begin = text.find('>', at) + 1, end = text.find('<', begin);
    CHECK(y + 3 <= height);
    if (text.compare(begin, end - begin, "a title") == 0 || end - begin < 40) continue;
    ++names;
    CHECK(x + 0.602 * 12 * static_cast<double>(end - begin) <= width);
  }
  CHECK(names == 60);
}
