// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace vecdet::bench {

/// Adds NMS of detections recorded from real detectors: region proposals and box-head outputs in
/// ipex_real/*.npy, and a COCO results file in coco100/, from `folder`, the tests' data. Throws
/// std::runtime_error that names the file if one is missing or broken.
void register_recorded_nms(const std::string& folder);

}  // namespace vecdet::bench
