// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fleetrec {
namespace {

std::vector<RowOptimizerInfo>& registry() {
  static std::vector<RowOptimizerInfo> infos;  // filled before main, constant afterwards
  return infos;
}

const RowOptimizerInfo& find_info(const std::string& name) {
  for (const RowOptimizerInfo& info : row_optimizers()) {
    if (info.name == name) return info;
  }
  throw std::invalid_argument("no row optimizer is called '" + name + "'");
}

std::unique_ptr<RowOptimizer> make_optimizer(const std::string& name, const NamedValues& given) {
  const RowOptimizerInfo& info = find_info(name);
  std::vector<double> values;
  for (const Hyperparameter& parameter : info.hyperparameters) {
    values.push_back(parameter.default_value);
  }
  for (const auto& [key, value] : given) {
    const auto found = std::ranges::find(info.hyperparameters, key, &Hyperparameter::name);
    if (found == info.hyperparameters.end()) {
      throw std::invalid_argument("optimizer " + name + " has no hyperparameter '" + key + "'");
    }
    values[static_cast<std::size_t>(found - info.hyperparameters.begin())] = value;
  }
  return info.make(values);
}

}  // namespace

const std::vector<RowOptimizerInfo>& row_optimizers() { return registry(); }

RegisterRowOptimizer::RegisterRowOptimizer(RowOptimizerInfo info) {
  auto& infos = registry();
  const auto at = std::ranges::lower_bound(infos, info.name, {}, &RowOptimizerInfo::name);
  infos.insert(at, std::move(info));
}

GuardedOptimizer::GuardedOptimizer(const std::string& name, const NamedValues& hyperparameters,
                                   const Guards& guards)
    : name_(name),
      optimizer_(make_optimizer(name, hyperparameters)),
      guards_(guards),
      is_guarded_(guards.l2 != 0.0 || guards.clip_value > 0.0 || guards.clip_norm > 0.0),
      is_bounded_(guards.min_weight < guards.max_weight) {}

void GuardedOptimizer::guard_gradient(std::span<const float> weights, std::span<float> grad) const {
  if (guards_.clip_value > 0.0) {
    const auto limit = static_cast<float>(guards_.clip_value);
    for (float& g : grad) g = std::clamp(g, -limit, limit);
  }
  if (guards_.clip_norm > 0.0) {
    double squares = 0.0;
    for (const float g : grad) squares += static_cast<double>(g) * g;
    const double norm = std::sqrt(squares);
    if (norm > guards_.clip_norm) {
      const auto factor = static_cast<float>(guards_.clip_norm / norm);
      for (float& g : grad) g *= factor;
    }
  }
  if (guards_.l2 != 0.0) {
    const auto l2 = static_cast<float>(guards_.l2);
    for (std::size_t i = 0; i < grad.size(); ++i) grad[i] += l2 * weights[i];
  }
}

void GuardedOptimizer::bound(std::span<float> weights) const {
  const auto low = static_cast<float>(guards_.min_weight);
  const auto high = static_cast<float>(guards_.max_weight);
  for (float& weight : weights) weight = std::clamp(weight, low, high);
}

}  // namespace fleetrec
