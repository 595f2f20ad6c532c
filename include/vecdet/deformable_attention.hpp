// SPDX-License-Identifier: Apache-2.0
// Multi-scale deformable attention, forward and backward: each query sums a few samples of the
// feature maps instead of attending to all their locations.
//
// Zhu et al.: "Deformable DETR", arXiv 2010.04159, equation 3, without its linear layers. In head m
// with weights A and points p, query q becomes
//
//   output[q, m] = sum over levels l and their points k of A[q, m, l, k] value_l[m](p[q, m, l, k])
//
// A point (x, y) is relative to its level: 0 to 1 from edge to edge. The sample is the bilinear
// interpolation at (x width - 0.5, y height - 0.5), in locations; values outside the level are 0.
// This is torch's grid_sample with align_corners = False and zeros as padding, and the
// ms_deform_attn of Deformable DETR, DINO, RT-DETR and Hugging Face.
//
//   value    images x locations of all levels x heads x channels of a head; the levels follow each
//            other, row by row; float, bfloat16 or double
//   points   images x queries x heads x points of all levels x (x, y), the points of a level after
//            those of the level before; levels may have different numbers of points
//   weights  images x queries x heads x points of all levels; usually a softmax over the points
//   output   images x queries x heads x channels
//
// Points, weights and their gradients are float, or double if the value is double, because bfloat16
// cannot distinguish neighbouring locations of a wide level.
//
// Points may have any value. A point samples nothing if it is NaN or infinite, or if its position
// (x width - 0.5, y height - 0.5) is below -1, or at least the level's width or height. Its
// gradient and that of its weight are then 0, for any weight. At exactly -1, the first column or
// row has weight 0, and the point's gradient is that towards it. No point causes accesses outside
// the value. NaN and infinite values, weights and upstream gradients propagate to every result
// whose sample has the location among its four, even if the location's bilinear weight is 0, as in
// torch.
//
// Accuracy: a sample's position is computed in double, so a float point is never in a wrong cell.
// In float, errors relative to the sum of the magnitudes of a result's terms are within (points +
// 8) 2^-23 for outputs, (terms + 8) 2^-23 for the value's gradient, and (channels / 16 + 16) 2^-23
// for the gradients of points and weights. bfloat16 results are these floats, rounded once; the
// value's gradient, too, is summed in float.
//
// Results are bit-identical on any number of threads, and on AVX2 and AVX-512. Outputs are summed
// over the points in order, the value's gradient over queries, then points. Each part of the
// value's gradient belongs to one task, so no atomics are needed.
//
// Every function throws std::invalid_argument, and writes nothing, if a size of the shape is
// negative, an image has more than 2^31 - 1 locations or a query more than 2^31 - 1 points, the
// size of an array does not match the shape, or an output shares memory with an input or another
// output.
#pragma once

#include <vecdet/attention_shape.hpp>
#include <vecdet/dtype.hpp>
#include <vecdet/impl/deformable_attention_buffers.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

namespace vecdet {
inline namespace VECDET_ABI {

/// Scratch memory. Per thread, it is at most 1 KiB and 200 bytes per point of a query, with the
/// points rounded up to a multiple of 16. Two parts hold numbers in the compute type:
///
/// - With several heads or bfloat16, if queries x points is 8 times the locations or more, all
///   threads share a copy of one image's value.
/// - For the value's gradient, each thread has locations x channels of one head, with the channels
///   rounded up to a multiple of 16. If images x heads do not keep all threads busy, it has only a
///   part of the channels (encoders, all gradients in one call) or of the locations. For parts of
///   the locations, all threads share 4 bytes per location and four records per point,
///   of 32 bytes each (48 in double), of which most are not used: those of as many heads as fit
///   into 4 MiB per thread, but at least of one, and as many once more for sorting.
///
/// It grows to the needs of the largest call and is reused. Only one call at a time may use it.
class deformable_attention_workspace {
  friend detail::workspace_access;
  detail::deformable_attention_buffers buffers_;
};

/// The gradients to write; leave a view empty to skip it.
template <class T>
struct deformable_attention_grads {
  lasting<vector_view<T>> value;
  lasting<vector_view<compute_type<T>>> points, weights;
};

/// Writes the output to `out`.
template <class T>
void deformable_attention(vector_view<T> value, vector_view<const compute_type<value_of<T>>> points,
                          vector_view<const compute_type<value_of<T>>> weights,
                          vector_view<value_of<T>> out, const attention_shape& shape,
                          deformable_attention_workspace& workspace,
                          threading policy = threading::parallel);

/// Writes the gradients of a loss whose gradient with respect to the output is `upstream`. At a
/// point exactly on a row or column of locations, the gradient is the one towards larger
/// coordinates.
template <class T>
void deformable_attention_grad(vector_view<T> upstream, vector_view<const value_of<T>> value,
                               vector_view<const compute_type<value_of<T>>> points,
                               vector_view<const compute_type<value_of<T>>> weights,
                               const deformable_attention_grads<value_of<T>>& grads,
                               const attention_shape& shape,
                               deformable_attention_workspace& workspace,
                               threading policy = threading::parallel);

}  // namespace VECDET_ABI
}  // namespace vecdet

#include <vecdet/impl/deformable_attention.hpp>
