// SPDX-License-Identifier: Apache-2.0
// The helpers of the tests themselves.
#include "support/data.hpp"
#include "support/ulp.hpp"
#include "support/values.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

using namespace vecdet;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

std::string npy_bytes(const std::string& header, const std::string& payload) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         payload;
}

}  // namespace

TEST_CASE("npy arrays are parsed, and errors name the mismatch") {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }\n";
  const auto array = bench::detail::parse_npy<std::uint8_t>(npy_bytes(header, "abcdef"));
  CHECK(array.shape == std::vector<index_t>{2, 3});
  CHECK(array.matrix()(1, 0) == 'd');
  CHECK(bench::detail::npy_shape("(7,)") == std::vector<index_t>{7});
  CHECK(bench::detail::npy_shape("( 7 , 0 , )") == std::vector<index_t>{7, 0});
  CHECK(bench::detail::npy_shape("()").empty());
  for (const char* wrong : {"", "(", "(7", "7,)", "(-1,)", "(7)", "(,)", "(1 2)", "(1,,2)", "(x,)",
                            "(+1,)", "(1.5,)", "(99999999999999999999,)"})
    CHECK_THROWS_AS(bench::detail::npy_shape(wrong), std::runtime_error);

  CHECK_THROWS_WITH(bench::detail::parse_npy<std::uint8_t>(npy_bytes(header, "abc")),
                    "the file's size does not fit its shape");
  CHECK_THROWS_WITH(bench::detail::parse_npy<float>(npy_bytes(header, "abcdef")),
                    "elements are '|u1', wanted <f4");
  const auto shaped = [](const std::string& shape) {
    const std::string text =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }\n";
    return bench::detail::parse_npy<float>(npy_bytes(text, "abcd"));
  };
  CHECK(shaped("1,").size() == 1);
  for (const char* shape :
       {"4611686018427387905,",  // as many bytes as there are, modulo 2^64
        "4294967296, 4294967297", "0, 9223372036854775807", "2,", "-1,", "1, -1", "-1, -1"}) {
    CAPTURE(shape);
    CHECK_THROWS_AS(shaped(shape), std::runtime_error);
  }
  // A file cut at any point, or with any byte of its header changed, is either read or throws
  // std::runtime_error.
  const std::string whole = npy_bytes(header, "abcdef");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(bench::detail::parse_npy<std::uint8_t>(whole.substr(0, size)),
                    std::runtime_error);
    // Cut inside the dictionary, with a length field that matches the cut.
    const std::string cut = header.substr(0, std::min(size, header.size() - 6));
    CHECK_THROWS_AS(bench::detail::parse_npy<std::uint8_t>(npy_bytes(cut, "abcdef")),
                    std::runtime_error);
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = whole;
      damaged[size] = static_cast<char>(byte);
      try {
        const index_t size_read = bench::detail::parse_npy<std::uint8_t>(damaged).size();
        CHECK(size_read == 6);
      } catch (const std::runtime_error&) {
      }
    }
  }
  CHECK_THROWS_AS(bench::load_npy<float>("/"), std::runtime_error);
  CHECK_THROWS_WITH(bench::detail::parse_npy<float>("PK"), "not a .npy file");
  CHECK_THROWS_WITH(bench::load_npy<float>("no/such.npy"), "no/such.npy: cannot be opened");
}

TEST_CASE("golden vectors exist") {
  if (!test::has_data("golden/focal_logits.npy", "golden vectors are found")) return;
  CHECK(test::golden<float>("focal_logits").shape == std::vector<index_t>{203, 37});
  CHECK(test::golden<std::int64_t>("focal_labels").size() == 203);
}

TEST_CASE("ulp distance") {
  CHECK(test::ulp_distance(1.0f, 1.0) == 0);
  CHECK(test::ulp_distance(std::nextafter(1.0f, 2.0f), 1.0) == 1);
  CHECK(test::ulp_distance(1.0f, 1.0 + 0x1p-24) == 0.5);
  CHECK(test::ulp_distance(std::nextafter(1.0, 2.0), 1.0) == 1);
  CHECK(test::ulp_distance(bfloat16(1.0f), 1.0 + 0x1p-7) == 1);
  CHECK(test::ulp_distance(bfloat16(3.14159f), 3.14159) <= 0.5);

  const float denormal = std::numeric_limits<float>::denorm_min();
  CHECK(test::ulp_distance(denormal, 0.0) == 1);
  CHECK(test::ulp_distance(0.0f, 3 * static_cast<double>(denormal)) == 3);
  CHECK(test::ulp_distance(0.0f, 1e-300) < 1e-200);
  CHECK(test::ulp_distance(std::numeric_limits<double>::denorm_min(), 0.0) == 1);

  CHECK(test::ulp_distance(-0.0f, 0.0) == 0);
  CHECK(test::ulp_distance(static_cast<float>(quiet_nan), quiet_nan) == 0);
  CHECK(test::ulp_distance(0.0f, quiet_nan) == infinity);
  CHECK(test::ulp_distance(static_cast<float>(quiet_nan), 0.0) == infinity);
  CHECK(test::ulp_distance(static_cast<float>(infinity), infinity) == 0);
  CHECK(test::ulp_distance(static_cast<float>(-infinity), infinity) == infinity);
  CHECK(test::ulp_distance(std::numeric_limits<float>::max(), infinity) == infinity);
  CHECK(test::ulp_distance(static_cast<float>(infinity),
                           static_cast<double>(std::numeric_limits<float>::max())) == 1);
  CHECK(test::ulp_distance(infinity, std::numeric_limits<double>::max()) == 1);
  CHECK(test::ulp_distance(static_cast<float>(infinity), 1.0) > 1e30);
}

TEST_CASE("random numbers are reproducible") {
  test::random_generator generator(1);
  CHECK(generator.bits() == 0x910a2dec89025cc1u);  // of the published SplitMix64
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = generator.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / 100000) < 0.01);
  CHECK(std::abs(squares / 100000 - 1) < 0.01);
  CHECK(test::random_boxes<float>(9, 7) == test::random_boxes<float>(9, 7));
}
