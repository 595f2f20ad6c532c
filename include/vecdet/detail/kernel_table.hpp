// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set: a table of plain function pointers, one row a kernel family.
// isa/*.cpp each define one; dispatch.hpp picks the one in force.
#pragma once

#include <vecdet/detail/cpu_features.hpp>
#include <vecdet/detail/rows/box_coding.hpp>
#include <vecdet/detail/rows/filter_topk.hpp>
#include <vecdet/detail/rows/focal_loss.hpp>
#include <vecdet/detail/rows/iou.hpp>
#include <vecdet/detail/rows/iou_loss.hpp>
#include <vecdet/detail/rows/nms.hpp>
#include <vecdet/detail/rows/regression_loss.hpp>
#include <vecdet/detail/rows/smooth_l1.hpp>
#include <vecdet/dtype.hpp>

#include <type_traits>

namespace vecdet {
namespace detail {

/// A family's row for each element type.
template <template <class> class Row>
struct per_type {
  Row<float> f32;
  Row<bfloat16> bf16;
  Row<double> f64;

  template <class T>
  constexpr const Row<T>& get() const noexcept {
    if constexpr (std::is_same<T, float>::value) {
      return f32;
    } else if constexpr (std::is_same<T, double>::value) {
      return f64;
    } else {
      static_assert(std::is_same<T, bfloat16>::value,
                    "vecdet kernels take float, vecdet::bfloat16 or double");
      return bf16;
    }
  }
};

/// Of families that have no use for double.
template <template <class> class Row>
struct per_logit_type {
  Row<float> f32;
  Row<bfloat16> bf16;

  template <class T>
  constexpr const Row<T>& get() const noexcept {
    static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                  "this function takes float or vecdet::bfloat16");
    if constexpr (std::is_same<T, float>::value) {
      return f32;
    } else {
      return bf16;
    }
  }
};

struct kernel_table {
  isa target;
  per_type<focal_loss_row> focal_loss;
  per_type<smooth_l1_row> smooth_l1;
  per_type<box_coding_row> box_coding;
  mixed_coding_row mixed_coding;
  per_type<iou_row> iou;
  per_type<iou_loss_row> iou_loss;
  per_type<regression_loss_row> regression_loss;
  regression_loss_row<mixed_regression> mixed_regression_loss;
  per_type<nms_row> nms;
  per_logit_type<filter_topk_row> filter_topk;
};

}  // namespace detail
}  // namespace vecdet
