// SPDX-License-Identifier: Apache-2.0
// Feature maps in another layout.
#pragma once

#include <vecdet/feature_view.hpp>
#include <vecdet/reference/feature_at.hpp>
#include <vecdet/views.hpp>

namespace vecdet::test {

/// The numbers of images x channels x height x width in another layout, in memory of the same kind.
template <class Numbers>
Numbers relaid(const Numbers& from, index_t images, index_t channels, index_t height, index_t width,
               feature_layout from_layout, feature_layout to_layout) {
  using T = typename Numbers::value_type;
  Numbers to(from.size());
  const feature_view<const T> a(from.data(), images, channels, height, width, from_layout);
  const feature_view<T> b(to.data(), images, channels, height, width, to_layout);
  for (index_t n = 0; n < images; ++n)
    for (index_t c = 0; c < channels; ++c)
      for (index_t y = 0; y < height; ++y)
        for (index_t x = 0; x < width; ++x)
          reference::feature_at(b, n, c, y, x) = reference::feature_at(a, n, c, y, x);
  return to;
}

/// The same where `like` has the shape and layout of `from`.
template <class Numbers, class T>
Numbers relaid(const Numbers& from, const feature_view<T>& like, feature_layout to_layout) {
  return relaid(from, like.images(), like.channels(), like.height(), like.width(), like.layout(),
                to_layout);
}

}  // namespace vecdet::test
