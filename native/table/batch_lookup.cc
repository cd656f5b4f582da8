// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/batch_lookup.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>

#include "fleetrec/parallel.h"

namespace fleetrec {
namespace {

constexpr std::size_t kPartitionsPerTable = 32;
constexpr std::size_t kBucketsPerPartition = kNumBuckets / kPartitionsPerTable;
constexpr std::size_t kStretchSamples = 1024;
constexpr std::size_t kPoolSamples = 128;
constexpr std::size_t kAhead = 8;  // rows that are fetched before they are needed

FLEETREC_SIMD void add_scaled(float* sum, const float* term, std::size_t dim, float scale) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += scale * term[i];
}

FLEETREC_SIMD void add(float* sum, const float* term, std::size_t dim) {
  for (std::size_t i = 0; i < dim; ++i) sum[i] += term[i];
}

FLEETREC_SIMD void multiply(float* vector, std::size_t dim, float scale) {
  for (std::size_t i = 0; i < dim; ++i) vector[i] *= scale;
}

// Rows begin anywhere in a cache line, so the last float may lie in one more.
void prefetch(const float* first, std::size_t num_floats) {
  constexpr std::size_t kLineFloats = 16;
  for (std::size_t i = 0; i < num_floats; i += kLineFloats) __builtin_prefetch(first + i);
  __builtin_prefetch(first + num_floats - 1);
}

std::size_t partition_of(std::size_t table, Place place) {
  return table * kPartitionsPerTable + place.bucket / kBucketsPerPartition;
}

std::vector<std::unique_lock<std::mutex>> lock_all(
    const std::vector<std::shared_ptr<Table>>& tables) {
  // Always in the same order, so that two lookups cannot wait for each other.
  std::vector<Table*> ordered;
  for (const auto& table : tables) ordered.push_back(table.get());
  std::ranges::sort(ordered);
  std::vector<std::unique_lock<std::mutex>> locks;
  for (Table* table : ordered) locks.emplace_back(table->mutex());
  return locks;
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
    partitions_[i].is_frozen = std::ranges::find(frozen, partitions_[i].table) != frozen.end();
  }
  for (const LookupFeature& feature : features_) {
    if (feature.table >= tables_.size()) throw std::invalid_argument("no such table");
    is_plain_ = is_plain_ && feature.combiner == Combiner::kSum;
  }
  removals_before_ = num_removals();
}

void BatchLookup::find(const JaggedIds& batch, const Occasion& occasion) {
  check_batch(batch, occasion);
  count(batch);
  ++generation_;
  has_changes_ = false;
  num_samples_ = batch.num_samples;
  offsets_.assign(batch.offsets.begin(), batch.offsets.end());
  scatter(batch);
  const auto locks = lock_all(tables_);
  parallel_for(partitions_.size(), [&](std::size_t i) { resolve(partitions_[i], occasion); });
  removals_before_ = num_removals();
}

void BatchLookup::check_batch(const JaggedIds& batch, const Occasion& occasion) const {
  if (!occasion.labels.empty() && occasion.labels.size() != batch.num_samples) {
    throw std::invalid_argument("expected one label per sample");
  }
  std::int64_t before = 0;
  for (const std::int64_t offset : batch.offsets) {
    if (offset < before || offset > static_cast<std::int64_t>(batch.ids.size())) {
      throw std::invalid_argument("offsets must rise from 0 to the number of ids");
    }
    before = offset;
  }
  if (batch.offsets.empty()) throw std::invalid_argument("a batch has at least one offset");
  std::size_t num_ids = 0;
  for (const LookupFeature& feature : features_) {
    if (batch.num_samples == 0) break;
    // Divided, not multiplied: sizes that wrap around must not pass.
    if (feature.column >= (batch.offsets.size() - 1) / batch.num_samples) {
      throw std::invalid_argument("the batch has fewer columns than the lookup");
    }
    const std::int64_t* first = &batch.offsets[feature.column * batch.num_samples];
    num_ids += static_cast<std::size_t>(first[batch.num_samples] - first[0]);
  }
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (num_ids > kMax || batch.num_samples * features_.size() > kMax) {
    throw std::invalid_argument("a batch holds at most 2^32 ids and vectors");
  }
}

