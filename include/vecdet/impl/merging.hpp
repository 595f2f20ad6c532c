// SPDX-License-Identifier: Apache-2.0
// The function of merging.hpp: checks, the profiler's scope, chunks.
#pragma once

#include <vecdet/impl/merged_groups.hpp>
#include <vecdet/merging.hpp>
#include <vecdet/nms.hpp>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

namespace vecdet {
inline namespace VECDET_ABI {

inline merge_params merge_params::sahi_greedy_nmm(double match_threshold) {
  merge_params params;
  params.match_threshold = match_threshold;
  return params;
}

inline merge_params merge_params::sahi_nmm(double match_threshold) {
  merge_params params = sahi_greedy_nmm(match_threshold);
  params.transitive = true;
  return params;
}

inline merge_params merge_params::supervision(double match_threshold) {
  merge_params params = sahi_greedy_nmm(match_threshold);
  params.overlap = nms_overlap::positive_area;
  params.recheck = false;
  return params;
}

namespace detail {

inline std::vector<float>& boxes_of(merge_buffers& buffers, float) { return buffers.boxes; }
inline std::vector<double>& boxes_of(merge_buffers& buffers, double) {
  return buffers.double_boxes;
}
inline std::vector<float>& scores_of(merge_buffers& buffers, float) { return buffers.scores; }
inline std::vector<double>& scores_of(merge_buffers& buffers, double) {
  return buffers.double_scores;
}

/// One call of merge_boxes. T is the stored type.
template <class T>
class merge_call {
  using real = compute_type<T>;

 public:
  merge_call(boxes_view<const T> boxes, vector_view<const T> scores, const merge_params& params,
             merge_buffers& buffers, isa target)
      : boxes_(boxes),
        scores_(scores),
        params_(params),
        buffers_(buffers),
        kernels_(kernels<nms_kernels<T>>(target)) {}

  merged_boxes<real> run(const nms_groups& groups, threading policy) {
    nms_buffers& own = buffers_.groups;
    const index_t count = begin_merged_groups(scores_, groups, kernels_, buffers_, policy);
    grown(own.owners, 2 * count);
    grown(buffers_.first_tie, count);
    grown(buffers_.next, 2 * count);
    suppress_groups(own, policy, least_task_boxes, kernels_.merge_scratch_bytes,
                    [&](index_t begin, index_t end, cache_line* scratch) {
                      return merge_group(begin, end, scratch);
                    });
    const index_t merged = gather_kept(own);
    kernels_.sort_any(scores_.data(), own.records.data(), own.spare.data(), merged);
    break_ties(own.records.data(), merged, nullptr);
    return join(count, merged, policy);
  }

 private:
  const T* box(index_t i) const { return boxes_[i]; }

  auto place_of(nms_record record) const {
    const T* const b = box(index_of(record));
    return std::make_tuple(static_cast<real>(b[0]), static_cast<real>(b[1]),
                           static_cast<real>(b[2]), static_cast<real>(b[3]), index_of(record));
  }
  real score_of(nms_record record) const { return static_cast<real>(scores_[index_of(record)]); }

  /// Sorts records of equal scores by their boxes' coordinates. Boxes with coordinates that are not
  /// finite come last, by index. first_tie may be null.
  void break_ties(nms_record* records, index_t count, std::uint32_t* first_tie) const {
    for (index_t first = 0, last; first < count; first = last) {
      const real score = score_of(records[first]);
      for (last = first + 1; last < count && score_of(records[last]) == score;) ++last;
      const auto has_numbers = [&](nms_record r) {
        const T* const b = box(index_of(r));
        return std::all_of(b, b + 4, [](T x) { return is_finite(static_cast<real>(x)); });
      };
      if (last > first + 1) {
        std::sort(records + first, records + last, [&](nms_record a, nms_record b) {
          const bool a_is = has_numbers(a), b_is = has_numbers(b);
          if (a_is != b_is) return a_is;
          return a_is ? place_of(a) < place_of(b) : index_of(a) < index_of(b);
        });
      }
      if (first_tie != nullptr)
        std::fill(first_tie + first, first_tie + last, static_cast<std::uint32_t>(first));
    }
  }

  /// Merges the records [begin, end), which ascend by index. Writes the owners' records to kept and
  /// their members to sequence. Returns the number of owners.
  index_t merge_group(index_t begin, index_t end, cache_line* scratch) {
    nms_buffers& own = buffers_.groups;
    nms_record* const order = own.records.data() + begin;
    const index_t count = end - begin;
    if (params_.transitive)
      std::transform(order, order + count, buffers_.sequence.data() + begin,
                     [](nms_record r) { return index_of(r); });
    kernels_.sort(scores_.data(), order, own.spare.data() + begin, count);
    std::uint32_t* const first_tie = buffers_.first_tie.data() + begin;
    break_ties(order, count, first_tie);
    merge_args<T> args{};
    args.boxes.boxes = boxes_.data();
    args.boxes.overlap = params_.overlap;
    args.boxes.least_overlap =
        static_cast<double>(least_overlap<real>(nms_params::sahi(params_.match_threshold)));
    args.is_transitive = params_.transitive;
    args.order = order;
    args.first_tie = first_tie;
    args.count = count;
    args.scratch = scratch;
    args.owner = own.owners.data() + 2 * begin;
    args.claimer = args.owner + count;
    kernels_.merge(args);
    return order_members(args, begin);
  }

  /// Orders the members with a counting sort by owner, after sorting by claimer if the merge is
  /// transitive.
  index_t order_members(const merge_args<T>& args, index_t begin) {
    const index_t count = args.count;
    std::uint32_t* const by_claimer = buffers_.next.data() + 2 * begin;
    std::uint32_t* const next = by_claimer + count;
    if (args.is_transitive) {
      order_by_claimer(args, begin, by_claimer, next);
    } else {
      for (index_t i = 0; i < count; ++i) by_claimer[i] = static_cast<std::uint32_t>(i);
    }
    std::fill(next, next + count, 0u);
    for (index_t i = 0; i < count; ++i) ++next[args.owner[i]];
    nms_record* const kept = buffers_.groups.kept.data() + begin;
    index_t owners = 0;
    std::uint32_t sum = 0;
    for (index_t i = 0; i < count; ++i) {
      if (args.owner[i] != static_cast<std::uint32_t>(i)) continue;
      const index_t owner_box = index_of(args.order[i]);
      kept[owners++] = args.order[i];
      buffers_.first_member[static_cast<std::size_t>(owner_box)] = begin + index_t{sum};
      buffers_.sizes[static_cast<std::size_t>(owner_box)] = next[i];
      const std::uint32_t member_count = next[i];
      next[i] = sum;
      sum += member_count;
    }
    index_t* const sequence = buffers_.sequence.data() + begin;
    const auto put = [&](index_t i) { sequence[next[args.owner[i]]++] = index_of(args.order[i]); };
    for (index_t i = 0; i < count; ++i)
      if (args.owner[i] == static_cast<std::uint32_t>(i)) put(i);
    for (index_t k = 0; k < count; ++k) {
      const index_t i = by_claimer[k];
      if (args.owner[i] != static_cast<std::uint32_t>(i)) put(i);
    }
    return owners;
  }

  /// Orders ranks by their claimers' ranks; ties (one claimer) are in index order. `sequence` has
  /// the indices of the group in ascending order.
  void order_by_claimer(const merge_args<T>& args, index_t begin, std::uint32_t* ranks,
                        std::uint32_t* next) {
    const index_t count = args.count;
    const index_t* const ascending = buffers_.sequence.data() + begin;
    // The groups of boxes are not needed any more, and groups have no box in common.
    std::uint32_t* const rank_of = buffers_.groups.group_of.data();
    for (index_t i = 0; i < count; ++i)
      rank_of[index_of(args.order[i])] = static_cast<std::uint32_t>(i);
    std::fill(next, next + count, 0u);
    for (index_t i = 0; i < count; ++i) ++next[args.claimer[i]];
    std::uint32_t sum = 0;
    for (index_t i = 0; i < count; ++i) {
      const std::uint32_t here = next[i];
      next[i] = sum;
      sum += here;
    }
    for (index_t k = 0; k < count; ++k) {
      const std::uint32_t rank = rank_of[ascending[k]];
      ranks[next[args.claimer[rank]]++] = rank;
    }
  }

  /// Whether two boxes overlap by more than the threshold, computed in double.
  bool still_matches(const double* a, const double* b) const {
    const auto side = [](double low_a, double low_b, double high_a, double high_b) {
      return std::max(0.0, std::min(high_a, high_b) - std::max(low_a, low_b));
    };
    const double shared = rounded(side(a[0], b[0], a[2], b[2]) * side(a[1], b[1], a[3], b[3]));
    const double area_a = rounded((a[2] - a[0]) * (a[3] - a[1]));
    const double area_b = rounded((b[2] - b[0]) * (b[3] - b[1]));
    const double whole = params_.overlap == nms_overlap::smaller_area
                             ? std::min(area_a, area_b)
                             : rounded(area_a + area_b) - shared;
    return quotient(shared, whole) > params_.match_threshold;
  }

  merged_boxes<real> join(index_t count, index_t merged, threading policy) {
    const nms_record* const owners = buffers_.groups.records.data();
    real* const boxes = grown(boxes_of(buffers_, real()), 4 * merged);
    real* const scores = grown(scores_of(buffers_, real()), merged);
    list_members(buffers_, count, merged, policy,
                 [&](index_t g, const index_t* members, index_t size) {
                   double grown_box[4];
                   for (int k = 0; k < 4; ++k)
                     grown_box[k] = static_cast<double>(static_cast<real>(box(members[0])[k]));
                   for (index_t m = 1; m < size; ++m) widen(grown_box, members[m]);
                   for (int k = 0; k < 4; ++k) boxes[4 * g + k] = static_cast<real>(grown_box[k]);
                   scores[g] = score_of(owners[g]);
                 });
    return {{boxes, merged},
            {scores, merged},
            {buffers_.members.data(), count},
            {buffers_.offsets.data(), merged + 1}};
  }

  void widen(double* to, index_t member) const {
    double b[4];
    for (int k = 0; k < 4; ++k) b[k] = static_cast<double>(static_cast<real>(box(member)[k]));
    if (params_.recheck && !still_matches(to, b)) return;
    for (int k = 0; k < 2; ++k) {
      to[k] = std::min(to[k], b[k]);
      to[k + 2] = std::max(to[k + 2], b[k + 2]);
    }
  }

  boxes_view<const T> boxes_;
  vector_view<const T> scores_;
  const merge_params& params_;
  merge_buffers& buffers_;
  const nms_kernels<T>& kernels_;
};

}  // namespace detail

template <class T, class Groups>
merged_boxes<compute_type<value_of<T>>> merge_boxes(boxes_view<T> boxes, vector_view<T> scores,
                                                    const Groups& given_groups,
                                                    const merge_params& params,
                                                    merge_workspace& workspace, threading policy) {
  using stored = value_of<T>;
  constexpr const char* function = "merge_boxes";
  const index_t size = boxes.size();
  const nms_groups groups = detail::groups_of(function, given_groups, size);
  detail::check_nms(function, size, scores.size(), {});
  detail::check_groups(function, groups, size);
  detail::check(params.match_threshold > 0 && detail::is_within(params.match_threshold, 0, 1),
                function, "params.match_threshold", params.match_threshold, "a number in (0, 1]");
  const bool by_smaller_area = params.overlap == nms_overlap::smaller_area;
  detail::check(by_smaller_area || params.overlap == nms_overlap::positive_area, function,
                "params.overlap", "plain or jaccard", "smaller_area or positive_area");
  detail::look_at_boxes(function, "boxes", boxes_view<const stored>(boxes));
  detail::look_at_scores(function, "scores", vector_view<const stored>(scores),
                         [](index_t) { return true; });
  const isa target = active_isa();
  const profile::scope timing([&] {
    return profile::problem{function,
                            params.transitive ? "transitive" : "greedy",
                            dtype_name<stored>(),
                            {profile::rounded_count(size)},
                            isa_name(target),
                            policy.threads(),
                            size * index_t{5 * sizeof(T)}};
  });
  return detail::merge_call<stored>(boxes, scores, params,
                                    detail::workspace_access::buffers(workspace), target)
      .run(groups, policy);
}

}  // namespace VECDET_ABI
}  // namespace vecdet
