// SPDX-License-Identifier: Apache-2.0
// Adagrad as Paddle's accessors have it: the learning rate is that of the first steps, and falls
// when the sum of squares reaches the order of `initial_g2sum`.
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

FLEETREC_SIMD void step(float* weights, const float* grad, std::size_t dim, float rate) {
  for (std::size_t i = 0; i < dim; ++i) weights[i] -= rate * grad[i];
}

FLEETREC_SIMD void step_each(float* weights, float* sums, const float* grad, std::size_t dim,
                             float initial, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    weights[i] -= lr * grad[i] * std::sqrt(initial / (initial + sums[i]));
    sums[i] += grad[i] * grad[i];
  }
}

// One sum per row, of the mean square of its gradients (SparseAdaGradSGDRule).
class CtrAdagrad final : public RowOptimizer {
 public:
  explicit CtrAdagrad(std::span<const double> values) : initial_(static_cast<float>(values[0])) {}

  std::size_t state_size(std::size_t) const override { return 1; }

  void init_state(std::span<float> state) const override { state[0] = 0.0f; }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    const float rate = lr * std::sqrt(initial_ / (initial_ + state[0]));
    step(weights.data(), grad.data(), weights.size(), rate);
    float squares = 0.0f;
    for (const float g : grad) squares += g * g;
    state[0] += squares / static_cast<float>(grad.size());
  }

 private:
  float initial_;
};

// One sum per weight (StdAdaGradSGDRule).
class CtrStdAdagrad final : public RowOptimizer {
 public:
  explicit CtrStdAdagrad(std::span<const double> values)
      : initial_(static_cast<float>(values[0])) {}

  std::size_t state_size(std::size_t dim) const override { return dim; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, 0.0f); }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    step_each(weights.data(), state.data(), grad.data(), weights.size(), initial_, lr);
  }

 private:
  float initial_;
};

template <typename Optimizer>
std::unique_ptr<RowOptimizer> make(std::span<const double> values) {
  return std::make_unique<Optimizer>(values);
}

const RegisterRowOptimizer of_rows({
    .name = "ctr_adagrad",
    .hyperparameters = {{"initial_g2sum", 3.0}},
    .make = make<CtrAdagrad>,
});

const RegisterRowOptimizer of_weights({
    .name = "ctr_std_adagrad",
    .hyperparameters = {{"initial_g2sum", 3.0}},
    .make = make<CtrStdAdagrad>,
});

}  // namespace
}  // namespace fleetrec
