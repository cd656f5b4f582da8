// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/records.h"

#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "fleetrec/parse/example_parser.h"
#include "parsed.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fleetrec {
namespace {

[[noreturn]] void raise_fault(nb::handle error_type, const RecordFault& fault) {
  const nb::str reason = to_str(fault.reason());
  const auto [segment, record, offset] = fault.place();
  const nb::object error = error_type(nb::str("segment {}, record {} at byte {}: {}")
                                          .attr("format")(segment, record, offset, reason));
  error.attr("segment") = segment;
  error.attr("record") = record;
  error.attr("offset") = offset;
  error.attr("reason") = reason;
  PyErr_SetObject(error_type.ptr(), error.ptr());
  throw nb::python_error();
}

void check_begin(std::string_view bytes, std::size_t begin) {
  if (begin <= bytes.size()) return;
  throw std::invalid_argument("begin must lie within " + std::to_string(bytes.size()) +
                              " bytes, got " + std::to_string(begin));
}

RecordCut cut_unlocked(std::string_view bytes, std::size_t begin, std::size_t max_records) {
  nb::gil_scoped_release released;
  return cut_records(bytes, begin, max_records);
}

std::optional<std::size_t> find_unlocked(std::string_view bytes, std::size_t begin) {
  nb::gil_scoped_release released;
  return find_record(bytes, begin);
}

void bind_splitting(nb::module_& module, const nb::object& error_type) {
  module.def(
      "cut_records",
      [error_type](nb::handle bytes, std::size_t begin, std::size_t max_records) {
        const BorrowedBytes borrowed(bytes);
        check_begin(borrowed.view(), begin);
        try {
          const RecordCut cut = cut_unlocked(borrowed.view(), begin, max_records);
          return std::pair(cut.end, cut.num_records);
        } catch (const RecordFault& fault) {
          raise_fault(error_type, fault);
        }
      },
      "data"_a, "begin"_a, "max_records"_a);
  module.def(
      "find_record",
      [](nb::handle bytes, std::size_t begin) {
        const BorrowedBytes borrowed(bytes);
        check_begin(borrowed.view(), begin);
        return find_unlocked(borrowed.view(), begin);
      },
      "data"_a, "begin"_a);
}

}  // namespace

void bind_records(nb::module_& module) {
  const nb::object error_type =
      make_error_type(module, "RecordError", "A record that is damaged or does not fit.");
  bind_splitting(module, error_type);
  nb::class_<ExampleParser>(module, "ExampleParser", nb::is_final())
      .def(
          "__init__",
          [](ExampleParser* self, std::vector<std::string> sparse,
             std::vector<std::pair<std::string, std::int64_t>> dense, std::int64_t padding) {
            new (self) ExampleParser(std::move(sparse), to_dense_slots(std::move(dense)), padding);
          },
          "sparse"_a, "dense"_a, "padding"_a = 0)
      .def(
          "parse",
          [error_type](const ExampleParser& self, const nb::sequence& segments) {
            try {
              return parse_segments(self, segments);
            } catch (const RecordFault& fault) {
              raise_fault(error_type, fault);
            }
          },
          "segments"_a);
}

}  // namespace fleetrec
