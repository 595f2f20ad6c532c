// SPDX-License-Identifier: Apache-2.0
// Turns both outputs of a YOLO model for segmentation into detections with their masks, in one
// call: postprocess_yolo() of postprocess_yolo.hpp or quantised_outputs.hpp, and then
// masks_from_prototypes() of masks.hpp, whose coefficients are the extras of each detection.
// Results are those of the two calls, bit for bit.
//
// Boxes and masks are in the same pixels. With transforms, these are the pixels of the images, and
// the rule is native: it removes the letterbox from the masks. It assumes that the image fills the
// network's input in one direction and is centred in the other, as letterbox_transform::centred()
// says. Without transforms, they are the pixels of the network's input, and the rule may be any.
//
// Throws std::invalid_argument for what the two calls reject, and if the numbers of images differ;
// if params.extras is neither the number of prototypes nor unknown_extras, which stands for it; if
// params.keypoint_size, rotated or normalised is set; if params.result_format is not xyxy; if there
// are transforms and another rule than native; if a transform is not that of a centred letterbox,
// by more than half a location and two pixels of the input; or if input_size is given with
// transforms, or not given without them. That margin is of the extent that the image covers, not of
// its place: other padding within it is accepted, and masks are then shifted by up to half of it.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/grid_size.hpp>
#include <vecdet/letterbox_transform.hpp>
#include <vecdet/masks.hpp>
#include <vecdet/masks_params.hpp>
#include <vecdet/masks_view.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/postprocess_yolo.hpp>
#include <vecdet/views.hpp>

#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

struct yolo_masks_buffers {
  postprocess_workspace detections;
  masks_workspace masks;
  std::vector<grid_size> sizes;
};

}  // namespace detail

/// The detections of all images, and the mask of each detection, in the same order. The memory
/// belongs to the workspace and is valid until its next use.
struct yolo_masks_view {
  detections_view detections;
  masks_view masks;
};

/// Scratch memory and results of postprocess_yolo with masks. It grows to the needs of the largest
/// call and is reused. Only one call at a time may use it.
class yolo_masks_workspace {
  friend detail::workspace_access;
  detail::yolo_masks_buffers buffers_;
};

/// The detections of a batch with their masks.
/// @param outputs yolo_outputs, quantised_yolo_outputs or separate_yolo_outputs
/// @param prototypes images x P x height x width of float or bfloat16, NCHW
/// @param transforms one per image; empty: results stay in the input's pixels
/// @param mask_params the rule, and how the masks are stored
/// @param input_size of the network's input, without transforms; with them, it is not given: 0 x 0
template <class Outputs, class T>
yolo_masks_view postprocess_yolo(const Outputs& outputs, feature_view<T> prototypes,
                                 vector_view<const letterbox_transform> transforms,
                                 const postprocess_yolo_params& params,
                                 const prototype_masks_params& mask_params, grid_size input_size,
                                 yolo_masks_workspace& workspace,
                                 threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/yolo_masks.hpp>
