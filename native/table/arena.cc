// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace fleetrec {
namespace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;
constexpr std::size_t kMaxBlock = std::size_t{1} << 26;

std::size_t round_up(std::size_t num_bytes, std::size_t unit) {
  return (num_bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::~Arena() { clear(); }

void Arena::clear() {
  for (const Block& block : blocks_) munmap(block.first, block.num_bytes);
  blocks_.clear();
  used_ = 0;
  num_bytes_ = 0;
}

void Arena::take_over(Arena& other) {
  clear();
  blocks_.swap(other.blocks_);
  std::swap(used_, other.used_);
  std::swap(num_bytes_, other.num_bytes_);
}

float* Arena::allocate(std::size_t num_floats) {
  const std::size_t num_bytes = round_up(num_floats * sizeof(float), 8);
  const std::lock_guard lock(mutex_);
  if (blocks_.empty() || used_ + num_bytes > blocks_.back().num_bytes) add_block(num_bytes);
  auto* memory = reinterpret_cast<float*>(blocks_.back().first + used_);
  used_ += num_bytes;
  return memory;
}

void Arena::prefault(std::size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  if (blocks_.empty() || used_ + num_bytes > blocks_.back().num_bytes) add_block(num_bytes);
#ifdef MADV_POPULATE_WRITE
  constexpr std::size_t kPage = 4096;
  const std::size_t first = used_ / kPage * kPage;
  // Also only advice: older systems do not know it.
  madvise(blocks_.back().first + first, used_ + num_bytes - first, MADV_POPULATE_WRITE);
#endif
}

// Blocks grow with the table, so that a small one stays small.
void Arena::add_block(std::size_t min_bytes) {
  const std::size_t wanted = std::min(std::max(num_bytes_ / 4, kHugePage), kMaxBlock);
  // One page more than needed, to begin at a huge page; what is never touched costs nothing.
  const std::size_t num_bytes = round_up(std::max(min_bytes, wanted), kHugePage) + kHugePage;
  void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(memory, num_bytes, MADV_HUGEPAGE);  // only advice: small pages work, too
#endif
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  blocks_.push_back({static_cast<std::byte*>(memory), num_bytes});
  used_ = round_up(address, kHugePage) - address;
  num_bytes_ += num_bytes;
}

}  // namespace fleetrec
