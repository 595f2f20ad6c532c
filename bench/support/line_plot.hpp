// SPDX-License-Identifier: Apache-2.0
// A line plot with two logarithmic axes, as an SVG file, and the exponents of its lines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vecdet::bench {

class line_plot {
 public:
  line_plot(std::string title, std::string x_name, std::string y_name)
      : title_(std::move(title)), x_name_(std::move(x_name)), y_name_(std::move(y_name)) {}

  /// Adds a point to a line; if the line has a point at that x, the lower one is kept.
  void add(const std::string& line, double x, double y) {
    if (!(x > 0 && y > 0)) return;
    const auto at = lines_[line].insert({x, y}).first;
    at->second = std::min(at->second, y);
  }

  const std::string& title() const { return title_; }

  /// The exponent e of y ~ x^e, by least squares on the logarithms over the points from x = `from`
  /// on; NaN for fewer than two points.
  double exponent(const std::string& line, double from = 0) const {
    double count = 0, x = 0, y = 0, xx = 0, xy = 0;
    const auto at = lines_.find(line);
    if (at == lines_.end()) return std::nan("");
    for (const auto& point : at->second) {
      if (point.first < from) continue;
      const double a = std::log(point.first), b = std::log(point.second);
      count += 1;
      x += a;
      y += b;
      xx += a * a;
      xy += a * b;
    }
    return count < 2 ? std::nan("") : (count * xy - x * y) / (count * xx - x * x);
  }

  /// A table of all lines with at least two points: the exponent over all points, and over the last
  /// two decades. Empty if there is no such line.
  std::string exponents() const {
    std::string rows;
    for (const auto& line : lines_) {
      if (line.second.size() < 2) continue;
      const double last = line.second.rbegin()->first;
      char row[160];
      std::snprintf(row, sizeof row, "| %-44s | %6g to %6g | %5.2f | %12.2f |\n",
                    line.first.c_str(), line.second.begin()->first, last, exponent(line.first),
                    exponent(line.first, 0.0099 * last));
      rows += row;
    }
    if (rows.empty()) return rows;
    return title_ + ": time ~ " + x_name_ +
           "^e\n| line                                         | " + x_name_ +
           " | e | last decades |\n|---|---|--:|--:|\n" + rows;
  }

  /// Writes the file if there is a point.
  void write(const std::string& path) const {
    if (lines_.empty()) return;
    double low[2] = {1e300, 1e300}, high[2] = {0, 0};
    for (const auto& line : lines_) {
      for (const auto& point : line.second) {
        const double at[2] = {point.first, point.second};
        for (int k = 0; k < 2; ++k) {
          low[k] = std::min(low[k], at[k]);
          high[k] = std::max(high[k], at[k]);
        }
      }
    }
    double first[2], decades[2];
    for (int k = 0; k < 2; ++k) {
      first[k] = std::floor(std::log10(low[k]));
      decades[k] = std::max(1.0, std::ceil(std::log10(high[k])) - first[k]);
    }
    const auto px = [&](double x) { return 70 + 560 * (std::log10(x) - first[0]) / decades[0]; };
    const auto py = [&](double y) { return 420 - 370 * (std::log10(y) - first[1]) / decades[1]; };

    const std::map<std::string, double> names = places_of_names(py);
    const double width = width_with_names(px), height = height_with_names(names);
    std::ofstream out(path);
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
        << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
        << "<rect width=\"" << width << "\" height=\"" << height << "\" fill=\"white\"/>\n"
        << "<text x=\"70\" y=\"28\" font-size=\"15\">" << title_ << "</text>\n"
        << "<text x=\"350\" y=\"465\" text-anchor=\"middle\">" << x_name_ << "</text>\n"
        << "<text x=\"20\" y=\"45\">" << y_name_ << "</text>\n";
    for (int k = 0; k < 2; ++k) {
      for (double d = 0; d <= decades[k]; ++d) {
        const double value = std::pow(10.0, first[k] + d);
        char label[32];
        std::snprintf(label, sizeof label, "%g", value);
        if (k == 0) {
          out << "<path d=\"M" << px(value) << " 50V420\" stroke=\"#ddd\"/><text x=\"" << px(value)
              << "\" y=\"438\" text-anchor=\"middle\">" << label << "</text>\n";
        } else {
          out << "<path d=\"M70 " << py(value) << "H630\" stroke=\"#ddd\"/><text x=\"62\" y=\""
              << py(value) + 4 << "\" text-anchor=\"end\">" << label << "</text>\n";
        }
      }
    }
    const char* colours[] = {"#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#9c6b4e"};
    std::size_t number = 0;
    for (const auto& line : lines_) {
      const char* const colour = colours[number++ % 6];
      out << "<path fill=\"none\" stroke-width=\"2\" stroke=\"" << colour << "\" d=\"";
      char step = 'M';
      for (const auto& point : line.second) {
        out << step << px(point.first) << ' ' << py(point.second);
        step = 'L';
      }
      out << "\"/>\n";
      for (const auto& point : line.second)
        out << "<circle r=\"3\" fill=\"" << colour << "\" cx=\"" << px(point.first) << "\" cy=\""
            << py(point.second) << "\"><title>" << point.first << ": " << point.second
            << "</title></circle>\n";
      out << "<text x=\"" << px(line.second.rbegin()->first) + 8 << "\" y=\""
          << names.at(line.first) << "\" font-family=\"monospace\" fill=\"" << colour << "\">"
          << label_of(line.first) << "</text>\n";
    }
    out << "</svg>\n";
  }

 private:
  /// A line's name and exponent.
  std::string label_of(const std::string& line) const {
    if (lines_.at(line).size() < 2) return line;
    char power[32];
    std::snprintf(power, sizeof power, " ~ %.2f", exponent(line));
    return line + power;
  }

  /// The picture's width. Labels stand right of the lines' ends, in a font whose characters are all
  /// about 0.6 of its size wide.
  template <class Place>
  double width_with_names(const Place& px) const {
    double width = 960;
    for (const auto& line : lines_) {
      const double label = 12 * 0.61 * static_cast<double>(label_of(line.first).size());
      width = std::max(width, std::ceil(px(line.second.rbegin()->first) + 8 + label + 8));
    }
    return width;
  }

  static double height_with_names(const std::map<std::string, double>& places) {
    double height = 480;
    for (const auto& place : places) height = std::max(height, std::ceil(place.second + 12));
    return height;
  }

  /// Names are at the ends of their lines, with enough distance to be legible.
  template <class Place>
  std::map<std::string, double> places_of_names(const Place& py) const {
    std::vector<std::pair<double, std::string>> ends;
    for (const auto& line : lines_) ends.push_back({py(line.second.rbegin()->second), line.first});
    std::sort(ends.begin(), ends.end());
    std::map<std::string, double> places;
    double least = 50;
    for (const auto& end : ends) {
      const double y = std::max(end.first + 4, least);
      places[end.second] = y;
      least = y + 13;
    }
    return places;
  }

  std::string title_, x_name_, y_name_;
  std::map<std::string, std::map<double, double>> lines_;
};

}  // namespace vecdet::bench
