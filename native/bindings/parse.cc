// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"
#include "fleetrec/parse/lines.h"
#include "fleetrec/parse/slot_parser.h"
#include "fleetrec/parse/svm_parser.h"
#include "fleetrec/parse/wire_parser.h"
#include "parsed.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fleetrec {
namespace {

[[noreturn]] void raise_fault(nb::handle error_type, const SlotTextFault& fault) {
  constexpr std::size_t kMaxTokenChars = 80;
  // A character takes four bytes at most, so the cut leaves the first 80 as they are.
  const std::string_view token = std::string_view(fault.token()).substr(0, 8 * kMaxTokenChars);
  const nb::object shown =
      to_str(token)[nb::slice(nb::int_(0), nb::int_(kMaxTokenChars), nb::none())];
  const nb::str reason = to_str(fault.reason());
  const auto [segment, line, column] = fault.place();
  const nb::object error = error_type(nb::str("segment {}, line {}, column {}: {!r}: {}")
                                          .attr("format")(segment, line, column, shown, reason));
  error.attr("segment") = segment;
  error.attr("line") = line;
  error.attr("column") = column;
  error.attr("token") = shown;
  error.attr("reason") = reason;
  PyErr_SetObject(error_type.ptr(), error.ptr());
  throw nb::python_error();
}

template <typename Parser>
ParsedArrays parse(const Parser& parser, nb::handle error_type, const nb::sequence& segments,
                   std::size_t num_threads) {
  try {
    return parse_segments(parser, segments, num_threads);
  } catch (const SlotTextFault& fault) {
    raise_fault(error_type, fault);
  }
}

// A parser that is declared by sparse names, dense names and widths, and a padding.
template <typename Parser>
void bind_parser(nb::module_& module, const char* name, const nb::object& error_type) {
  nb::class_<Parser>(module, name, nb::is_final())
      .def(
          "__init__",
          [](Parser* self, std::vector<std::string> sparse,
             std::vector<std::pair<std::string, std::int64_t>> dense, std::int64_t padding) {
            new (self) Parser(std::move(sparse), to_dense_slots(std::move(dense)), padding);
          },
          "sparse"_a, "dense"_a, "padding"_a = 0)
      .def(
          "parse",
          [error_type](const Parser& self, const nb::sequence& segments, std::size_t num_threads) {
            return parse(self, error_type, segments, num_threads);
          },
          "segments"_a, nb::kw_only(), "num_threads"_a = 1);
}

void bind_svm_parser(nb::module_& module, const nb::object& error_type) {
  nb::class_<SvmParser>(module, "SvmParser", nb::is_final())
      .def(
          "__init__",
          [](SvmParser* self, std::string label, bool is_dense_label,
             std::vector<std::string> slots, bool has_fields, std::int64_t padding) {
            const LabelKind kind = is_dense_label ? LabelKind::kDense : LabelKind::kSparse;
            new (self) SvmParser({std::move(label), kind, std::move(slots), has_fields}, padding);
          },
          nb::kw_only(), "label"_a, "is_dense_label"_a, "slots"_a, "has_fields"_a, "padding"_a = 0)
      .def(
          "parse",
          [error_type](const SvmParser& self, const nb::sequence& segments,
                       std::size_t num_threads) {
            return parse(self, error_type, segments, num_threads);
          },
          "segments"_a, nb::kw_only(), "num_threads"_a = 1);
}

void bind_cut_lines(nb::module_& module) {
  module.def(
      "cut_lines",
      [](nb::handle text, std::size_t begin, std::size_t max_lines) {
        const BorrowedBytes borrowed(text);
        if (begin > borrowed.view().size()) {
          throw std::invalid_argument("begin must lie within the text of " +
                                      std::to_string(borrowed.view().size()) + " bytes, got " +
                                      std::to_string(begin));
        }
        LineCut cut;
        {
          nb::gil_scoped_release released;
          cut = cut_lines(borrowed.view(), begin, max_lines);
        }
        return std::pair(cut.end, cut.num_lines);
      },
      "text"_a, "begin"_a, "max_lines"_a);
}

}  // namespace

void bind_parse(nb::module_& module) {
  bind_cut_lines(module);

  nb::class_<ParsedArrays>(module, "ParsedSlots", nb::is_final())
      .def_ro("num_samples", &ParsedArrays::num_samples)
      .def_ro("ids", &ParsedArrays::ids)
      .def_ro("offsets", &ParsedArrays::offsets)
      .def_ro("weights", &ParsedArrays::weights)
      .def_ro("dense", &ParsedArrays::dense)
      .def_ro("seen", &ParsedArrays::seen)
      .def_ro("padded", &ParsedArrays::padded)
      .def_ro("undeclared", &ParsedArrays::undeclared)
      .def_ro("num_empty", &ParsedArrays::num_empty);

  const nb::object error_type =
      make_error_type(module, "SlotTextError", "Text that does not keep to its grammar.");
  bind_parser<SlotParser>(module, "SlotParser", error_type);
  bind_parser<WireParser>(module, "WireParser", error_type);
  bind_svm_parser(module, error_type);
}

}  // namespace fleetrec
