// SPDX-License-Identifier: Apache-2.0
// What lookups do with the floats of a row.
#pragma once

#include <cstddef>

namespace fleetrec {

constexpr std::size_t kAhead = 16;  // rows that are fetched before they are needed

void add(float* sum, const float* term, std::size_t dim);
void add_scaled(float* sum, const float* term, std::size_t dim, float scale);

// Rows begin anywhere in a cache line, so the last float may lie in one more.
inline void prefetch(const float* first, std::size_t num_floats) {
  constexpr std::size_t kLineFloats = 16;
  for (std::size_t i = 0; i < num_floats; i += kLineFloats) __builtin_prefetch(first + i);
  __builtin_prefetch(first + num_floats - 1);
}

}  // namespace fleetrec
