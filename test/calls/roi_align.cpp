// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"
#include <vecdet/multiscale_roi_align.hpp>
#include <vecdet/roi_align.hpp>

namespace vecdet::test {
namespace {

template <class T>
struct roi_align_calls {
  using real = compute_type<T>;
  static constexpr index_t images = 2;
  index_t count, channels, height, width, rows, columns, sampling;
  placed<T> fine, coarse, upstream, bins, fine_grad, coarse_grad;
  placed_boxes<real> boxes;
  placed<index_t> image_of;
  placed<double> scales;
  roi_align_workspace workspace;
  // The arguments of multiscale_roi_align() are made outside calls, because calls must not
  // allocate.
  std::vector<feature_view<const T>> maps;
  std::vector<feature_view<T>> grads;

  static std::vector<shape> sweep(index_t length) {
    return {{7, length, 2, 1 + length % 9}, {7, 3, 2, 1 + length % 9}};
  }
  static shape sized(index_t rows) { return {rows > 300 ? 300 : rows, 20, 7, 7}; }
  static bool takes(const problem& p) { return sampling_of(p) >= 1 && sampling_of(p) <= 1024; }
  static index_t sampling_of(const problem& p) {
    const std::size_t at = p.variant.find("sampling");
    return at == p.variant.npos ? 2 : number_after<index_t>("sampling", p.variant.substr(at), 0);
  }

  roi_align_calls(operands& make, const problem& p)
      : count(p.exact_count(
            p.shape[0],
            static_cast<std::size_t>(p.shape[1] * p.shape[2] * p.shape[3]) * sizeof(T))),
        channels(p.shape[1]),
        height(make.in_training() ? 100
               : channels > 32    ? 12
                                  : 40),
        width(make.in_training() ? 100 : 24 + p.shape[1] % 32),
        rows(p.shape[2]),
        columns(p.shape[3]),
        sampling(sampling_of(p)),
        fine(make.numbers<T>(images * channels * height * width, -1, 1)),
        coarse(make.numbers<T>(images * channels * height * width / 4, -1, 1)),
        upstream(make.numbers<T>(count * channels * rows * columns, -1, 1)),
        bins(make.room<T>(count * channels * rows * columns)),
        fine_grad(make.room<T>(images * channels * height * width)),
        coarse_grad(make.room<T>(images * channels * height * width / 4)),
        boxes(make.rois<real>(count, static_cast<double>(height), static_cast<double>(width))),
        image_of(make.labels(count, images)),
        scales(make.copy(std::vector<double>{1, 0.5})),
        maps(2),
        grads(2) {
    for (index_t& image : image_of) image = image < 0 ? 0 : image;
  }

  roi_boxes<real> rois() const { return {boxes, image_of}; }
  template <class Numbers>
  feature_view<Numbers> map(Numbers* of, index_t shrink, feature_layout layout) const {
    return {of, images, channels, height / shrink, width / shrink, layout};
  }
  template <class Numbers>
  feature_view<Numbers> bins_view(Numbers* of, feature_layout layout) const {
    return {of, count, channels, rows, columns, layout};
  }

  void list(call_list& c) {
    for (const feature_layout layout : {feature_layout::nchw, feature_layout::nhwc}) {
      for (const bool aligned : {false, true}) {
        const std::string variant = std::string(layout == feature_layout::nhwc ? "nhwc_" : "") +
                                    (aligned ? "aligned1_" : "aligned0_");
        add(c, variant + "adaptive", layout, aligned, 0);
        add(c, variant + text_of("sampling", sampling), layout, aligned, sampling);
      }
    }
  }

  void add(call_list& c, const std::string& variant, feature_layout layout, bool aligned,
           index_t ratio) {
    roi_align_params params;
    params.aligned = aligned;
    params.sampling_ratio = ratio;
    c.add("roi_align/" + variant, reads(fine, boxes, image_of).writes(bins),
          [this, layout, params](threading policy) {
            roi_align(map<const T>(fine.data(), 1, layout), rois(), bins_view(bins.data(), layout),
                      params, workspace, policy);
          });
    c.add("roi_align_grad/" + variant, reads(upstream, boxes, image_of).writes(fine_grad),
          [this, layout, params](threading policy) {
            roi_align_grad(bins_view<const T>(upstream.data(), layout), rois(),
                           map(fine_grad.data(), 1, layout), params, workspace, policy);
          });
    const auto multiscale = [this, aligned, ratio] {
      multiscale_roi_align_params all;
      all.scales = scales;
      all.aligned = aligned;
      all.sampling_ratio = ratio;
      all.canonical_size = 16;
      all.canonical_level = 1;
      return all;
    };
    c.add("multiscale_roi_align/" + variant, reads(fine, coarse, boxes, image_of).writes(bins),
          [this, layout, multiscale](threading policy) {
            maps[0] = map<const T>(fine.data(), 1, layout);
            maps[1] = {coarse.data(), images, channels, height / 2, width / 2, layout};
            multiscale_roi_align(vector_view<const feature_view<const T>>(maps), rois(),
                                 bins_view(bins.data(), layout), multiscale(), workspace, policy);
          });
    c.add("multiscale_roi_align_grad/" + variant,
          reads(upstream, boxes, image_of).writes(fine_grad, coarse_grad),
          [this, layout, multiscale](threading policy) {
            grads[0] = map(fine_grad.data(), 1, layout);
            grads[1] = map(coarse_grad.data(), 2, layout);
            multiscale_roi_align_grad(bins_view<const T>(upstream.data(), layout), rois(),
                                      vector_view<const feature_view<T>>(grads), multiscale(),
                                      workspace, policy);
          });
  }
};

const registered_family registered =
    calls_of<roi_align_calls, float, bfloat16, double>("roi_align");

}  // namespace
}  // namespace vecdet::test
