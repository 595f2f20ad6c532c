// SPDX-License-Identifier: Apache-2.0
// What the replays of functions that also take a head's levels ask first.
#pragma once

#include "replay.hpp"
#include <vecdet/iou_kind.hpp>

#include <map>
#include <string>

namespace vecdet {
namespace profile {

/// The variants of the IoU losses.
inline const std::map<std::string, iou_kind> iou_kinds{
    {"giou", iou_kind::giou}, {"diou", iou_kind::diou}, {"ciou", iou_kind::ciou}};

bool takes_levels(const entry& e);

/// The call of such a problem; empty where it is unknown.
replay_call make_levels_call(const entry& e, execution policy);

}  // namespace profile
}  // namespace vecdet
