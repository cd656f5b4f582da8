// SPDX-License-Identifier: Apache-2.0
// Denormal numbers (below 1.2e-38), with which processors compute much more slowly.
#pragma once

#include <cstdint>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace fleetrec {

// Sets whether this thread flushes denormals to zero; returns the previous setting.
inline bool flush_denormals_here([[maybe_unused]] bool is_on) {
#if defined(__SSE2__)
  constexpr unsigned kModes = 0x8040;  // flush to zero, denormals are zero
  const unsigned before = _mm_getcsr();
  _mm_setcsr(is_on ? before | kModes : before & ~kModes);
  return (before & kModes) == kModes;
#elif defined(__aarch64__)
  constexpr std::uint64_t kMode = std::uint64_t{1} << 24;
  std::uint64_t before = 0;
  asm volatile("mrs %0, fpcr" : "=r"(before));
  asm volatile("msr fpcr, %0" : : "r"(is_on ? before | kMode : before & ~kMode));
  return (before & kMode) != 0;
#else
  return false;
#endif
}

// The same for the OpenMP threads that work for this one. Threads started later inherit the
// floating-point mode of the creating thread.
inline bool flush_denormals(bool is_on) {
  const bool before = flush_denormals_here(is_on);
#ifdef _OPENMP
#pragma omp parallel
  flush_denormals_here(is_on);
#endif
  return before;
}

}  // namespace fleetrec
