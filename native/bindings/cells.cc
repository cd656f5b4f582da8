// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/cells.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <optional>

#include "arrays.h"
#include "bindings.h"
#include "fleetrec/parse/fingerprint.h"

using namespace nanobind::literals;

namespace fleetrec {
namespace {

using Bytes = Array<const std::uint8_t, nb::ndim<1>>;
template <typename Offset>
using Offsets = Array<const Offset, nb::ndim<1>>;

template <typename Offset>
TextColumn<Offset> to_text(const Offsets<Offset>& offsets, const Bytes& bytes) {
  return {to_span(offsets), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}

std::optional<char> to_separator(const std::optional<nb::bytes>& separator) {
  if (!separator) return std::nullopt;
  if (separator->size() != 1) throw std::invalid_argument("a separator must be one byte");
  return separator->c_str()[0];
}

[[noreturn]] void raise_fault(nb::handle error_type, const CellFault& fault) {
  constexpr std::size_t kMaxChars = 80;
  const std::string_view bytes = std::string_view(fault.text()).substr(0, 8 * kMaxChars);
  const nb::object whole = nb::steal(PyUnicode_DecodeUTF8(
      bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));  // files need not be UTF-8
  if (!whole.is_valid()) throw nb::python_error();
  const nb::object shown = whole[nb::slice(nb::int_(0), nb::int_(kMaxChars), nb::none())];
  const nb::object error =
      error_type(nb::str("row {}: {!r}: {}").attr("format")(fault.row(), shown, fault.what()));
  error.attr("row") = fault.row();
  error.attr("text") = shown;
  error.attr("reason") = fault.what();
  PyErr_SetObject(error_type.ptr(), error.ptr());
  throw nb::python_error();
}

template <typename Offset>
nb::object hash_text(const Offsets<Offset>& offsets, const Bytes& bytes) {
  std::optional<Column<std::int64_t>> hashes;
  {
    const nb::gil_scoped_release released;
    const TextColumn<Offset> column = to_text(offsets, bytes);
    hashes.emplace(column.size());
    for (std::size_t i = 0; i < column.size(); ++i) {
      hashes->span()[i] = static_cast<std::int64_t>(fingerprint64(column[i]));
    }
  }
  return hashes->release(1);
}

template <typename Offset>
nb::tuple parse_ids(nb::handle error_type, const Offsets<Offset>& offsets, const Bytes& bytes,
                    const IdCellFormat& format) {
  std::optional<Column<std::int64_t>> ids;
  std::optional<Column<std::int64_t>> ends;
  std::optional<Column<float>> weights;
  try {
    const nb::gil_scoped_release released;
    const IdCells cells = parse_id_cells(to_text(offsets, bytes), format);
    ids.emplace(to_column<std::int64_t>(cells.ids));
    ends.emplace(to_column<std::int64_t>(cells.offsets));
    if (format.weight_separator) weights.emplace(to_column<float>(cells.weights));
  } catch (const CellFault& fault) {
    raise_fault(error_type, fault);
  }
  return nb::make_tuple(ids->release(1), ends->release(1),
                        weights ? weights->release(1) : nb::none());
}

template <typename Offset>
nb::tuple parse_numbers(nb::handle error_type, const Offsets<Offset>& offsets, const Bytes& bytes,
                        std::optional<nb::bytes> list_separator, std::size_t width, float padding) {
  if (width == 0) throw std::invalid_argument("the width must be at least 1");
  const char separator = to_separator(list_separator).value_or('\0');
  std::optional<Column<float>> numbers;
  std::optional<Column<std::uint8_t>> present;
  try {
    const nb::gil_scoped_release released;
    const TextColumn<Offset> column = to_text(offsets, bytes);
    numbers.emplace(column.size(), width);
    present.emplace(column.size());
    parse_number_cells(column, separator, padding, numbers->span(), present->span());
  } catch (const CellFault& fault) {
    raise_fault(error_type, fault);
  }
  return nb::make_tuple(numbers->release(2), present->release(1));
}

template <typename Offset>
void bind_column(nb::module_& module, const nb::object& error_type) {
  module.def("hash_text", &hash_text<Offset>, "offsets"_a.noconvert(), "text"_a.noconvert());
  module.def(
      "parse_id_cells",
      [error_type](const Offsets<Offset>& offsets, const Bytes& bytes,
                   std::optional<nb::bytes> list_separator,
                   std::optional<nb::bytes> weight_separator, std::optional<nb::bytes> prefix) {
        IdCellFormat format{.list_separator = to_separator(list_separator),
                            .weight_separator = to_separator(weight_separator)};
        if (prefix) format.prefix.emplace(prefix->c_str(), prefix->size());
        return parse_ids<Offset>(error_type, offsets, bytes, format);
      },
      "offsets"_a.noconvert(), "text"_a.noconvert(), nb::kw_only(), "list_separator"_a.none(),
      "weight_separator"_a.none(), "prefix"_a.none());
  module.def(
      "parse_number_cells",
      [error_type](const Offsets<Offset>& offsets, const Bytes& bytes,
                   std::optional<nb::bytes> list_separator, std::size_t width, float padding) {
        return parse_numbers<Offset>(error_type, offsets, bytes, list_separator, width, padding);
      },
      "offsets"_a.noconvert(), "text"_a.noconvert(), nb::kw_only(), "list_separator"_a.none(),
      "width"_a, "padding"_a);
}

}  // namespace

void bind_cells(nb::module_& module) {
  PyObject* type = PyErr_NewExceptionWithDoc(
      "fleetrec._native.CellError", "A cell that cannot be read.", PyExc_ValueError, nullptr);
  if (type == nullptr) throw nb::python_error();
  const nb::object error_type = nb::steal(type);
  module.attr("CellError") = error_type;
  module.def(
      "fingerprint64", [](nb::bytes text) { return fingerprint64({text.c_str(), text.size()}); },
      "text"_a);
  module.def("fingerprint64", [](std::string_view text) { return fingerprint64(text); }, "text"_a);
  bind_column<std::int32_t>(module, error_type);
  bind_column<std::int64_t>(module, error_type);
}

}  // namespace fleetrec
