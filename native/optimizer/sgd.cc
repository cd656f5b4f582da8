// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

FLEETREC_SIMD void step(float* weights, const float* grad, std::size_t dim, float lr) {
  for (std::size_t i = 0; i < dim; ++i) weights[i] -= lr * grad[i];
}

class Sgd final : public RowOptimizer {
 public:
  std::size_t state_size(std::size_t) const override { return 0; }

  void init_state(std::span<float>) const override {}

  void update(std::span<float> weights, std::span<float>, std::span<const float> grad,
              float lr) const override {
    step(weights.data(), grad.data(), weights.size(), lr);
  }
};

const RegisterRowOptimizer registered({
    .name = "sgd",
    .hyperparameters = {},
    .make = [](std::span<const double>) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<Sgd>();
    },
});

}  // namespace
}  // namespace fleetrec
