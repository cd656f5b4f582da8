// SPDX-License-Identifier: Apache-2.0
// Every `new` of the program, so that tests see how much is asked for, and may refuse it.
#include "allocation.h"

#include <algorithm>
#include <cstddef>
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

void* allocate(std::size_t num_bytes, std::size_t alignment = alignof(std::max_align_t)) {
  if (is_refused()) throw std::bad_alloc();
  auto& largest = fleetrec::testing::largest_allocation;
  for (std::size_t seen = largest; seen < num_bytes;) {
    if (largest.compare_exchange_weak(seen, num_bytes)) break;
  }
  const std::size_t num_units = std::max<std::size_t>((num_bytes + alignment - 1) / alignment, 1);
  void* memory = std::aligned_alloc(alignment, num_units * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t num_bytes) { return allocate(num_bytes); }
void* operator new[](std::size_t num_bytes) { return allocate(num_bytes); }
void* operator new(std::size_t num_bytes, std::align_val_t alignment) {
  return allocate(num_bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
