// SPDX-License-Identifier: Apache-2.0
// What the bindings of all parsers share.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.h"
#include "fleetrec/parse/columns.h"

namespace fleetrec {

namespace nb = nanobind;

// Bytes lent by a Python object; the loan ends with this object, which needs the GIL.
class BorrowedBytes {
 public:
  explicit BorrowedBytes(nb::handle owner) {
    if (PyObject_GetBuffer(owner.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  BorrowedBytes(BorrowedBytes&& other) noexcept : buffer_(other.buffer_) {
    other.buffer_.obj = nullptr;
  }
  BorrowedBytes(const BorrowedBytes&) = delete;
  BorrowedBytes& operator=(const BorrowedBytes&) = delete;
  BorrowedBytes& operator=(BorrowedBytes&&) = delete;
  ~BorrowedBytes() { PyBuffer_Release(&buffer_); }

  std::string_view view() const {
    return {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_;
};

// What Python sees of ParsedSlots: the same memory as numpy arrays.
struct ParsedArrays {
  std::size_t num_samples;
  nb::object ids;
  nb::object offsets;
  nb::object weights;  // None where the format has none
  nb::list dense;
  nb::object seen;
  nb::object padded;
  nb::dict undeclared;
  std::int64_t num_empty;
};

template <typename T>
nb::capsule to_owner(std::unique_ptr<T[]> memory) {
  nb::capsule owner(memory.get(), [](void* first) noexcept { delete[] static_cast<T*>(first); });
  memory.release();
  return owner;
}

template <typename T>
nb::object to_array(T* first, std::initializer_list<std::size_t> shape, const nb::capsule& owner) {
  return nb::cast(nb::ndarray<nb::numpy, T>(first, shape, owner));
}

// Files need not be UTF-8.
inline nb::str to_str(std::string_view bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

inline nb::dict to_counts(const std::vector<std::pair<std::string, std::int64_t>>& counts) {
  nb::dict by_name;
  for (const auto& [name, num_tokens] : counts) {
    const nb::str key = to_str(name);
    // Names that differ only in bytes that are no UTF-8 look the same.
    const std::int64_t before =
        by_name.contains(key) ? nb::cast<std::int64_t>(by_name[key]) : std::int64_t{0};
    by_name[key] = before + num_tokens;
  }
  return by_name;
}

inline ParsedArrays to_arrays(ParsedSlots parsed, std::span<const std::size_t> widths) {
  std::int64_t* ids = parsed.ids.get();
  const nb::capsule ids_owner = to_owner(std::move(parsed.ids));
  const nb::capsule owner = to_owner(std::move(parsed.shared));
  nb::object weights = nb::none();
  if (float* first = parsed.weights.get(); first != nullptr) {
    weights = to_array(first, {parsed.num_ids}, to_owner(std::move(parsed.weights)));
  }
  nb::list dense;
  for (std::size_t i = 0; i < parsed.dense.size(); ++i) {
    dense.append(to_array(parsed.dense[i].data(), {parsed.num_samples, widths[i]}, owner));
  }
  return {
      .num_samples = parsed.num_samples,
      .ids = to_array(ids, {parsed.num_ids}, ids_owner),
      .offsets = to_array(parsed.offsets.data(), {parsed.offsets.size()}, owner),
      .weights = std::move(weights),
      .dense = std::move(dense),
      .seen = to_array(parsed.seen.data(), {parsed.seen.size()}, owner),
      .padded = to_column<std::int64_t>(parsed.padded).release(1),
      .undeclared = to_counts(parsed.undeclared),
      .num_empty = parsed.num_empty,
  };
}

// Parses lent bytes without the GIL. What the parser throws is left to the caller.
template <typename Parser, typename... Options>
ParsedArrays parse_segments(const Parser& parser, const nb::sequence& segments,
                            const Options&... options) {
  std::vector<BorrowedBytes> borrowed;
  std::vector<std::string_view> texts;
  borrowed.reserve(nb::len(segments));
  for (nb::handle segment : segments) texts.push_back(borrowed.emplace_back(segment).view());
  std::optional<ParsedSlots> parsed;
  {
    nb::gil_scoped_release released;
    parsed.emplace(parser.parse(texts, options...));
  }
  return to_arrays(std::move(*parsed), parser.widths());
}

inline std::vector<DenseSlot> to_dense_slots(
    std::vector<std::pair<std::string, std::int64_t>> dense) {
  std::vector<DenseSlot> slots;
  for (auto& [name, width] : dense) {
    if (width < 1) {
      throw std::invalid_argument("dense slot '" + name +
                                  "' must have a width of at least 1, got " +
                                  std::to_string(width));
    }
    slots.push_back({std::move(name), static_cast<std::size_t>(width)});
  }
  return slots;
}

// A class of errors of this module, below ValueError.
inline nb::object make_error_type(nb::module_& module, const char* name, const char* doc) {
  const std::string path = std::string("fleetrec._native.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(path.c_str(), doc, PyExc_ValueError, nullptr);
  if (type == nullptr) throw nb::python_error();
  nb::object error_type = nb::steal(type);
  module.attr(name) = error_type;
  return error_type;
}

}  // namespace fleetrec
