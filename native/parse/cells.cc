// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/cells.h"

#include <algorithm>
#include <string>

#include "fleetrec/parse/fingerprint.h"
#include "fleetrec/parse/number.h"

namespace fleetrec {
namespace {

// Calls `each` with every value of a cell, empty ones included; an empty cell has none.
template <typename Each>
void split(std::string_view cell, std::optional<char> separator, const Each& each) {
  if (cell.empty()) return;
  std::size_t begin = 0;
  while (separator) {
    const std::size_t end = cell.find(*separator, begin);
    if (end == std::string_view::npos) break;
    each(cell.substr(begin, end - begin));
    begin = end + 1;
  }
  each(cell.substr(begin));
}

bool read_number(std::string_view text, float& number) {
  const char* end = text.data() + text.size();
  return scan_float(text.data(), end, end, number) == end && !text.empty();
}

std::string number_fault(std::string_view text) {
  return is_decimal_text(text) ? "the number is out of the range of float32"
                               : "expected a decimal number";
}

class IdReader {
 public:
  explicit IdReader(const IdCellFormat& format) : format_(format) {}

  void read_cell(std::size_t row, std::string_view cell) {
    split(cell, format_.list_separator, [&](std::string_view value) { read_value(row, value); });
    cells_.offsets.push_back(static_cast<std::int64_t>(cells_.ids.size()));
  }

  IdCells take() { return std::move(cells_); }

  void reserve(std::size_t num_cells) {
    cells_.ids.reserve(num_cells);
    cells_.offsets.reserve(num_cells + 1);
    cells_.offsets.push_back(0);
  }

 private:
  void read_value(std::size_t row, std::string_view value) {
    if (value.empty()) return;
    if (format_.weight_separator) {
      float weight = 1.0f;
      const std::size_t at = value.rfind(*format_.weight_separator);
      if (at != std::string_view::npos) {
        if (!read_number(value.substr(at + 1), weight)) {
          throw CellFault(row, value, "weight: " + number_fault(value.substr(at + 1)));
        }
        if (at == 0) throw CellFault(row, value, "expected an id before the weight");
        value = value.substr(0, at);
      }
      cells_.weights.push_back(weight);
    }
    cells_.ids.push_back(format_.prefix ? hash_behind_prefix(value) : text_id(value));
  }

  std::int64_t hash_behind_prefix(std::string_view value) {
    buffer_.assign(*format_.prefix).append(value);
    return static_cast<std::int64_t>(fingerprint64(buffer_));
  }

  const IdCellFormat& format_;
  IdCells cells_;
  std::string buffer_;
};

}  // namespace

template <typename Offset>
TextColumn<Offset>::TextColumn(std::span<const Offset> offsets, std::string_view bytes)
    : offsets_(offsets), bytes_(bytes) {
  if (offsets.empty()) throw std::invalid_argument("a column needs at least one offset");
  if (offsets.front() < 0 || static_cast<std::size_t>(offsets.back()) > bytes.size() ||
      !std::ranges::is_sorted(offsets)) {
    throw std::invalid_argument("offsets must ascend within " + std::to_string(bytes.size()) +
                                " bytes");
  }
}

std::int64_t text_id(std::string_view text) {
  const char* end = text.data() + text.size();
  std::int64_t id = 0;
  if (scan_id(text.data(), end, end, id) == end && !text.empty()) return id;
  return static_cast<std::int64_t>(fingerprint64(text));
}

template <typename Offset>
IdCells parse_id_cells(const TextColumn<Offset>& column, const IdCellFormat& format) {
  IdReader reader(format);
  reader.reserve(column.size());
  for (std::size_t row = 0; row < column.size(); ++row) reader.read_cell(row, column[row]);
  return reader.take();
}

template <typename Offset>
void parse_number_cells(const TextColumn<Offset>& column, char list_separator, float padding,
                        std::span<float> numbers, std::span<std::uint8_t> present) {
  if (column.size() == 0) return;
  const std::size_t width = numbers.size() / column.size();
  const std::optional<char> separator = width == 1 ? std::nullopt : std::optional(list_separator);
  for (std::size_t row = 0; row < column.size(); ++row) {
    const std::string_view cell = column[row];
    const std::span<float> wanted = numbers.subspan(row * width, width);
    std::size_t num_found = 0;
    split(cell, separator, [&](std::string_view text) {
      float number = 0.0f;
      if (!read_number(text, number)) throw CellFault(row, text, number_fault(text));
      if (num_found < width) wanted[num_found] = number;
      ++num_found;
    });
    present[row] = num_found > 0;
    if (num_found == 0) std::ranges::fill(wanted, padding);
    if (num_found != 0 && num_found != width) {
      throw CellFault(row, cell,
                      "expected " + std::to_string(width) + " numbers separated by '" +
                          list_separator + "', got " + std::to_string(num_found));
    }
  }
}

template class TextColumn<std::int32_t>;
template class TextColumn<std::int64_t>;
template IdCells parse_id_cells(const TextColumn<std::int32_t>&, const IdCellFormat&);
template IdCells parse_id_cells(const TextColumn<std::int64_t>&, const IdCellFormat&);
template void parse_number_cells(const TextColumn<std::int32_t>&, char, float, std::span<float>,
                                 std::span<std::uint8_t>);
template void parse_number_cells(const TextColumn<std::int64_t>&, char, float, std::span<float>,
                                 std::span<std::uint8_t>);

}  // namespace fleetrec
