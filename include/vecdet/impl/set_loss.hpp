// SPDX-License-Identifier: Apache-2.0
// The function of set_loss.hpp: checks all arguments, so that errors name this function, then runs
// the parts of each layer.
#pragma once

#include <vecdet/args/set_loss.hpp>
#include <vecdet/args/softmax_cross_entropy.hpp>
#include <vecdet/detail/check.hpp>
#include <vecdet/dispatch.hpp>
#include <vecdet/focal_loss.hpp>
#include <vecdet/impl/apart.hpp>
#include <vecdet/impl/ground_truth.hpp>
#include <vecdet/impl/query_matching.hpp>
#include <vecdet/impl/scaled.hpp>
#include <vecdet/impl/softmax_chunks.hpp>
#include <vecdet/impl/workspace.hpp>
#include <vecdet/parallel.hpp>
#include <vecdet/profile/scope.hpp>
#include <vecdet/set_loss.hpp>
#include <vecdet/soft_target_loss.hpp>
#include <vecdet/softmax_cross_entropy.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#if !defined(VECDET_DISPATCH)
#include <vecdet/kernels/set_loss/set_loss.hpp>
#endif

namespace vecdet {
inline namespace VECDET_ABI {
namespace detail {

inline const char* set_class_loss_name(set_class_loss loss) {
  return loss == set_class_loss::focal       ? "focal"
         : loss == set_class_loss::varifocal ? "varifocal"
                                             : "cross_entropy";
}

template <class T>
class set_loss_call {
  static_assert(std::is_same<T, float>::value || std::is_same<T, bfloat16>::value,
                "this function takes float or vecdet::bfloat16");

 public:
  /// If not null, memory for one gradient per layer: GIoU's, separate from that of L1.
  const boxes_view<T>* giou_grads = nullptr;

  set_loss_call(vector_view<const set_loss_layer<T>> layers, const ground_truth& truth,
                vector_view<set_losses> losses, const set_loss_params& params,
                set_loss_buffers& buffers, threading policy)
      : layers_(layers),
        truth_(truth),
        losses_(losses),
        params_(params),
        buffers_(buffers),
        policy_(policy),
        images_(image_count(truth)) {}

  void run() {
    check_params();
    check_sizes();
    check_memory();
    mark_matches();
    const isa target = active_isa();
    const profile::scope timing([&] { return problem(target); });
    allocate();
    index_t* labels = buffers_.labels.data();
    for (index_t l = 0; l < layers_.size(); ++l) {
      losses_[l] = box_losses(target, l);
      write_labels(l, labels);
      losses_[l].classification = class_loss(target, l, labels);
      labels += layers_[l].outputs.logits.rows();
    }
  }

 private:
  static constexpr const char* function = "set_loss_and_grad";

  bool is_softmax() const { return params_.class_loss == set_class_loss::cross_entropy; }

  void check_params() const {
    const auto check_finite = [](const char* name, double value) {
      check(value >= 0 && fits_float(value), function, name, value, "a finite float, 0 or more");
    };
    if (params_.class_loss == set_class_loss::focal) {
      check_focusing(function, params_.alpha, params_.gamma);
    } else if (!is_softmax()) {
      check_finite("params.gamma", params_.gamma);
      check_finite("params.alpha", params_.alpha);
    }
    check_finite("params.no_object_weight", params_.no_object_weight);
    check_finite("params.boxes", params_.boxes);
    check(fits_float(params_.scale), function, "params.scale", params_.scale, "a finite float");
    const auto check_weight = [&](const char* name, double weight) {
      check(fits_float(weight) && fits_float(weight * params_.scale), function, name, weight,
            "a finite float, even when multiplied by params.scale");
    };
    check_weight("params.class_weight", params_.class_weight);
    check_weight("params.l1_weight", params_.l1_weight);
    check_weight("params.giou_weight", params_.giou_weight);
  }

  void check_sizes() const {
    check(!layers_.empty(), function, "layers.size()", layers_.size(), "1 or more");
    check_size(function, "losses.size()", losses_.size(), layers_.size(), "the number of layers");
    check(truth_.regions.empty(), function, "truth.regions.size()", truth_.regions.size(),
          "0: this loss does not support ignore regions");
    index_t classes = std::numeric_limits<index_t>::max();
    for (const set_loss_layer<T>& layer : layers_)
      classes = std::min(classes, layer.outputs.logits.cols() - (is_softmax() ? 1 : 0));
    check_classified(function, truth_, std::max(index_t{0}, classes));
    for (index_t l = 0; l < layers_.size(); ++l) {
      const set_loss_layer<T>& layer = layers_[l];
      const matrix_view<const T>& logits = layer.outputs.logits;
      check_layer(function, l, ".outputs", layer.outputs, images_, 1);
      if (is_softmax() && logits.cols() == 0 && logits.rows() > 0) {
        throw_invalid_argument(function, element("layers", l) + ".outputs.logits.cols()", 0,
                               "1 or more, because the last column is \"no object\"");
      }
      const auto check_like = [&](const char* member, index_t size, index_t expected,
                                  const char* meaning) {
        if (size != expected) {
          throw_invalid_argument(function, element("layers", l) + member, size,
                                 std::to_string(expected) + meaning);
        }
      };
      check_like(".logits_grad.rows()", layer.logits_grad.rows(), logits.rows(),
                 ", the rows of the logits");
      check_like(".logits_grad.cols()", layer.logits_grad.cols(), logits.cols(),
                 ", the columns of the logits");
      check_like(".boxes_grad.size()", layer.boxes_grad.size(), logits.rows(),
                 ", the rows of the logits");
      const index_t boxes = truth_.boxes.size(), matches = layer.matches.size();
      if (boxes == 0 ? matches != 0 : matches == 0 || matches % boxes != 0) {
        throw_invalid_argument(function, element("layers", l) + ".matches.size()", matches,
                               "groups x " + std::to_string(boxes) + " boxes");
      }
    }
  }

  /// Throws if an output shares memory with anything else.
  void check_memory() const {
    const index_t outputs = 1 + 2 * layers_.size();
    for (index_t k = 0; k < outputs; ++k) {
      const auto check_from = [&](const address_range& memory, const auto& name) {
        if (!are_apart(output_memory(k), memory))
          throw_shared_memory(function, output_name(k), name());
      };
      for (index_t l = 0; l < layers_.size(); ++l) {
        const auto member = [&](const char* name) {
          return [=] { return element("layers", l) + "." + name; };
        };
        check_from(layers_[l].outputs.logits, member("outputs.logits"));
        check_from(layers_[l].outputs.boxes, member("outputs.boxes"));
        check_from(layers_[l].matches, member("matches"));
      }
      for_each_memory_of(truth_, [&](const char* name, const address_range& memory) {
        check_from(memory, [=] { return name; });
      });
      for (index_t other = k + 1; other < outputs; ++other)
        check_from(output_memory(other), [=] { return output_name(other); });
    }
  }
  /// Output k: the losses, then the gradients of each layer.
  address_range output_memory(index_t k) const {
    if (k == 0) return losses_;
    const set_loss_layer<T>& layer = layers_[(k - 1) / 2];
    return k % 2 == 1 ? address_range(layer.logits_grad) : address_range(layer.boxes_grad);
  }
  static std::string output_name(index_t k) {
    if (k == 0) return "losses";
    return element("layers", (k - 1) / 2) + (k % 2 == 1 ? ".logits_grad" : ".boxes_grad");
  }

  /// Calls use(match, row, box) for each match of a layer: its index, and the row or -1.
  template <class Use>
  void for_each_match(const set_loss_layer<T>& layer, const Use& use) const {
    const index_t boxes = truth_.boxes.size();
    const index_t queries = images_ == 0 ? 0 : layer.outputs.logits.rows() / images_;
    for (index_t first = 0; first < layer.matches.size(); first += boxes)
      for (index_t image = 0; image < images_; ++image)
        for (index_t box = first_image_box(truth_, image); box < first_image_box(truth_, image + 1);
             ++box) {
          const index_t query = layer.matches[first + box];
          use(first + box, query < 0 || query >= queries ? -1 : image * queries + query, box);
        }
  }

  /// Writes the box of each query, or -1, to the buffers' labels.
  void mark_matches() {
    index_t rows = 0;
    for (const set_loss_layer<T>& layer : layers_) rows += layer.outputs.logits.rows();
    index_t* labels = grown(buffers_.labels, rows);
    std::fill(labels, labels + rows, -1);
    for (index_t l = 0; l < layers_.size(); ++l) {
      const set_loss_layer<T>& layer = layers_[l];
      for_each_match(layer, [&](index_t i, index_t row, index_t box) {
        const index_t query = layer.matches[i];
        if (query == -1) return;
        if (row < 0 || labels[row] >= 0) {
          throw_invalid_argument(
              function, element("layers", l) + "." + element("matches", i), query,
              row >= 0 ? std::string("a query that no other box has")
                       : index_range(layer.outputs.logits.rows() / images_, "queries") + " or -1");
        }
        labels[row] = box;
      });
      labels += layer.outputs.logits.rows();
    }
  }

  /// All memory that the layers need.
  void allocate() {
    index_t rows = 0, pairs = 0, logits = 0;
    for (const set_loss_layer<T>& layer : layers_) {
      rows = std::max(rows, layer.outputs.logits.rows());
      pairs = std::max(pairs, layer.matches.size());
      logits = std::max(logits, layer.outputs.logits.size());
    }
    grown(buffers_.pairs, pairs);
    grown(buffers_.ious, rows);
    if (!is_softmax()) return;
    grown(buffers_.rows, rows);
    if (std::is_same<T, float>::value) return;
    grown(buffers_.logits, logits);
    grown(buffers_.logits_grad, logits);
  }

  /// The number of boxes by which the sums of a layer are divided.
  double divisor(const set_loss_layer<T>& layer) const {
    const index_t boxes = truth_.boxes.size();
    const double counted = params_.boxes > 0 ? params_.boxes : static_cast<double>(boxes);
    const index_t groups = boxes == 0 ? 1 : layer.matches.size() / boxes;
    return std::max(1.0, counted) * static_cast<double>(groups);
  }

  set_losses box_losses(isa target, index_t l) const {
    const set_loss_layer<T>& layer = layers_[l];
    const boxes_view<T>& grad = layer.boxes_grad;
    std::fill_n(grad.data(), 4 * grad.size(), T(0.0f));
    if (giou_grads != nullptr) std::fill_n(giou_grads[l].data(), 4 * grad.size(), T(0.0f));
    set_pair* const pairs = buffers_.pairs.data();
    index_t count = 0;
    for_each_match(layer, [&](index_t, index_t row, index_t box) {
      if (row >= 0) pairs[count++] = {row, box};
    });
    set_loss_args<T> args{};
    args.pairs = pairs;
    args.boxes = layer.outputs.boxes.data();
    args.truth = truth_.boxes.data();
    args.l1_scale = quotient(params_.l1_weight * params_.scale, divisor(layer));
    args.giou_scale = quotient(params_.giou_weight * params_.scale, divisor(layer));
    args.ious = buffers_.ious.data();
    args.grad = grad.data();
    args.giou_grad = giou_grads != nullptr ? giou_grads[l].data() : nullptr;
    const auto kernel = kernels<set_loss_kernels<T>>(target).run;
    set_pair_losses partial[chunking::max_count];
    const chunking chunks(count, 512, 16);
    for_each_chunk(policy_, chunks, [&](index_t chunk, index_t first, index_t last) {
      partial[chunk] = kernel(args, first, last);
    });
    const auto sum_of = [&](double set_pair_losses::*part) {
      double sum = 0;
      for (index_t c = 0; c < chunks.count; ++c) sum = rounded(sum + partial[c].*part);
      return is_nan(sum) ? std::numeric_limits<double>::quiet_NaN() : sum;
    };
    set_losses losses;
    losses.l1 = scaled(args.l1_scale, sum_of(&set_pair_losses::l1));
    losses.giou = scaled(args.giou_scale, sum_of(&set_pair_losses::giou));
    return losses;
  }

  /// Replaces the box of each query by its class, or by -1 or the last column for a query without a
  /// box.
  void write_labels(index_t l, index_t* labels) const {
    const matrix_view<const T>& logits = layers_[l].outputs.logits;
    for (index_t row = 0; row < logits.rows(); ++row) {
      if (labels[row] < 0 && !is_softmax()) buffers_.ious[static_cast<std::size_t>(row)] = 0;
      labels[row] = labels[row] >= 0 ? class_of(truth_, labels[row])
                    : is_softmax()   ? logits.cols() - 1
                                     : -1;
    }
  }

  double class_loss(isa target, index_t l, const index_t* labels) const {
    const set_loss_layer<T>& layer = layers_[l];
    const matrix_view<const T>& logits = layer.outputs.logits;
    if (logits.empty()) return 0;
    if (is_softmax()) return weighted_cross_entropy(target, layer, labels);
    const vector_view<const index_t> classes(labels, logits.rows());
    const double scale = quotient(params_.class_weight * params_.scale, divisor(layer));
    if (params_.class_loss == set_class_loss::focal) {
      focal_loss_params params;
      params.alpha = params_.alpha;
      params.gamma = params_.gamma;
      params.scale = scale;
      return sigmoid_focal_loss_and_grad(logits, classes, layer.logits_grad, params, policy_);
    }
    varifocal_params params;
    params.alpha = params_.alpha;
    params.gamma = params_.gamma;
    params.grad_through_factor = false;
    params.scale = scale;
    const vector_view<const float> ious(buffers_.ious.data(), logits.rows());
    return varifocal_loss_and_grad(logits, {classes, ious}, layer.logits_grad, params, policy_);
  }

  /// First the rows with a box, then the rows without one, which have another weight.
  double weighted_cross_entropy(isa target, const set_loss_layer<T>& layer,
                                const index_t* labels) const {
    const matrix_view<const T>& logits = layer.outputs.logits;
    const index_t count = logits.rows(), cols = logits.cols();
    index_t* const rows = buffers_.rows.data();
    index_t matched = 0;
    for (index_t row = 0; row < count; ++row)
      if (labels[row] != cols - 1) rows[matched++] = row;
    for (index_t row = 0, at = matched; row < count; ++row)
      if (labels[row] == cols - 1) rows[at++] = row;
    const double weights = static_cast<double>(matched) +
                           rounded(params_.no_object_weight * static_cast<double>(count - matched));
    const double scale =
        quotient(params_.class_weight * params_.scale, weights > 0 ? weights : 1.0);

    softmax_cross_entropy_args args{};
    args.classes = cols;
    args.labels = vector_view<const index_t>(labels, count);
    args.ignore = -1;
    if constexpr (std::is_same<T, float>::value) {
      args.logits = logits.data();
      args.stride = logits.stride();
      args.grad = layer.logits_grad.data();
      args.grad_stride = layer.logits_grad.stride();
    } else {
      float* const converted = buffers_.logits.data();
      for (index_t row = 0; row < count; ++row)
        std::copy(logits.row(row), logits.row(row) + cols, converted + row * cols);
      args.logits = converted;
      args.grad = buffers_.logits_grad.data();
      args.stride = args.grad_stride = cols;
    }
    const auto& kernels = detail::kernels<softmax_cross_entropy_kernels>(target);
    const auto run = [&](index_t first, index_t size, double weight) {
      args.rows = rows + first;
      args.scale = weight;
      return scaled(weight, sum_over_chunks(policy_, softmax_chunks(size, cols),
                                            [&](index_t begin, index_t end) {
                                              return kernels.loss(args, begin, end);
                                            }));
    };
    const double with_box = run(0, matched, scale);
    const double loss = with_box + run(matched, count - matched, scale * params_.no_object_weight);
    if constexpr (!std::is_same<T, float>::value) {
      for (index_t row = 0; row < count; ++row)
        for (index_t c = 0; c < cols; ++c) layer.logits_grad(row, c) = T(args.grad[row * cols + c]);
    }
    return loss;
  }

  /// Its shape has the mean number of queries of all layers.
  profile::problem problem(isa target) const {
    const index_t images = layers_.size() * images_;
    index_t rows = 0, classes = 0;
    for (const set_loss_layer<T>& layer : layers_) {
      rows += layer.outputs.logits.rows();
      classes = std::max(classes, layer.outputs.logits.cols());
    }
    const index_t queries = images == 0 ? 0 : (rows + images - 1) / images;
    return {function,
            set_class_loss_name(params_.class_loss),
            dtype_name<T>(),
            {images, queries, classes},
            isa_name(target),
            policy_.threads(),
            2 * images * queries * (4 + classes) * index_t{sizeof(T)}};
  }

  vector_view<const set_loss_layer<T>> layers_;
  const ground_truth& truth_;
  vector_view<set_losses> losses_;
  const set_loss_params& params_;
  set_loss_buffers& buffers_;
  threading policy_;
  index_t images_;
};

}  // namespace detail

template <class T>
void set_loss_and_grad(vector_view<const set_loss_layer<T>> layers, const ground_truth& truth,
                       vector_view<set_losses> losses, const set_loss_params& params,
                       set_loss_workspace& workspace, threading policy) {
  detail::set_loss_call<T>(layers, truth, losses, params,
                           detail::workspace_access::buffers(workspace), policy)
      .run();
}

}  // namespace VECDET_ABI
}  // namespace vecdet
