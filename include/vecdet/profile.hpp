// SPDX-License-Identifier: Apache-2.0
// The profiler. It times scopes on any thread and aggregates them by problem. Every vecdet function
// is a scope, and you can add your own:
//
//     VECDET_PROFILE_SCOPE("backbone");
//     VECDET_PROFILE_WORK("conv1", bytes, flops, 64, 112, 112);
//
// While the profiler is off, a scope costs one relaxed load. While it is on, a scope costs 30 to 60
// ns, depending on the processor; reports subtract this cost. The environment variable
// VECDET_PROFILE=report.html turns it on (see profile/environment.hpp), and so do enable() and
// print(). The profiler depends only on the standard library. Its parts:
//
//     scope.hpp        the timed scope, for users and for library functions; the only header that a
//                      file needs to record
//     control.hpp      enable, disable, reset, keep_events, intern
//     snapshot.hpp     the recorded data, as a report (report.hpp)
//     output.hpp       table, JSON, CSV, HTML, trace and folded stacks
//     machine.hpp      measures the machine's bounds, for the roofline
//
// To compile all scopes out, define VECDET_PROFILE_DISABLE for the whole program, not only for a
// part of it.
#pragma once

#include <vecdet/profile/control.hpp>
#include <vecdet/profile/environment.hpp>
#include <vecdet/profile/machine.hpp>
#include <vecdet/profile/output.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/profile/snapshot.hpp>
