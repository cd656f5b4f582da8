// SPDX-License-Identifier: Apache-2.0
// Products of matrices on processors that have tiles for them (AMX).
#pragma once

#include <algorithm>
#include <cstddef>

namespace fleetrec {

// Row i and column j stand at data[i * row_stride + j * column_stride].
template <typename Number>
struct MatrixView {
  Number* data;
  std::size_t num_rows;
  std::size_t num_columns;
  std::size_t row_stride;
  std::size_t column_stride;

  MatrixView transposed() const { return {data, num_columns, num_rows, column_stride, row_stride}; }

  // What there is of that many rows and columns from here on; possibly nothing.
  MatrixView block(std::size_t row, std::size_t column, std::size_t max_rows,
                   std::size_t max_columns) const {
    if (row >= num_rows || column >= num_columns) return {data, 0, 0, row_stride, column_stride};
    return {data + row * row_stride + column * column_stride, std::min(max_rows, num_rows - row),
            std::min(max_columns, num_columns - column), row_stride, column_stride};
  }
};

// Whether processor and system let this process use tiles.
bool has_tiles();

// Precision: every float32 is split into this many bfloat16, which have 8 bits. With three,
// sums are as exact as those of float32; with two, the product of two numbers is off by 5e-5 of
// itself at most, with one by 8e-3.
struct Multiplication {
  std::size_t num_pieces;
  bool adds;  // to what c is
};

// c = a b, or c += a b: products of bfloat16, added up in float32, in the same bits for any number
// of threads. Where one number is not finite, the sums with it are not.
//
// Needs has_tiles(). One stride of a and of b is 1, and that between the columns of c.
void multiply(const MatrixView<const float>& a, const MatrixView<const float>& b,
              const MatrixView<float>& c, const Multiplication& how);

}  // namespace fleetrec
