// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/iou.hpp>

namespace vecdet::test {
namespace {

constexpr struct {
  const char* variant;
  iou_params params;
} kinds[] = {{"torchvision", {iou_kind::iou, empty_iou::nan}},
             {"detectron2", {iou_kind::iou, empty_iou::zero}},
             {"giou", {iou_kind::giou, empty_iou::nan}},
             {"diou", {iou_kind::diou, empty_iou::nan}},
             {"ciou", {iou_kind::ciou, empty_iou::nan}},
             {"giou/zero", {iou_kind::giou, empty_iou::zero}},
             {"diou/zero", {iou_kind::diou, empty_iou::zero}},
             {"ciou/zero", {iou_kind::ciou, empty_iou::zero}}};

template <class T>
struct pairwise_calls {
  placed_boxes<T> a, b;
  placed_matrix<T> out;

  static std::vector<shape> sweep(index_t length) {
    return {{length, 1 + length % 19}, {1 + length % 7, length}};
  }
  static shape sized(index_t rows) { return {rows, 5}; }

  /// The shorter list of boxes is the ground truth.
  pairwise_calls(operands& make, const problem& p)
      : a(p.shape[0] <= p.shape[1] ? make.truth_boxes<T>(p.shape[0]) : make.boxes<T>(p.shape[0])),
        b(p.shape[0] <= p.shape[1] ? make.boxes<T>(p.shape[1]) : make.truth_boxes<T>(p.shape[1])),
        out(make.matrix<T>(p.shape[0], p.shape[1])) {}

  void list(call_list& c) {
    for (const auto& kind : kinds)
      c.add("pairwise_iou/" + std::string(kind.variant), reads(a, b).writes(out),
            [this, params = kind.params](threading policy) {
              pairwise_iou(a.in(), b, out.out(), params, policy);
            });
  }
};

template <class T>
struct elementwise_calls {
  placed_boxes<T> a, b;
  placed<T> out;

  static std::vector<shape> sweep(index_t length) { return {{length}}; }
  static shape sized(index_t rows) { return {rows}; }

  elementwise_calls(operands& make, const problem& p)
      : a(make.boxes<T>(p.shape[0])),
        b(make.boxes_near<T>(p.shape[0])),
        out(make.room<T>(p.shape[0])) {}

  void list(call_list& c) {
    for (const auto& kind : kinds) {
      c.add("elementwise_iou/" + std::string(kind.variant), reads(a, b).writes(out),
            [this, params = kind.params](threading policy) {
              elementwise_iou(a.in(), b, out, params, policy);
            });
      c.add("elementwise_iou/soa_" + std::string(kind.variant), reads(a, b).writes(out),
            [this, params = kind.params](threading policy) {
              elementwise_iou(a.in_planes(), b.in_planes(), out, params, policy);
            });
    }
  }
};

const registered_family registered[] = {
    calls_of<pairwise_calls, float, bfloat16, double>("iou"),
    calls_of<elementwise_calls, float, bfloat16, double>("iou/elementwise"),
};

}  // namespace
}  // namespace vecdet::test
