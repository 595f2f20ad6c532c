// SPDX-License-Identifier: Apache-2.0
// CTC's loss and gradient: the reference against torch's golden vectors, an enumeration of all
// paths and finite differences; the kernels against the reference on every instruction set, with
// numbers of labels around a row of lanes, of classes around four rows, several blocks of steps,
// both orders of steps and samples, gaps, weights, improbable targets and special values; and every
// documented error.
#include "support/box_tensor.hpp"
#include "support/data.hpp"
#include "support/isa.hpp"
#include "support/log_softmax.hpp"
#include "support/random.hpp"
#include "support/refusals.hpp"
#include "support/values.hpp"
#include <vecdet/ctc_loss.hpp>
#include <vecdet/reference/ctc_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <tbb/task_arena.h>

using namespace vecdet;
using namespace vecdet::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// The loss by the probabilities of all paths.
double enumerated_loss(const step_probabilities& log_p, const std::vector<index_t>& target,
                       index_t blank) {
  const std::size_t steps = log_p.logs.size();
  const index_t classes = static_cast<index_t>(log_p.logs[0].size());
  std::vector<index_t> path(steps, 0);
  double total = 0;
  for (;;) {
    std::vector<index_t> left;
    double log_path = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      log_path += log_p(static_cast<index_t>(t), path[t]);
      if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) left.push_back(path[t]);
    }
    if (left == target) total += std::exp(log_path);
    std::size_t t = 0;
    while (t < steps && ++path[t] == classes) path[t++] = 0;
    if (t == steps) return -std::log(total);
  }
}

/// The batch of a call, with gaps between rows, and its exact results.
template <class T>
struct batch {
  index_t steps, samples, classes;
  bool steps_first = true;
  index_t gap = 0;  ///< after each row
  ctc_params params{};
  std::vector<index_t> input_lengths{}, target_lengths{};
  std::vector<std::vector<index_t>> targets{};
  std::vector<float> weights{};
  std::vector<T> logits{};

  using real = compute_type<T>;

  index_t step_stride() const { return (classes + gap) * (steps_first ? samples : 1); }
  index_t sample_stride() const { return (classes + gap) * (steps_first ? 1 : steps); }
  template <class U>
  sequences_view<U> view(U* data) const {
    return {data, steps, samples, classes, step_stride(), sample_stride()};
  }
  T& at(index_t t, index_t n, index_t c) {
    return logits[static_cast<std::size_t>(t * step_stride() + n * sample_stride() + c)];
  }

  /// Logits within +-spread, and targets of up to `longest` classes, of which some repeat.
  void make(std::uint64_t seed, double spread, index_t longest) {
    random_generator random(seed);
    logits.resize(static_cast<std::size_t>((classes + gap) * steps * samples));
    for (T& x : logits) x = to<T>(random.uniform(-spread, spread));
    for (index_t n = 0; n < samples; ++n) {
      std::vector<index_t> target;
      const index_t length = n == 0 ? longest : random.below(longest + 1);
      while (classes > 1 && static_cast<index_t>(target.size()) < length) {
        index_t label = random.below(classes - 1);
        label += static_cast<index_t>(label >= params.blank);
        target.push_back(!target.empty() && random.chance(0.2) ? target.back() : label);
      }
      targets.push_back(target);
      target_lengths.push_back(static_cast<index_t>(target.size()));
      input_lengths.push_back(n == 0 ? steps : steps - random.below(steps / 3 + 1));
    }
  }

  std::vector<index_t> classes_in_turn() const {
    std::vector<index_t> all;
    for (const auto& target : targets) all.insert(all.end(), target.begin(), target.end());
    return all;
  }

  struct results {
    std::vector<real> losses;
    std::vector<T> grad;
    double sum;
    bool operator==(const results& other) const {
      return same_bits(losses, other.losses) && same_bits(grad, other.grad) &&
             (same_bits(&sum, &other.sum, 1) || (std::isnan(sum) && std::isnan(other.sum)));
    }
  };

