// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

struct Penalties {
  float l1;
  float twice_l2;
  float twice_shrinkage;
  float power;  // of the sums of squares in the learning rate, positive
};

void step(float* weights, float* squares, float* linear, const float* grad, std::size_t dim,
          Penalties by, float lr) {
  for (std::size_t i = 0; i < dim; ++i) {
    const float sum = squares[i] + grad[i] * grad[i];
    const float now = std::pow(sum, by.power);
    const float shrinking = grad[i] + by.twice_shrinkage * weights[i];
    linear[i] += shrinking - (now - std::pow(squares[i], by.power)) / lr * weights[i];
    squares[i] = sum;
    const float excess = std::abs(linear[i]) - by.l1;
    const float moved = std::copysign(excess, linear[i]) / (now / lr + by.twice_l2);
    weights[i] = excess > 0.0f ? -moved : 0.0f;
  }
}

// Follow the regularised leader with any power of the sums of squares, and a penalty on the
// gradient that leaves those sums alone. State: sums of squares, linear terms.
class FtrlPower final : public RowOptimizer {
 public:
  explicit FtrlPower(std::span<const double> values)
      : initial_(static_cast<float>(values[0])),
        penalties_{static_cast<float>(values[1]), static_cast<float>(2.0 * values[2]),
                   static_cast<float>(2.0 * values[3]), static_cast<float>(-values[4])} {}

  std::size_t state_size(std::size_t dim) const override { return 2 * dim; }

  void init_state(std::span<float> state) const override {
    const auto half = state.size() / 2;
    std::ranges::fill(state.first(half), initial_);
    std::ranges::fill(state.subspan(half), 0.0f);
  }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    const std::size_t dim = weights.size();
    step(weights.data(), state.data(), state.data() + dim, grad.data(), dim, penalties_, lr);
  }

 private:
  float initial_;
  Penalties penalties_;
};

const RegisterRowOptimizer registered({
    .name = "ftrl_power",
    .hyperparameters = {{"initial_accumulator", 0.1},
                        {"l1", 0.0},
                        {"l2", 0.0},
                        {"l2_shrinkage", 0.0},
                        {"power", -0.5}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<FtrlPower>(values);
    },
});

}  // namespace
}  // namespace fleetrec
