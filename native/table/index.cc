// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/index.h"

#include <algorithm>

namespace fleetrec {

void Index::insert(std::uint32_t tag, std::uint32_t row) {
  if ((size_ + 1) * 4 > entries_.size() * 3) grow();
  place((std::uint64_t{tag} << 32) | (row + 1));
  ++size_;
}

void Index::erase(std::uint32_t tag, std::uint32_t row) {
  const std::uint64_t wanted = (std::uint64_t{tag} << 32) | (row + 1);
  std::size_t hole = tag & mask_;
  while (entries_[hole] != wanted) hole = (hole + 1) & mask_;
  // Entries behind the hole move up unless they would land before the place they belong to.
  for (std::size_t at = (hole + 1) & mask_; entries_[at] != 0; at = (at + 1) & mask_) {
    const std::size_t home = (entries_[at] >> 32) & mask_;
    if (((at - home) & mask_) >= ((at - hole) & mask_)) {
      entries_[hole] = entries_[at];
      hole = at;
    }
  }
  entries_[hole] = 0;
  --size_;
}

void Index::grow() {
  std::vector<std::uint64_t> old(std::max<std::size_t>(entries_.size() * 2, 4), 0);
  old.swap(entries_);
  mask_ = entries_.size() - 1;
  for (const std::uint64_t entry : old) {
    if (entry != 0) place(entry);
  }
}

void Index::place(std::uint64_t entry) {
  std::size_t at = (entry >> 32) & mask_;
  while (entries_[at] != 0) at = (at + 1) & mask_;
  entries_[at] = entry;
}

}  // namespace fleetrec
