// SPDX-License-Identifier: Apache-2.0
// Groups of boxes that may suppress each other: one per class and image. Partitions the boxes into
// groups and the groups into tasks.
#pragma once

#include <vecdet/detail/check.hpp>
#include <vecdet/impl/check_offsets.hpp>
#include <vecdet/impl/nms_buffers.hpp>
#include <vecdet/labels.hpp>
#include <vecdet/nms_params.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/views.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

namespace detail {

/// Throws unless every box has a group.
/// @param meaning of the number of boxes, in messages
inline void check_groups(const char* function, const nms_groups& groups, index_t boxes,
                         const char* meaning = "the number of boxes") {
  check_optional_size(function, "groups.classes.size()", groups.classes.size(), boxes, meaning);
  check_optional_size(function, "groups.images.size()", groups.images.size(), boxes, meaning);
  const vector_view<const index_t>& offsets = groups.image_offsets;
  if (offsets.empty()) return;
  check(groups.images.size() == 0, function, "groups.images.size()", groups.images.size(),
        "0 if image_offsets are given");
  check_offsets(function, "groups.image_offsets", offsets, boxes, meaning);
}

/// Ids of one width as signed integers in the same order. Unsigned ids are shifted down by half of
/// their range.
template <class Bits>
class ordered_ids {
 public:
  ordered_ids(const label_bits<Bits>& bits, bool are_unsigned) noexcept
      : bits_(bits), flipped_(are_unsigned ? std::numeric_limits<Bits>::min() : Bits{0}) {}

  VECDET_INLINE index_t operator[](index_t i) const noexcept {
    return index_t{static_cast<Bits>(bits_[i] ^ flipped_)};
  }

 private:
  label_bits<Bits> bits_;
  Bits flipped_;
};

/// Calls use(ids) with ids of either width.
template <class Use>
VECDET_INLINE auto with_ids(const labels_view& ids, const Use& use) {
  return with_bits(ids, [&](const auto& bits) VECDET_INLINE_LAMBDA {
    return use(ordered_ids<decltype(bits[0])>(bits, labels_access::are_unsigned(ids)));
  });
}

inline index_t ordered_id(const labels_view& ids, index_t i) {
  return with_ids(ids, [&](const auto& id) { return id[i]; });
}

/// The smallest and the greatest of some integers.
struct id_range {
  index_t least = 0, most = 0;

  id_range() = default;
  /// The range of at least one id. Two ids are compared at a time, because each comparison depends
  /// on the one before.
  template <class Ids>
  id_range(const Ids& ids, index_t first, index_t last) : least(ids[first]), most(least) {
    id_range other = *this;
    for (index_t i = first + (last - first) % 2; i < last; i += 2) {
      least = std::min(least, ids[i]);
      most = std::max(most, ids[i]);
      other.least = std::min(other.least, ids[i + 1]);
      other.most = std::max(other.most, ids[i + 1]);
    }
    join(other);
  }
  void join(const id_range& other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
  std::uint64_t low() const { return static_cast<std::uint64_t>(least); }
  /// The number of integers in the range; 0 means all 2^64.
  std::uint64_t size() const { return static_cast<std::uint64_t>(most) - low() + 1; }
};

/// The range of all ids of one kind, or of the single id 0 if there are none.
inline id_range range_of(const labels_view& ids, const chunking& chunks, threading policy) {
  if (ids.size() == 0) return {};
  id_range chunk_ids[chunking::max_count];
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    with_ids(ids, [&](const auto& id) { chunk_ids[c] = id_range(id, first, last); });
  });
  for (index_t c = 1; c < chunks.count; ++c) chunk_ids[0].join(chunk_ids[c]);
  return chunk_ids[0];
}

