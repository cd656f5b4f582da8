// SPDX-License-Identifier: Apache-2.0
#include "failing_memory.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace fleetrec::testing {
namespace {

constexpr long kNoLimit = -1;

std::atomic<long> num_left{kNoLimit};

bool may_allocate() {
  if (num_left < 0) return true;
  if (num_left == 0) return false;
  --num_left;
  return true;
}

}  // namespace

void allow_allocations(long num_allocations) {
  num_left = num_allocations < 0 ? kNoLimit : num_allocations;
}

}  // namespace fleetrec::testing

// In a file of their own, so that no compiler sees through them.
void* operator new(std::size_t num_bytes) {
  void* memory =
      fleetrec::testing::may_allocate() ? std::malloc(num_bytes == 0 ? 1 : num_bytes) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }

void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
