// SPDX-License-Identifier: Apache-2.0
// A row optimizer updates one row in place. It owns no memory: the table hands it the row's weights
// and the row's state, both inside the table's own slab.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleetrec/simd.h"

namespace fleetrec {

class RowOptimizer {
 public:
  virtual ~RowOptimizer() = default;

  // Floats of optimizer state per row of `dim` weights.
  virtual std::size_t state_size(std::size_t dim) const = 0;

  virtual void init_state(std::span<float> state) const = 0;

  // Applies one already-summed gradient. Spans `weights` and `grad` have equal length.
  virtual void update(std::span<float> weights, std::span<float> state, std::span<const float> grad,
                      float lr) const = 0;

  // How many updates the state counts; 0 if it does not count them.
  virtual float num_steps(std::span<const float> /*state*/) const { return 0.0f; }

  // Sets the number of updates that the state counts, if it counts them.
  virtual void set_num_steps(std::span<float> /*state*/, float /*num_steps*/) const {}
};

struct Hyperparameter {
  std::string_view name;
  double default_value;
};

struct RowOptimizerInfo {
  std::string_view name;
  std::vector<Hyperparameter> hyperparameters;
  std::unique_ptr<RowOptimizer> (*make)(std::span<const double> values);
};

// All registered optimizers, sorted by name; job files are checked against this list.
const std::vector<RowOptimizerInfo>& row_optimizers();

struct RegisterRowOptimizer {
  explicit RegisterRowOptimizer(RowOptimizerInfo info);
};

using NamedValues = std::vector<std::pair<std::string, double>>;

// What happens to every gradient before, and to every weight after, the optimizer proper.
struct Guards {
  double l2 = 0.0;          // adds l2 * weight to the gradient
  double clip_value = 0.0;  // cuts every element of the gradient to +-clip_value; 0: off
  double clip_norm = 0.0;   // scales the gradient of a row to this norm at most; 0: off
  double min_weight = 0.0;  // bounds of the weights; equal: off
  double max_weight = 0.0;
};

// An optimizer with its guards.
class GuardedOptimizer {
 public:
  // Throws std::invalid_argument for an unknown optimizer or hyperparameter.
  GuardedOptimizer(const std::string& name, const NamedValues& hyperparameters,
                   const Guards& guards);

  const std::string& name() const { return name_; }
  std::size_t state_size(std::size_t dim) const { return optimizer_->state_size(dim); }
  void init_state(std::span<float> state) const { optimizer_->init_state(state); }
  float num_steps(std::span<const float> state) const { return optimizer_->num_steps(state); }
  void set_num_steps(std::span<float> state, float num_steps) const {
    optimizer_->set_num_steps(state, num_steps);
  }

  // Whether `update` uses the gradient as scratch.
  bool changes_gradients() const { return is_guarded_; }

  void update(std::span<float> weights, std::span<float> state, std::span<float> grad,
              float lr) const {
    if (is_guarded_) guard_gradient(weights, grad);
    optimizer_->update(weights, state, grad, lr);
    if (is_bounded_) bound(weights);
  }

 private:
  void guard_gradient(std::span<const float> weights, std::span<float> grad) const;
  void bound(std::span<float> weights) const;

  std::string name_;
  std::unique_ptr<RowOptimizer> optimizer_;
  Guards guards_;
  bool is_guarded_;
  bool is_bounded_;
};

}  // namespace fleetrec
