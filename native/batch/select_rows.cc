// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/batch/select_rows.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace fleetrec {
namespace {

void check(const IdBlock& block, std::size_t num_columns) {
  constexpr std::size_t kMaxSamples = std::numeric_limits<std::uint32_t>::max();
  if (block.num_samples > kMaxSamples) {
    throw std::invalid_argument("a block holds at most 2^32 samples");
  }
  if (block.offsets.size() != num_columns * block.num_samples + 1) {
    throw std::invalid_argument("a block has an offset per column and sample, and one more");
  }
  if (block.has_weights && block.weights.size() != block.ids.size()) {
    throw std::invalid_argument("a block with weights has one per id");
  }
  std::int64_t before = 0;
  for (const std::int64_t offset : block.offsets) {
    if (offset < before || offset > static_cast<std::int64_t>(block.ids.size())) {
      throw std::invalid_argument("offsets must rise from 0 to the number of ids");
    }
    before = offset;
  }
}

}  // namespace

RowSelection::RowSelection(std::vector<IdBlock> blocks, std::size_t num_columns,
                           std::span<const std::int64_t> rows)
    : blocks_(std::move(blocks)), num_columns_(num_columns) {
  std::vector<std::int64_t> firsts;  // number of the first sample of a block
  std::int64_t num_rows = 0;
  for (const IdBlock& block : blocks_) {
    check(block, num_columns_);
    has_weights_ = has_weights_ || block.has_weights;
    firsts.push_back(num_rows);
    num_rows += static_cast<std::int64_t>(block.num_samples);
  }
  picks_.reserve(rows.size());
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= num_rows) throw std::out_of_range("no block has such a row");
    const auto next = std::ranges::upper_bound(firsts, row);
    const auto block = static_cast<std::size_t>(next - firsts.begin()) - 1;
    picks_.push_back(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(row - firsts[block])});
  }
  offsets_.reserve(num_columns_ * picks_.size() + 1);
  offsets_.push_back(0);
  each_list([&](const IdBlock&, std::size_t first, std::size_t last) {
    offsets_.push_back(offsets_.back() + static_cast<std::int64_t>(last - first));
  });
}

void RowSelection::copy_ids(std::span<std::int64_t> ids) const {
  std::int64_t* next = ids.data();
  each_list([&](const IdBlock& block, std::size_t first, std::size_t last) {
    next = std::copy(block.ids.data() + first, block.ids.data() + last, next);
  });
}

void RowSelection::copy_weights(std::span<float> weights) const {
  float* next = weights.data();
  each_list([&](const IdBlock& block, std::size_t first, std::size_t last) {
    next = block.has_weights
               ? std::copy(block.weights.data() + first, block.weights.data() + last, next)
               : std::fill_n(next, last - first, 1.0f);
  });
}

// Calls `copy(block, first, last)` for every list, column by column.
template <typename Copy>
void RowSelection::each_list(const Copy& copy) const {
  for (std::size_t column = 0; column < num_columns_; ++column) {
    for (const Pick& pick : picks_) {
      const IdBlock& block = blocks_[pick.block];
      const std::size_t k = column * block.num_samples + pick.sample;
      copy(block, static_cast<std::size_t>(block.offsets[k]),
           static_cast<std::size_t>(block.offsets[k + 1]));
    }
  }
}

}  // namespace fleetrec
