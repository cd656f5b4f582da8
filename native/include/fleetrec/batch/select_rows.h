// SPDX-License-Identifier: Apache-2.0
// Chosen samples of several blocks of id lists, in any order: shuffling, filtering, joining.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fleetrec {

// Lists of ids, column by column: sample i of column c owns ids[offsets[k]] up to ids[offsets[k+1]]
// with k = c * num_samples + i. Weights, if any, are parallel to the ids.
struct IdBlock {
  std::span<const std::int64_t> ids;
  std::span<const std::int64_t> offsets;
  std::span<const float> weights;
  bool has_weights;
  std::size_t num_samples;
};

// Picks samples by number, counted through all blocks. Throws std::invalid_argument for offsets
// that do not fit their block and std::out_of_range for a row that no block has.
class RowSelection {
 public:
  RowSelection(std::vector<IdBlock> blocks, std::size_t num_columns,
               std::span<const std::int64_t> rows);

  std::span<const std::int64_t> offsets() const { return offsets_; }
  std::size_t num_ids() const { return static_cast<std::size_t>(offsets_.back()); }
  bool has_weights() const { return has_weights_; }

  // Writes num_ids() ids, and as many weights: 1 for ids of blocks without weights.
  void copy_ids(std::span<std::int64_t> ids) const;
  void copy_weights(std::span<float> weights) const;

 private:
  struct Pick {
    std::uint32_t block;
    std::uint32_t sample;
  };

  template <typename Copy>
  void each_list(const Copy& copy) const;

  std::vector<IdBlock> blocks_;
  std::size_t num_columns_;
  bool has_weights_ = false;
  std::vector<Pick> picks_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace fleetrec