  results run(threading policy = threading::sequential) const {
    const std::vector<index_t> all = classes_in_turn();
    ctc_targets in;
    in.classes = all;
    in.lengths = target_lengths;
    ctc_params with_weights = params;
    with_weights.sample_weights = weights;
    results r{std::vector<real>(static_cast<std::size_t>(samples)),
              std::vector<T>(logits.size(), to<T>(-12345)), 0};
    ctc_workspace workspace;
    const sequences_view<const T> x = view(logits.data());
    r.sum = ctc_loss_and_grad(x, in, input_lengths, view(r.grad.data()), with_weights, workspace,
                              policy);
    ctc_loss_unreduced(x, in, input_lengths, r.losses, with_weights, workspace, policy);
    const double alone = ctc_loss(x, in, input_lengths, with_weights, workspace, policy);
    CHECK((same_bits(&alone, &r.sum, 1) || (std::isnan(alone) && std::isnan(r.sum))));
    // In the logits' memory.
    std::vector<T> memory = logits;
    const double in_place =
        ctc_loss_and_grad(sequences_view<const T>(view(memory.data())), in, input_lengths,
                          view(memory.data()), with_weights, workspace, policy);
    CHECK((same_bits(&in_place, &r.sum, 1) || (std::isnan(in_place) && std::isnan(r.sum))));
    bool is_same = true;
    for_each_element([&](index_t i) {
      is_same = is_same && same_bits(&memory[static_cast<std::size_t>(i)],
                                     &r.grad[static_cast<std::size_t>(i)], 1);
    });
    CHECK(is_same);
    return r;
  }

  template <class Use>
  void for_each_element(const Use& use) const {
    for (index_t t = 0; t < steps; ++t)
      for (index_t n = 0; n < samples; ++n)
        for (index_t c = 0; c < classes; ++c) use(t * step_stride() + n * sample_stride() + c);
  }

  /// Against the reference.
  /// @param error of a gradient by the scale, and of a loss per step
  void check(const results& r, double error) const {
    double sum = 0, sum_error = 1e-30;
    std::vector<double> exact(logits.size(), -12345.0);
    for (index_t n = 0; n < samples; ++n) {
      const std::size_t i = static_cast<std::size_t>(n);
      INFO("sample ", n);
      const step_probabilities log_p(logits.data() + n * sample_stride(), input_lengths[i],
                                     step_stride(), classes);
      double extent = 1;
      for (const std::vector<double>& step : log_p.logs) {
        const auto ends = std::minmax_element(step.begin(), step.end());
        extent += 1 + (std::isinf(*ends.first) ? 30 : *ends.second - *ends.first);
      }
      std::vector<double> grad(static_cast<std::size_t>(input_lengths[i] * classes));
      double loss = reference::ctc_loss(log_p, input_lengths[i], classes, targets[i], params.blank,
                                        grad.data());
      if (params.zero_infinity && std::isinf(loss)) loss = 0;
      const double weight = weights.empty() ? 1 : static_cast<double>(weights[i]);
      const double factor = params.scale * weight;
      loss = factor == 0 ? 0 : loss * factor;
      const double within = error * extent * std::abs(factor) + 6e-8 * std::abs(loss);
      if (std::isinf(loss))
        CHECK(static_cast<double>(r.losses[i]) == loss);
      else
        CHECK(std::abs(static_cast<double>(r.losses[i]) - loss) <= within);
      sum += loss;
      sum_error += within;
      for (index_t t = 0; t < steps; ++t)
        for (index_t c = 0; c < classes; ++c)
          exact[static_cast<std::size_t>(t * step_stride() + n * sample_stride() + c)] =
              t < input_lengths[i] ? factor * grad[static_cast<std::size_t>(t * classes + c)] : 0;
    }
    if (std::isinf(sum))
      CHECK(r.sum == sum);
    else
      CHECK(std::abs(r.sum - sum) <= sum_error);
    double scale = std::abs(params.scale), worst = 0;
    for (const float weight : weights)
      scale = std::max(scale, std::abs(params.scale) * static_cast<double>(weight));
    const double rounding = std::is_same<T, bfloat16>::value ? 0x1p-7 : 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double difference =
          std::abs(static_cast<double>(r.grad[i]) - static_cast<double>(to<T>(exact[i])));
      const double most = error * scale + rounding * std::abs(exact[i]);
      if (exact[i] == -12345.0)
        CHECK(static_cast<double>(r.grad[i]) == static_cast<double>(to<T>(-12345)));
      worst = std::max(worst, std::isnan(difference) ? infinity : difference / most);
    }
    CHECK(worst <= 1);
  }
};

