// SPDX-License-Identifier: Apache-2.0
// What vecdet requires of the compiler's options: C++17; and exceptions, because it reports bad
// arguments with them, and the profiler catches its own.
#pragma once

#if __cplusplus < 201703L
#error "vecdet requires C++17: compile with -std=c++17 or newer"
#endif
#if !defined(__cpp_exceptions)
#error "vecdet requires exceptions: do not compile with -fno-exceptions"
#endif
