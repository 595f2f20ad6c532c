// SPDX-License-Identifier: Apache-2.0
// A recogniser of text lines on libtorch, with vecdet's convolutions, CTC and decoding. It trains
// on lines that the program draws, until it reads 95% of unseen lines without a mistake: about a
// minute on one core with AVX-512. Then it prints the profile of ten steps with torch's CTC, and
// with vecdet's.
//
//   torch_ocr [lines]     trains on so many lines only, until it reads all of them
#include <vecdet/ctc_decoding.hpp>
#include <vecdet/profile.hpp>
#include <vecdet/torch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace example {

constexpr int height = 16, width = 96, batch = 32, most_steps = 2500;
constexpr int glyphs = 36, classes = glyphs + 1;  // class 0 is the blank

// Digits and letters of 5 x 7 pixels, 12 in a row.
const char* const names = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const char* const font[3][7] = {
    {" ###    #    ###  ####  #  #  #####   ##  #####  ###   ###    #   #### ",
     "#  ##  ##   #   #     # #  #  #      #        # #   # #   #  # #  #   #",
     "# # #   #       #     # #  #  ####  #        #  #   # #   #  # #  #   #",
     "# # #   #     ##   ###  #####     # ####    #    ###   #### #   # #### ",
     "# # #   #    #        #    #      # #   #   #   #   #     # ##### #   #",
     "##  #   #   #         #    #  #   # #   #  #    #   #    #  #   # #   #",
     " ###  ##### ##### ####     #   ###   ###   #     ###   ##   #   # #### "},
    {" #### ###   ##### #####  #### #   #  ###    ### #   # #     #   # #   #",
     "#     #  #  #     #     #     #   #   #      #  #  #  #     ## ## ##  #",
     "#     #   # #     #     #     #   #   #      #  # #   #     # # # ##  #",
     "#     #   # ###   ####  #  ## #####   #      #  ##    #     # # # # # #",
     "#     #   # #     #     #   # #   #   #      #  # #   #     #   # #  ##",
     "#     #  #  #     #     #   # #   #   #   #  #  #  #  #     #   # #  ##",
     " #### ###   ##### #      #### #   #  ###   ##   #   # ##### #   # #   #"},
    {" ###  ####   ###  ####   #### ##### #   # #   # #   # #   # #   # #####",
     "#   # #   # #   # #   # #       #   #   # #   # #   #  # #  #   #     #",
     "#   # #   # #   # #   # #       #   #   # #   # #   #  # #   # #     # ",
     "#   # ####  #   # ####   ###    #   #   #  # #  # # #   #     #     #  ",
     "#   # #     # # # # #       #   #   #   #  # #  # # #  # #    #    #   ",
     "#   # #     #  #  #  #      #   #   #   #  # #  ## ##  # #    #   #    ",
     " ###  #      ## # #   # ####    #    ###    #   #   # #   #   #   #####"}};

struct lines {
  at::Tensor pictures;                ///< lines x 1 x height x width
  std::vector<std::int64_t> targets;  ///< of all lines, one after the other
  std::vector<std::int64_t> lengths;
};

/// Lines of 4 to 8 characters of random size and slant, in noise.
lines draw(int count, std::mt19937& random) {
  VECDET_PROFILE_SCOPE("drawing");
  const auto number = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  lines drawn{at::empty({count, 1, height, width}), {}, {}};
  float* picture = drawn.pictures.data_ptr<float>();
  for (int n = 0; n < count; ++n, picture += height * width) {
    const auto length = static_cast<int>(number(4, 9));
    drawn.lengths.push_back(length);
    std::vector<int> text;
    for (int i = 0; i < length; ++i) text.push_back(static_cast<int>(number(0, glyphs)));
    for (const int glyph : text) drawn.targets.push_back(1 + glyph);
    const double wide = number(1.2, 1.7), high = number(1.3, 1.9), slant = number(-0.2, 0.2);
    const double top = number(0, height - 7 * high), ink = number(0.6, 1), paper = number(0, 0.2);
    const double left = number(1, width - length * 6 * wide), gap = 6 * wide;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const double across = x - left - slant * (height / 2 - y);
        const int i = static_cast<int>(std::floor(across / gap));
        const int column = static_cast<int>(std::floor((across - i * gap) / wide));
        const int row = static_cast<int>(std::floor((y - top) / high));
        const bool is_ink = i >= 0 && i < length && column < 5 && row >= 0 && row < 7 &&
                            font[text[i] / 12][row][text[i] % 12 * 6 + column] == '#';
        picture[y * width + x] = static_cast<float>((is_ink ? ink : paper) + number(-0.15, 0.15));
      }
    }
  }
  return drawn;
}