template <class T>
double error_of() {
  return std::is_same<T, double>::value ? 1e-11 : 1e-6;
}

template <class T>
void check_batch(const batch<T>& b) {
  check_on_every_isa([&] { return b.run(); },
                     [&](const auto& found) {
                       b.check(found, error_of<T>());
                       tbb::task_arena arena(3);
                       arena.execute([&] { CHECK((b.run(threading::parallel) == found)); });
                     });
}

template <class T>
void check_shapes() {
  std::uint64_t seed = 0;
  const auto check = [&](index_t steps, index_t samples, index_t classes, index_t longest,
                         double spread) {
    INFO(std::string(dtype_name<T>()), " steps ", steps, " samples ", samples, " classes ", classes,
         " longest ", longest);
    batch<T> b{steps, samples, classes};
    ++seed;
    b.steps_first = seed % 2 == 0;
    b.gap = static_cast<index_t>(seed % 3);
    b.params.blank = seed % 4 == 0 ? classes - 1 : 0;
    b.params.scale = seed % 5 == 0 ? -0.5 : 1;
    b.params.zero_infinity = seed % 3 == 1;
    b.make(seed, spread, longest);
    if (seed % 2 == 1)
      for (index_t n = 0; n < samples; ++n) b.weights.push_back(static_cast<float>(n % 3) * 0.5f);
    check_batch(b);
  };
  for (const index_t labels : {0, 1, 2, 7, 14, 15, 16, 17, 31, 32, 33, 70})
    check(2 * labels + 3, 3, 12, labels, 4);
  for (const index_t classes : {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 97, 300})
    check(9, 4, classes, 4, 6);
  for (const index_t steps : {0, 1, 2, 3, 5, 40}) check(steps, 5, 6, 2, 3);
  check(700, 2, 10, 40, 3);   // several blocks of steps
  check(400, 1, 5, 120, 30);  // improbable
  check(150, 3, 8, 20, 10);   // some runs in plain doubles, some not
  check(30, 70, 7, 9, 2);
  check(3, 2, 5000, 2, 3);
}

}  // namespace

TEST_CASE("CTC: the reference against an enumeration of all paths") {
  random_generator random(1);
  for (int i = 0; i < 60; ++i) {
    const index_t classes = 2 + i % 3, blank = random.below(classes);
    step_probabilities log_p;
    for (int t = 0; t < 1 + i % 5; ++t) {
      std::vector<double> x;
      for (index_t c = 0; c < classes; ++c) x.push_back(2 * random.normal());
      log_p.logs.push_back(log_softmax(x.data(), classes));
    }
    std::vector<index_t> target;
    for (index_t s = random.below(4); s > 0; --s) {
      const index_t label = random.below(classes - 1);
      target.push_back(label + static_cast<index_t>(label >= blank));
    }
    const auto reference_loss = [&](double* grad) {
      return reference::ctc_loss(log_p, log_p.steps(), classes, target, blank, grad);
    };
    const double expected = enumerated_loss(log_p, target, blank);
    const double found = reference_loss(nullptr);
    CHECK((std::isinf(expected) ? found == expected : std::abs(found - expected) < 1e-12));
  }
}

