// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

FLEETREC_SIMD void step(float* weights, float* velocity, const float* grad, std::size_t dim,
                        float momentum, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    velocity[i] = momentum * velocity[i] + grad[i];
    weights[i] -= lr * velocity[i];
  }
}

// Gradient descent with the velocity of earlier steps of the row.
class Momentum final : public RowOptimizer {
 public:
  explicit Momentum(std::span<const double> values) : momentum_(static_cast<float>(values[0])) {}

  std::size_t state_size(std::size_t dim) const override { return dim; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, 0.0f); }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    step(weights.data(), state.data(), grad.data(), weights.size(), momentum_, lr);
  }

 private:
  float momentum_;
};

const RegisterRowOptimizer registered({
    .name = "momentum",
    .hyperparameters = {{"momentum", 0.9}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<Momentum>(values);
    },
});

}  // namespace
}  // namespace fleetrec