/// Three convolutions with pooling, the last of which keeps the width: 24 steps of four columns.
class recogniser {
 public:
  recogniser() {
    for (const auto& [in, out] : {std::pair{1, 32}, {32, 64}, {64, 96}}) {
      add(at::randn({out, in, 3, 3}) * std::sqrt(2.0 / (9 * in)));
      add(at::zeros({out}));
    }
    add(at::randn({96 * 2, classes}) * 0.05);
    add(at::zeros({classes}));
  }
  /// Logits, steps x lines x classes.
  at::Tensor operator()(at::Tensor x) const {
    x = x - x.mean({2, 3}, true);
    for (int layer = 0; layer < 3; ++layer) {
      x = vecdet::ops::conv3x3(x, weights_[2 * layer], weights_[2 * layer + 1], true);
      x = layer < 2 ? vecdet::ops::max_pool(x) : vecdet::ops::max_pool(x, 2, 1, 2, 1);
    }
    return x.permute({3, 0, 1, 2}).flatten(2).matmul(weights_[6]) + weights_[7];
  }
  /// One step of Adam.
  void update(double rate) {
    const at::NoGradGuard no_grad;
    ++updates_;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      at::Tensor& grad = weights_[i].mutable_grad();
      means_[i].lerp_(grad, 1 - 0.9);
      squares_[i].lerp_(grad * grad, 1 - 0.999);
      const at::Tensor scale = (squares_[i] / (1 - std::pow(0.999, updates_))).sqrt_().add_(1e-8);
      weights_[i].addcdiv_(means_[i], scale, -rate / (1 - std::pow(0.9, updates_)));
      grad.reset();
    }
  }

 private:
  void add(const at::Tensor& weight) {
    weights_.push_back(weight.detach().requires_grad_());
    means_.push_back(at::zeros_like(weight));
    squares_.push_back(at::zeros_like(weight));
  }
  std::vector<at::Tensor> weights_, means_, squares_;
  int updates_ = 0;
};

at::Tensor tensor_of(const std::vector<std::int64_t>& numbers) {
  return at::tensor(numbers, at::kLong);
}

/// The mean loss, and its gradient with respect to the logits.
std::pair<at::Tensor, at::Tensor> loss_and_grad(const at::Tensor& logits, const lines& drawn,
                                                bool is_torchs) {
  const at::Tensor targets = tensor_of(drawn.targets), lengths = tensor_of(drawn.lengths);
  const at::Tensor steps = at::full({logits.size(1)}, logits.size(0), at::kLong);
  const auto compute = [&] {
    const at::Tensor loss =
        is_torchs ? at::ctc_loss(logits.log_softmax(2), targets, steps, lengths)
                  : vecdet::ops::ctc_loss(logits, targets, steps, lengths, 0, at::Reduction::Mean);
    return std::pair{loss, torch::autograd::grad({loss}, {logits})[0]};
  };
  if (is_torchs) {
    VECDET_PROFILE_SCOPE("torch's CTC");
    return compute();
  }
  VECDET_PROFILE_SCOPE("vecdet's CTC");
  return compute();
}

/// Returns the loss.
double train_step(recogniser& net, const lines& drawn, double rate, bool is_torchs) {
  const at::Tensor logits = [&] {
    VECDET_PROFILE_SCOPE("network, forward");
    return net(drawn.pictures);
  }();
  const auto [loss, grad] = loss_and_grad(logits, drawn, is_torchs);
  {
    VECDET_PROFILE_SCOPE("network, backward");
    logits.backward(grad);
  }
  VECDET_PROFILE_SCOPE("Adam");
  net.update(rate);
  return loss.item<double>();
}

std::string text_of(const std::int64_t* first, const std::int64_t* last) {
  std::string text;
  for (; first < last; ++first) text += names[*first - 1];
  return text;
}

/// The share of lines that are read without a mistake; prints one that is not.
double right_lines(const recogniser& net, const lines& tested) {
  const at::NoGradGuard no_grad;
  const at::Tensor logits = net(tested.pictures).contiguous();
  vecdet::ctc_decoding_workspace workspace;
  const vecdet::ctc_texts texts =
      vecdet::ctc_greedy(vecdet::sequences_view<const float>::steps_first(
                             logits.data_ptr<float>(), logits.size(0), logits.size(1), classes),
                         {}, 0, workspace);
  int right = 0;
  std::string wrong;
  const std::int64_t* truth = tested.targets.data();
  for (vecdet::index_t n = 0; n < logits.size(1); ++n) {
    const std::int64_t* const end = truth + tested.lengths[static_cast<std::size_t>(n)];
    const std::string expected = text_of(truth, end);
    const std::string read = text_of(texts.classes.data() + texts.offsets[n],
                                     texts.classes.data() + texts.offsets[n + 1]);
    if (read == expected) ++right;
    if (read != expected && wrong.empty()) wrong = ", \"" + expected + "\" as \"" + read + '"';
    truth = end;
  }
  const double share = static_cast<double>(right) / static_cast<double>(logits.size(1));
  std::cout << 100 * share << "% of lines are right" << wrong << std::endl;
  return share;
}

}  // namespace example

int main(int argc, char** argv) {
  using namespace example;
  const int few = argc > 1 ? std::atoi(argv[1]) : 0;
  at::manual_seed(1);
  std::mt19937 random(1), other(2);
  const lines tested = draw(few > 0 ? few : 1000, other);
  const double goal = few > 0 ? 1 : 0.95;
  recogniser net;
  double right = 0;
  for (int step = 1; step <= most_steps && right < goal; ++step) {
    const double rate = 3e-3 * std::min(1.0, step / 100.0) * (1 - step / (most_steps + 1.0));
    const double loss = train_step(net, few > 0 ? tested : draw(batch, random), rate, false);
    if (step % 100 != 0) continue;
    std::cout << "step " << step << ": loss " << loss << ", ";
    right = right_lines(net, tested);
  }

  const lines drawn = draw(batch, random);
  double losses[2];
  for (const bool is_torchs : {true, false}) {
    vecdet::profile::reset();
    vecdet::profile::enable();
    for (int i = 0; i < 10; ++i) {
      VECDET_PROFILE_SCOPE("step");
      losses[is_torchs] = train_step(net, drawn, 0, is_torchs);
    }
    vecdet::profile::disable();
    vecdet::profile::print(std::cout);
  }
  std::cout << "loss " << losses[1] << " with torch's CTC, " << losses[0] << " with vecdet's\n";
  return right >= goal && std::abs(losses[1] - losses[0]) <= 1e-5 * (1 + losses[1]) ? 0 : 1;
}
