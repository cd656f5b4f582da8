// SPDX-License-Identifier: Apache-2.0
// Slot text to arrays: one sample per line, tokens `slot:value` separated by blanks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleetrec/parse/columns.h"
#include "fleetrec/parse/slot_fault.h"
#include "fleetrec/parse/slot_names.h"

namespace fleetrec {

// Holds what was declared and nothing else: any number of threads may parse at once.
class SlotParser {
 public:
  // Throws std::invalid_argument for names that are empty, declared twice or impossible, and for
  // a width of 0.
  SlotParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense, std::int64_t padding);

  // Each segment holds whole lines; its last line may lack the newline. Throws SlotTextFault at
  // the first bad token; within a line, a wrong number of dense values comes after bad tokens. The
  // result is the same with any number of threads.
  ParsedSlots parse(std::span<const std::string_view> segments, std::size_t num_threads = 1) const;

  std::size_t num_sparse() const { return num_sparse_; }
  std::span<const std::size_t> widths() const { return widths_; }
  ColumnsShape shape(std::size_t num_samples) const {
    return {num_samples, num_sparse_, widths_, padding_};
  }
  const SlotNames& names() const { return names_; }

 private:
  std::size_t num_sparse_;
  std::vector<std::size_t> widths_;  // by dense slot
  std::int64_t padding_;
  SlotNames names_;
};

}  // namespace fleetrec
