// SPDX-License-Identifier: Apache-2.0
// Bad arguments are reported by exceptions, and the profiler never lets one of its own out.
#pragma once

#if !defined(__cpp_exceptions)
#error "vecdet needs exceptions: compile what includes it without -fno-exceptions"
#endif
