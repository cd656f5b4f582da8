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
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t num_bytes, std::size_t unit) {
  return (num_bytes + unit - 1) / unit * unit;
}

}  // namespace

Arena::~Arena() { clear(); }

void Arena::clear() {
  for (const Block& block : blocks_) munmap(block.first, block.num_bytes);
  if (spare_) munmap(spare_->first, spare_->num_bytes);
  blocks_.clear();
  spare_.reset();
  used_ = 0;
  num_bytes_ = 0;
}

void Arena::take_over(Arena& other) {
  clear();
  blocks_.swap(other.blocks_);
  spare_.swap(other.spare_);
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
#ifdef MADV_POPULATE_WRITE
  // A huge page at a time and without the mutex: others allocate, and map memory of their own.
  for (auto piece = next_untouched(num_bytes); !piece.empty(); piece = next_untouched(num_bytes)) {
    madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE);  // a hint: older systems refuse
  }
#endif
}

std::span<std::byte> Arena::next_untouched(std::size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  if (blocks_.empty()) add_block(num_bytes);
  Block* block = &blocks_.back();
  std::size_t ahead = used_ + num_bytes;
  const bool is_spare = ahead > block->num_bytes && block->touched == block->num_bytes;
  if (is_spare) {
    if (!spare_) spare_ = map_block(num_bytes);
    ahead = spare_->begin + (ahead - block->num_bytes);
    block = &*spare_;
  }
  const std::size_t first = std::max(block->touched, is_spare ? 0 : used_ / kPage * kPage);
  const std::size_t last =
      std::min(round_up(std::min(ahead, block->num_bytes), kPage), first + kHugePage);
  if (last <= first) return {};
  block->touched = last;
  return {block->first + first, last - first};
}

void Arena::add_block(std::size_t min_bytes) {
  Block block;
  if (spare_ && spare_->num_bytes - spare_->begin >= min_bytes) {
    block = *std::exchange(spare_, std::nullopt);
  } else {
    block = map_block(min_bytes);
  }
  try {
    blocks_.push_back(block);
  } catch (...) {
    munmap(block.first, block.num_bytes);
    num_bytes_ -= block.num_bytes;
    throw;
  }
  used_ = block.begin;
}

// Blocks grow with the table, so that a small one stays small.
Arena::Block Arena::map_block(std::size_t min_bytes) {
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
  const std::size_t begin = round_up(address, kHugePage) - address;
  num_bytes_ += num_bytes;
  return {static_cast<std::byte*>(memory), num_bytes, begin, begin};
}

}  // namespace fleetrec
