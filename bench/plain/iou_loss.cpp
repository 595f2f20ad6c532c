// SPDX-License-Identifier: Apache-2.0
#include "iou_loss.hpp"

#include "terms.hpp"

namespace vecdet::bench::VECDET_PLAIN_SET {

template <plain_loss L, plain_output O>
double plain_iou_loss(const float* predicted, const float* targets, float* __restrict out,
                      std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    plain_box grad;
    const float loss = iou_loss<L>(load(predicted, i), load(targets, i), grad);
    if (O == plain_output::loss)
      out[i] = loss;
    else
      sum += loss;
    if (O == plain_output::grad) store(grad, out, i);
  }
  return sum;
}

#define VECDET_PLAIN_IOU_LOSS(kind)                                                            \
  template double plain_iou_loss<kind, plain_output::sum>(const float*, const float*, float*,  \
                                                          std::int64_t);                       \
  template double plain_iou_loss<kind, plain_output::loss>(const float*, const float*, float*, \
                                                           std::int64_t);                      \
  template double plain_iou_loss<kind, plain_output::grad>(const float*, const float*, float*, \
                                                           std::int64_t);
VECDET_PLAIN_IOU_LOSS(plain_loss::giou)
VECDET_PLAIN_IOU_LOSS(plain_loss::diou)
VECDET_PLAIN_IOU_LOSS(plain_loss::ciou)
#undef VECDET_PLAIN_IOU_LOSS

}  // namespace vecdet::bench::VECDET_PLAIN_SET
