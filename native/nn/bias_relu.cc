// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/nn/bias_relu.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "fleetrec/parallel.h"
#include "fleetrec/simd.h"

namespace fleetrec {
namespace {

constexpr std::size_t kBlockRows = 64;

// Asked this way round, what is not a number is not cut off.
FLEETREC_SIMD void add_and_cut(float* x, const float* bias, std::size_t num_rows, std::size_t dim) {
  for (; num_rows > 0; --num_rows, x += dim) {
    for (std::size_t i = 0; i < dim; ++i) {
      const float sum = x[i] + bias[i];
      x[i] = sum <= 0.0f ? 0.0f : sum;
    }
  }
}

FLEETREC_SIMD void pass_and_sum(const float* grad, const float* y, float* passed, float* sums,
                                std::size_t num_rows, std::size_t dim) {
  for (; num_rows > 0; --num_rows, grad += dim, y += dim, passed += dim) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < dim; ++i) {  // `passed` and `grad` may be the same
      passed[i] = y[i] <= 0.0f ? 0.0f : grad[i];
      sums[i] += passed[i];
    }
  }
}

std::size_t rows_of(std::size_t num_floats, std::size_t dim) {
  if (dim == 0 || num_floats % dim != 0) {
    throw std::invalid_argument("expected one bias per column");
  }
  return num_floats / dim;
}

// Calls `work` with the first row and the number of rows of every block.
template <typename Work>
void each_block(std::size_t num_rows, const Work& work) {
  parallel_for((num_rows + kBlockRows - 1) / kBlockRows, [&](std::size_t block) {
    const std::size_t first = block * kBlockRows;
    work(first, std::min(kBlockRows, num_rows - first));
  });
}

}  // namespace

void add_bias_relu(std::span<float> x, std::span<const float> bias) {
  const std::size_t dim = bias.size();
  each_block(rows_of(x.size(), dim), [&](std::size_t first, std::size_t num_rows) {
    add_and_cut(x.data() + first * dim, bias.data(), num_rows, dim);
  });
}

void bias_relu_backward(std::span<const float> grad, std::span<const float> y,
                        std::span<float> passed, std::span<float> bias_grad) {
  if (grad.size() != y.size() || grad.size() != passed.size()) {
    throw std::invalid_argument("gradient and output must have the same shape");
  }
  const std::size_t dim = bias_grad.size();
  const std::size_t num_rows = rows_of(grad.size(), dim);
  std::vector<float> sums((num_rows + kBlockRows - 1) / kBlockRows * dim);
  each_block(num_rows, [&](std::size_t first, std::size_t count) {
    const std::size_t begin = first * dim;
    pass_and_sum(grad.data() + begin, y.data() + begin, passed.data() + begin,
                 sums.data() + first / kBlockRows * dim, count, dim);
  });
  for (std::size_t i = 0; i < dim; ++i) {
    double sum = 0.0;
    for (std::size_t at = i; at < sums.size(); at += dim) sum += sums[at];
    bias_grad[i] = static_cast<float>(sum);
  }
}

}  // namespace fleetrec
