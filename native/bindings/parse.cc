// SPDX-License-Identifier: Apache-2.0
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "fleetrec/parse/lines.h"
#include "fleetrec/parse/slot_parser.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace fleetrec {
namespace {

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
  nb::list dense;
  nb::object seen;
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
nb::str to_str(std::string_view bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(text);
}

nb::dict to_counts(const std::vector<std::pair<std::string, std::int64_t>>& counts) {
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

ParsedArrays to_arrays(ParsedSlots parsed, const SlotParser& parser) {
  std::int64_t* ids = parsed.ids.get();
  const nb::capsule ids_owner = to_owner(std::move(parsed.ids));
  const nb::capsule owner = to_owner(std::move(parsed.shared));
  nb::list dense;
  for (std::size_t i = 0; i < parsed.dense.size(); ++i) {
    dense.append(to_array(parsed.dense[i].data(), {parsed.num_samples, parser.widths()[i]}, owner));
  }
  return {
      .num_samples = parsed.num_samples,
      .ids = to_array(ids, {parsed.num_ids}, ids_owner),
      .offsets = to_array(parsed.offsets.data(), {parsed.offsets.size()}, owner),
      .dense = std::move(dense),
      .seen = to_array(parsed.seen.data(), {parsed.seen.size()}, owner),
      .undeclared = to_counts(parsed.undeclared),
      .num_empty = parsed.num_empty,
  };
}

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

ParsedSlots parse_unlocked(const SlotParser& parser, std::span<const std::string_view> texts) {
  nb::gil_scoped_release released;
  return parser.parse(texts);
}

ParsedArrays parse(const SlotParser& parser, nb::handle error_type, const nb::sequence& segments) {
  std::vector<BorrowedBytes> borrowed;
  std::vector<std::string_view> texts;
  borrowed.reserve(nb::len(segments));
  for (nb::handle segment : segments) texts.push_back(borrowed.emplace_back(segment).view());
  try {
    return to_arrays(parse_unlocked(parser, texts), parser);
  } catch (const SlotTextFault& fault) {
    raise_fault(error_type, fault);
  }
}

std::vector<DenseSlot> to_dense_slots(std::vector<std::pair<std::string, std::int64_t>> dense) {
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

nb::object make_error_type(nb::module_& module) {
  PyObject* type = PyErr_NewExceptionWithDoc("fleetrec._native.SlotTextError",
                                             "Slot text that does not keep to the grammar.",
                                             PyExc_ValueError, nullptr);
  if (type == nullptr) throw nb::python_error();
  nb::object error_type = nb::steal(type);
  module.attr("SlotTextError") = error_type;
  return error_type;
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
      .def_ro("dense", &ParsedArrays::dense)
      .def_ro("seen", &ParsedArrays::seen)
      .def_ro("undeclared", &ParsedArrays::undeclared)
      .def_ro("num_empty", &ParsedArrays::num_empty);

  nb::class_<SlotParser>(module, "SlotParser", nb::is_final())
      .def(
          "__init__",
          [](SlotParser* self, std::vector<std::string> sparse,
             std::vector<std::pair<std::string, std::int64_t>> dense, std::int64_t padding) {
            new (self) SlotParser(std::move(sparse), to_dense_slots(std::move(dense)), padding);
          },
          "sparse"_a, "dense"_a, "padding"_a = 0)
      .def(
          "parse",
          [error_type = make_error_type(module)](const SlotParser& self,
                                                 const nb::sequence& segments) {
            return parse(self, error_type, segments);
          },
          "segments"_a);
}

}  // namespace fleetrec
