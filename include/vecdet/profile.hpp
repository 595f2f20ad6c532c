// SPDX-License-Identifier: Apache-2.0
// The profiler. It times scopes on any thread and aggregates them by problem; every vecdet function
// is one, and the user's own code may be:
//
//     VECDET_PROFILE_SCOPE("backbone");
//     VECDET_PROFILE_WORK("conv1", bytes, flops, 64, 112, 112);
//
// Off, a scope costs one relaxed load; on, 30 to 60 ns by processor, which are taken off what it
// reports. VECDET_PROFILE=report.html in the environment turns it on, see profile/environment.hpp;
// so do enable() and print(). It stands alone on the standard library. Its parts:
//
//     scope.hpp        the timed scope, for users and for library functions: all that a file which
//                      only records need include
//     control.hpp      enable, disable, reset, keep_events, intern
//     snapshot.hpp     what was recorded, as the plain data of report.hpp
//     output.hpp       table, JSON, CSV, HTML, trace and folded stacks
//     machine.hpp      measures the machine's bounds, for the roofline
//
// Define VECDET_PROFILE_DISABLE for a whole program, not for a part of it, to compile all scopes
// out.
#pragma once

#include <vecdet/profile/control.hpp>
#include <vecdet/profile/environment.hpp>
#include <vecdet/profile/machine.hpp>
#include <vecdet/profile/output.hpp>
#include <vecdet/profile/problem.hpp>
#include <vecdet/profile/report.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/profile/snapshot.hpp>
