// SPDX-License-Identifier: Apache-2.0
// Classes and images as groups of boxes: which boxes may suppress each other, and the work memory
// of NMS.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/detail/room.hpp>
#include <vecdet/detail/rows/nms.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vecdet {

/// The class and the image of every box, each 64-bit or 32-bit integers of any value, or empty: all
/// the same. Boxes of different classes or images do not suppress each other.
struct nms_groups {
  labels_view classes;
  labels_view images;
  /// Instead of `images`, for boxes that lie image by image: image k's boxes are
  /// [image_offsets[k], image_offsets[k + 1]). One more than there are images.
  vector_view<const index_t> image_offsets;
};

namespace detail {

struct alignas(64) cache_line {
  unsigned char bytes[64];
};

/// Consecutive groups that run one after the other, in the same scratch memory.
struct nms_task {
  index_t first_group, last_group;
  index_t scratch;  ///< offset in cache lines
};

}  // namespace detail

/// Memory that NMS works in. It grows to what the largest call needs, about 100 bytes a box, and is
/// reused from then on: later calls of that size allocate nothing. One call at a time.
class nms_workspace {
 public:
  nms_workspace() = default;

  // What follows is for vecdet's own functions.
  std::vector<detail::nms_record> records, spare, kept;
  std::vector<index_t> group_begin, group_kept, counters, result;
  std::vector<std::uint32_t> group_of, image_of_group;
  std::vector<std::uint8_t> flags;
  std::vector<detail::nms_task> tasks;
  std::vector<detail::cache_line> scratch;
  index_t groups = 0, images = 0;
};

namespace detail {

/// Throws unless every box has its group.
inline void check_groups(const char* function, const nms_groups& groups, index_t boxes) {
  check(groups.classes.size() == 0 || groups.classes.size() == boxes, function,
        "groups.classes.size()", groups.classes.size(), "0 or the number of boxes");
  check(groups.images.size() == 0 || groups.images.size() == boxes, function,
        "groups.images.size()", groups.images.size(), "0 or the number of boxes");
  const vector_view<const index_t>& offsets = groups.image_offsets;
  if (offsets.empty()) return;
  check(groups.images.size() == 0, function, "groups.images.size()", groups.images.size(),
        "0 where image_offsets are given");
  check(offsets[0] == 0, function, "groups.image_offsets[0]", offsets[0], "0");
  for (index_t k = 1; k < offsets.size(); ++k)
    check(offsets[k] >= offsets[k - 1], function, "an element of groups.image_offsets", offsets[k],
          "the element before it or more");
  check(offsets[offsets.size() - 1] == boxes, function, "the last of groups.image_offsets",
        offsets[offsets.size() - 1], "the number of boxes");
}

/// Numbers from 0 for integers of a small range.
struct id_range {
  std::uint64_t low = 0, size = 1;

