// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

struct Penalties {
  float l1;
  float lambda2;
  float beta;
};

FLEETREC_SIMD void step(float* weights, float* squares, float* linear, const float* grad,
                        std::size_t dim, Penalties penalties, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    const float sum = squares[i] + grad[i] * grad[i];
    const float root = std::sqrt(sum);
    linear[i] += grad[i] - (root - std::sqrt(squares[i])) / lr * weights[i];
    squares[i] = sum;
    const float excess = std::abs(linear[i]) - penalties.l1;
    const float moved =
        std::copysign(excess, linear[i]) / ((penalties.beta + root) / lr + penalties.lambda2);
    weights[i] = excess > 0.0f ? -moved : 0.0f;
  }
}

// Follow the regularised leader, proximal (McMahan et al., KDD 2013).
class Ftrl final : public RowOptimizer {
 public:
  explicit Ftrl(std::span<const double> values)
      : initial_(static_cast<float>(values[0])),
        penalties_{static_cast<float>(values[1]), static_cast<float>(values[2]),
                   static_cast<float>(values[3])} {}

  std::size_t state_size(std::size_t dim) const override { return 2 * dim; }

  void init_state(std::span<float> state) const override {
    const auto half = state.size() / 2;
    std::ranges::fill(state.first(half), initial_);
    std::ranges::fill(state.subspan(half), 0.0f);
  }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    step(weights.data(), state.data(), state.data() + weights.size(), grad.data(), weights.size(),
         penalties_, lr);
  }

 private:
  float initial_;
  Penalties penalties_;
};

const RegisterRowOptimizer registered({
    .name = "ftrl",
    .hyperparameters = {{"initial_accumulator", 0.1}, {"l1", 0.0}, {"lambda2", 0.0}, {"beta", 0.0}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<Ftrl>(values);
    },
});

}  // namespace
}  // namespace fleetrec
