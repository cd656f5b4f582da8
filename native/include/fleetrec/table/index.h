// SPDX-License-Identifier: Apache-2.0
// From the tag of an id to the number of its row, by open addressing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fleetrec {

// An entry is the tag and the row's number plus one, 8 bytes together; 0 is free. Tags of
// different ids may be equal, so the caller says whether a row is the right one.
class Index {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  void prefetch(std::uint32_t tag) const {
    if (!entries_.empty()) __builtin_prefetch(&entries_[tag & mask_]);
  }

  // Returns the first row with this tag, or kNone.
  std::uint32_t peek(std::uint32_t tag) const {
    return find(tag, [](std::uint32_t) { return true; });
  }

  // Returns the first row with this tag for which `is_it` holds, or kNone.
  template <typename IsIt>
  std::uint32_t find(std::uint32_t tag, const IsIt& is_it) const {
    if (entries_.empty()) return kNone;
    for (std::size_t at = tag & mask_;; at = (at + 1) & mask_) {
      const std::uint64_t entry = entries_[at];
      if (entry == 0) return kNone;
      if (entry >> 32 == tag) {
        const auto row = static_cast<std::uint32_t>(entry) - 1;
        if (is_it(row)) return row;
      }
    }
  }

  void insert(std::uint32_t tag, std::uint32_t row);

  // Forgets one row that is there.
  void erase(std::uint32_t tag, std::uint32_t row);

  std::size_t size() const { return size_; }
  std::size_t num_bytes() const { return entries_.capacity() * sizeof(std::uint64_t); }

 private:
  void grow();
  void place(std::uint64_t entry);

  std::vector<std::uint64_t> entries_;  // a power of two of them, at most three quarters taken
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace fleetrec
