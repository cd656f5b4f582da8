// SPDX-License-Identifier: Apache-2.0
// On processors without tiles there is only one thing to test.
#include "fleetrec/nn/multiply.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "making.h"

namespace fleetrec {
namespace {

using testing::normal_numbers;
using testing::use_threads;

struct Shape {
  std::size_t num_rows;
  std::size_t depth;
  std::size_t num_columns;
};

// In memory, a row or a column has some numbers more than the matrix.
struct Padded {
  Padded(std::size_t num_rows, std::size_t num_columns, bool is_turned, unsigned seed)
      : numbers(normal_numbers((num_rows + 3) * (num_columns + 3), seed)),
        view{numbers.data(), num_rows, num_columns, is_turned ? 1 : num_columns + 3,
             is_turned ? num_rows + 3 : 1} {}

  std::vector<float> numbers;
  MatrixView<const float> view;
};

double at(const MatrixView<const float>& matrix, std::size_t row, std::size_t column) {
  return matrix.data[row * matrix.row_stride + column * matrix.column_stride];
}

std::vector<float> product(const MatrixView<const float>& a, const MatrixView<const float>& b,
                           std::size_t num_pieces = 3) {
  std::vector<float> c(a.num_rows * b.num_columns, 5.0f);
  multiply(a, b, {c.data(), a.num_rows, b.num_columns, b.num_columns, 1}, {num_pieces, false});
  return c;
}

// The share of the sum of all sizes by which a number is off; that of a float32 is 6e-8.
double worst_error(const MatrixView<const float>& a, const MatrixView<const float>& b,
                   std::size_t num_pieces) {
  const std::vector<float> c = product(a, b, num_pieces);
  double worst = 0.0;
  for (std::size_t i = 0; i < a.num_rows; ++i) {
    for (std::size_t j = 0; j < b.num_columns; ++j) {
      double sum = 0.0;
      double size = 0.0;
      for (std::size_t k = 0; k < a.num_columns; ++k) {
        sum += at(a, i, k) * at(b, k, j);
        size += std::abs(at(a, i, k) * at(b, k, j));
      }
      worst = std::max(worst, std::abs(c[i * b.num_columns + j] - sum) / size);
    }
  }
  return worst;
}

// One piece leaves at most 2^-8 of a number; two leave 2^-16, and the product of the smaller ones;
// three leave nothing, but what sums are rounded to.
constexpr std::array<double, 4> kWorst = {0.0, 2.01 / (1 << 8), 3.01 / (1 << 16), 3e-7};

TEST(a_product_is_that_of_a_loop_in_double_as_far_as_its_pieces_tell) {
  if (!has_tiles()) return;
  for (const Shape& shape :
       {Shape{1, 1, 1}, Shape{400, 1, 48}, Shape{16, 32, 16}, Shape{17, 33, 15}, Shape{31, 70, 64},
        Shape{33, 429, 40}, Shape{70, 1100, 50}, Shape{20, 40, 500}}) {
    for (const bool is_a_turned : {false, true}) {
      for (const bool is_b_turned : {false, true}) {
        const Padded a(shape.num_rows, shape.depth, is_a_turned, 1);
        const Padded b(shape.depth, shape.num_columns, is_b_turned, 2);
        for (const std::size_t num_pieces : {1, 2, 3}) {
          CHECK(worst_error(a.view, b.view, num_pieces) < kWorst[num_pieces]);
        }
      }
    }
  }
}

TEST(a_product_of_any_size_of_numbers_is_as_exact) {
  if (!has_tiles()) return;
  for (const float scale : {1e-18f, 1e18f}) {
    Padded a(20, 40, false, 1);
    const Padded b(40, 20, false, 2);
    for (float& number : a.numbers) number *= scale;
    CHECK(worst_error(a.view, b.view, 3) < kWorst[3]);
  }
}

TEST(what_has_few_bits_is_multiplied_exactly) {
  if (!has_tiles()) return;
  std::vector<float> a(50 * 70);
  std::vector<float> b(70 * 40);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) - 8.0f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 23) - 11.0f;
  for (const std::size_t num_pieces : {1, 2, 3}) {
    CHECK(worst_error({a.data(), 50, 70, 70, 1}, {b.data(), 70, 40, 40, 1}, num_pieces) == 0.0);
  }
}

