// SPDX-License-Identifier: Apache-2.0
// A detector in dlib (http://dlib.net) with a loss layer of dlib's kind that calls vecdet. The loss
// reads the tensor that the last convolution wrote and writes dlib's gradient in place: nothing is
// copied. Trains on drawn discs and squares for some seconds, counts what is found in fresh scenes,
// and prints what the loss cost beside the network.
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <dlib/dnn.h>

namespace example {

using vecdet::index_t;
constexpr int side = 96, classes = 2, batch = 16, steps = 100;
constexpr int channels = classes + 4;  // of an anchor: its logits, then its deltas

struct labelled_box {
  float corners[4];  // x1 y1 x2 y2 in pixels
  index_t label;
  float score;
};

/// RetinaNet's loss. The network's output has, for each anchor of a location, `channels` channels.
class loss_retinanet_ {
 public:
  using training_label_type = std::vector<labelled_box>;
  using output_label_type = std::vector<labelled_box>;

  /// Squares of two sizes at each location.
  static vecdet::anchor_shapes shapes() { return {{20, 32}, {1}}; }

  template <class Labels, class Subnet>
  double compute_loss_value_and_gradient(const dlib::tensor& input, Labels truth, Subnet& sub) {
    boxes_.clear();
    box_classes_.clear();
    offsets_.assign(1, 0);
    for (long i = 0; i < input.num_samples(); ++i, ++truth) {
      for (const labelled_box& found : *truth) {
        boxes_.insert(boxes_.end(), found.corners, found.corners + 4);
        box_classes_.push_back(found.label);
      }
      offsets_.push_back(static_cast<index_t>(box_classes_.size()));
    }
    vecdet::ground_truth all;
    all.boxes = boxes_;
    all.classes = box_classes_;
    all.image_offsets = offsets_;

    const dlib::tensor& output = sub.get_output();
    dlib::tensor& gradient = sub.get_gradient_input();
    const levels<const float> outputs(output.host(), output);
    const levels<float> gradients(gradient.host_write_only(), output);
    const vecdet::retinanet_head<float> head{outputs.logits, outputs.deltas, gradients.logits,
                                             gradients.deltas};
    const auto losses = vecdet::retinanet_loss_and_grad(head, anchors_of(input, output).index(),
                                                        all, {}, loss_workspace_);
    return losses.classification + losses.regression;
  }

  /// The detections of each image, in descending score.
  template <class Subnet, class Labels>
  void to_label(const dlib::tensor& input, const Subnet& sub, Labels found) {
    const dlib::tensor& output = sub.get_output();
    const levels<const float> outputs(output.host(), output);
    const std::vector<vecdet::image_size> images(
        static_cast<std::size_t>(output.num_samples()),
        vecdet::image_size::height_width(static_cast<double>(input.nr()),
                                         static_cast<double>(input.nc())));
    vecdet::postprocess_params params = vecdet::postprocess_params::retinanet();
    params.score_threshold = 0.3;
    const auto detections = vecdet::postprocess(
        vecdet::head_level_outputs<float>{outputs.logits, outputs.deltas, {}},
        anchors_of(input, output).boxes(), images, params, postprocess_workspace_);
    for (long i = 0; i < output.num_samples(); ++i, ++found) {
      found->clear();
      for (index_t d = detections.offsets[i]; d < detections.offsets[i + 1]; ++d) {
        const float* const b = detections.boxes.data() + 4 * d;
        found->push_back({{b[0], b[1], b[2], b[3]}, detections.labels[d], detections.scores[d]});
      }
    }
  }

  // What dlib asks of every loss layer.
  friend void serialize(const loss_retinanet_&, std::ostream& out) {
    dlib::serialize(std::string("loss_retinanet_"), out);
  }
  friend void deserialize(loss_retinanet_&, std::istream& in) {
    std::string name;
    dlib::deserialize(name, in);
    if (name != "loss_retinanet_") throw dlib::serialization_error("this is no loss_retinanet_");
  }
  friend std::ostream& operator<<(std::ostream& out, const loss_retinanet_&) {
    return out << "loss_retinanet";
  }
  friend void to_xml(const loss_retinanet_&, std::ostream& out) { out << "<loss_retinanet/>\n"; }

 private:
  /// One tensor of dlib, samples x channels x rows x columns, seen as a head of one level.
  template <class T>
  struct levels {
    vecdet::head_level<T> logits_level, deltas_level;
    vecdet::head_view<T> logits, deltas;

    levels(T* data, const dlib::tensor& like)
        : logits_level{data, like.nr(), like.nc()},
          deltas_level{data + classes * like.nr() * like.nc(), like.nr(), like.nc()},
          logits({&logits_level, 1}, like.num_samples(), like.k() / channels, classes,
                 vecdet::head_layout::nchw, channels),
          deltas({&deltas_level, 1}, like.num_samples(), like.k() / channels, 4,
                 vecdet::head_layout::nchw, channels) {}
    levels(const levels&) = delete;  // the views point into it
    levels& operator=(const levels&) = delete;
  };

