// SPDX-License-Identifier: Apache-2.0
// The profiler, which stands alone on the standard library. Scopes are timed on any thread and
// aggregated by problem.
#pragma once

#include <vecdet/profile/control.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/profile/snapshot.hpp>