TEST_CASE("CTC: the gradient against finite differences") {
  batch<double> b{11, 3, 6};
  b.params.scale = 0.7;
  b.make(5, 2, 4);
  b.weights = {1, 0.5f, 2};
  const auto r = b.run();
  for (std::size_t i = 0; i < b.logits.size(); i += 5) {
    constexpr double h = 1e-5;
    batch<double> above = b, below = b;
    above.logits[i] += h;
    below.logits[i] -= h;
    CHECK(r.grad[i] ==
          doctest::Approx((above.run().sum - below.run().sum) / (2 * h)).epsilon(1e-6));
  }
}

TEST_CASE("CTC: golden vectors of torch") {
  if (!has_data("golden_text/ctc_logits_0.npy", "CTC against torch")) return;
  const auto load = [](const std::string& name) {
    return data_path("golden_text/" + name + ".npy");
  };
  const auto log_p = load_npy<double>(load("ctc_enumerated_logp"));
  const auto all_paths = load_npy<double>(load("ctc_enumerated_loss")).values[0];
  CHECK(reference::ctc_loss(
            [&](index_t t, index_t c) { return log_p.values[static_cast<std::size_t>(3 * t + c)]; },
            4, 3, {1, 2}, 0) == doctest::Approx(all_paths).epsilon(1e-14));
  for (int k = 0; k < 7; ++k) {
    INFO("case ", k);
    const std::string end = "_" + std::to_string(k);
    const auto logits = load_npy<float>(load("ctc_logits" + end));
    const auto classes = load_npy<std::int64_t>(load("ctc_targets" + end)).values;
    const auto lengths = load_npy<std::int64_t>(load("ctc_lengths" + end)).values;
    const auto losses = load_npy<double>(load("ctc_loss" + end)).values;
    const auto grad = load_npy<double>(load("ctc_grad" + end)).values;
    batch<double> exact{static_cast<index_t>(logits.shape[0]),
                        static_cast<index_t>(logits.shape[1]),
                        static_cast<index_t>(logits.shape[2])};
    exact.params.blank = load_npy<std::int64_t>(load("ctc_blank" + end)).values[0];
    const std::size_t samples = losses.size();
    exact.input_lengths.assign(lengths.begin(),
                               lengths.begin() + static_cast<std::ptrdiff_t>(samples));
    auto next = classes.begin();
    for (std::size_t n = 0; n < samples; ++n) {
      const auto length = static_cast<std::ptrdiff_t>(lengths[samples + n]);
      exact.targets.emplace_back(next, next + length);
      exact.target_lengths.push_back(length);
      next += length;
    }
    exact.logits.assign(logits.values.begin(), logits.values.end());
    batch<float> single{exact.steps,  exact.samples,       exact.classes,        true,          0,
                        exact.params, exact.input_lengths, exact.target_lengths, exact.targets, {},
                        logits.values};
    for_each_isa([&](isa) {
      const auto compare = [&](const auto& r, double loss_error, double error) {
        for (std::size_t n = 0; n < samples; ++n) {
          const double found = static_cast<double>(r.losses[n]);
          CHECK((found == losses[n] || std::abs(found - losses[n]) <= loss_error * losses[n]));
        }
        double worst = 0;
        for (std::size_t i = 0; i < grad.size(); ++i)
          worst = std::max(worst, std::abs(static_cast<double>(r.grad[i]) - grad[i]));
        CHECK(worst <= error);
      };
      compare(exact.run(), 1e-14, 2e-12);
      compare(single.run(), 1e-7, 4e-7);
    });
  }
}

TEST_CASE("CTC: labels, classes, steps, orders, gaps and weights, in float") {
  check_shapes<float>();
}
TEST_CASE("CTC: the same in bfloat16") { check_shapes<bfloat16>(); }
TEST_CASE("CTC: the same in double") { check_shapes<double>(); }

