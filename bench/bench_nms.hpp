// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace vecdet {
namespace bench {

/// Adds NMS of detections that were recorded from real detectors: region proposals and box-head
/// outputs in ipex_real/*.npy and a COCO results file in coco100/ of `folder`, the tests' data. A
/// file that is missing or broken is a std::runtime_error that names it.
void register_recorded_nms(const std::string& folder);

}  // namespace bench
}  // namespace vecdet
