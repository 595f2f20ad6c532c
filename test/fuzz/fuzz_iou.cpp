// SPDX-License-Identifier: Apache-2.0
// IoU of any boxes, of all pairs and of corresponding boxes: bit-identical to torchvision's, and
// equal to the reference's numbers if those are well conditioned.
#include "box_input.hpp"
#include <vecdet/reference/iou.hpp>

#include <cmath>

using namespace vecdet;

namespace {

template <class T>
void expect_iou(const char* set, double actual, boxes_view<const T> a, index_t i,
                boxes_view<const T> b, index_t j, const iou_params& params, fuzz::box_kind boxes) {
  const auto rule = static_cast<reference::empty_union>(static_cast<int>(params.empty));
  const auto kind = static_cast<reference::iou_kind>(static_cast<int>(params.kind));
  const auto what = [&] {
    return std::string(set) + " kind " + std::to_string(static_cast<int>(kind)) + " of pair " +
           std::to_string(i) + ", " + std::to_string(j);
  };
  if constexpr (!std::is_same<T, double>::value) {
    if (params.kind == iou_kind::iou) {
      const float exact =
          reference::iou(reference::load_box<float>(a, i), reference::load_box<float>(b, j), rule);
      // The rule applies to every NaN, including that of infinite areas.
      if (params.empty == empty_iou::zero && std::isnan(exact) && actual == 0) return;
      if (!fuzz::same_number(actual, static_cast<double>(test::to<T>(static_cast<double>(exact)))))
        fuzz::expect_near(what, actual, static_cast<double>(exact), 0, 0);
      return;
    }
  }
  if (boxes == fuzz::box_kind::any) return;
  const double within = std::is_same<T, bfloat16>::value ? 1e-2
                        : std::is_same<T, float>::value  ? 1e-6
                                                         : 1e-12;
  fuzz::expect_near(
      what, actual,
      reference::iou_of_kind(kind, reference::load_box(a, i), reference::load_box(b, j), rule), 0,
      within);
}

template <class T>
void iou(fuzz::input& in) {
  const index_t rows = in.integer(0, 40);
  const index_t cols = in.byte() < 16 ? in.integer(500, 530) : in.integer(0, 70);
  const index_t stride = cols + in.one_of<index_t>({0, 0, 1, 5});
  const index_t extent = rows == 0 ? 0 : (rows - 1) * stride + cols;
  iou_params params;
  params.kind = in.one_of({iou_kind::iou, iou_kind::giou, iou_kind::diou, iou_kind::ciou});
  params.empty = in.flag() ? empty_iou::nan : empty_iou::zero;
  const fuzz::box_kind kind = fuzz::any_box_kind(in);
  const auto first = fuzz::some_boxes<T>(in, rows, kind);
  const auto second = fuzz::some_boxes<T>(in, cols, kind);
  const boxes_view<const T> a(first), b(second);
  const index_t pairs = std::min(rows, cols);
  const fuzz::planes<T> first_planes(first), second_planes(second);

  const fuzz::tensor<T> out(extent), each(pairs);
  fuzz::on_every_isa(
      std::string("IoU ") + dtype_name<T>(),
      [&](fuzz::results& results) {
        for (T& element : out) element = test::to<T>(-12345);
        const matrix_view<T> out_view(out.data(), rows, cols, stride);
        pairwise_iou(a, b, out_view, params, threading::parallel);
        const vector_view<T> each_view(each);
        elementwise_iou(first_planes.view(pairs), second_planes.view(pairs), each_view, params,
                        threading::parallel);
        fuzz::results separate, together;
        separate.add(each);
        elementwise_iou(boxes_view<const T>(a.data(), pairs), boxes_view<const T>(b.data(), pairs),
                        each_view, params, threading::sequential);
        together.add(each);
        fuzz::expect_same("IoU of boxes in four arrays gives different bits", separate, together);
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < cols; ++j) results.add(static_cast<double>(out_view(i, j)));
        results.add(each);
        for (index_t k = 0; k < extent; ++k)
          if (k % stride >= cols &&
              static_cast<double>(out.data()[k]) != static_cast<double>(test::to<T>(-12345)))
            fuzz::fail("padding was written");
      },
      [&](const char* set, const std::vector<double>& values) {
        std::size_t at = 0;
        for (index_t i = 0; i < rows; ++i)
          for (index_t j = 0; j < cols; ++j)
            expect_iou(set, values[at++], a, i, b, j, params, kind);
        for (index_t i = 0; i < pairs; ++i) expect_iou(set, values[at++], a, i, b, i, params, kind);
      });
}

}  // namespace

void fuzz::target(input& in) {
  with_any_type(in, [&](auto zero) { iou<decltype(zero)>(in); });
}
