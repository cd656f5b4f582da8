// SPDX-License-Identifier: Apache-2.0
// How a lookup splits a batch: ids get positions and go to the partition that finds their rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fleetrec/parallel.h"
#include "fleetrec/table/batch_lookup.h"

namespace fleetrec {
namespace {

constexpr std::size_t kStretchSamples = 1024;

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

// The divisor of the weights of a pooled list; 1 if it would be 0.
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

// Splits a checked batch: assigns positions to its ids and sorts them by partition.
void BatchLookup::begin(const JaggedIds& batch) {
  ++generation_;
  has_changes_ = false;
  is_found_ = false;  // a failure from here on leaves a mixture of two batches
  is_listed_ = false;
  num_samples_ = batch.num_samples;
  is_weighted_ = has_means_ || !batch.weights.empty();
  is_plain_ = !is_weighted_ && sequences_.empty();
  place_lists(batch);
  split(batch);
  if (is_weighted_) weigh(batch);
}

// Gives every id that counts a position, list by list.
void BatchLookup::place_lists(const JaggedIds& batch) {
  starts_.resize(features_.size() * (num_samples_ + 1));
  std::size_t position = 0;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    const std::int64_t* offsets = batch.offsets_of(features_[f].column);
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

// Sorts the ids of every stretch by partition, keeping their order.
void BatchLookup::split(const JaggedIds& batch) {
  stretches_.clear();
  first_stretch_.assign(tables_.size() + 1, 0);
  for (const std::size_t feature : by_table_) {
    for (std::size_t first = 0; first < num_samples_; first += kStretchSamples) {
      stretches_.push_back({feature, first, std::min(first + kStretchSamples, num_samples_)});
      ++first_stretch_[features_[feature].table + 1];
    }
  }
  std::partial_sum(first_stretch_.begin(), first_stretch_.end(), first_stretch_.begin());
  items_.resize(weights_.size());
  partition_of_.resize(weights_.size());
  parallel_for(stretches_.size(), [&](std::size_t s) { split(batch, stretches_[s]); });
  const auto worst = std::ranges::min_element(stretches_, {}, &Stretch::fault);
  if (worst != stretches_.end() && worst->fault != kNoFault) {
    throw IdOutOfRange{worst->feature, static_cast<std::uint64_t>(batch.ids[worst->fault])};
  }
}

// Two passes over the ids, which are few enough to stay in the cache: one counts how many belong to
// each partition, one puts them there.
void BatchLookup::split(const JaggedIds& batch, Stretch& stretch) {
  const Table& table = *tables_[features_[stretch.feature].table];
  const std::uint32_t first = starts(stretch.feature)[stretch.first];
  std::uint8_t* partition_of = partition_of_.data() + first;
  std::array<std::uint32_t, kPartitionsPerTable> next = {};
  std::size_t fault = kNoFault;
  each_id(batch, stretch, [&](std::size_t n, std::size_t) {
    const std::uint64_t id = table.row_id(static_cast<std::uint64_t>(batch.ids[n]));
    if (!table.is_in_range(id)) fault = std::min(fault, n);
    const std::size_t partition = table.place(id).bucket / (kNumBuckets / kPartitionsPerTable);
    *partition_of++ = static_cast<std::uint8_t>(partition);
    ++next[partition];
  });
  stretch.fault = fault;
  std::uint32_t sum = first;
  for (std::size_t p = 0; p < kPartitionsPerTable; ++p) {
    stretch.begin[p] = sum;
    sum += next[p];
    next[p] = stretch.begin[p];
  }
  stretch.begin.back() = sum;
  std::uint32_t position = first;
  Item* items = items_.data();
  partition_of = partition_of_.data() + first;
  const std::size_t num_features = features_.size();
  each_id(batch, stretch, [&](std::size_t n, std::size_t sample) {
    const std::uint64_t id = table.row_id(static_cast<std::uint64_t>(batch.ids[n]));
    const auto bag = static_cast<std::uint32_t>(sample * num_features + stretch.feature);
    items[next[*partition_of++]++] = {id, position++, bag};
  });
}

// Calls `visit` with the place in the batch, and the sample, of every id that counts.
template <typename Visit>
void BatchLookup::each_id(const JaggedIds& batch, const Stretch& stretch,
                          const Visit& visit) const {
  const LookupFeature& feature = features_[stretch.feature];
  const std::int64_t* offsets = batch.offsets_of(feature.column);
  for (std::size_t sample = stretch.first; sample < stretch.last; ++sample) {
    const IdRange kept = kept_ids(feature, offsets, sample);
    for (std::size_t n = kept.first; n < kept.last; ++n) visit(n, sample);
  }
}

// Puts the items of a partition together, stretch by stretch.
void BatchLookup::collect(Partition& partition) const {
  const auto stretches =
      std::span(stretches_)
          .subspan(first_stretch_[partition.table],
                   first_stretch_[partition.table + 1] - first_stretch_[partition.table]);
  std::size_t num_items = 0;
  for (const Stretch& stretch : stretches) num_items += stretch.size_of(partition.number);
  partition.items.resize(num_items);
  Item* to = partition.items.data();
  for (const Stretch& stretch : stretches) {
    to = std::copy_n(items_.data() + stretch.begin[partition.number],
                     stretch.size_of(partition.number), to);
  }
}

// Computes what every row is multiplied by when it is pooled, and its gradient afterwards.
void BatchLookup::weigh(const JaggedIds& batch) {
  scales_.resize(weights_.size());
  parallel_for(stretches_.size(), [&](std::size_t s) {
    const Stretch& stretch = stretches_[s];
    const LookupFeature& feature = features_[stretch.feature];
    const std::int64_t* offsets = batch.offsets_of(feature.column);
    const std::uint32_t* starts = this->starts(stretch.feature);
    float* scale = scales_.data() + starts[stretch.first];
    if (!feature.is_pooled()) {
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

}  // namespace fleetrec
