// SPDX-License-Identifier: Apache-2.0
// Wire text to arrays: one sample per line, `count value ... value` for each slot in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleetrec/parse/columns.h"
#include "fleetrec/parse/slot_fault.h"

namespace fleetrec {

// Holds what was declared and nothing else: any number of threads may parse at once.
class WireParser {
 public:
  // A line has the dense slots first, then the sparse ones, both as declared. Throws
  // std::invalid_argument for a width of 0.
  WireParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense, std::int64_t padding);

  // As SlotParser::parse. A count of 0 means that the slot is missing.
  ParsedSlots parse(std::span<const std::string_view> segments, std::size_t num_threads = 1) const;

  ColumnsShape shape(std::size_t num_samples) const {
    return {num_samples, sparse_.size(), widths_, padding_};
  }

  std::span<const std::size_t> widths() const { return widths_; }

 private:
  void parse_line(const struct TextLine& line, Columns& columns) const;

  friend class WireRun;

  std::vector<std::string> sparse_;
  std::vector<DenseSlot> dense_;
  std::vector<std::size_t> widths_;
  std::int64_t padding_;
};

}  // namespace fleetrec
