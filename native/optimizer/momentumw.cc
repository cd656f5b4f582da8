// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

FLEETREC_SIMD void step(float* weights, float* velocity, const float* grad, std::size_t dim,
                        float kept, float momentum, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    velocity[i] = momentum * velocity[i] + grad[i];
    weights[i] = kept * weights[i] - lr * velocity[i];
  }
}

// Momentum after weights have shrunk by a share that does not depend on the learning rate.
class MomentumW final : public RowOptimizer {
 public:
  explicit MomentumW(std::span<const double> values)
      : momentum_(static_cast<float>(values[0])), kept_(static_cast<float>(1.0 - values[1])) {}

  std::size_t state_size(std::size_t dim) const override { return dim; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, 0.0f); }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    step(weights.data(), state.data(), grad.data(), weights.size(), kept_, momentum_, lr);
  }

 private:
  float momentum_;
  float kept_;
};

const RegisterRowOptimizer registered({
    .name = "momentumw",
    .hyperparameters = {{"momentum", 0.9}, {"weight_decay", 1e-6}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<MomentumW>(values);
    },
});

}  // namespace
}  // namespace fleetrec
