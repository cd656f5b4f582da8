// SPDX-License-Identifier: Apache-2.0
// First weights of a row: a pure function of (salt, id), whichever process creates it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fleetrec {

enum class InitialKind { kConstant, kUniform, kNormal, kTruncatedNormal };

struct Initializer {
  InitialKind kind = InitialKind::kUniform;
  double center = 0.0;     // of the distribution, or the constant itself
  double scale = 0.01;     // half the width of a uniform one, else the standard deviation
  std::uint64_t salt = 0;  // of seed and table

  void fill(std::uint64_t id, std::span<float> weights) const;
};

// Throws std::invalid_argument for a name that is none of constant, uniform, normal,
// truncated_normal.
InitialKind initial_kind(const std::string& name);

}  // namespace fleetrec
