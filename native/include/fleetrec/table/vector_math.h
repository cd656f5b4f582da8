// SPDX-License-Identifier: Apache-2.0
// What lookups do with the floats of a row.
#pragma once

#include <cstddef>
#include <cstring>

namespace fleetrec {

constexpr std::size_t kAhead = 16;  // rows that are fetched before they are needed

// Loops, here and below, because rows are too short for calls.
inline void add(float* sum, const float* term, std::size_t dim) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += term[i];
}

inline void add_scaled(float* sum, const float* term, std::size_t dim, float scale) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += scale * term[i];
}

// Copies a row, or zeros if there is none.
inline void copy(float* to, const float* from, std::size_t dim) {
  if (from == nullptr) {
    for (std::size_t i = 0; i < dim; ++i) to[i] = 0.0f;
    return;
  }
  constexpr std::size_t kFloats = 8;
  std::size_t i = 0;
  for (; i + kFloats <= dim; i += kFloats) std::memcpy(to + i, from + i, kFloats * sizeof(float));
  for (; i < dim; ++i) to[i] = from[i];
}

// Rows begin anywhere in a cache line, so the last float may lie in one more. Like all that only
// prefetches, it must be inlined: a call has no effect that the compiler knows of, and may go.
[[gnu::always_inline]] inline void prefetch(const float* first, std::size_t num_floats) {
  constexpr std::size_t kLineFloats = 16;
  for (std::size_t i = 0; i < num_floats; i += kLineFloats) __builtin_prefetch(first + i);
  __builtin_prefetch(first + num_floats - 1);
}

}  // namespace fleetrec