/// Numbers the groups by sorting ids, for any ids. Sets group_of, group_image, groups and images.
inline void number_groups_by_sorting(const nms_groups& groups, index_t boxes,
                                     nms_buffers& buffers) {
  nms_record* const order = buffers.spare.data();
  index_t* const image = grown(buffers.counters, boxes);
  const bool by_class = groups.classes.size() > 0;
  const bool by_offset = !groups.image_offsets.empty();
  index_t current = 0;
  for (index_t i = 0; i < boxes; ++i) {
    order[i] = static_cast<nms_record>(i);
    if (by_offset)
      while (i >= groups.image_offsets[current + 1]) ++current;
    image[i] = groups.images.size() > 0 ? ordered_id(groups.images, i) : current;
  }
  const auto class_at = [&](nms_record r) {
    return by_class ? ordered_id(groups.classes, static_cast<index_t>(r)) : 0;
  };
  std::sort(order, order + boxes, [&](nms_record a, nms_record b) {
    if (image[a] != image[b]) return image[a] < image[b];
    if (class_at(a) != class_at(b)) return class_at(a) < class_at(b);
    return a < b;
  });
  std::uint32_t* const group_of = grown(buffers.group_of, boxes);
  std::uint32_t* const group_image = grown(buffers.group_image, boxes);
  std::uint32_t group = 0, image_number = 0;
  for (index_t i = 0; i < boxes; ++i) {
    const bool new_image = i > 0 && image[order[i]] != image[order[i - 1]];
    const bool new_class = i > 0 && class_at(order[i]) != class_at(order[i - 1]);
    image_number += new_image;
    group += new_image || new_class;
    group_of[order[i]] = group;
    group_image[group] = image_number;
  }
  buffers.groups = boxes == 0 ? 0 : index_t{group} + 1;
  buffers.images = index_t{image_number} + 1;
}

/// Numbers the groups of some records by their position in the grid of all images and classes in
/// the ranges. Records ascend by index. Sets group_of.
inline void number_groups_directly(const nms_groups& groups, const id_range& images,
                                   const id_range& classes, const nms_record* records,
                                   index_t count, std::uint32_t* group_of) {
  const auto for_each_box = [&](const auto& work) {
    for (index_t i = 0; i < count; ++i) work(static_cast<index_t>(index_of(records[i])));
  };
  const vector_view<const index_t>& offsets = groups.image_offsets;
  if (!offsets.empty()) {
    index_t image = -1;
    for_each_box([&](index_t box) {
      if (image < 0)
        image = std::upper_bound(offsets.begin(), offsets.end(), box) - offsets.begin() - 1;
      while (box >= offsets[image + 1]) ++image;
      group_of[box] = static_cast<std::uint32_t>(image);
    });
  } else if (groups.images.size() > 0) {
    with_ids(groups.images, [&](const auto& id) {
      for_each_box([&](index_t box) {
        group_of[box] =
            static_cast<std::uint32_t>(static_cast<std::uint64_t>(id[box]) - images.low());
      });
    });
  } else {
    for_each_box([&](index_t box) { group_of[box] = 0; });
  }
  if (groups.classes.size() == 0) return;
  with_ids(groups.classes, [&](const auto& id) {
    for_each_box([&](index_t box) {
      group_of[box] = static_cast<std::uint32_t>(
          group_of[box] * classes.size() + (static_cast<std::uint64_t>(id[box]) - classes.low()));
    });
  });
}