  const vecdet::cached_anchors& anchors_of(const dlib::tensor& input, const dlib::tensor& output) {
    const vecdet::grid_size features[] = {{output.nr(), output.nc()}};
    return anchors_.anchors({input.nr(), input.nc()}, {features, 1});
  }

  vecdet::anchor_cache anchors_{{shapes()}};
  vecdet::retinanet_loss_workspace loss_workspace_;
  vecdet::postprocess_workspace postprocess_workspace_;
  std::vector<float> boxes_;
  std::vector<index_t> box_classes_;
  std::vector<index_t> offsets_;
};

template <class Subnet>
using loss_retinanet = dlib::add_loss_layer<loss_retinanet_, Subnet>;
template <int Filters, int Size, class Subnet>
using down = dlib::relu<dlib::con<Filters, Size, Size, 2, 2, Subnet>>;
using network = loss_retinanet<
    dlib::con<2 * channels, 1, 1, 1, 1,
              dlib::relu<dlib::con<32, 3, 3, 1, 1,
                                   down<32, 3, down<16, 3, down<8, 5, dlib::input_rgb_image>>>>>>>;
using scene = dlib::matrix<dlib::rgb_pixel>;

/// A red disc or a blue square in each half, on noise.
std::vector<labelled_box> draw(scene& image, std::mt19937& random) {
  const auto number = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const auto byte = [](int value) { return static_cast<unsigned char>(value); };
  image.set_size(side, side);
  for (auto& pixel : image)
    pixel = {byte(number(90, 160)), byte(number(90, 160)), byte(number(90, 160))};
  std::vector<labelled_box> objects;
  for (int half = 0; half < 2; ++half) {
    const int size = number(18, 36), disc = number(0, 1);
    const int x1 = half * side / 2 + number(0, side / 2 - size), y1 = number(0, side - size);
    for (int y = 0; y < size; ++y)
      for (int x = 0; x < size; ++x) {
        const int dx = 2 * x + 1 - size, dy = 2 * y + 1 - size;
        if (disc == 1 && dx * dx + dy * dy > size * size) continue;
        image(y1 + y, x1 + x) = {byte(disc == 1 ? 230 : 30), 40, byte(disc == 1 ? 30 : 230)};
      }
    const auto at = [](int x) { return static_cast<float>(x); };
    objects.push_back({{at(x1), at(y1), at(x1 + size), at(y1 + size)}, disc, 1});
  }
  return objects;
}

float overlap(const labelled_box& a, const labelled_box& b) {
  float iou = 0;
  vecdet::elementwise_iou(vecdet::boxes_view<const float>(a.corners, 1),
                          vecdet::boxes_view<const float>(b.corners, 1),
                          vecdet::vector_view<float>(&iou, 1));
  return iou;
}

}  // namespace example

int main() {
  using namespace example;
  std::mt19937 random(1);
  std::vector<scene> images(batch);
  std::vector<std::vector<labelled_box>> truth(batch);
  const auto draw_all = [&] {
    for (std::size_t i = 0; i < images.size(); ++i) truth[i] = draw(images[i], random);
  };
  network net;
  dlib::resizable_tensor input;
  draw_all();
  net.to_tensor(images.begin(), images.end(), input);
  net.forward(input);  // dlib makes weights with the first input
  // RetinaNet's prior of 0.01: the biases, which follow the filters, of the channels of logits.
  dlib::tensor& weights = dlib::layer<1>(net).layer_details().get_layer_params();
  float* const biases = weights.host() + weights.size() - 2 * channels;
  for (int c = 0; c < 2 * channels; ++c)
    if (c % channels < classes) biases[c] = -std::log(0.99f / 0.01f);

  vecdet::profile::enable();
  std::vector<dlib::adam> solvers(network::num_computational_layers, dlib::adam(0, 0.9f, 0.999f));
  for (int step = 0; step < steps; ++step) {
    VECDET_PROFILE_SCOPE("step");
    draw_all();
    net.to_tensor(images.begin(), images.end(), input);
    const double loss = [&] {
      VECDET_PROFILE_SCOPE("network, forward and backward");  // the loss, inside, counts for itself
      return net.compute_parameter_gradients(input, truth.begin());
    }();
    net.update_parameters(dlib::make_sstack(solvers), step < steps * 3 / 4 ? 4e-3 : 1e-3);
    if (step % 20 == 0 || step == steps - 1) std::cout << "step " << step << ": " << loss << "\n";
  }
  vecdet::profile::disable();
  vecdet::profile::print(std::cout);

  int found = 0, all = 0;
  draw_all();
  const std::vector<std::vector<labelled_box>> detections = net(images);
  for (std::size_t i = 0; i < images.size(); ++i)
    for (const labelled_box& object : truth[i]) {
      ++all;
      found += std::any_of(detections[i].begin(), detections[i].end(), [&](const labelled_box& d) {
        return d.label == object.label && overlap(d, object) > 0.5f;
      });
    }
  std::cout << found << " of " << all << " objects of new scenes were found\n";
  return found * 4 >= all * 3 ? 0 : 1;  // it must have learnt
}
