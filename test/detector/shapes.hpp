// SPDX-License-Identifier: Apache-2.0
// Helpers of the detector's tests, in particular a data set that is learnt within seconds: red
// discs and blue squares on grey noise, in a VOC folder.
#pragma once

#include "../../examples/detector/picture.hpp"
#include "../../examples/detector/random.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace test {

/// A temporary folder.
class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "detector_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// The message of the exception that an action throws; empty if it throws none.
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Draws `count` pictures of 96 x 96 and writes the lists train.txt and test.txt; a quarter of the
/// pictures go to test.txt.
inline void write_shapes(const temporary_folder& folder, int count) {
  namespace fs = std::filesystem;
  constexpr int side = 96;
  for (const char* part : {"Annotations", "JPEGImages", "ImageSets/Main"})
    fs::create_directories(folder / part);
  std::ofstream train(folder / "ImageSets/Main/train.txt");
  std::ofstream evaluated(folder / "ImageSets/Main/test.txt");
  for (int i = 0; i < count; ++i) {
    detector::random_source random{7, static_cast<std::uint64_t>(i)};
    detector::picture image(side, side);
    for (std::uint8_t& x : image.pixels) x = static_cast<std::uint8_t>(random.uniform(90, 160));
    const std::string name = "shapes_" + std::to_string(i);
    std::ofstream xml(folder / ("Annotations/" + name + ".xml"));
    xml << "<annotation>";
    for (int k = 0; k < 2; ++k) {  // one in each half, so that they do not touch
      const bool is_disc = random.uniform(0, 1) < 0.5;
      const int size = static_cast<int>(random.uniform(20, 40));
      const int x1 = static_cast<int>(random.uniform(0, side / 2 - size)) + k * side / 2;
      const int y1 = static_cast<int>(random.uniform(0, side - size));
      for (int y = 0; y < size; ++y)
        for (int x = 0; x < size; ++x) {
          const int dx = 2 * x - size, dy = 2 * y - size;
          if (is_disc && dx * dx + dy * dy > size * size) continue;
          std::uint8_t* const pixel = image.row(y1 + y) + 3 * (x1 + x);
          pixel[0] = is_disc ? 230 : 30;
          pixel[1] = 40;
          pixel[2] = is_disc ? 30 : 230;
        }
      xml << "<object><name>" << (is_disc ? "disc" : "square") << "</name><bndbox><xmin>" << x1
          << "</xmin><ymin>" << y1 << "</ymin><xmax>" << x1 + size << "</xmax><ymax>" << y1 + size
          << "</ymax></bndbox></object>";
    }
    xml << "</annotation>";
    detector::write_png(image, folder / ("JPEGImages/" + name + ".png"));
    (i % 4 == 3 ? evaluated : train) << name << "\n";
  }
}

}  // namespace test
