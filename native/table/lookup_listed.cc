// SPDX-License-Identifier: Apache-2.0
// A lookup whose rows are held by another process: the ids it needs, and the rows it received.
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "fleetrec/parallel.h"
#include "fleetrec/table/batch_lookup.h"

namespace fleetrec {

void BatchLookup::list(const JaggedIds& batch, const LookupContext& context) {
  check_batch(batch, context);
  begin(batch);
  parallel_for(partitions_.size(), [&](std::size_t p) { number(partitions_[p], context); });
  is_listed_ = true;
}

// Numbers the unique ids of a partition in the order of their first occurrence.
void BatchLookup::number(Partition& partition, const LookupContext& context) const {
  collect(partition);
  partition.ids.clear();
  partition.shows.clear();
  partition.clicks.clear();
  partition.row_of.clear();
  partition.slots.assign(std::bit_ceil(2 * partition.items.size() + 1), kNoRow);
  const std::size_t mask = partition.slots.size() - 1;
  for (const Item& item : partition.items) {
    std::size_t slot = (hash_of(item.id) >> 16) & mask;
    while (partition.slots[slot] != kNoRow && partition.ids[partition.slots[slot]] != item.id) {
      slot = (slot + 1) & mask;
    }
    if (partition.slots[slot] == kNoRow) {
      partition.slots[slot] = static_cast<std::uint32_t>(partition.ids.size());
      partition.ids.push_back(item.id);
      partition.shows.push_back(0);
      partition.clicks.push_back(0);
    }
    const std::uint32_t row = partition.slots[slot];
    partition.row_of.push_back(row);
    ++partition.shows[row];
    partition.clicks[row] += is_click(item, context) ? 1 : 0;
  }
  group(partition, partition.ids.size());
}

std::size_t BatchLookup::num_listed(std::size_t table) const {
  if (!is_listed_) throw std::logic_error("no ids were listed");
  std::size_t sum = 0;
  for (const Partition& partition : partitions_of(table)) sum += partition.ids.size();
  return sum;
}

void BatchLookup::copy_listed(std::size_t table, const ListedColumns& columns) const {
  if (columns.ids.size() != num_listed(table)) {
    throw std::invalid_argument("the columns must be as long as the list");
  }
  std::size_t first = 0;
  for (const Partition& partition : partitions_of(table)) {
    std::ranges::transform(partition.ids, columns.ids.begin() + static_cast<std::ptrdiff_t>(first),
                           [](std::uint64_t id) { return static_cast<std::int64_t>(id); });
    std::ranges::copy(partition.shows, columns.shows.subspan(first).begin());
    std::ranges::copy(partition.clicks, columns.clicks.subspan(first).begin());
    first += partition.ids.size();
  }
}

void BatchLookup::set_rows(std::span<const ListedRows> rows) {
  if (!is_listed_) throw std::logic_error("no ids were listed");
  if (rows.size() != tables_.size()) throw std::invalid_argument("expected the rows of all tables");
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    const std::size_t num_rows = num_listed(table);
    if (rows[table].weights.size() != num_rows * dim_ || rows[table].is_there.size() != num_rows) {
      throw std::invalid_argument("expected one row per listed id");
    }
  }
  std::vector<std::size_t> firsts;
  for (std::size_t p = 0; p < partitions_.size(); ++p) {
    const bool is_first = p == 0 || partitions_[p - 1].table != partitions_[p].table;
    firsts.push_back(is_first ? 0 : firsts.back() + partitions_[p - 1].ids.size());
  }
  parallel_for(partitions_.size(), [&](std::size_t p) {
    set_rows(partitions_[p], rows[partitions_[p].table], firsts[p]);
  });
  removals_before_ = num_removals();
  is_found_ = true;
}

// Points every id of a partition to its row; `first` is where its rows begin.
void BatchLookup::set_rows(Partition& partition, const ListedRows& rows, std::size_t first) {
  const auto is_there = rows.is_there.subspan(first, partition.ids.size());
  partition.is_there.assign(is_there.begin(), is_there.end());
  for (std::size_t i = 0; i < partition.row_of.size(); ++i) {
    const std::uint32_t row = partition.row_of[i];
    const float* weights = rows.weights.data() + (first + row) * dim_;
    weights_[partition.items[i].position] = is_there[row] != 0 ? weights : nullptr;
  }
}

}  // namespace fleetrec
