// SPDX-License-Identifier: Apache-2.0
// What the replays of functions that also take a head's levels ask first.
#pragma once

#include "replay.hpp"

namespace vecdet {
namespace profile {

bool takes_levels(const entry& e);

/// The call of such a problem; empty where it is unknown.
replay_call make_levels_call(const entry& e, execution policy);

}  // namespace profile
}  // namespace vecdet
