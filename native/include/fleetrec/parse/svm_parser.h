// SPDX-License-Identifier: Apache-2.0
// The texts of libsvm (`label index:value ...`) and libffm (`label field:index:value ...`) to
// arrays: an index is an id, its value the weight of the id.
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

enum class LabelKind { kSparse, kDense };

// Holds what was declared and nothing else: any number of threads may parse at once.
class SvmParser {
 public:
  struct Declared {
    std::string label;
    LabelKind label_kind;             // the first sparse slot, or the only dense one
    std::vector<std::string> fields;  // the sparse slots behind the label
    bool has_fields;                  // tokens name their field; otherwise there is one
  };

  // Throws std::invalid_argument for fields that are impossible, or not one where tokens name none.
  SvmParser(Declared declared, std::int64_t padding);

  // As SlotParser::parse, with weights. An empty line is a sample in which everything is missing,
  // and what follows a token that begins with '#' is not read.
  ParsedSlots parse(std::span<const std::string_view> segments, std::size_t num_threads = 1) const;

  ColumnsShape shape(std::size_t num_samples) const;

  std::span<const std::size_t> widths() const { return widths_; }

 private:
  Declared declared_;
  std::vector<std::size_t> widths_;
  std::int64_t padding_;
  SlotNames names_;  // of the fields

  friend class SvmRun;
};

}  // namespace fleetrec
