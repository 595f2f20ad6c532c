// SPDX-License-Identifier: Apache-2.0
// The history as one HTML file that needs no other files: a plot per benchmark, with the levels
// between its change points.
#pragma once

#include "history.hpp"
#include "report.hpp"
#include "report_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace vecdet::gate {

namespace detail {

struct plot_area {
  double left = 80, right = 880, top = 20, bottom = 180;
};

/// A plot of time against the number of the run. The axis does not begin at 0, so that changes of a
/// few per cent can be seen.
inline void write_plot(std::ostream& out, const benchmark_history& series) {
  const plot_area area;
  double low = *std::min_element(series.ns.begin(), series.ns.end());
  double high = *std::max_element(series.ns.begin(), series.ns.end());
  const double margin = std::max(0.1 * (high - low), 0.02 * high);
  low -= margin;
  high += margin;
  const double steps = std::max<double>(1, static_cast<double>(series.ns.size()) - 1);
  const auto x = [&](double i) { return area.left + (area.right - area.left) * i / steps; };
  const auto y = [&](double ns) {
    return area.bottom - (area.bottom - area.top) * (ns - low) / (high - low);
  };
  out << "<svg viewBox=\"0 0 900 210\" role=\"img\">\n";
  for (int i = 0; i <= 4; ++i) {
    const double ns = low + (high - low) * i / 4;
    out << "<path class=\"grid\" d=\"M" << area.left << ' ' << y(ns) << "H" << area.right
        << "\"/><text x=\"" << area.left - 8 << "\" y=\"" << y(ns) + 4 << "\" text-anchor=\"end\">"
        << time_text(ns) << "</text>\n";
  }
  out << "<text x=\"" << area.left << "\" y=\"202\">" << series.times.front().substr(0, 10)
      << "</text><text x=\"" << area.right << "\" y=\"202\" text-anchor=\"end\">"
      << series.times.back().substr(0, 10) << "</text>\n";
  for (std::size_t i = 0; i <= series.changes.size(); ++i) {
    const double begin = i == 0 ? 0 : static_cast<double>(series.changes[i - 1]);
    const double end =
        static_cast<double>((i < series.changes.size() ? series.changes[i] : series.ns.size()) - 1);
    out << "<path class=\"level\" d=\"M" << x(begin) << ' ' << y(level(series, i)) << "H" << x(end)
        << "\"/>\n";
    if (i > 0)
      out << "<path class=\"change\" d=\"M" << x(begin - 0.5) << ' ' << area.top << "V"
          << area.bottom << "\"/>\n";
  }
  for (std::size_t i = 0; i < series.ns.size(); ++i) {
    out << "<circle r=\"3\" cx=\"" << x(static_cast<double>(i)) << "\" cy=\"" << y(series.ns[i])
        << "\"><title>" << series.times[i] << ", " << xml_text(series.revisions[i].substr(0, 12))
        << ": " << time_text(series.ns[i]) << "</title></circle>\n";
  }
  out << "</svg>\n";
}

}  // namespace detail

inline void write_history_page(std::ostream& out, const std::vector<benchmark_history>& all) {
  out << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>Benchmark history</title>\n<style>\n"
         "body { font: 15px sans-serif; max-width: 920px; margin: 2em auto; padding: 0 1em }\n"
         "h2 { font-size: 1.1em; overflow-wrap: anywhere }\n"
         "td, th { text-align: left; padding: .1em 1em .1em 0 }\n"
         "td:first-child { overflow-wrap: anywhere }\n"
         "svg { width: 100% } svg text { font-size: 12px; fill: #444 }\n"
         ".grid { stroke: #ddd } .level { stroke: #4269d0; stroke-width: 2 }\n"
         ".change { stroke: #d33; stroke-dasharray: 4 3 } circle { fill: #4269d0 }\n"
         "</style></head><body>\n<h1>Benchmark history</h1>\n";
  std::size_t changes = 0;
  for (const benchmark_history& series : all) changes += series.changes.size();
  const std::size_t least = least_runs(), least_after = change_point_params{}.least_points;
  const auto counted = [](std::size_t count, const char* noun) {
    return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
  };
  out << "<p>" << counted(all.size(), "benchmark") << ", " << counted(changes, "change")
      << ". Points are runs, horizontal lines the medians between changes, dashed lines "
         "changes found by e-divisive means (Matteson &amp; James 2014, permutation test, p &le; "
      << change_point_params{}.significance << "). Changed benchmarks come first.</p>\n";
  out << "<p>It takes " << least << " runs before a step and " << least
      << " after it to tell it from chance, or " << least_after << " after a longer history.";
  const auto is_short = [&](const benchmark_history& series) {
    return series.changes.empty() && series.ns.size() < 2 * least;
  };
  const auto short_count =
      static_cast<std::size_t>(std::count_if(all.begin(), all.end(), is_short));
  if (short_count > 0)
    out << ' ' << counted(short_count, "benchmark") << (short_count == 1 ? " has" : " have")
        << " fewer than " << 2 * least
        << " runs and no change: a step that you see there may or may not be chance.";
  out << "</p>\n";
  std::vector<const benchmark_history*> order;
  for (const benchmark_history& series : all) order.push_back(&series);
  std::stable_partition(order.begin(), order.end(),
                        [](const benchmark_history* series) { return !series->changes.empty(); });
  if (changes > 0) {
    out << "<table><tr><th>benchmark</th><th>since</th><th>revision</th><th>change</th></tr>\n";
    for (const benchmark_history& series : all) {
      for (std::size_t i = 0; i < series.changes.size(); ++i) {
        const std::size_t at = series.changes[i];
        out << "<tr><td>" << xml_text(series.name) << "</td><td>" << series.times[at].substr(0, 10)
            << "</td><td>" << xml_text(series.revisions[at].substr(0, 12)) << "</td><td>"
            << percent(level(series, i + 1) / level(series, i)) << "</td></tr>\n";
      }
    }
    out << "</table>\n";
  }
  for (const benchmark_history* of : order) {
    const benchmark_history& series = *of;
    out << "<h2>" << xml_text(series.name) << "</h2>\n<p>" << xml_text(series.machine);
    if (is_short(series)) out << "; " << series.ns.size() << " runs: too few to tell a change";
    out << "</p>\n";
    detail::write_plot(out, series);
  }
  out << "</body></html>\n";
}

}  // namespace vecdet::gate
