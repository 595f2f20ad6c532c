// SPDX-License-Identifier: Apache-2.0
// Rotated boxes (centre, size, angle in degrees, counter-clockwise) and their ProbIoU, in float,
// for the plain loops of this folder.
#pragma once

#include "loops.hpp"

#include <algorithm>
#include <cmath>

namespace vecdet::bench::VECDET_PLAIN_SET {

struct turned_box {
  float x, y, w, h, cosine, sine, reach;
};

inline turned_box turned(const float* box) {
  const float angle = -box[4] * 0.017453292519943295f;
  return {box[0],
          box[1],
          box[2],
          box[3],
          std::cos(angle),
          std::sin(angle),
          0.5f * std::sqrt(box[2] * box[2] + box[3] * box[3])};
}

/// The Gaussian of a box: centre, the deviations along and across the longer side, its direction.
struct gaussian {
  float x, y, longer, shorter, cosine, sine;
};

inline gaussian gaussian_of(const float* box) {
  const turned_box t = turned(box);
  const float per_side = 0.28867513459481287f;
  if (t.w >= t.h) return {t.x, t.y, per_side * t.w, per_side * t.h, t.cosine, t.sine};
  return {t.x, t.y, per_side * t.h, per_side * t.w, -t.sine, t.cosine};
}

/// The squared distance of a point, with the deviations exchanged.
inline float squared_distance(const gaussian& p, float dx, float dy) {
  const float along = p.longer * (dy * p.cosine - dx * p.sine);
  const float across = p.shorter * (dx * p.cosine + dy * p.sine);
  return along * along + across * across;
}

inline float prob_iou_of(const gaussian& p, const gaussian& q) {
  constexpr float epsilon = 1e-7f;
  const float dx = q.x - p.x, dy = q.y - p.y, turn = p.cosine * q.sine - p.sine * q.cosine;
  const float size = p.longer * p.shorter - q.longer * q.shorter;
  const float aspect = p.longer * q.shorter - p.shorter * q.longer;
  const float excess =
      (p.longer * p.longer - p.shorter * p.shorter) * (q.longer * q.longer - q.shorter * q.shorter);
  const float difference = size * size + aspect * aspect + excess * turn * turn;
  const float product = 4 * p.longer * p.shorter * q.longer * q.shorter;
  const float distance = squared_distance(p, dx, dy) + squared_distance(q, dx, dy);
  const float m = distance / (4 * (product + difference + epsilon));
  const float power = m + 0.5f * std::log1p((difference - epsilon) / (product + epsilon) + epsilon);
  return 1 - std::sqrt(epsilon - std::expm1(-std::min(std::max(power, epsilon), 100.0f)));
}

}  // namespace vecdet::bench::VECDET_PLAIN_SET
