// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/parse/cells.h"

#include <stdexcept>

#include "cells_garbage.h"
#include "check.h"

namespace fleetrec::testing {
namespace {

using Ids = std::vector<std::int64_t>;

TextColumn<std::int32_t> column_of(const std::vector<std::int32_t>& offsets,
                                   std::string_view text) {
  return {offsets, text};
}

}  // namespace

TEST(fingerprints_are_those_of_farmhash) {
  CHECK(fingerprint64("") == 0x9ae16a3b2f90404f);
  CHECK(fingerprint64("a") == 12917804110809363939u);
  CHECK(fingerprint64("hello") == 13009744463427800296u);
  CHECK(fingerprint64("TensorFlow") == 4265654129848386254u);
}

TEST(a_number_is_its_own_id_and_other_text_is_hashed) {
  CHECK(text_id("007") == 7 && text_id("-1") == -1 && text_id("18446744073709551615") == -1);
  for (const std::string_view text : {"1.0", "7 ", "a", "18446744073709551616", "-"}) {
    CHECK(text_id(text) == static_cast<std::int64_t>(fingerprint64(text)));
  }
}

TEST(cells_are_cut_into_ids_and_weights) {
  const std::vector<std::int32_t> offsets = {0, 1, 1, 12};
  const auto column = column_of(offsets, "7-1:0.5||3|2");
  const IdCells cells =
      parse_id_cells(column, {.list_separator = '|', .weight_separator = ':', .prefix = {}});
  CHECK(cells.ids == Ids{7, -1, 3, 2});
  CHECK(cells.offsets == Ids{0, 1, 1, 4});
  CHECK(cells.weights == std::vector<float>{1.0f, 0.5f, 1.0f, 1.0f});
}

TEST(behind_a_prefix_numbers_are_hashed_too) {
  const std::vector<std::int32_t> offsets = {0, 2};
  const IdCells cells = parse_id_cells(
      column_of(offsets, "25"),
      {.list_separator = std::nullopt, .weight_separator = std::nullopt, .prefix = "C1="});
  CHECK(cells.ids == Ids{static_cast<std::int64_t>(fingerprint64("C1=25"))});
}

TEST(cells_are_cut_into_numbers) {
  const std::vector<std::int32_t> offsets = {0, 5, 5};
  std::vector<float> numbers(4);
  std::vector<std::uint8_t> present(2);
  parse_number_cells(column_of(offsets, "1|2.5"), '|', -1.0f, std::span(numbers),
                     std::span(present));
  CHECK(numbers == std::vector<float>{1.0f, 2.5f, -1.0f, -1.0f});
  CHECK(present == std::vector<std::uint8_t>{1, 0});
  std::vector<float> three(6);
  CHECK_THROWS(CellFault, parse_number_cells(column_of(offsets, "1|2.5"), '|', 0.0f,
                                             std::span(three), std::span(present)));
}

TEST(offsets_outside_of_the_text_are_refused) {
  for (const std::vector<std::int32_t>& offsets :
       {std::vector<std::int32_t>{}, {-1, 0}, {0, 4}, {2, 1, 3}}) {
    CHECK_THROWS(std::invalid_argument, column_of(offsets, "abc"));
  }
}

TEST(garbage_in_cells_is_parsed_or_refused) {
  Random random(43);
  for (int i = 0; i < 20'000; ++i) feed_cell_garbage(random);
}

}  // namespace fleetrec::testing
