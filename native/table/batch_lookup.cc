// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/batch_lookup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "fleetrec/parallel.h"
#include "fleetrec/table/vector_math.h"

namespace fleetrec {
namespace {

constexpr std::size_t kPartitionsPerTable = 32;
constexpr std::size_t kBucketsPerPartition = kNumBuckets / kPartitionsPerTable;
constexpr std::size_t kStretchSamples = 1024;

std::size_t partition_of(std::size_t table, Place place) {
  return table * kPartitionsPerTable + place.bucket / kBucketsPerPartition;
}

// Where the ids of a list that count begin and end in the batch.
struct IdRange {
  std::size_t first;
  std::size_t last;

  std::size_t size() const { return last - first; }
};

IdRange kept_ids(const LookupFeature& feature, const std::int64_t* offsets, std::size_t sample) {
  const auto first = static_cast<std::size_t>(offsets[sample]);
  const auto last = static_cast<std::size_t>(offsets[sample + 1]);
  return {last - std::min(last - first, feature.max_length), last};
}

const std::int64_t* offsets_of(const JaggedIds& batch, const LookupFeature& feature) {
  return &batch.offsets[feature.column * batch.num_samples];
}

bool is_pooled(const LookupFeature& feature) { return feature.combiner != Combiner::kNone; }

// Without a branch in the loop: it is a long one, and the processor can take several at once.
bool rise(std::span<const std::int64_t> offsets) {
  bool falls = false;
  for (std::size_t i = 1; i < offsets.size(); ++i) falls |= offsets[i] < offsets[i - 1];
  return !falls;
}

// What the weights of a pooled list are divided by; 1 if that is nothing.
double divisor_of(Combiner combiner, std::span<const float> weights, std::size_t num_ids) {
  if (combiner == Combiner::kSum) return 1.0;
  double sum = static_cast<double>(num_ids);
  if (!weights.empty()) {
    sum = 0.0;
    for (const double weight : weights) {
      sum += combiner == Combiner::kMean ? weight : weight * weight;
    }
  }
  return combiner == Combiner::kMean ? sum : std::sqrt(sum);
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
  for (std::size_t f = 0; f < features_.size(); ++f) {
    const LookupFeature& feature = features_[f];
    if (feature.table >= tables_.size()) throw std::invalid_argument("no such table");
    if (feature.max_length == 0) throw std::invalid_argument("max_length must be at least 1");
    if (is_pooled(feature) && feature.max_length != LookupFeature::kAnyLength) {
      throw std::invalid_argument("max_length is for sequences, which are not pooled");
    }
    (is_pooled(feature) ? pooled_ : sequences_).push_back(f);
    width_ += is_pooled(feature) ? dim_ : 0;
    has_means_ = has_means_ || (is_pooled(feature) && feature.combiner != Combiner::kSum);
  }
}

void BatchLookup::find(const JaggedIds& batch, const Occasion& occasion) {
  check_batch(batch, occasion);
  begin(batch);
  const auto locks = lock_tables();
  parallel_for(partitions_.size(), [&](std::size_t i) { resolve(partitions_[i], occasion); });
  removals_before_ = num_removals();
  is_found_ = true;
}

// Takes up a batch that was checked: counts its ids, and sorts them by partition.
void BatchLookup::begin(const JaggedIds& batch) {
  count(batch);
  ++generation_;
  has_changes_ = false;
  is_found_ = false;  // whatever fails from here on leaves a mixture of two batches
  is_listed_ = false;
  num_samples_ = batch.num_samples;
  is_weighted_ = has_means_ || !batch.weights.empty();
  is_plain_ = !is_weighted_ && sequences_.empty();
  place_lists(batch);
  scatter(batch);
  if (is_weighted_) weigh(batch);
}

void BatchLookup::check_batch(const JaggedIds& batch, const Occasion& occasion) const {
  if (!occasion.labels.empty() && occasion.labels.size() != batch.num_samples) {
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
    const std::int64_t* first = offsets_of(batch, feature);
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
  counts_.assign(stretches_.size() * partitions_.size(), 0);
  parallel_for(stretches_.size(), [&](std::size_t s) {
    count(batch, stretches_[s], &counts_[s * partitions_.size()]);
  });
  const auto worst = std::ranges::min_element(stretches_, {}, &Stretch::fault);
  if (worst == stretches_.end() || worst->fault == kNoFault) return;
  throw IdOutOfRange{worst->feature, static_cast<std::uint64_t>(batch.ids[worst->fault])};
}

void BatchLookup::count(const JaggedIds& batch, Stretch& stretch, std::uint32_t* counts) const {
  const LookupFeature& feature = features_[stretch.feature];
  const Table& table = *tables_[feature.table];
  const std::int64_t* offsets = offsets_of(batch, feature);
  const auto count_ids = [&](std::size_t n, std::size_t last) {
    for (; n < last; ++n) {
      const std::uint64_t id = table.row_id(static_cast<std::uint64_t>(batch.ids[n]));
      if (!table.is_in_range(id)) {
        stretch.fault = std::min(stretch.fault, n);
        return;
      }
      ++counts[partition_of(feature.table, table.place(id))];
    }
  };
  if (feature.max_length == LookupFeature::kAnyLength) {
    count_ids(static_cast<std::size_t>(offsets[stretch.first]),
              static_cast<std::size_t>(offsets[stretch.last]));
    return;
  }
  for (std::size_t sample = stretch.first; sample < stretch.last; ++sample) {
    const IdRange kept = kept_ids(feature, offsets, sample);
    count_ids(kept.first, kept.last);
  }
}

// Gives every id that counts a position, list by list.
void BatchLookup::place_lists(const JaggedIds& batch) {
  starts_.resize(features_.size() * (num_samples_ + 1));
  std::size_t position = 0;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    const std::int64_t* offsets = offsets_of(batch, features_[f]);
    std::uint32_t* starts = &starts_[f * (num_samples_ + 1)];
    if (features_[f].max_length == LookupFeature::kAnyLength) {
      for (std::size_t sample = 0; sample <= num_samples_; ++sample) {
        const auto before = static_cast<std::size_t>(offsets[sample] - offsets[0]);
        starts[sample] = static_cast<std::uint32_t>(position + before);
      }
    } else {
      starts[0] = static_cast<std::uint32_t>(position);
      for (std::size_t sample = 0; sample < num_samples_; ++sample) {
        const std::size_t num_kept = kept_ids(features_[f], offsets, sample).size();
        starts[sample + 1] = starts[sample] + static_cast<std::uint32_t>(num_kept);
      }
    }
    position = starts[num_samples_];
  }
  weights_.resize(position);
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
  parallel_for(stretches_.size(), [&](std::size_t s) {
    const Stretch& stretch = stretches_[s];
    const LookupFeature& feature = features_[stretch.feature];
    const Table& table = *tables_[feature.table];
    const std::int64_t* offsets = offsets_of(batch, feature);
    std::uint32_t* next = &counts_[s * num_partitions];
    std::uint32_t position = starts(stretch.feature)[stretch.first];
    for (std::size_t sample = stretch.first; sample < stretch.last; ++sample) {
      const auto bag = static_cast<std::uint32_t>(sample * features_.size() + stretch.feature);
      const IdRange kept = kept_ids(feature, offsets, sample);
      for (std::size_t n = kept.first; n < kept.last; ++n) {
        const std::uint64_t id = table.row_id(static_cast<std::uint64_t>(batch.ids[n]));
        const Place place = table.place(id);
        items_[next[partition_of(feature.table, place)]++] = {id, place, position++, bag};
      }
    }
  });
}

// Computes what every row is multiplied by when it is pooled, and its gradient afterwards.
void BatchLookup::weigh(const JaggedIds& batch) {
  scales_.resize(weights_.size());
  parallel_for(stretches_.size(), [&](std::size_t s) {
    const Stretch& stretch = stretches_[s];
    const LookupFeature& feature = features_[stretch.feature];
    const std::int64_t* offsets = offsets_of(batch, feature);
    const std::uint32_t* starts = this->starts(stretch.feature);
    float* scale = scales_.data() + starts[stretch.first];
    if (!is_pooled(feature)) {
      std::fill(scale, scales_.data() + starts[stretch.last], 1.0f);
      return;
    }
    for (std::size_t sample = stretch.first; sample < stretch.last; ++sample) {
      const IdRange kept = kept_ids(feature, offsets, sample);
      const auto weights =
          batch.weights.empty() ? batch.weights : batch.weights.subspan(kept.first, kept.size());
      const double divisor = divisor_of(feature.combiner, weights, kept.size());
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const double weight = weights.empty() ? 1.0 : weights[i];
        *scale++ = divisor == 0.0 ? 0.0f : static_cast<float>(weight / divisor);
      }
    }
  });
}

inline Row BatchLookup::look_up(Table& table, const Item& item, Row likely,
                                const Occasion& occasion) const {
  const Row row = table.is_row_of(likely, item.id) ? likely : table.find(item.id, item.place);
  if (occasion.purpose != Purpose::kTrain) return row;
  return table.see({item.id, occasion.now, is_click(item, occasion)}, item.place, row);
}

bool BatchLookup::is_click(const Item& item, const Occasion& occasion) const {
  return !occasion.labels.empty() && occasion.labels[item.bag / features_.size()] > 0.5f;
}

// Returns the number of a row among those found so far, adding it if it is new. The row itself
// remembers its number; that it is not one of an earlier batch shows in the list.
inline std::uint32_t BatchLookup::number_of(std::vector<Row>& rows, const Row& row) {
  const std::uint32_t known = row.header().unique;
  if (known < rows.size() && rows[known] == row) return known;
  const auto number = static_cast<std::uint32_t>(rows.size());
  row.header().unique = number;
  rows.push_back(row);
  return number;
}

// Finds the rows of one partition in two waves: while the first reads the index of an id, memory
// already brings that of a later one; the second does the same with rows. What the first wave
// found is the row in nearly all cases.
void BatchLookup::resolve(Partition& partition, const Occasion& whole_occasion) {
  Occasion occasion = whole_occasion;
  if (partition.is_frozen) occasion.purpose = Purpose::kRead;
  const bool is_read = occasion.purpose == Purpose::kRead;
  Table& table = *tables_[partition.table];
  const std::size_t num_items = partition.last - partition.first;
  const std::span items(items_.data() + partition.first, num_items);
  partition.rows.clear();
  partition.row_of.resize(is_read ? 0 : num_items);
  std::array<Row, kAhead> likely;  // rows of the items to come
  const auto look_ahead = [&](std::size_t i) {
    if (i >= num_items) return;
    Row& row = likely[i % kAhead] = table.peek(items[i].place);
    if (row) prefetch(row.address(), RowLayout::kHeaderFloats + dim_);
  };
  for (std::size_t i = 0; i < kAhead; ++i) look_ahead(i);
  for (std::size_t i = 0; i < num_items; ++i) {
    if (i + 2 * kAhead < num_items) table.prefetch_index(items[i + 2 * kAhead].place);
    const Row row = look_up(table, items[i], likely[i % kAhead], occasion);
    look_ahead(i + kAhead);
    weights_[items[i].position] = row ? row.weights() : nullptr;
    if (!is_read) partition.row_of[i] = row ? number_of(partition.rows, row) : kNoRow;
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
  const std::span items(items_.data() + partition.first, partition.row_of.size());
  partition.begin.assign(num_rows + 1, 0);
  for (const std::uint32_t row : partition.row_of) {
    if (row != kNoRow) ++partition.begin[row + 1];
  }
  for (std::size_t row = 0; row < num_rows; ++row) {
    partition.begin[row + 1] += partition.begin[row];
  }
  partition.uses.resize(partition.begin.back());
  for (std::size_t i = items.size(); i-- > 0;) {  // from behind, so that `begin` ends at begins
    const std::uint32_t row = partition.row_of[i];
    if (row == kNoRow) continue;
    partition.uses[--partition.begin[row + 1]] = is_plain_ ? items[i].bag : items[i].position;
  }
  std::rotate(partition.begin.begin(), partition.begin.begin() + 1, partition.begin.end());
  partition.begin.back() = static_cast<std::uint32_t>(partition.uses.size());
}

}  // namespace fleetrec
