// SPDX-License-Identifier: Apache-2.0
// Columns of text, each cell of which holds ids or numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fleetrec {

// Text as Arrow stores it: cell i is bytes[offsets[i]] up to bytes[offsets[i + 1]], with offsets of
// 32 or 64 bits. Throws std::invalid_argument for offsets that leave the bytes.
template <typename Offset>
class TextColumn {
 public:
  TextColumn(std::span<const Offset> offsets, std::string_view bytes);

  std::size_t size() const { return offsets_.size() - 1; }

  std::string_view operator[](std::size_t i) const {
    const auto begin = static_cast<std::size_t>(offsets_[i]);
    return {bytes_.data() + begin, static_cast<std::size_t>(offsets_[i + 1]) - begin};
  }

 private:
  std::span<const Offset> offsets_;
  std::string_view bytes_;
};

// A cell that cannot be understood.
class CellFault : public std::runtime_error {
 public:
  CellFault(std::size_t row, std::string_view text, const std::string& reason)
      : std::runtime_error(reason), row_(row), text_(text) {}

  std::size_t row() const { return row_; }
  const std::string& text() const { return text_; }

 private:
  std::size_t row_;
  std::string text_;
};

// How a cell is cut. Without a list separator it is one value; without a weight separator a value
// has no weight. With a prefix every value is hashed behind it, else decimal integers of 64 bits
// are ids themselves and only other text is hashed.
struct IdCellFormat {
  std::optional<char> list_separator;
  std::optional<char> weight_separator;
  std::optional<std::string> prefix;
};

// The ids of cell i are ids[offsets[i]] up to ids[offsets[i + 1]]; empty values are left out.
struct IdCells {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> offsets;
  std::vector<float> weights;  // parallel to the ids, if the format has weights
};

// The id that a text stands for: the number itself, or its fingerprint.
std::int64_t text_id(std::string_view text);

template <typename Offset>
IdCells parse_id_cells(const TextColumn<Offset>& column, const IdCellFormat& format);

// Writes `width` numbers per cell to `numbers`, `padding` if the cell is empty, and whether it has
// any to `present`. Throws CellFault for what is no finite decimal number, and for cells with
// another number of them.
template <typename Offset>
void parse_number_cells(const TextColumn<Offset>& column, char list_separator, float padding,
                        std::span<float> numbers, std::span<std::uint8_t> present);

}  // namespace fleetrec
