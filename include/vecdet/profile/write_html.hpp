// SPDX-License-Identifier: Apache-2.0
// A profile, or two to compare, as one HTML page that needs no network.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/profile/html_charts.hpp>
#include <vecdet/profile/html_page.hpp>
#include <vecdet/profile/html_script.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/text.hpp>
#include <vecdet/profile/write_json.hpp>

#include <ostream>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace profile {

/// Writes the page. With a `baseline`, it also shows the changes from the baseline to `r`. The
/// names label the two.
inline void write_html(std::ostream& out, const report& r, const report* baseline = nullptr,
                       const std::string& name = "profile",
                       const std::string& baseline_name = "baseline") {
  out << detail::html_head << detail::html_style << "</style></head><body>" << detail::html_body
      << "<script>\"use strict\";\nconst NAME=" << detail::json_string(name)
      << ",BASELINE_NAME=" << detail::json_string(baseline_name) << ";\nconst PROFILE=";
  write_json(out, r);
  out << ";\nconst BASELINE=";
  if (baseline != nullptr) {
    write_json(out, *baseline);
  } else {
    out << "null";
  }
  out << ";\n" << detail::html_script << detail::html_charts << "</script></body></html>\n";
}

}  // namespace profile
}  // namespace VECDET_ABI
}  // namespace vecdet
