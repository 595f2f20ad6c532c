// SPDX-License-Identifier: Apache-2.0
// The first include of each unit. A unit is one kernel family compiled for one instruction set,
// VECDET_ISA_UNIT, with the flags given in cmake/vecdet-targets.cmake or at the top of isa/*.cpp.
// It includes this file and the family's header, whose last lines instantiate kernels() for each
// element type. Nothing else is visible outside.
#pragma once

#include <vecdet/detail/target.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/isa.hpp>

#if defined(__FAST_MATH__) || !defined(__OPTIMIZE__)
#error "vecdet: units are compiled with -O2 -ffp-contract=off -fno-fast-math -fno-math-errno"
#endif
static_assert(vecdet::isa::VECDET_ISA_UNIT == vecdet::isa::VECDET_TARGET_ISA,
              "vecdet: the unit's -march does not match its instruction set");
