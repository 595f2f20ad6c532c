// SPDX-License-Identifier: Apache-2.0
// Compiled with -fno-exceptions, which must be refused in words.
#include <vecdet/views.hpp>
