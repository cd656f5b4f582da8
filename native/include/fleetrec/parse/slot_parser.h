// SPDX-License-Identifier: Apache-2.0
// Slot text to arrays: one sample per line, tokens `slot:value` separated by blanks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleetrec/parse/slot_fault.h"
#include "fleetrec/parse/slot_names.h"

namespace fleetrec {

struct DenseSlot {
  std::string name;
  std::size_t width;
};

// The arrays lie in two blocks, not in one each: what the C library does with freed blocks goes by
// the largest one, and many that are smaller but large together are given back to the system, whose
// page faults cost a fifth of the time in the next call.
struct ParsedSlots {
  ParsedSlots(std::size_t samples, std::size_t num_sparse, std::span<const std::size_t> widths);

  std::size_t num_samples;
  std::size_t num_ids = 0;
  std::unique_ptr<std::int64_t[]> ids;  // feature-major: slot 0 of all samples, then slot 1
  std::unique_ptr<std::byte[]> shared;  // the memory of the spans
  std::span<std::int64_t> offsets;      // num_sparse * num_samples + 1, running over `ids`
  std::span<std::int64_t> seen;         // by declared slot, the samples in which it occurred
  std::vector<std::span<float>> dense;  // num_samples rows of the slot's width each
  std::vector<std::pair<std::string, std::int64_t>> undeclared;  // tokens by slot name
  std::int64_t num_empty = 0;
};

// Holds what was declared and nothing else: any number of threads may parse at once.
class SlotParser {
 public:
  // Throws std::invalid_argument for names that are empty, declared twice or impossible, and for
  // a width of 0.
  SlotParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense, std::int64_t padding);

  // Each segment holds whole lines; its last line may lack the newline. Throws SlotTextFault at
  // the first bad token; within a line, a wrong number of dense values comes after bad tokens.
  ParsedSlots parse(std::span<const std::string_view> segments) const;

  std::size_t num_sparse() const { return num_sparse_; }
  std::span<const std::size_t> widths() const { return widths_; }
  std::int64_t padding() const { return padding_; }
  const SlotNames& names() const { return names_; }

 private:
  std::size_t num_sparse_;
  std::vector<std::size_t> widths_;  // by dense slot
  std::int64_t padding_;
  SlotNames names_;
};

}  // namespace fleetrec
