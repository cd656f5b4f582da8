// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

struct Rates {
  float rest;  // 1 - decay, subtracted before it was rounded
  float momentum;
  float eps;
};

FLEETREC_SIMD void step(float* weights, float* squares, float* velocity, const float* grad,
                        std::size_t dim, Rates rates, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    squares[i] += rates.rest * (grad[i] * grad[i] - squares[i]);
    velocity[i] = rates.momentum * velocity[i] + lr * grad[i] / std::sqrt(squares[i] + rates.eps);
    weights[i] -= velocity[i];
  }
}

// RMSProp with momentum over the scaled gradients; mean squares begin at one. State: mean squares,
// velocities.
class RmsPropMomentum final : public RowOptimizer {
 public:
  explicit RmsPropMomentum(std::span<const double> values)
      : rates_{static_cast<float>(1.0 - values[0]), static_cast<float>(values[1]),
               static_cast<float>(values[2])} {}

  std::size_t state_size(std::size_t dim) const override { return 2 * dim; }

  void init_state(std::span<float> state) const override {
    const auto half = state.size() / 2;
    std::ranges::fill(state.first(half), 1.0f);
    std::ranges::fill(state.subspan(half), 0.0f);
  }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    const std::size_t dim = weights.size();
    step(weights.data(), state.data(), state.data() + dim, grad.data(), dim, rates_, lr);
  }

 private:
  Rates rates_;
};

const RegisterRowOptimizer registered({
    .name = "rmsprop_momentum",
    .hyperparameters = {{"decay", 0.9}, {"momentum", 0.9}, {"eps", 1.0}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<RmsPropMomentum>(values);
    },
});

}  // namespace
}  // namespace fleetrec
