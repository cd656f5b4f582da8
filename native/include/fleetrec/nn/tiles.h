// SPDX-License-Identifier: Apache-2.0
// The tiles of a processor, and how numbers stand in them; for multiply.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fleetrec/nn/multiply.h"

namespace fleetrec {

// As many rows of a, or columns of b, stand in a tile, with as many numbers of each.
constexpr std::size_t kTileLines = 16;
constexpr std::size_t kTileDepth = 32;

struct alignas(64) Tile {
  std::array<std::array<std::uint16_t, kTileDepth>, kTileLines> rows;
};

// The same lines and depths of one to three pieces, whose sums are the numbers.
template <std::size_t kNumPieces>
using PieceTiles = std::array<Tile, kNumPieces>;

// Numbers stand in pairs, the first half of a tile's depth with the second. A row of a tile has all
// pairs of a line if it is to stand left in a product, one pair of all lines if right.
enum class Side : std::uint8_t { kLeft, kRight };

// Fills tiles from lines, which are rows here, from that line and depth on; what is beyond is zero.
template <std::size_t kNumPieces>
void fill_tiles(const MatrixView<const float>& lines, std::size_t line, std::size_t depth,
                Side side, PieceTiles<kNumPieces>& tiles);

// Makes the tiles of this thread ready as long as it lives.
class UseTiles {
 public:
  UseTiles();
  ~UseTiles();
  UseTiles(const UseTiles&) = delete;
  UseTiles& operator=(const UseTiles&) = delete;
};

// One or two strips of N consecutive tiles.
template <std::size_t kNumPieces>
struct Strips {
  const PieceTiles<kNumPieces>* first;
  std::size_t num_strips;
  std::size_t num_steps;
};

// c = a b, or c += a b; c has kTileLines rows for each strip of a and columns for each of b.
template <std::size_t kNumPieces>
void multiply_strips(const Strips<kNumPieces>& a, const Strips<kNumPieces>& b, float* c,
                     std::size_t row_stride, bool adds);

}  // namespace fleetrec
