// SPDX-License-Identifier: Apache-2.0
// A detector in dlib (http://dlib.net) with a dlib loss layer that calls vecdet. The loss reads the
// tensor that the last convolution wrote, and writes dlib's gradient in place: nothing is copied.
// The program trains on drawn squares for some seconds, counts the objects found in new
// scenes, and prints the cost of the loss next to the network's.
#include <vecdet/profile.hpp>
#include <vecdet/vecdet.hpp>

#include <cmath>
#include <iostream>
#include <numeric>
#include <random>
#include <vector>

#include <dlib/dnn.h>
#include <dlib/image_transforms/draw.h>

namespace example {

using vecdet::index_t;
constexpr int side = 96, classes = 2, anchors = 2, batch = 16, steps = 100;
constexpr int channels = classes + 4;  // per anchor: its logits, then its deltas

/// The objects of one image, in training and as output of the network.
struct objects {
  std::vector<float> boxes;  // x1 y1 x2 y2 in pixels, box after box
  std::vector<index_t> labels;
};

/// RetinaNet's loss. The network's output has, for each anchor of a location, `channels` channels.
class loss_retinanet_ {
 public:
  using training_label_type = objects;
  using output_label_type = objects;

  template <class Labels, class Subnet>
  double compute_loss_value_and_gradient(const dlib::tensor& input, Labels truth, Subnet& sub) {
    truth_.clear();
    for (long i = 0; i < input.num_samples(); ++i, ++truth)
      truth_.add_image(truth->boxes, truth->labels);
    const dlib::tensor& output = sub.get_output();
    const float* const x = output.host();
    float* const gradient = sub.get_gradient_input().host_write_only();
    const vecdet::retinanet_head<float> heads{
        head(x, output, 0, classes), head(x, output, classes, 4),
        head(gradient, output, 0, classes), head(gradient, output, classes, 4)};
    const auto losses = vecdet::retinanet_loss_and_grad(heads, anchors_of(output).index(), truth_,
                                                        {}, loss_workspace_);
    return losses.classification + losses.regression;
  }

  /// The detections of each image, in descending score.
  template <class Subnet, class Labels>
  void to_label(const dlib::tensor&, const Subnet& sub, Labels found) {
    const dlib::tensor& output = sub.get_output();
    const float* const x = output.host();
    auto params = vecdet::postprocess_params::retinanet();
    params.score_threshold = 0.3;
    const auto detections = vecdet::postprocess<float>(
        {head(x, output, 0, classes), head(x, output, classes, 4), {}}, anchors_of(output).boxes(),
        vecdet::image_size::height_width(side, side), params, postprocess_workspace_);
    for (long i = 0; i < output.num_samples(); ++i, ++found) {
      const auto [boxes, scores, labels] = detections.image(i);
      *found = {{boxes.data(), boxes.data() + 4 * boxes.size()}, {labels.begin(), labels.end()}};
    }
  }

 private:
  /// `count` of each anchor's channels. dlib's tensors are samples x channels x rows x columns.
  template <class T>
  static vecdet::head_view<T> head(T* data, const dlib::tensor& like, long first, long count) {
    const vecdet::head_level<T> level{data + first * like.nr() * like.nc(), like.nr(), like.nc()};
    return {level, like.num_samples(), anchors, count, vecdet::head_layout::nchw, channels};
  }
  const vecdet::cached_anchors& anchors_of(const dlib::tensor& output) {
    const vecdet::grid_size level{output.nr(), output.nc()};
    return anchors_.anchors({side, side}, {&level, 1});
  }

