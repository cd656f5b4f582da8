// SPDX-License-Identifier: Apache-2.0
// Arrays on their way between Python and the tables, without a copy.
#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace fleetrec {

namespace nb = nanobind;

template <typename T, typename... Shape>
using Array = nb::ndarray<T, nb::device::cpu, nb::c_contig, Shape...>;
using Ids = Array<const std::int64_t, nb::ndim<1>>;
using Vector = Array<const float, nb::ndim<1>>;
using Matrix = Array<const float, nb::ndim<2>>;

template <typename T, typename... Shape>
std::span<T> to_span(const Array<T, Shape...>& array) {
  return {array.data(), array.size()};
}

// Columns in memory that Python may take over.
template <typename T>
struct Column {
  explicit Column(std::size_t num_rows, std::size_t num_columns = 1)
      : memory(std::make_unique_for_overwrite<T[]>(num_rows * num_columns)),
        shape{num_rows, num_columns} {}

  std::span<T> span() { return {memory.get(), shape[0] * shape[1]}; }

  nb::object release(std::size_t num_dims) {
    nb::capsule owner(memory.get(), [](void* first) noexcept { delete[] static_cast<T*>(first); });
    return nb::cast(nb::ndarray<nb::numpy, T>(memory.release(), num_dims, shape, owner));
  }

  std::unique_ptr<T[]> memory;
  std::size_t shape[2];
};

template <typename T, typename Value>
Column<T> to_column(const std::vector<Value>& values, std::size_t num_columns = 1) {
  Column<T> column(values.size() / num_columns, num_columns);
  std::ranges::transform(values, column.span().begin(),
                         [](const Value& value) { return static_cast<T>(value); });
  return column;
}

}  // namespace fleetrec
