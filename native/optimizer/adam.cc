// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fleetrec/optimizer/optimizer.h"

namespace fleetrec {
namespace {

struct Step {
  float new1;  // 1 - beta1, subtracted before it was rounded
  float beta2;
  float new2;  // 1 - beta2
  float eps;
  float rate;          // learning rate over the correction of the first moment
  float inverse_root;  // one over the root of the correction of the second moment
};

FLEETREC_SIMD void step(float* weights, float* first, float* second, const float* grad,
                        std::size_t dim, Step by) {
  for (std::size_t i = 0; i < dim; ++i) {
    first[i] += by.new1 * (grad[i] - first[i]);
    second[i] = by.beta2 * second[i] + by.new2 * grad[i] * grad[i];
    weights[i] -= by.rate * first[i] / (std::sqrt(second[i]) * by.inverse_root + by.eps);
  }
}

// Bias corrections of moments that started at zero, by step. Powers are expensive, and most rows
// have few steps, so the first corrections are precomputed.
class Corrections {
 public:
  Corrections(double beta1, double beta2) : beta1_(beta1), beta2_(beta2) {
    for (std::size_t i = 0; i < kNumKept; ++i) kept_.push_back(compute(static_cast<double>(i + 1)));
  }

  struct Pair {
    double first;
    float inverse_root;
  };

  // `num_steps` is at least 1.
  Pair at(float num_steps) const {
    const auto i = static_cast<std::size_t>(num_steps) - 1;
    return i < kNumKept ? kept_[i] : compute(num_steps);
  }

 private:
  static constexpr std::size_t kNumKept = 8192;

  Pair compute(double num_steps) const {
    return {1.0 - std::pow(beta1_, num_steps),
            static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2_, num_steps)))};
  }

  double beta1_;
  double beta2_;
  std::vector<Pair> kept_;
};

// Adam that skips rows without a gradient; each row counts its own steps, because rows are created
// at different times. State: first moments, second moments, number of steps.
class Adam final : public RowOptimizer {
 public:
  Adam(std::span<const double> values, double weight_decay)
      : new1_(static_cast<float>(1.0 - values[0])),
        beta2_(static_cast<float>(values[1])),
        new2_(static_cast<float>(1.0 - values[1])),
        eps_(static_cast<float>(values[2])),
        weight_decay_(static_cast<float>(weight_decay)),
        corrections_(values[0], values[1]) {}

  std::size_t state_size(std::size_t dim) const override { return 2 * dim + 1; }

  void init_state(std::span<float> state) const override { std::ranges::fill(state, 0.0f); }

  float num_steps(std::span<const float> state) const override { return state.back(); }

  void set_num_steps(std::span<float> state, float num_steps) const override {
    state.back() = num_steps;
  }

  void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
              float lr) const override {
    const std::size_t dim = weights.size();
    // A float counts exactly up to 2^24; by then the corrections are 1. A restored count may be
    // any float, including NaN.
    constexpr float kMaxSteps = 0x1p24f;
    float& num_steps = state[2 * dim];
    num_steps = num_steps >= 0.0f ? std::min(num_steps + 1.0f, kMaxSteps) : 1.0f;
    if (weight_decay_ != 0.0f) {
      for (float& weight : weights) weight *= 1.0f - lr * weight_decay_;
    }
    const Corrections::Pair correction = corrections_.at(num_steps);
    step(weights.data(), state.data(), state.data() + dim, grad.data(), dim,
         {new1_, beta2_, new2_, eps_, static_cast<float>(lr / correction.first),
          correction.inverse_root});
  }

 private:
  float new1_;
  float beta2_;
  float new2_;
  float eps_;
  float weight_decay_;
  Corrections corrections_;
};

const RegisterRowOptimizer registered_adam({
    .name = "adam",
    .hyperparameters = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<Adam>(values, 0.0);
    },
});

const RegisterRowOptimizer registered_adamw({
    .name = "adamw",
    .hyperparameters = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}},
    .make = [](std::span<const double> values) -> std::unique_ptr<RowOptimizer> {
      return std::make_unique<Adam>(values, values[3]);
    },
});

}  // namespace
}  // namespace fleetrec
