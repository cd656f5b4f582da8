// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/initializer.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "fleetrec/table/id_hash.h"

namespace fleetrec {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr double kMaxDeviations = 2.0;  // of a truncated normal

double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

double to_normal(std::uint64_t bits) {
  const double radius = std::sqrt(-2.0 * std::log1p(-to_unit(bits)));
  return radius * std::cos(2.0 * std::numbers::pi * to_unit(mix64(bits)));
}

double draw(InitialKind kind, std::uint64_t bits) {
  switch (kind) {
    case InitialKind::kConstant:
      return 0.0;
    case InitialKind::kUniform:
      return 2.0 * to_unit(bits) - 1.0;
    case InitialKind::kNormal:
      return to_normal(bits);
    case InitialKind::kTruncatedNormal:
      break;
  }
  double deviate = to_normal(bits);
  while (std::abs(deviate) > kMaxDeviations) {
    bits = mix64(bits + kGolden);
    deviate = to_normal(bits);
  }
  return deviate;
}

}  // namespace

void Initializer::fill(std::uint64_t id, std::span<float> weights) const {
  const std::uint64_t key = mix64(id ^ salt);
  std::uint64_t column = key;
  for (float& weight : weights) {
    column += kGolden;
    weight = static_cast<float>(center + scale * draw(kind, mix64(column)));
  }
}

InitialKind initial_kind(const std::string& name) {
  if (name == "constant") return InitialKind::kConstant;
  if (name == "uniform") return InitialKind::kUniform;
  if (name == "normal") return InitialKind::kNormal;
  if (name == "truncated_normal") return InitialKind::kTruncatedNormal;
  throw std::invalid_argument("no initializer is called '" + name + "'");
}

}  // namespace fleetrec
