// SPDX-License-Identifier: Apache-2.0
// The slow twin of a lookup: maps of rows, one id after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fleetrec/table/batch_lookup.h"

namespace fleetrec::testing {

class NaiveLookup {
 public:
  NaiveLookup(std::vector<std::shared_ptr<Table>> tables, std::vector<LookupFeature> features,
              std::vector<std::size_t> frozen)
      : tables_(std::move(tables)),
        features_(std::move(features)),
        frozen_(std::move(frozen)),
        dim_(tables_[0]->layout().dim),
        rows_(tables_.size()) {}

  void create(const JaggedIds& batch) {
    each_use(batch, [&](const Use& use) {
      const Table& table = *tables_[use.feature.table];
      if (is_frozen(use.feature.table)) return;
      auto [at, is_new] = rows_[use.feature.table].try_emplace(use.id);
      if (!is_new) return;
      at->second.weights.resize(dim_);
      at->second.state.resize(table.layout().state_size);
      table.options().initializer.fill(use.id, at->second.weights);
      table.optimizer().init_state(at->second.state);
    });
  }

  std::vector<float> pool(const JaggedIds& batch) const {
    const std::size_t width = num_pooled() * dim_;
    std::vector<float> vectors(batch.num_samples * width);
    each_use(batch, [&](const Use& use) {
      const auto found = rows_[use.feature.table].find(use.id);
      if (use.feature.combiner == Combiner::kNone || found == rows_[use.feature.table].end())
        return;
      float* vector = &vectors[use.sample * width + use.number * dim_];
      for (std::size_t i = 0; i < dim_; ++i) vector[i] += use.scale * found->second.weights[i];
    });
    return vectors;
  }

  std::vector<float> pad(const JaggedIds& batch, std::size_t sequence, std::size_t length) const {
    std::vector<float> vectors(batch.num_samples * length * dim_);
    each_use(batch, [&](const Use& use) {
      const auto found = rows_[use.feature.table].find(use.id);
      if (use.feature.combiner != Combiner::kNone || use.number != sequence) return;
      if (found == rows_[use.feature.table].end()) return;
      std::ranges::copy(found->second.weights, &vectors[(use.sample * length + use.place) * dim_]);
    });
    return vectors;
  }

  // Gradients of sequences are padded ones.
  void apply(const JaggedIds& batch, const Gradients& gradients, float lr) {
    std::map<std::pair<std::size_t, std::uint64_t>, std::vector<float>> sums;
    each_use(batch, [&](const Use& use) {
      const float* grad = nullptr;
      if (use.feature.combiner != Combiner::kNone && gradients.pooled) {
        const auto& [values, stride] = *gradients.pooled;
        grad = &values[use.sample * stride + use.number * dim_];
      } else if (use.feature.combiner == Combiner::kNone && !gradients.sequences.empty() &&
                 gradients.sequences[use.number]) {
        const auto& [values, length] = *gradients.sequences[use.number];
        grad = &values[(use.sample * length.value() + use.place) * dim_];
      }
      if (grad == nullptr) return;
      auto& sum = sums[{use.feature.table, use.id}];
      sum.resize(dim_);
      for (std::size_t i = 0; i < dim_; ++i) sum[i] += use.scale * grad[i];
    });
    for (auto& [key, sum] : sums) {
      const auto& [table, id] = key;
      const auto found = rows_[table].find(id);
      if (is_frozen(table) || found == rows_[table].end()) continue;
      tables_[table]->optimizer().update(found->second.weights, found->second.state, sum, lr);
    }
  }

 private:
  struct ModelRow {
    std::vector<float> weights;
    std::vector<float> state;
  };
  struct Use {
    const LookupFeature& feature;
    std::size_t number;  // among those that are pooled, or among the sequences
    std::size_t sample;
    std::size_t place;  // in its list
    std::uint64_t id;
    float scale;
  };

  bool is_frozen(std::size_t table) const {
    return std::ranges::find(frozen_, table) != frozen_.end();
  }

  std::size_t num_pooled() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        features_,
        [](const LookupFeature& feature) { return feature.combiner != Combiner::kNone; }));
  }

  static float scale_of(Combiner combiner, const std::vector<double>& weights, std::size_t place) {
    double sum = 0.0;
    double squares = 0.0;
    for (const double weight : weights) {
      sum += weight;
      squares += weight * weight;
    }
    if (combiner == Combiner::kNone) return 1.0f;
    if (combiner == Combiner::kSum) return static_cast<float>(weights[place]);
    const double divisor = combiner == Combiner::kMean ? sum : std::sqrt(squares);
    return divisor == 0.0 ? 0.0f : static_cast<float>(weights[place] / divisor);
  }

  template <typename Visit>
  void each_use(const JaggedIds& batch, const Visit& visit) const {
    std::size_t num_pooled = 0;
    std::size_t num_sequences = 0;
    for (const LookupFeature& feature : features_) {
      const bool is_pooled = feature.combiner != Combiner::kNone;
      const std::size_t number = is_pooled ? num_pooled++ : num_sequences++;
      for (std::size_t sample = 0; sample < batch.num_samples; ++sample) {
        const std::size_t k = feature.column * batch.num_samples + sample;
        auto begin = static_cast<std::size_t>(batch.offsets[k]);
        const auto end = static_cast<std::size_t>(batch.offsets[k + 1]);
        while (end - begin > feature.max_length) ++begin;
        std::vector<double> weights(end - begin, 1.0);
        for (std::size_t n = begin; n < end && !batch.weights.empty(); ++n) {
          weights[n - begin] = batch.weights[n];
        }
        for (std::size_t n = begin; n < end; ++n) {
          const auto id = static_cast<std::uint64_t>(batch.ids[n]);
          const float scale = scale_of(feature.combiner, weights, n - begin);
          visit({feature, number, sample, n - begin, tables_[feature.table]->row_id(id), scale});
        }
      }
    }
  }

  std::vector<std::shared_ptr<Table>> tables_;
  std::vector<LookupFeature> features_;
  std::vector<std::size_t> frozen_;
  std::size_t dim_;
  std::vector<std::map<std::uint64_t, ModelRow>> rows_;
};

}  // namespace fleetrec::testing
