// SPDX-License-Identifier: Apache-2.0
// The forms of a loss, which is defined once. packaging/c_losses.py writes a function for each
// form.
#pragma once

#include <vecdet/c/support.hpp>

/// Defines all forms of a loss. `form` is one of the structs below, `compute` the function in C++
/// that computes this form, and `...` are the arguments that all forms have.
#define VECDET_LOSS(name, ...)         \
  template <class Form, class Compute> \
  static vecdet_status name##_call(const Form& form, const Compute& compute, __VA_ARGS__)

namespace vecdet_c {

// call(losses_of, grad_of, compute) calls compute() with the form's output, if it has one: a view
// that losses_of(memory) or grad_of(memory) returns.

/// Writes the sum or mean.
struct sum_form {
  const char* function;
  double* loss;

  void check() const { check_pointer(loss, function, "loss"); }
  template <class LossesOf, class GradOf, class Compute>
  void call(const LossesOf&, const GradOf&, const Compute& compute) const {
    *loss = compute();
  }
};

/// Writes one loss per element, row or box. T is their type, or void if that depends on the call.
template <class T>
struct unreduced_form {
  const char* function;
  T* losses;

  void check() const {}
  template <class LossesOf, class GradOf, class Compute>
  void call(const LossesOf& losses_of, const GradOf&, const Compute& compute) const {
    compute(losses_of(losses));
  }
};

/// Writes the sum or mean, and its gradient. T is the gradient's type, or void if that depends on
/// the call.
template <class T>
struct and_grad_form {
  const char* function;
  double* loss;
  T* grad;

  void check() const { check_pointer(loss, function, "loss"); }
  template <class LossesOf, class GradOf, class Compute>
  void call(const LossesOf&, const GradOf& grad_of, const Compute& compute) const {
    *loss = compute(grad_of(grad));
  }
};

}  // namespace vecdet_c
