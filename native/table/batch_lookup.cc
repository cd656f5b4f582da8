// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/batch_lookup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "fleetrec/parallel.h"
#include "fleetrec/table/vector_math.h"

namespace fleetrec {
namespace {

// Without a branch in the loop: it is a long one, and the processor can take several at once.
bool rise(std::span<const std::int64_t> offsets) {
  bool falls = false;
  for (std::size_t i = 1; i < offsets.size(); ++i) falls |= offsets[i] < offsets[i - 1];
  return !falls;
}

// Returns the number of a row among those found so far, adding it if it is new. The row itself
// remembers its number; that it is not one of an earlier batch shows in the list.
std::uint32_t number_of(Row row, std::vector<Row>& rows) {
  const std::uint32_t known = row.header().unique;
  if (known < rows.size() && rows[known] == row) return known;
  const auto number = static_cast<std::uint32_t>(rows.size());
  row.header().unique = number;
  rows.push_back(row);
  return number;
}

}  // namespace

BatchLookup::BatchLookup(std::vector<std::shared_ptr<Table>> tables,
                         std::vector<LookupFeature> features,
                         const std::vector<std::size_t>& frozen)
    : tables_(std::move(tables)), features_(std::move(features)) {
  if (tables_.empty()) throw std::invalid_argument("a lookup needs a table");
  dim_ = tables_[0]->layout().dim;
  for (const auto& table : tables_) {
    if (table->layout().dim != dim_) {
      throw std::invalid_argument("tables of one lookup must have one width");
    }
    if (std::ranges::count(tables_, table) != 1) {
      throw std::invalid_argument("table " + table->options().name + " occurs twice in a lookup");
    }
  }
  partitions_.resize(tables_.size() * kPartitionsPerTable);
  for (std::size_t i = 0; i < partitions_.size(); ++i) {
    partitions_[i].table = i / kPartitionsPerTable;
    partitions_[i].number = i % kPartitionsPerTable;
    partitions_[i].is_frozen = std::ranges::find(frozen, partitions_[i].table) != frozen.end();
  }
  for (std::size_t f = 0; f < features_.size(); ++f) {
    const LookupFeature& feature = features_[f];
    if (feature.table >= tables_.size()) throw std::invalid_argument("no such table");
    if (feature.max_length == 0) throw std::invalid_argument("max_length must be at least 1");
    if (feature.is_pooled() && feature.max_length != LookupFeature::kAnyLength) {
      throw std::invalid_argument("max_length is for sequences, which are not pooled");
    }
    (feature.is_pooled() ? pooled_ : sequences_).push_back(f);
    by_table_.push_back(f);
    width_ += feature.is_pooled() ? dim_ : 0;
    has_means_ = has_means_ || (feature.is_pooled() && feature.combiner != Combiner::kSum);
  }
  std::ranges::sort(by_table_, {}, [&](std::size_t f) { return std::pair(features_[f].table, f); });
}

void BatchLookup::find(const JaggedIds& batch, const LookupContext& context) {
  check_batch(batch, context);
  begin(batch);
  const auto locks = lock_tables();
  parallel_for(partitions_.size(), [&](std::size_t i) { resolve(partitions_[i], context); });
  removals_before_ = num_removals();
  is_found_ = true;
}

void BatchLookup::check_batch(const JaggedIds& batch, const LookupContext& context) const {
  if (!context.labels.empty() && context.labels.size() != batch.num_samples) {
    throw std::invalid_argument("expected one label per sample");
  }
  if (!batch.weights.empty() && batch.weights.size() != batch.ids.size()) {
    throw std::invalid_argument("expected one weight per id");
  }
  if (!std::ranges::all_of(batch.weights, [](float weight) { return std::isfinite(weight); })) {
    throw std::invalid_argument("weights must be finite numbers");
  }
  if (batch.offsets.empty()) throw std::invalid_argument("a batch has at least one offset");
  if (!rise(batch.offsets) || batch.offsets[0] < 0 ||
      batch.offsets.back() > static_cast<std::int64_t>(batch.ids.size())) {
    throw std::invalid_argument("offsets must rise from 0 to the number of ids");
  }
  std::size_t num_ids = 0;
  for (const LookupFeature& feature : features_) {
    if (batch.num_samples == 0) break;
    // Divided, not multiplied: sizes that wrap around must not pass.
    if (feature.column >= (batch.offsets.size() - 1) / batch.num_samples) {
      throw std::invalid_argument("the batch has fewer columns than the lookup");
    }
    const std::int64_t* first = batch.offsets_of(feature.column);
    num_ids += static_cast<std::size_t>(first[batch.num_samples] - first[0]);
  }
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (num_ids > kMax || batch.num_samples * features_.size() > kMax) {
    throw std::invalid_argument("a batch holds at most 2^32 ids and vectors");
  }
}

inline Row BatchLookup::look_up(Table& table, const Item& item, Row likely,
                                const LookupContext& context) const {
  Row row = likely;
  if (!table.is_row_of(row, item.id)) row = table.find(item.id, table.place(item.id));
  if (context.purpose != Purpose::kTrain) return row;
  return table.count_impression({item.id, context.now, is_click(item, context)}, row);
}

bool BatchLookup::is_click(const Item& item, const LookupContext& context) const {
  return !context.labels.empty() && context.labels[item.bag / features_.size()] > 0.5f;
}

// Finds the rows of one partition in two waves: while the first reads the index of an id, memory
// prefetches that of a later one; the second does the same with rows. What the first wave
// found is the row in nearly all cases.
void BatchLookup::resolve(Partition& partition, const LookupContext& batch_context) {
  LookupContext context = batch_context;
  if (partition.is_frozen) context.purpose = Purpose::kRead;
  const bool is_read = context.purpose == Purpose::kRead;
  Table& table = *tables_[partition.table];
  collect(partition);
  const std::span<const Item> items = partition.items;
  partition.rows.clear();
  partition.row_of.resize(is_read ? 0 : items.size());
  std::array<Row, kAhead> likely;  // rows of the items to come
  // All of a row that may have to be copied for a cut.
  const std::size_t num_floats =
      table.cut_content() && !is_read ? table.layout().stride() : RowLayout::kHeaderFloats + dim_;
  const auto look_ahead = [&](std::size_t i) {
    if (i >= items.size()) return;
    Row& row = likely[i % kAhead] = table.peek(table.place(items[i].id));
    if (row) prefetch(row.address(), num_floats);
  };
  for (std::size_t i = 0; i < kAhead; ++i) look_ahead(i);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i + 2 * kAhead < items.size()) table.prefetch_index(items[i + 2 * kAhead].id);
    const Row row = look_up(table, items[i], likely[i % kAhead], context);
    look_ahead(i + kAhead);
    weights_[items[i].position] = row ? row.weights() : nullptr;
    if (!is_read) partition.row_of[i] = row ? number_of(row, partition.rows) : kNoRow;
  }
  group(partition, partition.rows.size());
}