// Counts the ids of every stretch by partition, and looks whether all are in range.
void BatchLookup::count(const JaggedIds& batch) {
  stretches_.clear();
  for (std::size_t feature = 0; feature < features_.size(); ++feature) {
    for (std::size_t first = 0; first < batch.num_samples; first += kStretchSamples) {
      stretches_.push_back({feature, first, std::min(first + kStretchSamples, batch.num_samples)});
    }
  }
  const std::size_t num_partitions = partitions_.size();
  counts_.assign(stretches_.size() * num_partitions, 0);
  parallel_for(stretches_.size(), [&](std::size_t s) {
    const LookupFeature& feature = features_[stretches_[s].feature];
    const Table& table = *tables_[feature.table];
    const std::int64_t* offsets = &batch.offsets[feature.column * batch.num_samples];
    std::uint32_t* counts = &counts_[s * num_partitions];
    const auto end = static_cast<std::size_t>(offsets[stretches_[s].last]);
    for (auto n = static_cast<std::size_t>(offsets[stretches_[s].first]); n < end; ++n) {
      const auto id = static_cast<std::uint64_t>(batch.ids[n]);
      if (!table.is_in_range(id)) throw IdOutOfRange{feature.column, id};
      ++counts[partition_of(feature.table, table.place(id))];
    }
  });
}

// Sorts the ids that were counted by partition, keeping their order.
void BatchLookup::scatter(const JaggedIds& batch) {
  const std::size_t num_partitions = partitions_.size();
  std::size_t sum = 0;
  for (std::size_t p = 0; p < num_partitions; ++p) {
    partitions_[p].first = sum;
    for (std::size_t s = 0; s < stretches_.size(); ++s) {
      const std::uint32_t count = counts_[s * num_partitions + p];
      counts_[s * num_partitions + p] = static_cast<std::uint32_t>(sum);
      sum += count;
    }
    partitions_[p].last = sum;
  }
  items_.resize(sum);
  weights_.resize(sum);
  begins_.assign(1, 0);
  for (const LookupFeature& feature : features_) {
    const std::int64_t* offsets = &offsets_[feature.column * num_samples_];
    begins_.push_back(begins_.back() +
                      static_cast<std::size_t>(offsets[num_samples_] - offsets[0]));
  }
  parallel_for(stretches_.size(), [&](std::size_t s) {
    const Stretch& stretch = stretches_[s];
    const LookupFeature& feature = features_[stretch.feature];
    const Table& table = *tables_[feature.table];
    const std::int64_t* offsets = &offsets_[feature.column * num_samples_];
    std::uint32_t* next = &counts_[s * num_partitions];
    auto n = static_cast<std::size_t>(offsets[stretch.first]);
    auto position = static_cast<std::uint32_t>(begins_[stretch.feature] + n -
                                               static_cast<std::size_t>(offsets[0]));
    for (std::size_t sample = stretch.first; sample < stretch.last; ++sample) {
      const auto bag = static_cast<std::uint32_t>(sample * features_.size() + stretch.feature);
      for (const auto end = static_cast<std::size_t>(offsets[sample + 1]); n < end; ++n) {
        const auto id = static_cast<std::uint64_t>(batch.ids[n]);
        const Place place = table.place(id);
        items_[next[partition_of(feature.table, place)]++] = {id, place, position++, bag};
      }
    }
  });
}