/// Sorts the first `count` of buffers.records, which ascend by index, into groups that ascend by
/// image and class; the order inside a group does not change. Sets group_of (at least for the boxes
/// that take part), group_begin and group_image.
///
///     records      [ chunk 0         | chunk 1         | chunk 2         ]   one record per box
///     group of each  0 2 1 0 2 1 0     2 0 0 1 2 2 1     1 0 2 2 0 1 1
///
///     counters     group:   0  1  2      first: the number of records per chunk and group;
///       chunk 0             3  2  2      then: the destination of the first of these records, by
///       chunk 1             2  2  3      running sums down the columns, column after column
///       chunk 2             2  3  2
///
///     spare        [ group 0       | group 1       | group 2       ]   becomes the records
///                  ^ group_begin[0]  ^ [1]           ^ [2]         ^ [3]
///
/// Each chunk writes its records of a group after those of the chunks before it, so the result does
/// not depend on the number of threads.
inline void partition_into_groups(const nms_groups& groups, index_t boxes, index_t count,
                                  nms_buffers& buffers, threading policy) {
  // Both have the same size, so that they can be swapped without growing in later calls.
  grown(buffers.records, boxes);
  grown(buffers.spare, boxes);
  // Ten and more microseconds of work each.
  constexpr index_t smallest_chunk = 8192, smallest_id_chunk = 65536;
  const chunking box_chunks(boxes, smallest_id_chunk);
  const id_range classes = range_of(groups.classes, box_chunks, policy);
  const id_range image_ids = range_of(groups.images, box_chunks, policy);
  const vector_view<const index_t>& offsets = groups.image_offsets;
  const std::uint64_t images =
      offsets.empty() ? image_ids.size() : static_cast<std::uint64_t>(offsets.size() - 1);
  std::uint32_t* const group_of = grown(buffers.group_of, boxes);
  // Groups are numbered in 32 bits.
  const auto limit = static_cast<std::uint64_t>(std::min(4 * boxes + 4096, index_t{0xffffffff}));
  const bool direct =
      images - 1 < limit && classes.size() - 1 < limit && images * classes.size() <= limit;
  if (direct) {
    buffers.images = static_cast<index_t>(images);
    buffers.groups = static_cast<index_t>(images * classes.size());
    std::uint32_t* const group_image = grown(buffers.group_image, buffers.groups);
    for (std::uint64_t g = 0; g < images * classes.size(); ++g)
      group_image[g] = static_cast<std::uint32_t>(g / classes.size());
  } else {
    number_groups_by_sorting(groups, boxes, buffers);
  }
  const nms_record* const records = buffers.records.data();
  const auto number_directly = [&](index_t first, index_t last) {
    number_groups_directly(groups, image_ids, classes, records + first, last - first, group_of);
  };

  // A counting sort of the records: each chunk counts its groups; that gives its destinations.
  index_t* const begin = grown(buffers.group_begin, buffers.groups + 1);
  const index_t many_groups = 1 + 16 * buffers.groups;  // counters stay a sixteenth of the records
  const chunking chunks(count, std::max(smallest_chunk, many_groups));
  index_t* const at = grown(buffers.counters, chunks.count * buffers.groups);
  nms_record* const grouped = buffers.spare.data();
  // Groups are numbered and counted in the same chunks, unless that leaves threads without work.
  const chunking number_chunks(count, smallest_chunk);
  const bool number_apart = chunks.count < number_chunks.count;
  if (direct && number_apart) {
    for_each_chunk(policy, number_chunks,
                   [&](index_t, index_t first, index_t last) { number_directly(first, last); });
  }
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    if (direct && !number_apart) number_directly(first, last);
    index_t* const counter = at + c * buffers.groups;
    std::fill(counter, counter + buffers.groups, index_t{0});
    for (index_t i = first; i < last; ++i) ++counter[group_of[index_of(records[i])]];
  });
  index_t sum = 0;
  for (index_t g = 0; g < buffers.groups; ++g) {
    begin[g] = sum;
    for (index_t c = 0; c < chunks.count; ++c) {
      const index_t here = at[c * buffers.groups + g];
      at[c * buffers.groups + g] = sum;
      sum += here;
    }
  }
  begin[buffers.groups] = sum;
  for_each_chunk(policy, chunks, [&](index_t c, index_t first, index_t last) {
    index_t* const counter = at + c * buffers.groups;
    for (index_t i = first; i < last; ++i)
      grouped[counter[group_of[index_of(records[i])]]++] = records[i];
  });
  buffers.records.swap(buffers.spare);
}