// Always in the same order, so that two lookups cannot wait for each other.
std::vector<std::unique_lock<std::mutex>> BatchLookup::lock_tables() const {
  std::vector<Table*> ordered;
  for (const auto& table : tables_) ordered.push_back(table.get());
  std::ranges::sort(ordered);
  std::vector<std::unique_lock<std::mutex>> locks;
  for (Table* table : ordered) locks.emplace_back(table->mutex());
  return locks;
}

// Rows of an evicted id may be given to another.
std::uint64_t BatchLookup::num_removals() const {
  std::uint64_t sum = 0;
  for (const auto& table : tables_) sum += table->num_removals();
  return sum;
}

void BatchLookup::check_found() const {
  if (!is_found_) throw std::logic_error("no find has succeeded since the lookup was last changed");
}

void BatchLookup::check_rows_are_there() const {
  if (num_removals() != removals_before_) {
    throw std::logic_error("rows were removed from a table under a lookup; find them again");
  }
}

// Lists the uses of every row, in the order of the batch.
void BatchLookup::group(Partition& partition, std::size_t num_rows) const {
  std::vector<std::uint32_t>& begin = partition.begin;
  begin.assign(num_rows + 2, 0);
  for (const std::uint32_t row : partition.row_of) {
    if (row != kNoRow) ++begin[row + 2];
  }
  for (std::size_t row = 0; row < num_rows; ++row) begin[row + 2] += begin[row + 1];
  partition.uses.resize(begin[num_rows + 1]);
  for (std::size_t i = 0; i < partition.row_of.size(); ++i) {
    const std::uint32_t row = partition.row_of[i];
    if (row == kNoRow) continue;
    const Item& item = partition.items[i];
    partition.uses[begin[row + 1]++] = is_plain_ ? item.bag : item.position;
  }
  begin.pop_back();
}

}  // namespace fleetrec
