// SPDX-License-Identifier: Apache-2.0
// The version of vecdet. It is defined only here: CMake reads these three lines.
#pragma once

#define VECDET_VERSION_MAJOR 0
#define VECDET_VERSION_MINOR 3
#define VECDET_VERSION_PATCH 0
