// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

FLEETREC_SIMD void step(float* weights, float* sums, const float* grad, std::size_t dim, float eps,
                        float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    sums[i] += grad[i] * grad[i];
    weights[i] -= lr * grad[i] / (std::sqrt(sums[i]) + eps);
  }
}

// One accumulator per element.
class Adagrad final : public RowOptimizer {
 public:
  explicit Adagrad(std::span<const double> values)
      : initial_(static_cast<float>(values[0])), eps_(static_cast<float>(values[1])) {}

  std::size_t state_size(std::size_t dim) const override { return dim; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, initial_); }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    step(weights.data(), state.data(), grad.data(), weights.size(), eps_, lr);
  }

 private:
  float initial_;
  float eps_;
};

const RegisterRowOptimizer registered({
    .name = "adagrad",
    .hyperparameters = {{"initial_accumulator", 0.0}, {"eps", 1e-6}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<Adagrad>(values);
    },
});

}  // namespace
}  // namespace fleetrec
