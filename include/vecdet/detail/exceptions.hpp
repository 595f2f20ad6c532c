// SPDX-License-Identifier: Apache-2.0
// vecdet requires exceptions: it reports bad arguments with them, and the profiler catches its own.
#pragma once

#if !defined(__cpp_exceptions)
#error "vecdet requires exceptions: do not compile with -fno-exceptions"
#endif