TEST_CASE("CTC: improbable targets have finite losses") {
  for_each_isa([](isa) {
    for (const double gap : {30.0, 44.3, 44.4, 88.8, 700.0, 1e4, 1e9}) {
      // Sure of the blank: the labels cost gap each.
      batch<float> b{60, 1, 4};
      b.make(1, 0, 0);
      for (index_t t = 0; t < 60; ++t) b.at(t, 0, 0) = static_cast<float>(gap);
      b.targets = {std::vector<index_t>(25, 2)};
      b.target_lengths = {25};
      const auto r = b.run();
      CHECK(r.sum ==
            doctest::Approx(25 * static_cast<double>(static_cast<float>(gap))).epsilon(0.2));
      if (gap < 1e5) b.check(r, 1e-6);
    }
  });
}

TEST_CASE("CTC: one step so improbable that exponents are not exact") {
  const std::vector<float> others = {-18, -18, 0,   0,   0, -18, -18, -18, -18, -18, 0, 0,
                                     0,   -18, -18, -18, 0, -18, -18, -18, -18, -18, 0, 0};
  for_each_isa([&](isa) {
    for (const float steep : {-1e15f, -1e18f, -1e25f}) {
      batch<float> b{9, 1, 3};
      b.make(1, 0, 0);
      b.logits = {steep, steep, 0};
      b.logits.insert(b.logits.end(), others.begin(), others.end());
      b.targets = {{1, 2}};
      b.target_lengths = {2};
      const auto r = b.run();
      // Wide numbers round their exponents in each step; runs of plain ones must not differ.
      CHECK(std::abs(r.grad[24] + r.grad[25] + r.grad[26]) < 1e-6f);
    }
  });
}

TEST_CASE("CTC: logits that cannot be, and paths of no probability") {
  for_each_isa([](isa) {
    batch<float> b{8, 5, 5};
    b.make(3, 2, 2);
    b.targets = {{1, 2}, {1, 2}, {1, 2}, {3, 4}, {1, 1}};
    b.target_lengths = {2, 2, 2, 2, 2};
    b.input_lengths = {8, 8, 8, 8, 2};              // the last needs three
    b.at(3, 1, 4) = static_cast<float>(quiet_nan);  // a class that the target has not
    b.at(3, 2, 2) = static_cast<float>(infinity);   // one that it has
    for (index_t t = 0; t < 8; ++t) b.at(t, 3, 3) = static_cast<float>(-infinity);
    b.at(5, 3, 1) = static_cast<float>(quiet_nan);
    for (index_t t = 2; t < 8; ++t) b.at(t, 4, 0) = static_cast<float>(quiet_nan);  // not read
    const auto r = b.run();
    CHECK(std::isnan(r.sum));
    CHECK(std::isfinite(r.losses[0]));
    CHECK(std::isnan(r.losses[1]));
    CHECK(std::isnan(r.losses[2]));
    CHECK(static_cast<double>(r.losses[3]) == infinity);
    CHECK(static_cast<double>(r.losses[4]) == infinity);
    for (index_t t = 0; t < 8; ++t)
      for (index_t c = 0; c < 5; ++c) {
        const auto grad = [&](index_t n) {
          return r.grad[static_cast<std::size_t>((t * 5 + n) * 5 + c)];
        };
        CHECK(std::isfinite(grad(0)));
        CHECK(std::isnan(grad(1)) == (t == 3));
        CHECK(std::isnan(grad(2)));
        CHECK(grad(3) == 0);
        CHECK(grad(4) == 0);
      }
    b.params.zero_infinity = true;
    const auto zero = b.run();
    CHECK(std::isnan(zero.losses[1]));
    CHECK(zero.losses[3] == 0);
    CHECK(zero.losses[4] == 0);
    b.params.zero_infinity = false;
    b.weights = {1, 1, 1, 0, 2};
    const auto weighted = b.run();
    CHECK(weighted.losses[3] == 0);
    CHECK(static_cast<double>(weighted.losses[4]) == infinity);
    CHECK(std::isnan(weighted.losses[2]));
    // A step without a possible class.
    for (index_t c = 0; c < 5; ++c) b.at(1, 0, c) = static_cast<float>(-infinity);
    b.at(1, 0, 3) = 0;
    CHECK(static_cast<double>(b.run().losses[0]) == infinity);
  });
}