// Finds the rows of one partition in two waves: while the first reads the index of an id, memory
// already brings that of a later one; the second does the same with rows.
void BatchLookup::resolve(Partition& partition, const Occasion& occasion) {
  const bool is_read = occasion.purpose == Purpose::kRead;
  Table& table = *tables_[partition.table];
  const std::size_t num_items = partition.last - partition.first;
  const std::span items(items_.data() + partition.first, num_items);
  partition.rows.clear();
  partition.row_of.resize(is_read ? 0 : num_items);
  const std::size_t row_floats = RowLayout::kHeaderFloats + dim_;
  for (std::size_t i = 0; i < num_items; ++i) {
    if (i + 2 * kAhead < num_items) table.prefetch_index(items[i + 2 * kAhead].place);
    if (i + kAhead < num_items) {
      if (const Row row = table.peek(items[i + kAhead].place)) prefetch(row.address(), row_floats);
    }
    const Row row = look_up(table, items[i], occasion);
    weights_[items[i].position] = row ? row.weights() : nullptr;
    if (!is_read) partition.row_of[i] = row ? number_of(partition.rows, row) : kNoRow;
  }
  group(partition);
}

Row BatchLookup::look_up(Table& table, const Item& item, const Occasion& occasion) const {
  if (occasion.purpose != Purpose::kTrain) return table.find(item.id, item.place);
  return table.see({item.id, occasion.now, is_click(item, occasion)}, item.place);
}

bool BatchLookup::is_click(const Item& item, const Occasion& occasion) const {
  return !occasion.labels.empty() && occasion.labels[item.bag / features_.size()] > 0.5f;
}

// Rows of an evicted id may be given to another.
std::uint64_t BatchLookup::num_removals() const {
  std::uint64_t sum = 0;
  for (const auto& table : tables_) sum += table->num_removals();
  return sum;
}

void BatchLookup::check_rows_are_there() const {
  if (num_removals() != removals_before_) {
    throw std::logic_error("rows were removed from a table under a lookup; find them again");
  }
}

// Lists the bags of every row, in the order of the batch.
void BatchLookup::group(Partition& partition) const {
  const std::span items(items_.data() + partition.first, partition.row_of.size());
  partition.begin.assign(partition.rows.size() + 1, 0);
  for (const std::uint32_t row : partition.row_of) {
    if (row != kNoRow) ++partition.begin[row + 1];
  }
  for (std::size_t row = 0; row < partition.rows.size(); ++row) {
    partition.begin[row + 1] += partition.begin[row];
  }
  partition.bags.resize(partition.begin.back());
  for (std::size_t i = items.size(); i-- > 0;) {  // from behind, so that `begin` ends at begins
    const std::uint32_t row = partition.row_of[i];
    if (row != kNoRow) partition.bags[--partition.begin[row + 1]] = items[i].bag;
  }
  std::rotate(partition.begin.begin(), partition.begin.begin() + 1, partition.begin.end());
  partition.begin.back() = static_cast<std::uint32_t>(partition.bags.size());
}

float BatchLookup::scale_of(const LookupFeature& feature, std::size_t num_ids) const {
  if (feature.combiner == Combiner::kSum || num_ids == 0) return 1.0f;
  const auto count = static_cast<float>(num_ids);
  return 1.0f / (feature.combiner == Combiner::kSqrtN ? std::sqrt(count) : count);
}

void BatchLookup::pool(std::span<float> vectors) const {
  if (vectors.size() != num_samples_ * width()) {
    throw std::invalid_argument("the vectors must be one row of the lookup's width per sample");
  }
  const auto locks = lock_all(tables_);  // another lookup may be about to change these rows
  check_rows_are_there();
  const std::size_t num_tasks = (num_samples_ + kPoolSamples - 1) / kPoolSamples;
  parallel_for(num_tasks, [&](std::size_t task) {
    const std::size_t first = task * kPoolSamples;
    pool_samples(first, std::min(first + kPoolSamples, num_samples_), vectors.data());
  });
}