/// Divides the groups into tasks of at least `least_boxes` boxes, except the last one.
/// `least_boxes` must be 1 or more. Tasks with the largest groups come first.
inline void plan_tasks(nms_buffers& buffers, index_t least_boxes) {
  buffers.tasks.clear();
  const index_t* const begin = buffers.group_begin.data();
  for (index_t first = 0, last; first < buffers.groups; first = last) {
    index_t largest = 0;
    for (last = first; last < buffers.groups && begin[last] - begin[first] < least_boxes; ++last)
      largest = std::max(largest, begin[last + 1] - begin[last]);
    if (largest > 0) buffers.tasks.push_back({first, last, largest});
  }
  std::sort(buffers.tasks.begin(), buffers.tasks.end(), [](const nms_task& a, const nms_task& b) {
    return a.largest != b.largest ? a.largest > b.largest : a.first_group < b.first_group;
  });
}

/// The fewest boxes that take longer than starting a task.
constexpr index_t least_task_boxes = 256;
/// The fewest boxes of a task of NMS, if `count` take part. Fewer than 2048 take less time than it
/// takes to start threads.
constexpr index_t least_nms_task_boxes(index_t count) noexcept {
  return count < 2048 ? std::max(count, index_t{1}) : least_task_boxes;
}

/// Calls suppress(begin, end, scratch) for the records [begin, end) of each group. It returns how
/// many it keeps; they start at buffers.kept[begin]. Sets buffers.group_kept. Groups of fewer than
/// `least_boxes` share a task.
///
/// The largest tasks start first, one per thread, each with scratch memory of its own. Later tasks
/// need no more than any of these and reuse the memory of a task that has finished.
template <class ScratchBytes, class Suppress>
void suppress_groups(nms_buffers& buffers, threading policy, index_t least_boxes,
                     ScratchBytes scratch_bytes, const Suppress& suppress) {
  plan_tasks(buffers, least_boxes);
  index_t* const group_kept = grown(buffers.group_kept, buffers.groups);
  std::fill(group_kept, group_kept + buffers.groups, index_t{0});
  const auto tasks = static_cast<index_t>(buffers.tasks.size());
  const nms_task* const task = buffers.tasks.data();
  const index_t* const begin = buffers.group_begin.data();
  slot_pool slots(std::min(usable_threads(policy), tasks));
  index_t scratch_begin[chunking::max_count], lines = 0;
  for (index_t s = 0; s < slots.count(); ++s) {
    scratch_begin[s] = lines;
    lines += (scratch_bytes(task[s].largest) + 63) / 64;
    slots.take(s);
  }
  cache_line* const scratch = grown_scratch(buffers.scratch, lines);
  std::atomic<index_t> next{0};
  // Pieces take the tasks in order, regardless of the policy's order.
  for_each_chunk(policy, chunking(tasks, 1), [&](index_t, index_t first, index_t last) {
    for (; first < last; ++first) {
      const index_t t = next.fetch_add(1, std::memory_order_relaxed);
      const index_t slot = t < slots.count() ? t : slots.take();
      for (index_t g = task[t].first_group; g < task[t].last_group; ++g) {
        if (begin[g] == begin[g + 1]) continue;
        group_kept[g] = suppress(begin[g], begin[g + 1], scratch + scratch_begin[slot]);
      }
      slots.give_back(slot);
    }
  });
}

/// Writes the kept records of all groups to buffers.records, group by group. Returns their number.
inline index_t gather_kept(nms_buffers& buffers) {
  index_t count = 0;
  for (index_t g = 0; g < buffers.groups; ++g) {
    const auto group = static_cast<std::size_t>(g);
    const nms_record* const kept = buffers.kept.data() + buffers.group_begin[group];
    std::copy(kept, kept + buffers.group_kept[group], buffers.records.data() + count);
    count += buffers.group_kept[group];
  }
  return count;
}

}  // namespace detail
}  // namespace VECDET_ABI
}  // namespace vecdet
