// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

struct Rates {
  float new1;  // 1 - beta1, subtracted before it was rounded
  float beta2;
  float new2;  // 1 - beta2
  float eps;
  float kept;  // 1 - weight decay
};

FLEETREC_SIMD void step(float* weights, float* first, float* second, const float* grad,
                        std::size_t dim, Rates by, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    first[i] += by.new1 * (grad[i] - first[i]);
    second[i] = by.beta2 * second[i] + by.new2 * grad[i] * grad[i];
    weights[i] = by.kept * weights[i] - lr * first[i] / (std::sqrt(second[i]) + by.eps);
  }
}

// Adam that skips rows without a gradient and does not count steps: the caller corrects the
// learning rate for the bias of the moments, by the steps of the whole run. Weights shrink, if at
// all, by a share that does not depend on the learning rate. State: first moments, second moments.
class LazyAdam final : public RowOptimizer {
 public:
  LazyAdam(std::span<const double> values, double weight_decay)
      : rates_{static_cast<float>(1.0 - values[0]), static_cast<float>(values[1]),
               static_cast<float>(1.0 - values[1]), static_cast<float>(values[2]),
               static_cast<float>(1.0 - weight_decay)} {}

  std::size_t state_size(std::size_t dim) const override { return 2 * dim; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, 0.0f); }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    const std::size_t dim = weights.size();
    step(weights.data(), state.data(), state.data() + dim, grad.data(), dim, rates_, lr);
  }

 private:
  Rates rates_;
};

const RegisterRowOptimizer registered_lazy_adam({
    .name = "lazy_adam",
    .hyperparameters = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<LazyAdam>(values, 0.0);
    },
});

const RegisterRowOptimizer registered_lazy_adamw({
    .name = "lazy_adamw",
    .hyperparameters = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 1e-6}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<LazyAdam>(values, values[3]);
    },
});

}  // namespace
}  // namespace fleetrec