  vecdet::anchor_cache anchors_{{{{20, 32}, {1}}}};  // squares of two sizes
  vecdet::ground_truth_batch truth_;
  vecdet::retinanet_loss_workspace loss_workspace_;
  vecdet::postprocess_workspace postprocess_workspace_;
};

template <int Filters, int Size, class Subnet>
using down = dlib::relu<dlib::con<Filters, Size, Size, 2, 2, Subnet>>;
using features = down<32, 3, down<16, 3, down<8, 5, dlib::input_rgb_image>>>;
using network =
    dlib::add_loss_layer<loss_retinanet_, dlib::con<anchors * channels, 3, 3, 1, 1, features>>;
using scene = dlib::matrix<dlib::rgb_pixel>;

/// Draws a red or a blue square in each half, on noise.
objects draw(scene& picture, std::mt19937& random) {
  const auto number = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const auto grey = [&] { return static_cast<unsigned char>(number(90, 160)); };
  picture.set_size(side, side);
  for (auto& pixel : picture) pixel = {grey(), grey(), grey()};
  objects drawn;
  for (const int left : {0, side / 2}) {
    const int size = number(18, 36), is_red = number(0, 1);
    const int x = left + number(0, side / 2 - size), y = number(0, side - size);
    dlib::fill_rect(picture, dlib::rectangle(x, y, x + size - 1, y + size - 1),
                    is_red == 1 ? dlib::rgb_pixel(230, 40, 30) : dlib::rgb_pixel(30, 40, 230));
    for (const int corner : {x, y, x + size, y + size})
      drawn.boxes.push_back(static_cast<float>(corner));
    drawn.labels.push_back(is_red);
  }
  return drawn;
}

/// How many of the objects were found, with an IoU above 0.5.
int count_found(const objects& truth, const objects& found) {
  const std::size_t rows = truth.labels.size(), cols = found.labels.size();
  std::vector<float> ious(rows * cols);
  vecdet::pairwise_iou(truth.boxes, found.boxes, {ious.data(), rows, cols});
  std::vector<int> is_found(rows);
  for (std::size_t i = 0; i < rows * cols; ++i)
    if (ious[i] > 0.5f && truth.labels[i / cols] == found.labels[i % cols]) is_found[i / cols] = 1;
  return std::accumulate(is_found.begin(), is_found.end(), 0);
}

}  // namespace example

int main() {
  using namespace example;
  std::mt19937 random(1);
  std::vector<scene> images(batch);
  std::vector<objects> truth(batch);
  const auto draw_all = [&] {
    for (std::size_t i = 0; i < images.size(); ++i) truth[i] = draw(images[i], random);
  };
  network net;
  draw_all();
  net(images);  // dlib creates weights with the first input
  // RetinaNet's prior of 0.01 goes into the biases of the logits, which follow the filters.
  dlib::tensor& weights = dlib::layer<1>(net).layer_details().get_layer_params();
  float* const biases = weights.host() + weights.size() - anchors * channels;
  for (int c = 0; c < anchors * channels; ++c)
    if (c % channels < classes) biases[c] = -std::log(0.99f / 0.01f);

  vecdet::profile::enable();
  std::vector<dlib::adam> solvers(network::num_computational_layers, dlib::adam(0, 0.9f, 0.999f));
  dlib::resizable_tensor input;
  for (int step = 0; step < steps; ++step) {
    draw_all();
    net.to_tensor(images.begin(), images.end(), input);
    VECDET_PROFILE_SCOPE("network and solver");  // the loss inside is timed separately
    const double loss = net.compute_parameter_gradients(input, truth.begin());
    net.update_parameters(dlib::make_sstack(solvers), step < steps * 3 / 4 ? 4e-3 : 1e-3);
    if (step % 20 == 0 || step == steps - 1) std::cout << "step " << step << ": " << loss << "\n";
  }
  vecdet::profile::disable();
  vecdet::profile::print(std::cout);

  draw_all();
  const std::vector<objects> detections = net(images);
  int found = 0;
  for (std::size_t i = 0; i < images.size(); ++i) found += count_found(truth[i], detections[i]);
  std::cout << found << " of " << 2 * batch << " objects of new scenes were found\n";
  return found * 4 >= 2 * batch * 3 ? 0 : 1;  // it must have learnt
}