TEST_CASE("CTC: the last class may be impossible") {
  for_each_isa([](isa) {
    batch<float> b{9, 2, 20};
    b.make(7, 3, 3);
    for (auto& target : b.targets)
      for (index_t& label : target) label = 1 + label % 18;
    for (index_t t = 0; t < 9; ++t) b.at(t, 1, 19) = static_cast<float>(-infinity);
    b.check(b.run(), 1e-6);
  });
}

TEST_CASE("CTC: padded targets, 32-bit classes, no input lengths") {
  batch<float> b{20, 3, 8};
  b.make(4, 2, 5);
  b.input_lengths.assign(3, 20);
  const auto expected = b.run();
  std::vector<std::int32_t> padded(3 * 6, -1);
  for (std::size_t n = 0; n < 3; ++n)
    for (std::size_t s = 0; s < b.targets[n].size(); ++s)
      padded[6 * n + s] = static_cast<std::int32_t>(b.targets[n][s]);
  ctc_targets targets;
  targets.classes = padded;
  targets.lengths = b.target_lengths;
  targets.stride = 6;
  ctc_workspace workspace;
  std::vector<float> grad(b.logits.size());
  const double sum = ctc_loss_and_grad(sequences_view<const float>(b.view(b.logits.data())),
                                       targets, {}, b.view(grad.data()), {}, workspace);
  CHECK(sum == expected.sum);
  bool is_same = true;
  b.for_each_element([&](index_t i) {
    is_same =
        is_same && grad[static_cast<std::size_t>(i)] == expected.grad[static_cast<std::size_t>(i)];
  });
  CHECK(is_same);
  // No sample.
  CHECK(ctc_loss(sequences_view<const float>::steps_first(grad.data(), 3, 0, 4), {}, {}, {},
                 workspace) == 0);
}

TEST_CASE("CTC: views name the sizes that they refuse") {
  std::vector<float> x(100);
  const auto fails = refusals(x);
  using view = sequences_view<float>;
  fails("sequences_view: steps is -1, expected 0 or more", [&] { view(x.data(), -1, 2, 3, 6, 3); });
  fails("sequences_view: samples is -2", [&] { view(x.data(), 1, -2, 3, 6, 3); });
  fails("sequences_view: classes is -3", [&] { view(x.data(), 1, 2, -3, 6, 3); });
  fails("sequences_view: sample_stride is 2, expected the number of classes or more",
        [&] { view(x.data(), 3, 2, 3, 6, 2); });
  fails("sequences_view: step_stride is 2", [&] { view(x.data(), 3, 2, 3, 2, 9); });
  fails(
      "sequences_view: step_stride is 5, expected a distance at which rows of classes do not "
      "overlap",
      [&] { view(x.data(), 3, 2, 3, 5, 3); });
  fails("sequences_view: data is null", [&] { view(static_cast<float*>(nullptr), 3, 2, 3, 6, 3); });
  fails("expected at most as many as memory can address",
        [&] { view::steps_first(x.data(), index_t{1} << 40, index_t{1} << 40, 5); });
  // An axis of one item may have any stride.
  CHECK(view(x.data(), 1, 4, 3, -7, 3).row(0, 2) == x.data() + 6);
  CHECK(view(x.data(), 4, 1, 3, 5, 0).row(2, 0) == x.data() + 10);
  CHECK(view(static_cast<float*>(nullptr), 0, 4, 3, 12, 3).empty());
}