  id_range() = default;
  template <class Ids>
  id_range(const Ids& ids, index_t count) {
    if (count == 0) return;
    index_t least = ids[0], most = ids[0];
    for (index_t i = 1; i < count; ++i) {
      const index_t id = ids[i];
      least = std::min(least, id);
      most = std::max(most, id);
    }
    low = static_cast<std::uint64_t>(least);
    size = static_cast<std::uint64_t>(most) - low + 1;  // 0: all 2^64
  }
  std::uint64_t operator()(index_t id) const { return static_cast<std::uint64_t>(id) - low; }
};

/// Sorts the first `count` of workspace.records, which ascend by index, into groups that ascend by
/// image and class; inside a group the order stays. Sets group_of (by box), group_begin and
/// image_of_group.
inline void partition_into_groups(const nms_groups& groups, index_t boxes, index_t count,
                                  nms_workspace& ws) {
  const bool by_class = groups.classes.size() > 0;
  const bool by_id = groups.images.size() > 0;
  const bool by_offset = groups.image_offsets.size() > 0;
  const id_range classes = by_class ? id_range(groups.classes, boxes) : id_range();
  id_range images = by_id ? id_range(groups.images, boxes) : id_range();
  if (by_offset) images.size = static_cast<std::uint64_t>(groups.image_offsets.size() - 1);
  ws.images = static_cast<index_t>(images.size);

  std::uint32_t* const group_of = room(ws.group_of, boxes);
  const auto limit = static_cast<std::uint64_t>(4 * boxes + 4096);
  const bool direct =
      images.size - 1 < limit && classes.size - 1 < limit && images.size * classes.size <= limit;
  if (direct) {
    ws.groups = static_cast<index_t>(images.size * classes.size);
    index_t image = 0;
    for (index_t i = 0; i < boxes; ++i) {
      std::uint64_t group = 0;
      if (by_id) group = images(groups.images[i]);
      if (by_offset) {
        while (i >= groups.image_offsets[image + 1]) ++image;
        group = static_cast<std::uint64_t>(image);
      }
      group *= classes.size;
      if (by_class) group += classes(groups.classes[i]);
      group_of[i] = static_cast<std::uint32_t>(group);
    }
    std::uint32_t* const image_of_group = room(ws.image_of_group, ws.groups);
    for (index_t g = 0; g < ws.groups; ++g)
      image_of_group[g] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(g) / classes.size);
  } else {
    // Ids from a wide range: numbered by sorting them.
    nms_record* const order = room(ws.spare, boxes);
    index_t* const image = room(ws.counters, boxes);
    index_t current = 0;
    for (index_t i = 0; i < boxes; ++i) {
      order[i] = static_cast<nms_record>(i);
      if (by_offset)
        while (i >= groups.image_offsets[current + 1]) ++current;
      image[i] = by_id ? groups.images[i] : current;
    }
    const auto class_at = [&](nms_record r) {
      return by_class ? groups.classes[static_cast<index_t>(r)] : 0;
    };
    std::sort(order, order + boxes, [&](nms_record a, nms_record b) {
      if (image[a] != image[b]) return image[a] < image[b];
      if (class_at(a) != class_at(b)) return class_at(a) < class_at(b);
      return a < b;
    });
    std::uint32_t* const image_of_group = room(ws.image_of_group, boxes);
    std::uint32_t group = 0, image_number = 0;
    for (index_t i = 0; i < boxes; ++i) {
      const bool new_image = i > 0 && image[order[i]] != image[order[i - 1]];
      const bool new_class = i > 0 && class_at(order[i]) != class_at(order[i - 1]);
      image_number += new_image;
      group += new_image || new_class;
      group_of[order[i]] = group;
      image_of_group[group] = image_number;
    }
    ws.groups = boxes == 0 ? 0 : index_t{group} + 1;
    ws.images = index_t{image_number} + 1;
  }

  // A counting sort of the records.
  index_t* const begin = room(ws.group_begin, ws.groups + 1);
  index_t* const at = room(ws.counters, ws.groups + 1);
  std::fill(at, at + ws.groups + 1, 0);
  const nms_record* const records = ws.records.data();
  nms_record* const grouped = room(ws.spare, count);
  for (index_t i = 0; i < count; ++i) ++at[group_of[index_of(records[i])]];
  index_t sum = 0;
  for (index_t g = 0; g <= ws.groups; ++g) {
    const index_t here = at[g];
    begin[g] = at[g] = sum;
    sum += here;
  }
  for (index_t i = 0; i < count; ++i) grouped[at[group_of[index_of(records[i])]]++] = records[i];
  ws.records.swap(ws.spare);
}

/// Cuts the groups into tasks of some thousand boxes.
template <class ScratchBytes>
void plan_tasks(nms_workspace& ws, ScratchBytes scratch_bytes) {
  constexpr index_t least_boxes = 1024;
  ws.tasks.clear();
  index_t lines = 0;
  for (index_t first = 0; first < ws.groups;) {
    index_t largest = 0, last = first;
    do {
      largest = std::max(largest, ws.group_begin[static_cast<std::size_t>(last) + 1] -
                                      ws.group_begin[static_cast<std::size_t>(last)]);
      ++last;
    } while (last < ws.groups && ws.group_begin[static_cast<std::size_t>(last)] -
                                         ws.group_begin[static_cast<std::size_t>(first)] <
                                     least_boxes);
    ws.tasks.push_back({first, last, lines});
    lines += (scratch_bytes(largest) + 63) / 64;
    first = last;
  }
  room(ws.scratch, lines);
}

}  // namespace detail
}  // namespace vecdet
