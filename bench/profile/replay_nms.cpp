// SPDX-License-Identifier: Apache-2.0
// Replays NMS, of one class or of 91, and soft-NMS on clustered detections with default parameters:
// a problem's name tells neither thresholds nor groups. Its variant is the type of the scores,
// where that is another than the boxes'. Its size is a rounded one; the bytes tell the mean.
#include "../support/operands.hpp"
#include "replay_inputs.hpp"

#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

using namespace vecdet;

const std::map<std::string, soft_nms_method> methods = {{"hard", soft_nms_method::hard},
                                                        {"linear", soft_nms_method::linear},
                                                        {"gaussian", soft_nms_method::gaussian}};

/// Boxes of a call on average.
template <class T>
index_t mean_count(const profile::entry& e) {
  const double mean = std::round(profile::call_bytes(e) / (5.0 * sizeof(T)));
  if (!(mean >= 1 && mean <= static_cast<double>(e.shape[0]))) return e.shape[0];
  const auto count = static_cast<index_t>(mean);
  return profile::rounded_count(count) == profile::rounded_count(e.shape[0]) ? count : e.shape[0];
}

template <class T>
profile::replay_call make_call(const profile::entry& e, execution policy) {
  const auto data =
      std::make_shared<bench::nms_operands<T>>(bench::clustered_detections(mean_count<T>(e)));
  if (e.function == "soft_nms") {
    soft_nms_params params;
    params.method = methods.at(e.variant);
    return [=] {
      soft_nms(data->b(), data->s(), data->by_class(), params, data->soft_workspace, policy);
    };
  }
  if (e.function == "nms") return [=] { nms(data->b(), data->s(), {}, data->workspace, policy); };
  return [=] { batched_nms(data->b(), data->s(), data->by_class(), {}, data->workspace, policy); };
}

profile::replay_call make(const profile::entry& e, execution policy) {
  if (e.function != "soft_nms" && (e.variant == "f32" || e.variant == "bf16" || e.variant == "f64"))
    throw std::runtime_error("its scores are of another type than its boxes");
  const bool known = e.function == "soft_nms" ? methods.count(e.variant) != 0 : e.variant.empty();
  if (!known || e.shape.size() != 1) return {};
  return profile::for_type(e.type,
                           [&](auto number) { return make_call<decltype(number)>(e, policy); });
}

const profile::replay_registration registered[] = {
    {"nms", make},
    {"batched_nms", make},
    {"soft_nms", make},
};

}  // namespace