TEST(a_product_may_be_added) {
  if (!has_tiles()) return;
  for (const std::size_t depth : {40, 600}) {
    const Padded a(50, depth, false, 1);
    const Padded b(depth, 70, true, 2);
    const std::vector<float> alone = product(a.view, b.view);
    std::vector<float> c = normal_numbers(alone.size(), 3);
    const std::vector<float> before = c;
    multiply(a.view, b.view, {c.data(), 50, 70, 70, 1}, {3, true});
    for (std::size_t i = 0; i < c.size(); ++i) {
      CHECK(std::abs(c[i] - (before[i] + alone[i])) < 1e-4);
    }
  }
}

TEST(a_product_over_nothing_is_zero) {
  if (!has_tiles()) return;
  const std::vector<float> none;
  const auto c = product({none.data(), 3, 0, 1, 1}, {none.data(), 0, 2, 2, 1});
  CHECK(c == std::vector<float>(6, 0.0f));
  std::vector<float> kept(6, 5.0f);
  multiply({none.data(), 3, 0, 1, 1}, {none.data(), 0, 2, 2, 1}, {kept.data(), 3, 2, 2, 1},
           {2, true});
  CHECK(kept == std::vector<float>(6, 5.0f));
  CHECK(product({none.data(), 0, 4, 4, 1}, Padded(4, 2, false, 1).view).empty());
}

TEST(a_product_writes_only_what_is_its_own) {
  if (!has_tiles()) return;
  const Padded a(20, 40, false, 1);
  const Padded b(40, 18, false, 2);
  std::vector<float> c(20 * 30, 5.0f);
  multiply(a.view, b.view, {c.data() + 7, 20, 18, 30, 1}, {3, false});
  const std::vector<float> want = product(a.view, b.view);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < 30; ++j) {
      const bool is_own = j >= 7 && j < 25;
      CHECK(c[i * 30 + j] == (is_own ? want[i * 18 + j - 7] : 5.0f));
    }
  }
}

TEST(a_product_is_the_same_for_any_number_of_threads) {
  if (!has_tiles()) return;
  const Padded a(300, 1500, true, 1);
  const Padded b(1500, 100, false, 2);
  use_threads(1);
  const std::vector<float> alone = product(a.view, b.view);
  for (const int num_threads : {2, 3, 8}) {
    use_threads(num_threads);
    CHECK(product(a.view, b.view) == alone);
  }
}

TEST(a_product_does_not_hide_what_is_not_finite) {
  if (!has_tiles()) return;
  const float infinity = std::numeric_limits<float>::infinity();
  const float all_ones = std::bit_cast<float>(0xFFFFFFFFu);
  const float low_bits = std::bit_cast<float>(0x7F800001u);
  for (const float odd : {infinity, -infinity, all_ones, low_bits, std::nanf("")}) {
    Padded a(20, 40, false, 1);
    a.numbers[2 * 43 + 21] = odd;
    const Padded b(40, 18, false, 2);
    for (const std::size_t num_pieces : {1, 2, 3}) {
      const std::vector<float> c = product(a.view, b.view, num_pieces);
      for (std::size_t i = 0; i < c.size(); ++i) CHECK(std::isfinite(c[i]) == (i / 18 != 2));
    }
  }
}

TEST(products_refuse_what_does_not_fit) {
  std::vector<float> numbers(100);
  const MatrixView<const float> a = {numbers.data(), 2, 3, 3, 1};
  const MatrixView<float> c = {numbers.data() + 50, 2, 2, 2, 1};
  const Multiplication how = {2, false};
  if (!has_tiles()) {
    CHECK_THROWS(std::logic_error, multiply(a, a.transposed(), c, how));
    return;
  }
  CHECK_THROWS(std::invalid_argument, multiply(a, a, c, how));
  CHECK_THROWS(std::invalid_argument, multiply(a.transposed(), a, c, how));
  CHECK_THROWS(std::invalid_argument, multiply(a, a.transposed(), c.transposed(), how));
  CHECK_THROWS(std::invalid_argument, multiply(a, a.transposed(), c, {4, false}));
  const MatrixView<const float> apart = {numbers.data(), 2, 3, 6, 2};
  CHECK_THROWS(std::invalid_argument, multiply(apart, a.transposed(), c, how));
}

}  // namespace
}  // namespace fleetrec
