// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"
#include "bindings.h"
#include "fleetrec/denormals.h"
#include "fleetrec/nn/bias_relu.h"
#include "fleetrec/nn/multiply.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

using Out = Array<float, nb::ndim<2>>;
using OutVector = Array<float, nb::ndim<1>>;
template <typename Number>
using Strided = nb::ndarray<Number, nb::device::cpu, nb::ndim<2>>;

void check_width(std::size_t width, std::size_t num_biases) {
  if (width != num_biases) throw std::invalid_argument("expected one bias per column");
}

void forward(const Out& x, const Vector& bias) {
  check_width(x.shape(1), bias.size());
  const nb::gil_scoped_release released;
  add_bias_relu(to_span(x), to_span(bias));
}

void backward(const Matrix& grad, const Matrix& y, const Out& passed, const OutVector& bias_grad) {
  for (const std::size_t width : {grad.shape(1), y.shape(1), passed.shape(1)}) {
    check_width(width, bias_grad.size());
  }
  const nb::gil_scoped_release released;
  bias_relu_backward(to_span(grad), to_span(y), to_span(passed), to_span(bias_grad));
}

void forward_dot(const Out& x, const Vector& bias, const Vector& weights, const OutVector& dots) {
  check_width(x.shape(1), bias.size());
  const nb::gil_scoped_release released;
  add_bias_relu_dot(to_span(x), to_span(bias), to_span(weights), to_span(dots));
}

void backward_dot(const Vector& grad, const Out& y, const Vector& weights,
                  const OutVector& bias_grad, const OutVector& weight_grad) {
  check_width(y.shape(1), bias_grad.size());
  const nb::gil_scoped_release released;
  bias_relu_dot_backward(to_span(grad), to_span(y), to_span(weights),
                         {to_span(bias_grad), to_span(weight_grad)});
}

template <typename Number>
MatrixView<Number> to_view(const Strided<Number>& matrix) {
  return {matrix.data(), matrix.shape(0), matrix.shape(1),
          static_cast<std::size_t>(matrix.stride(0)), static_cast<std::size_t>(matrix.stride(1))};
}

void product(const Strided<const float>& a, const Strided<const float>& b,
             const Strided<float>& out, std::size_t num_pieces, bool adds) {
  const nb::gil_scoped_release released;
  multiply(to_view(a), to_view(b), to_view(out), {num_pieces, adds});
}

}  // namespace

void bind_nn(nb::module_& module) {
  module.def("flush_denormals", &flush_denormals, nb::kw_only(), "is_on"_a);
  module.def("add_bias_relu", &forward, "x"_a.noconvert(), "bias"_a.noconvert());
  module.def("bias_relu_backward", &backward, "grad"_a.noconvert(), "y"_a.noconvert(),
             "passed"_a.noconvert(), "bias_grad"_a.noconvert());
  module.def("add_bias_relu_dot", &forward_dot, "x"_a.noconvert(), "bias"_a.noconvert(),
             "weights"_a.noconvert(), "dots"_a.noconvert());
  module.def("bias_relu_dot_backward", &backward_dot, "grad"_a.noconvert(), "y"_a.noconvert(),
             "weights"_a.noconvert(), "bias_grad"_a.noconvert(), "weight_grad"_a.noconvert());
  module.def("has_tiles", &has_tiles);
  module.def("multiply", &product, "a"_a.noconvert(), "b"_a.noconvert(), "out"_a.noconvert(),
             nb::kw_only(), "num_pieces"_a, "adds"_a = false);
}

}  // namespace fleetrec
