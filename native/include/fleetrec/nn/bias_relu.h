// SPDX-License-Identifier: Apache-2.0
// What stands behind the product of a linear layer, in one pass over memory each way.
#pragma once

#include <span>

namespace fleetrec {

// Adds the bias to every row of x, and puts 0 where that is not above 0; what is not a number stays
// so. x has as many columns as there are biases.
void add_bias_relu(std::span<float> x, std::span<const float> bias);

// Lets the gradient through where y, which add_bias_relu made, is above 0, and sums what passed by
// column: that is the gradient of the bias, the same for any number of threads. It may pass in
// place.
void bias_relu_backward(std::span<const float> grad, std::span<const float> y,
                        std::span<float> passed, std::span<float> bias_grad);

// The same before a layer of one output: `dots` are the products of the rows with its weights.
void add_bias_relu_dot(std::span<float> x, std::span<const float> bias,
                       std::span<const float> weights, std::span<float> dots);

// And back, from the gradient of the dots, one each per row. y becomes the gradient of what
// add_bias_relu_dot was given: it is read here for the last time, and memory is what costs.
struct ReluDotGrads {
  std::span<float> bias;
  std::span<float> weights;
};
void bias_relu_dot_backward(std::span<const float> grad, std::span<float> y,
                            std::span<const float> weights, const ReluDotGrads& grads);

}  // namespace fleetrec
