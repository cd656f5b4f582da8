// SPDX-License-Identifier: Apache-2.0
// Random columns of text for the parsers of cells.
#pragma once

#include <string>
#include <vector>

#include "fleetrec/parse/cells.h"
#include "fleetrec/parse/fingerprint.h"
#include "garbage.h"

namespace fleetrec::testing {

inline std::string random_cell(Random& random) {
  static constexpr const char* kPieces[] = {"|",
                                            ":",
                                            "7",
                                            "-1",
                                            "18446744073709551615",
                                            "0.5",
                                            "a",
                                            "1e9",
                                            "99999999999999999999",
                                            "1e40",
                                            "+3",
                                            "",
                                            "nan",
                                            "|1:2|"};
  std::string cell;
  for (std::size_t i = random() % 5; i > 0; --i) {
    cell += random() % 8 == 0 ? std::string(random() % 90, static_cast<char>(random() % 256))
                              : kPieces[random() % std::size(kPieces)];
  }
  return cell;
}

// Feeds one random column to both parsers; the last cell ends where its memory ends.
template <typename Offset>
void feed_cells(Random& random) {
  std::string text;
  std::vector<Offset> offsets = {0};
  for (std::size_t i = random() % 6; i > 0; --i) {
    text += random_cell(random);
    offsets.push_back(static_cast<Offset>(text.size()));
  }
  const Exact exact(text);
  const TextColumn<Offset> column(offsets, exact.view());
  IdCellFormat format;
  if (random() % 2 == 0) format.list_separator = '|';
  if (random() % 2 == 0) format.weight_separator = ':';
  if (random() % 4 == 0) format.prefix = "C1=";
  try {
    const IdCells cells = parse_id_cells(column, format);
    CHECK(cells.offsets.size() == column.size() + 1);
    CHECK(cells.offsets.back() == static_cast<std::int64_t>(cells.ids.size()));
    CHECK(cells.weights.size() == (format.weight_separator ? cells.ids.size() : 0));
  } catch (const CellFault& fault) {
    CHECK(format.weight_separator.has_value() && fault.row() < column.size());
  }
  const std::size_t width = 1 + random() % 3;
  std::vector<float> numbers(column.size() * width);
  std::vector<std::uint8_t> present(column.size());
  try {
    parse_number_cells<Offset>(column, '|', 9.0f, numbers, present);
    for (const float number : numbers) CHECK(number == number);
  } catch (const CellFault& fault) {
    CHECK(fault.row() < column.size());
  }
}

inline void feed_cell_garbage(Random& random) {
  if (random() % 2 == 0) {
    feed_cells<std::int32_t>(random);
  } else {
    feed_cells<std::int64_t>(random);
  }
}

}  // namespace fleetrec::testing
