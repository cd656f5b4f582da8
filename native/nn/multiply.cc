// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/nn/multiply.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <stdexcept>
#include <vector>

#include "fleetrec/nn/tiles.h"
#include "fleetrec/parallel.h"

namespace fleetrec {
namespace {

// Blocks of b of that depth and width, in tiles, stay in the second cache.
constexpr std::size_t kMaxSteps = 14;
constexpr std::size_t kMaxWidth = 28;

constexpr std::size_t ceil_div(std::size_t number, std::size_t by) {
  return (number + by - 1) / by;
}

// Equal parts, none larger than `largest`.
std::size_t part_of(std::size_t number, std::size_t largest) {
  return ceil_div(number, ceil_div(number, largest));
}

std::size_t num_strips(std::size_t num_lines) { return ceil_div(num_lines, kTileLines); }

// Part of a sum over the depth of a and b.
struct Stretch {
  std::size_t first_step;
  std::size_t num_steps;
};

template <std::size_t kNumPieces>
using Memory = std::vector<PieceTiles<kNumPieces>>;

template <std::size_t kNumPieces>
void fill_strips(const MatrixView<const float>& lines, const Stretch& stretch, Side side,
                 Memory<kNumPieces>& strips) {
  const std::size_t count = num_strips(lines.num_rows);
  strips.resize(std::max(strips.size(), count * stretch.num_steps));
  for (std::size_t step = 0; step < stretch.num_steps; ++step) {
    const std::size_t depth = (stretch.first_step + step) * kTileDepth;
    for (std::size_t i = 0; i < count; ++i) {
      fill_tiles(lines, i * kTileLines, depth, side, strips[i * stretch.num_steps + step]);
    }
  }
}

// c may have fewer rows and columns than the strips.
template <std::size_t kNumPieces>
void multiply_block(const Strips<kNumPieces>& a, const Strips<kNumPieces>& b, bool adds,
                    const MatrixView<float>& c) {
  if (c.num_rows == a.num_strips * kTileLines && c.num_columns == b.num_strips * kTileLines) {
    multiply_strips(a, b, c.data, c.row_stride, adds);
    return;
  }
  constexpr std::size_t kWidth = 2 * kTileLines;
  alignas(64) std::array<float, kWidth * kWidth> whole = {};
  for (std::size_t i = 0; adds && i < c.num_rows; ++i) {
    std::copy_n(c.data + i * c.row_stride, c.num_columns, &whole[i * kWidth]);
  }
  multiply_strips(a, b, whole.data(), kWidth, adds);
  for (std::size_t i = 0; i < c.num_rows; ++i) {
    std::copy_n(&whole[i * kWidth], c.num_columns, c.data + i * c.row_stride);
  }
}

// One or two strips from memory.
template <std::size_t kNumPieces>
Strips<kNumPieces> strips_at(const Memory<kNumPieces>& memory, std::size_t i, std::size_t count,
                             const Stretch& stretch) {
  return {&memory[i * stretch.num_steps], std::min<std::size_t>(2, count - i), stretch.num_steps};
}

// Some columns of c, which threads make row by row, each as fast as it can.
struct Columns {
  MatrixView<const float> b;
  MatrixView<float> c;
  std::atomic<std::size_t> next_row = 0;
};

// Processes rows until none are left. Every thread fills its own tiles with all of these columns
// of b: reading what another processor has just written would take longer.
template <std::size_t kNumPieces>
void take_rows(const MatrixView<const float>& a, const Stretch& stretch, bool adds,
               Columns& columns) {
  static thread_local Memory<kNumPieces> left;
  static thread_local Memory<kNumPieces> right;
  constexpr std::size_t kHeight = 2 * kTileLines;
  if (columns.next_row >= a.num_rows || columns.c.num_columns == 0) return;
  fill_strips(columns.b.transposed(), stretch, Side::kRight, right);
  const std::size_t width = num_strips(columns.b.num_columns);
  const UseTiles tiles;
  for (std::size_t row = 0; (row = columns.next_row.fetch_add(kHeight)) < a.num_rows;) {
    const auto rows = a.block(row, 0, kHeight, a.num_columns);
    fill_strips(rows, stretch, Side::kLeft, left);
    const auto a_strips = strips_at(left, 0, num_strips(rows.num_rows), stretch);
    for (std::size_t j = 0; j < width; j += 2) {
      multiply_block(a_strips, strips_at(right, j, width, stretch), adds,
                     columns.c.block(row, j * kTileLines, kHeight, 2 * kTileLines));
    }
  }
}

// The number of groups of threads; each group computes its own columns. With one group, all threads
// would fill tiles of the same columns; with one group per thread, tiles of the same rows.
std::size_t num_groups(std::size_t num_rows, std::size_t num_columns, std::size_t num_threads) {
  std::size_t best = 1;
  const auto cost = [&](std::size_t groups) {
    return num_rows / (num_threads / groups) + num_columns / groups;
  };
  for (std::size_t groups = 2; groups <= num_threads; ++groups) {
    if (num_threads % groups == 0 && cost(groups) < cost(best)) best = groups;
  }
  return best;
}

template <std::size_t kNumPieces>
void multiply_all(const MatrixView<const float>& a, const MatrixView<const float>& b,
                  const MatrixView<float>& c, bool adds) {
  const std::size_t num_threads = max_threads();
  const std::size_t groups = num_groups(c.num_rows, c.num_columns, num_threads);
  const std::size_t width = part_of(ceil_div(num_strips(c.num_columns), groups), kMaxWidth);
  const std::size_t num_steps = ceil_div(a.num_columns, kTileDepth);
  const std::size_t depth = part_of(num_steps, kMaxSteps);
  for (std::size_t first = 0; first < c.num_columns; first += groups * width * kTileLines) {
    for (std::size_t step = 0; step < num_steps; step += depth) {
      const Stretch stretch = {step, std::min(depth, num_steps - step)};
      std::vector<Columns> columns(groups);
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t column = first + g * width * kTileLines;
        columns[g].b = b.block(0, column, b.num_rows, width * kTileLines);
        columns[g].c = c.block(0, column, c.num_rows, width * kTileLines);
      }
      parallel_for(num_threads, [&](std::size_t thread) {
        take_rows<kNumPieces>(a, stretch, adds || step > 0, columns[thread % groups]);
      });
    }
  }
}

bool has_stride_one(const MatrixView<const float>& matrix) {
  return matrix.row_stride == 1 || matrix.column_stride == 1;
}

}  // namespace

void multiply(const MatrixView<const float>& a, const MatrixView<const float>& b,
              const MatrixView<float>& c, const Multiplication& how) {
  if (!has_tiles()) throw std::logic_error("this processor has no tiles");
  if (a.num_columns != b.num_rows || a.num_rows != c.num_rows || b.num_columns != c.num_columns) {
    throw std::invalid_argument("the shapes of the matrices do not fit");
  }
  if (!has_stride_one(a) || !has_stride_one(b) || c.column_stride != 1) {
    throw std::invalid_argument("numbers of a matrix must stand side by side");
  }
  if (how.num_pieces < 1 || how.num_pieces > 3) {
    throw std::invalid_argument("expected numbers of one, two or three pieces");
  }
  if (a.num_columns == 0 && !how.adds) {
    for (std::size_t i = 0; i < c.num_rows; ++i) {
      std::fill_n(c.data + i * c.row_stride, c.num_columns, 0.0f);
    }
  }
  if (c.num_rows == 0 || c.num_columns == 0 || a.num_columns == 0) return;
  const std::array multiply_by_pieces = {multiply_all<1>, multiply_all<2>, multiply_all<3>};
  multiply_by_pieces[how.num_pieces - 1](a, b, c, how.adds);
}

}  // namespace fleetrec
