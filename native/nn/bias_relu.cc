// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/nn/bias_relu.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "fleetrec/parallel.h"
#include "fleetrec/simd.h"

namespace fleetrec {
namespace {

constexpr std::size_t kBlockRows = 64;

// With the comparison in this order, NaN passes through.
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

// In separate lanes, so that the compiler may vectorize and the sum is always the same.
FLEETREC_SIMD void multiply_rows(const float* x, const float* weights, float* dots,
                                 std::size_t num_rows, std::size_t dim) {
  constexpr std::size_t kLanes = 16;
  for (std::size_t row = 0; row < num_rows; ++row, x += dim) {
    std::array<float, kLanes> lanes = {};
    std::size_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += x[i + lane] * weights[i + lane];
      }
    }
    for (; i < dim; ++i) lanes[i % kLanes] += x[i] * weights[i];
    dots[row] = std::accumulate(lanes.begin(), lanes.end(), 0.0f);
  }
}

FLEETREC_SIMD void pass_dots(const float* grad, float* y, const float* weights, float* sums,
                             float* weight_sums, std::size_t num_rows, std::size_t dim) {
  for (std::size_t row = 0; row < num_rows; ++row, y += dim) {
    const float slope = grad[row];
#pragma GCC ivdep
    for (std::size_t i = 0; i < dim; ++i) {
      weight_sums[i] += slope * y[i];
      y[i] = y[i] <= 0.0f ? 0.0f : slope * weights[i];
      sums[i] += y[i];
    }
  }
}

// Adds up the sums of all blocks, column by column.
void sum_blocks(std::span<const float> sums, std::span<float> total) {
  for (std::size_t i = 0; i < total.size(); ++i) {
    double sum = 0.0;
    for (std::size_t at = i; at < sums.size(); at += total.size()) sum += sums[at];
    total[i] = static_cast<float>(sum);
  }
}

std::size_t num_blocks(std::size_t num_rows) { return (num_rows + kBlockRows - 1) / kBlockRows; }

std::size_t rows_of(std::size_t num_floats, std::size_t dim) {
  if (dim == 0 || num_floats % dim != 0) {
    throw std::invalid_argument("expected one bias per column");
  }
  return num_floats / dim;
}

// Calls `work` with the first row and the number of rows of every block.
template <typename Work>
void each_block(std::size_t num_rows, const Work& work) {
  parallel_for(num_blocks(num_rows), [&](std::size_t block) {
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
  std::vector<float> sums(num_blocks(num_rows) * dim);
  each_block(num_rows, [&](std::size_t first, std::size_t count) {
    const std::size_t begin = first * dim;
    pass_and_sum(grad.data() + begin, y.data() + begin, passed.data() + begin,
                 sums.data() + first / kBlockRows * dim, count, dim);
  });
  sum_blocks(sums, bias_grad);
}

void add_bias_relu_dot(std::span<float> x, std::span<const float> bias,
                       std::span<const float> weights, std::span<float> dots) {
  const std::size_t dim = bias.size();
  if (weights.size() != dim || rows_of(x.size(), dim) != dots.size()) {
    throw std::invalid_argument("expected one weight per column, and one product per row");
  }
  each_block(dots.size(), [&](std::size_t first, std::size_t num_rows) {
    float* rows = x.data() + first * dim;
    add_and_cut(rows, bias.data(), num_rows, dim);
    multiply_rows(rows, weights.data(), dots.data() + first, num_rows, dim);
  });
}

void bias_relu_dot_backward(std::span<const float> grad, std::span<float> y,
                            std::span<const float> weights, const ReluDotGrads& grads) {
  const std::size_t dim = weights.size();
  if (grads.bias.size() != dim || grads.weights.size() != dim ||
      rows_of(y.size(), dim) != grad.size()) {
    throw std::invalid_argument("gradients must have the shapes of what they belong to");
  }
  std::vector<float> sums(num_blocks(grad.size()) * dim);
  std::vector<float> weight_sums(sums.size());
  each_block(grad.size(), [&](std::size_t first, std::size_t count) {
    const std::size_t begin = first * dim;
    const std::size_t block = first / kBlockRows * dim;
    pass_dots(grad.data() + first, y.data() + begin, weights.data(), sums.data() + block,
              weight_sums.data() + block, count, dim);
  });
  sum_blocks(sums, grads.bias);
  sum_blocks(weight_sums, grads.weights);
}

}  // namespace fleetrec
