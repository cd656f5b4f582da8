// SPDX-License-Identifier: Apache-2.0
// Every `new` of the program, so that tests see how much is asked for, and may refuse it.
#include "allocation.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

bool is_refused() {
  auto& num_left = fleetrec::testing::num_allocations_left;
  if (num_left < 0) return false;
  if (num_left == 0) return true;
  --num_left;
  return false;
}

void* allocate(std::size_t num_bytes) {
  if (is_refused()) throw std::bad_alloc();
  auto& largest = fleetrec::testing::largest_allocation;
  for (std::size_t seen = largest; seen < num_bytes;) {
    if (largest.compare_exchange_weak(seen, num_bytes)) break;
  }
  void* memory = std::malloc(std::max<std::size_t>(num_bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t num_bytes) { return allocate(num_bytes); }
void* operator new[](std::size_t num_bytes) { return allocate(num_bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
