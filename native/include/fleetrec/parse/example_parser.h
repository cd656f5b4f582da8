// SPDX-License-Identifier: Apache-2.0
// tf.Example messages in TFRecords to arrays: one sample per record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleetrec/parse/columns.h"
#include "fleetrec/parse/records.h"
#include "fleetrec/parse/slot_names.h"

namespace fleetrec {

// Holds what was declared and nothing else: any number of threads may parse at once.
class ExampleParser {
 public:
  // As SlotParser.
  ExampleParser(std::vector<std::string> sparse, std::vector<DenseSlot> dense,
                std::int64_t padding);

  // Each segment holds whole records. Sparse features are lists of integers or of text
  // (see text_id), dense ones lists of floats or integers; an empty list is a missing feature.
  // Throws RecordFault at the first record that is damaged or does not fit what was declared.
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
