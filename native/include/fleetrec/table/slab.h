// SPDX-License-Identifier: Apache-2.0
// Rows of one bucket, numbered from 0; a row never moves.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fleetrec/table/arena.h"
#include "fleetrec/table/row.h"

namespace fleetrec {

// Chunks double from 8 to 1024 rows: a bucket with one row wastes little, one with a hundred
// thousand has few chunks.
class Slab {
 public:
  // Returns row number `index`, or no row if its chunk was never asked for.
  Row find(std::uint32_t index, std::size_t stride) const {
    const Spot spot = spot_of(index);
    if (spot.chunk >= chunks_.size() || chunks_[spot.chunk] == nullptr) return Row();
    return Row(chunks_[spot.chunk] + spot.offset * stride);
  }

  // The same for an index that is known to be there.
  Row at(std::uint32_t index, std::size_t stride) const {
    const Spot spot = spot_of(index);
    return Row(chunks_[spot.chunk] + spot.offset * stride);
  }

  // Returns row number `index`, zeroed if it is used for the first time.
  Row provide(std::uint32_t index, std::size_t stride, Arena& arena) {
    const Spot spot = spot_of(index);
    if (spot.chunk >= chunks_.size()) chunks_.resize(spot.chunk + 1, nullptr);
    float*& chunk = chunks_[spot.chunk];
    if (chunk == nullptr) chunk = arena.allocate(spot.num_rows * stride);
    return Row(chunk + spot.offset * stride);
  }

  std::size_t num_bytes() const { return chunks_.capacity() * sizeof(float*); }

 private:
  struct Spot {
    std::size_t chunk;
    std::size_t offset;
    std::size_t num_rows;  // of the chunk
  };

  static constexpr std::uint32_t kFirstRows = 8;
  static constexpr std::uint32_t kNumDoublings = 7;
  static constexpr std::uint32_t kMaxRows = kFirstRows << kNumDoublings;
  static constexpr std::uint32_t kBeforeMax = kMaxRows - kFirstRows;  // rows of smaller chunks

  static Spot spot_of(std::uint32_t index) {
    if (index >= kBeforeMax) {
      const std::uint32_t rest = index - kBeforeMax;
      return {kNumDoublings + rest / kMaxRows, rest % kMaxRows, kMaxRows};
    }
    const auto chunk = static_cast<std::uint32_t>(std::bit_width(index / kFirstRows + 1) - 1);
    const std::uint32_t before = kFirstRows * ((1u << chunk) - 1);
    return {chunk, index - before, std::size_t{kFirstRows} << chunk};
  }

  std::vector<float*> chunks_;
};

}  // namespace fleetrec
