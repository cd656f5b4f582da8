// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

FLEETREC_SIMD void step(float* weights, const float* grad, std::size_t dim, float rate) {
  for (std::size_t i = 0; i < dim; ++i) weights[i] -= rate * grad[i];
}

// One accumulator per row: the mean square of its gradients.
class RowwiseAdagrad final : public RowOptimizer {
 public:
  explicit RowwiseAdagrad(std::span<const double> values)
      : initial_(static_cast<float>(values[0])), eps_(static_cast<float>(values[1])) {}

  std::size_t state_size(std::size_t) const override { return 1; }

  void init_state(std::span<float> state) const override { state[0] = initial_; }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    float squares = 0.0f;
    for (const float g : grad) squares += g * g;
    state[0] += squares / static_cast<float>(grad.size());
    step(weights.data(), grad.data(), weights.size(), lr / (std::sqrt(state[0]) + eps_));
  }

 private:
  float initial_;
  float eps_;
};

const RegisterRowOptimizer registered({
    .name = "rowwise_adagrad",
    .hyperparameters = {{"initial_accumulator", 0.0}, {"eps", 1e-8}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<RowwiseAdagrad>(values);
    },
});

}  // namespace
}  // namespace fleetrec
