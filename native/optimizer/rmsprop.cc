// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

struct Rates {
  float alpha;
  float rest;  // 1 - alpha, subtracted before it was rounded
  float eps;
};

FLEETREC_SIMD void step(float* weights, float* squares, const float* grad, std::size_t dim,
                        Rates rates, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    squares[i] = rates.alpha * squares[i] + rates.rest * grad[i] * grad[i];
    weights[i] -= lr * grad[i] / (std::sqrt(squares[i]) + rates.eps);
  }
}

class RmsProp final : public RowOptimizer {
 public:
  explicit RmsProp(std::span<const double> values)
      : rates_{static_cast<float>(values[0]), static_cast<float>(1.0 - values[0]),
               static_cast<float>(values[1])} {}

  std::size_t state_size(std::size_t dim) const override { return dim; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, 0.0f); }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    step(weights.data(), state.data(), grad.data(), weights.size(), rates_, lr);
  }

 private:
  Rates rates_;
};

const RegisterRowOptimizer registered({
    .name = "rmsprop",
    .hyperparameters = {{"alpha", 0.99}, {"eps", 1e-8}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<RmsProp>(values);
    },
});

}  // namespace
}  // namespace fleetrec