TEST_CASE("CTC: errors name function, argument, value and expectation") {
  const std::vector<float> x(4 * 2 * 5);
  const auto logits = sequences_view<const float>::steps_first(x.data(), 4, 2, 5);
  std::vector<float> grad(40), losses(2);
  const auto g = sequences_view<float>::steps_first(grad.data(), 4, 2, 5);
  std::vector<index_t> classes{1, 2, 3}, lengths{2, 1}, steps{4, 4};
  std::vector<float> weights;
  ctc_params params;
  ctc_workspace workspace;
  index_t stride = 0;
  const auto fails = refusals(grad, losses);
  const auto call_fails = [&](const char* message) {
    ctc_targets targets;
    targets.classes = classes;
    targets.lengths = lengths;
    targets.stride = stride;
    params.sample_weights = weights;
    fails(message, [&] { ctc_loss_and_grad(logits, targets, steps, g, params, workspace); });
    fails(message, [&] { ctc_loss_unreduced(logits, targets, steps, losses, params, workspace); });
    fails(message, [&] { ctc_loss(logits, targets, steps, params, workspace); });
    classes = {1, 2, 3}, lengths = {2, 1}, steps = {4, 4}, weights.clear(), params = {}, stride = 0;
  };
  const auto is = [](const char* text) { return text; };
  classes[1] = 5;
  call_fails(is("targets.classes[1] is 5, expected 0 to 4 (5 classes), but not the blank, 0"));
  classes[2] = 0;
  call_fails("targets.classes[2] is 0");
  classes[0] = -1;
  call_fails("targets.classes[0] is -1");
  classes.push_back(1);
  call_fails("targets.classes.size() is 4, expected 3, the sum of the lengths");
  classes.pop_back();
  call_fails("targets.lengths[1] is 1, expected 0 to 0, the classes that are left");
  lengths[0] = -1;
  call_fails("targets.lengths[0] is -1");
  lengths.pop_back();
  call_fails("targets.lengths.size() is 1, expected 2, the number of samples");
  stride = -1;
  call_fails("targets.stride is -1, expected 0 or more");
  stride = std::numeric_limits<index_t>::max();
  call_fails("targets.stride is 9223372036854775807");
  stride = 1;
  call_fails("targets.lengths[0] is 2, expected 0 to 1, the classes of a padded target");
  steps[1] = 5;
  call_fails("input_lengths[1] is 5, expected 0 to 4, the logits' steps");
  steps.pop_back();
  call_fails("input_lengths.size() is 1, expected 0 or 2, the number of samples");
  weights = {1};
  call_fails("params.sample_weights.size() is 1, expected 0 or 2, the number of samples");
  params.blank = 5;
  call_fails("params.blank is 5, expected 0 to 4 (5 classes)");
  params.scale = quiet_nan;
  call_fails("params.scale is nan, expected a finite float");
  ctc_targets targets;
  targets.classes = classes;
  targets.lengths = lengths;
  fails("vecdet::ctc_loss_and_grad: grad.steps() is 3, expected 4, the logits' steps", [&] {
    ctc_loss_and_grad(logits, targets, steps,
                      sequences_view<float>::steps_first(grad.data(), 3, 2, 5), params, workspace);
  });
  fails("grad.samples() is 1", [&] {
    ctc_loss_and_grad(logits, targets, steps,
                      sequences_view<float>::steps_first(grad.data(), 4, 1, 5), params, workspace);
  });
  fails("grad.classes() is 4", [&] {
    ctc_loss_and_grad(logits, targets, steps,
                      sequences_view<float>::steps_first(grad.data(), 4, 2, 4), params, workspace);
  });
  fails("vecdet::ctc_loss_unreduced: loss.size() is 1, expected 2, the number of samples", [&] {
    ctc_loss_unreduced(logits, targets, steps, {losses.data(), 1}, params, workspace);
  });
  fails("vecdet::ctc_loss: logits.classes() is 0, expected 1 or more", [&] {
    ctc_loss(sequences_view<const float>::steps_first(x.data(), 4, 2, 0), targets, steps, params,
             workspace);
  });
  fails("grad is in the memory of logits, expected separate memory", [&] {
    ctc_loss_and_grad(sequences_view<const float>::steps_first(grad.data(), 4, 2, 5), targets,
                      steps, sequences_view<float>::samples_first(grad.data(), 2, 4, 5), params,
                      workspace);
  });
}