void BatchLookup::pool_samples(std::size_t first, std::size_t last, float* vectors) const {
  for (std::size_t f = 0; f < features_.size(); ++f) {
    const LookupFeature& feature = features_[f];
    const std::int64_t* offsets = &offsets_[feature.column * num_samples_];
    const float* const* weights = weights_.data() + begins_[f];
    const std::size_t num_weights = begins_[f + 1] - begins_[f];
    for (std::size_t sample = first; sample < last; ++sample) {
      float* vector = vectors + (sample * features_.size() + f) * dim_;
      const auto begin = static_cast<std::size_t>(offsets[sample] - offsets[0]);
      const auto end = static_cast<std::size_t>(offsets[sample + 1] - offsets[0]);
      if (end + kAhead < num_weights && weights[end + kAhead] != nullptr) {
        prefetch(weights[end + kAhead], dim_);
      }
      if (end - begin == 1 && weights[begin] != nullptr) {
        std::memcpy(vector, weights[begin], dim_ * sizeof(float));
        continue;
      }
      std::fill_n(vector, dim_, 0.0f);
      for (std::size_t n = begin; n < end; ++n) {
        if (weights[n] != nullptr) add(vector, weights[n], dim_);
      }
      const float scale = scale_of(feature, end - begin);
      if (scale != 1.0f) multiply(vector, dim_, scale);
    }
  }
}

void BatchLookup::apply(std::span<const float> grads, float lr, Changes changes) {
  if (grads.size() != num_samples_ * width()) {
    throw std::invalid_argument("the gradient must have the shape of the vectors");
  }
  const auto locks = lock_all(tables_);
  check_rows_are_there();
  ++generation_;
  has_changes_ = changes == Changes::kKeep;
  parallel_for(partitions_.size(),
               [&](std::size_t p) { apply(partitions_[p], grads, lr, has_changes_); });
}

void BatchLookup::apply(Partition& partition, std::span<const float> grads, float lr,
                        bool keep_changes) {
  const bool is_kept = keep_changes && !partition.is_frozen;
  partition.changes.ids.resize(is_kept ? partition.rows.size() : 0);
  partition.changes.grads.resize(partition.changes.ids.size() * dim_);
  if (partition.is_frozen) return;
  const Table& table = *tables_[partition.table];
  const std::size_t stride = table.layout().stride();
  std::vector<float> sum(dim_);
  for (std::size_t r = 0; r < partition.rows.size(); ++r) {
    if (r + kAhead < partition.rows.size()) {
      prefetch(partition.rows[r + kAhead].address(), stride);
      __builtin_prefetch(&grads[partition.bags[partition.begin[r + kAhead]] * dim_]);
    }
    std::ranges::fill(sum, 0.0f);
    for (std::uint32_t b = partition.begin[r]; b < partition.begin[r + 1]; ++b) {
      const std::size_t bag = partition.bags[b];
      const float* grad = &grads[bag * dim_];
      if (is_plain_) {
        add(sum.data(), grad, dim_);
      } else {
        add_scaled(sum.data(), grad, dim_, scale_of_bag(bag));
      }
    }
    const Row row = partition.rows[r];
    if (keep_changes) {  // before the update, which uses the sum as scratch
      partition.changes.ids[r] = row.header().id();
      std::memcpy(&partition.changes.grads[r * dim_], sum.data(), dim_ * sizeof(float));
    }
    table.optimizer().update(row.weights(table.layout()), row.state(table.layout()), sum, lr);
    row.header().version = table.version();  // a snapshot may have come since the row was found
  }
}

float BatchLookup::scale_of_bag(std::size_t bag) const {
  const LookupFeature& feature = features_[bag % features_.size()];
  const std::size_t k = feature.column * num_samples_ + bag / features_.size();
  return scale_of(feature, static_cast<std::size_t>(offsets_[k + 1] - offsets_[k]));
}

// Returns the number of a row among those found so far, adding it if it is new. The row itself
// remembers its number; that it is not one of an earlier batch shows in the list.
std::uint32_t BatchLookup::number_of(std::vector<Row>& rows, const Row& row) {
  const std::uint32_t known = row.header().unique;
  if (known < rows.size() && rows[known] == row) return known;
  const auto number = static_cast<std::uint32_t>(rows.size());
  row.header().unique = number;
  rows.push_back(row);
  return number;
}

}  // namespace fleetrec
