// SPDX-License-Identifier: Apache-2.0
// From the tag of an id to the number of its row, by open addressing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace fleetrec {

// Entries are kept in lines of the cache, eight in each: an entry stands in the line that its tag
// names, or, if that is full, in the first one behind it that is not. So nearly every search reads
// one line, all of it at once. Tags of different ids may be equal; the caller says whether a row is
// the right one.
class Index {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  [[gnu::always_inline]] void prefetch(std::uint32_t tag) const {
    if (!lines_.empty()) __builtin_prefetch(&lines_[tag & mask_]);
  }

  // Returns the first row with this tag, or kNone.
  std::uint32_t peek(std::uint32_t tag) const {
    return find(tag, [](std::uint32_t) { return true; });
  }

  // Returns the first row with this tag for which `is_it` holds, or kNone.
  template <typename IsIt>
  std::uint32_t find(std::uint32_t tag, const IsIt& is_it) const {
    if (lines_.empty()) return kNone;
    for (std::size_t at = tag & mask_;; at = (at + 1) & mask_) {
      const Line& line = lines_[at];
      for (std::uint32_t equal = line.equal_tags(tag); equal != 0; equal &= equal - 1) {
        const auto entry = static_cast<std::size_t>(std::countr_zero(equal));
        const std::uint32_t row = line.numbers[entry] - 1;
        if (row != kNone && is_it(row)) return row;
      }
      if (!line.is_full()) return kNone;
    }
  }

  void insert(std::uint32_t tag, std::uint32_t row);

  // Forgets one row that is there.
  void erase(std::uint32_t tag, std::uint32_t row);

  std::size_t size() const { return size_; }
  std::size_t num_bytes() const { return lines_.capacity() * sizeof(Line); }

 private:
  static constexpr std::size_t kLineEntries = 8;

  // Free entries are behind the others, and zero.
  struct alignas(64) Line {
    std::array<std::uint32_t, kLineEntries> tags;
    std::array<std::uint32_t, kLineEntries> numbers;  // of rows, plus one

    bool is_full() const { return numbers.back() != 0; }

    // One bit per entry whose tag this is. Free entries have tag 0, too.
    std::uint32_t equal_tags(std::uint32_t tag) const {
#ifdef __SSE2__
      const auto* halves = reinterpret_cast<const __m128i*>(tags.data());
      const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
      const __m128i low = _mm_cmpeq_epi32(_mm_load_si128(halves), wanted);
      const __m128i high = _mm_cmpeq_epi32(_mm_load_si128(halves + 1), wanted);
      const int bits =
          _mm_movemask_ps(_mm_castsi128_ps(low)) | _mm_movemask_ps(_mm_castsi128_ps(high)) << 4;
      return static_cast<std::uint32_t>(bits);
#else
      std::uint32_t bits = 0;
      for (std::size_t i = 0; i < kLineEntries; ++i) {
        bits |= static_cast<std::uint32_t>(tags[i] == tag) << i;
      }
      return bits;
#endif
    }

    std::size_t num_entries() const;
    std::size_t entry_of(std::uint32_t number) const;
    void add(std::uint32_t tag, std::uint32_t number);
    void remove(std::size_t entry);
  };

  void grow();
  void place(std::uint32_t tag, std::uint32_t number);
  std::size_t passer(std::size_t at, std::size_t passed) const;

  std::vector<Line> lines_;  // a power of two of them, at most three quarters taken
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

}  // namespace fleetrec
