// SPDX-License-Identifier: Apache-2.0
// Checks of matching's parameters and ground truth. Errors name the function that the user called.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/box_coding_call.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/input_checks.hpp>
#include <vecdet/matching.hpp>

#include <sstream>
#include <string>

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

/// `params_name` is the name of the parameters in messages.
inline void check_matcher(const char* function, const char* params_name,
                          const matcher_params& params) {
  check_member(!is_nan(params.high_threshold), function, params_name, "high_threshold",
               params.high_threshold, "a number");
  check_member(!is_nan(params.low_threshold), function, params_name, "low_threshold",
               params.low_threshold, "a number");
  if (params.low_threshold > params.high_threshold) {
    std::ostringstream high;
    high << "at most " << params.high_threshold << ", the high threshold";
    throw_invalid_argument(function, std::string(params_name) + ".low_threshold",
                           params.low_threshold, high.str());
  }
  check_member(is_within(params.region_threshold, 0, 1), function, params_name, "region_threshold",
               params.region_threshold, "a number in [0, 1]");
}

/// Throws unless the ground truth has `images` images with valid boxes and regions.
inline void check_matched_truth(const char* function, const ground_truth& truth, index_t images) {
  if (!truth.image_offsets.empty())
    check_offsets(function, "truth.image_offsets", truth.image_offsets, truth.boxes.size(),
                  "the number of boxes");
  check_size(function, "the number of truth's images", image_count(truth), images,
             "the number of the head's images");
  look_at_boxes(function, "truth.boxes", truth.boxes);
  check_regions(function, truth);
  for (index_t k = 0; k < images; ++k) {
    const index_t boxes = first_image_box(truth, k + 1) - first_image_box(truth, k);
    check(boxes <= index_t{0x7fffffff}, function, "truth.boxes.size()", boxes,
          "at most 2^31 - 1 per image");
  }
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
