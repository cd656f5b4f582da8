// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/nn/bias_relu.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "making.h"

namespace fleetrec {
namespace {

using testing::normal_numbers;

TEST(bias_and_relu_are_what_a_loop_makes_of_them) {
  for (const std::size_t num_rows : {0, 1, 63, 64, 65, 1000}) {
    constexpr std::size_t kDim = 19;
    const std::vector<float> x = normal_numbers(num_rows * kDim, 1);
    const std::vector<float> bias = normal_numbers(kDim, 2);
    const std::vector<float> grad = normal_numbers(num_rows * kDim, 3);
    std::vector<float> y = x;
    add_bias_relu(y, bias);
    std::vector<float> passed(grad.size());
    std::vector<float> bias_grad(kDim, 5.0f);
    bias_relu_backward(grad, y, passed, bias_grad);
    std::vector<double> sums(kDim);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float sum = x[i] + bias[i % kDim];
      CHECK(y[i] == (sum > 0.0f ? sum : 0.0f));
      CHECK(passed[i] == (sum > 0.0f ? grad[i] : 0.0f));
      sums[i % kDim] += passed[i];
    }
    for (std::size_t i = 0; i < kDim; ++i) CHECK(std::abs(bias_grad[i] - sums[i]) < 1e-4);
  }
}

TEST(a_dot_behind_a_relu_is_what_a_loop_makes_of_it) {
  for (const std::size_t dim : {1, 16, 37}) {
    for (const std::size_t num_rows : {0, 1, 64, 200}) {
      const std::vector<float> x = normal_numbers(num_rows * dim, 1);
      const std::vector<float> bias = normal_numbers(dim, 2);
      const std::vector<float> weights = normal_numbers(dim, 3);
      const std::vector<float> grad = normal_numbers(num_rows, 4);
      std::vector<float> y = x;
      std::vector<float> dots(num_rows);
      add_bias_relu_dot(y, bias, weights, dots);
      std::vector<float> plain = x;
      add_bias_relu(plain, bias);
      CHECK(y == plain);
      std::vector<float> passed = y;
      std::vector<float> bias_grad(dim, 5.0f);
      std::vector<float> weight_grad(dim, 5.0f);
      bias_relu_dot_backward(grad, passed, weights, {bias_grad, weight_grad});
      std::vector<double> bias_sums(dim);
      std::vector<double> weight_sums(dim);
      for (std::size_t row = 0; row < num_rows; ++row) {
        double dot = 0.0;
        for (std::size_t i = 0; i < dim; ++i) {
          const std::size_t at = row * dim + i;
          dot += static_cast<double>(y[at]) * weights[i];
          CHECK(passed[at] == (y[at] > 0.0f ? grad[row] * weights[i] : 0.0f));
          bias_sums[i] += passed[at];
          weight_sums[i] += static_cast<double>(grad[row]) * y[at];
        }
        CHECK(std::abs(dots[row] - dot) < 1e-4);
      }
      for (std::size_t i = 0; i < dim; ++i) {
        CHECK(std::abs(bias_grad[i] - bias_sums[i]) < 1e-4);
        CHECK(std::abs(weight_grad[i] - weight_sums[i]) < 1e-4);
      }
    }
  }
}

TEST(relu_does_not_hide_what_is_not_a_number) {
  std::vector<float> y = {std::numeric_limits<float>::quiet_NaN(), -1.0f};
  add_bias_relu(y, std::vector<float>{0.0f, 0.0f});
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 0.0f);
}

TEST(bias_and_relu_refuse_shapes_that_do_not_fit) {
  std::vector<float> x(6);
  const std::vector<float> four(4);
  CHECK_THROWS(std::invalid_argument, add_bias_relu(x, four));
  CHECK_THROWS(std::invalid_argument, add_bias_relu(x, {}));
  std::vector<float> passed(6);
  std::vector<float> bias_grad(3);
  CHECK_THROWS(std::invalid_argument, bias_relu_backward(x, four, passed, bias_grad));
  std::vector<float> two(2);
  CHECK_THROWS(std::invalid_argument, add_bias_relu_dot(x, bias_grad, four, two));
  CHECK_THROWS(std::invalid_argument, add_bias_relu_dot(x, bias_grad, bias_grad, passed));
  CHECK_THROWS(std::invalid_argument, bias_relu_dot_backward(two, x, bias_grad, {bias_grad, two}));
  CHECK_THROWS(std::invalid_argument,
               bias_relu_dot_backward(four, x, bias_grad, {bias_grad, bias_grad}));
}

}  // namespace
}  // namespace fleetrec
