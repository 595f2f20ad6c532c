// SPDX-License-Identifier: Apache-2.0
// Types that several families share.
//
// packaging/c_interface.py copies the types and functions of this folder into vecdet/c.h: every
// typedef and every function that begins with VECDET_C, with the comment before it. From the public
// headers it takes each enumeration and struct of parameters X that a function names: vecdet_X.
#pragma once

#include <vecdet/c/generated/enumerations.hpp>

#include <cstdint>

/// The result of a call. After an error, vecdet_last_error() has the text, and outputs are
/// unchanged.
typedef enum vecdet_status {
  VECDET_OK,
  VECDET_INVALID_ARGUMENT,  ///< an argument is out of range; the text names it
  VECDET_OUT_OF_MEMORY,     ///< outputs may be incomplete
  VECDET_FAILED             ///< anything else, such as a file that cannot be written
} vecdet_status;

/// The type of the elements behind a `void` pointer. bfloat16 is 16 bits: the upper half of a
/// float. Kernels compute bfloat16 in float and round once. Only a vecdet_matrix has integers.
typedef enum vecdet_dtype {
  VECDET_FLOAT32,
  VECDET_FLOAT64,
  VECDET_BFLOAT16,
  VECDET_INT8,
  VECDET_UINT8
} vecdet_dtype;

/// A matrix of VECDET_FLOAT32 or VECDET_BFLOAT16, or of quantised numbers: the VECDET_INT8 or
/// VECDET_UINT8 q stands for (q - zero_point) * scale, computed in float. Matrices of floats have
/// scale 0 and zero point 0.
typedef struct vecdet_matrix {
  vecdet_dtype type;
  const void* data;
  int64_t rows;
  int64_t cols;
  int64_t stride;      ///< the number of elements from one row to the next
  double scale;        ///< from 2^-126 to 2^120
  int64_t zero_point;  ///< a value of the type
} vecdet_matrix;

/// A list of integers, such as classes.
typedef struct vecdet_integer_list {
  const int64_t* data;  ///< null if there are none
  int64_t size;
} vecdet_integer_list;

/// A list of numbers.
typedef struct vecdet_number_list {
  const double* data;  ///< null if there are none
  int64_t size;
} vecdet_number_list;

/// Scratch memory that grows and is reused. Only one call at a time may use it.
typedef struct vecdet_workspace vecdet_workspace;

/// The size of an image in pixels.
typedef struct vecdet_image_size {
  double height;
  double width;
} vecdet_image_size;

/// The size of an image in pixels, or of a feature map in locations.
typedef struct vecdet_grid_size {
  int64_t height;
  int64_t width;
} vecdet_grid_size;

/// Masks: rectangles of a picture's pixels, and which of them belong to the object. Pixels outside
/// the rectangle do not. A mask has the pixels in columns [x1, x2) and rows [y1, y2), row by row; a
/// row of bits, the lowest bit of a byte first, is padded with zeros to whole bytes.
typedef struct vecdet_masks {
  int64_t count;
  const int64_t* boxes;    ///< count x 4: x1 y1 x2 y2
  const int64_t* offsets;  ///< count + 1: where the pixels of each mask begin
  const uint8_t* pixels;   ///< of all masks
  vecdet_mask_pixels kind;
} vecdet_masks;

/// Selects the boxes that count in a loss: those whose label is neither `background` nor `ignore`,
/// or those in a list of indices. A null pointer instead of a selection selects all boxes.
typedef struct vecdet_box_selection {
  const int64_t* labels;  ///< one per box; null if there are indices
  int64_t background;     ///< -1 in most trainers
  int64_t ignore;         ///< -2
  const int64_t* indices;
  int64_t index_count;
} vecdet_box_selection;

/// The ground-truth boxes (x1 y1 x2 y2; for vecdet_assign_rotated_task_aligned, five numbers each:
/// centre, width, height, angle) of one image or a batch. Those of image k are [image_offsets[k],
/// image_offsets[k + 1]).
typedef struct vecdet_ground_truth {
  const float* boxes;
  int64_t box_count;
  const int64_t* classes;        ///< one per box; null: all 0
  const int64_t* image_offsets;  ///< one more than there are images; null: one image
  int64_t images;
  const float* regions;  ///< ignore regions for matching and assigners; null: none
  int64_t region_count;
  const int64_t* region_offsets;  ///< one more than there are images; null without image_offsets
} vecdet_ground_truth;

/// The position of an image in the input of a network: a point (x, y) of the image is at
/// (x scale_x + pad_x, y scale_y + pad_y) in the input.
typedef struct vecdet_letterbox_transform {
  double scale_x;  ///< above 0
  double scale_y;
  double pad_x;
  double pad_y;
  double height;  ///< of the image
  double width;
} vecdet_letterbox_transform;
