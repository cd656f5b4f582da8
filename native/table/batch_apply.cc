// SPDX-License-Identifier: Apache-2.0
// The backward part of a lookup: gradients, summed per row and applied once.
#include <algorithm>
#include <stdexcept>

#include "fleetrec/parallel.h"
#include "fleetrec/simd.h"
#include "fleetrec/table/batch_lookup.h"
#include "fleetrec/table/vector_math.h"

namespace fleetrec {
namespace {

constexpr std::size_t kBlockSamples = 1024;

bool is_absent(const Gradients& gradients) {
  return !gradients.pooled && std::ranges::none_of(gradients.sequences, [](const auto& grad) {
    return grad.has_value();
  });
}

}  // namespace

void BatchLookup::apply(const Gradients& gradients, float lr, Changes changes) {
  check_found();
  if (is_listed_) throw std::logic_error("the rows of this lookup are elsewhere; use sum");
  check_gradients(gradients);
  const auto locks = lock_tables();
  check_rows_are_there();
  ++generation_;
  has_changes_ = false;  // a failure from here on leaves a mixture
  const bool keeps = changes == Changes::kKeep;
  if (is_absent(gradients)) {
    for (Partition& partition : partitions_) partition.changes.resize(0, dim_);
  } else {
    if (!is_plain_) point_at(gradients);
    parallel_for(partitions_.size(),
                 [&](std::size_t p) { apply(partitions_[p], gradients, lr, keeps); });
  }
  has_changes_ = keeps;
}

void BatchLookup::sum(const Gradients& gradients) {
  check_found();
  if (!is_listed_) throw std::logic_error("the rows of this lookup are here; use apply");
  check_gradients(gradients);
  ++generation_;
  has_changes_ = false;
  if (is_absent(gradients)) {
    for (Partition& partition : partitions_) partition.changes.resize(0, dim_);
  } else {
    if (!is_plain_) point_at(gradients);
    parallel_for(partitions_.size(), [&](std::size_t p) { sum(partitions_[p], gradients); });
  }
  has_changes_ = true;
}

void BatchLookup::check_gradients(const Gradients& gradients) const {
  if (gradients.pooled) {
    const auto& [values, stride] = *gradients.pooled;
    const std::size_t before_last = num_samples_ == 0 ? 0 : (num_samples_ - 1) * stride;
    const std::size_t num_floats = num_samples_ == 0 ? 0 : before_last + width();
    if (values.size() != num_floats) {
      throw std::invalid_argument("the gradient must have the shape of the pooled vectors");
    }
  }
  if (!gradients.sequences.empty() && gradients.sequences.size() != sequences_.size()) {
    throw std::invalid_argument("expected one gradient, or none, for every sequence");
  }
  for (std::size_t i = 0; i < gradients.sequences.size(); ++i) {
    if (!gradients.sequences[i]) continue;
    const auto& [values, length] = *gradients.sequences[i];
    const std::size_t num_vectors = length ? num_samples_ * *length : num_ids(sequences_[i]);
    if (values.size() != num_vectors * dim_ || (length && *length < longest(sequences_[i]))) {
      throw std::invalid_argument(
          "the gradient of a sequence must be [samples, length, dim], no "
          "shorter than its lists, or [ids, dim]");
    }
  }
}

// Notes for every id where the gradient of its vector is.
void BatchLookup::point_at(const Gradients& gradients) {
  grads_.assign(weights_.size(), nullptr);
  const auto point = [&](std::size_t feature, const auto& grad_of) {
    const std::uint32_t* starts = this->starts(feature);
    parallel_for((num_samples_ + kBlockSamples - 1) / kBlockSamples, [&](std::size_t block) {
      const std::size_t last = std::min((block + 1) * kBlockSamples, num_samples_);
      for (std::size_t sample = block * kBlockSamples; sample < last; ++sample) {
        for (std::size_t n = starts[sample]; n < starts[sample + 1]; ++n) {
          grads_[n] = grad_of(sample, n);
        }
      }
    });
  };
  for (std::size_t i = 0; gradients.pooled && i < pooled_.size(); ++i) {
    const float* first = gradients.pooled->values.data() + i * dim_;
    point(pooled_[i], [&](std::size_t sample, std::size_t) {
      return first + sample * gradients.pooled->stride;
    });
  }
  for (std::size_t i = 0; i < gradients.sequences.size(); ++i) {
    if (!gradients.sequences[i]) continue;
    const auto& [values, length] = *gradients.sequences[i];
    const std::uint32_t* starts = this->starts(sequences_[i]);
    point(sequences_[i], [&](std::size_t sample, std::size_t n) {
      const std::size_t vector = length ? sample * *length + n - starts[sample] : n - starts[0];
      return values.data() + vector * dim_;
    });
  }
}

void BatchLookup::apply(Partition& partition, const Gradients& gradients, float lr,
                        bool keep_changes) const {
  Table& table = *tables_[partition.table];
  const std::size_t stride = table.layout().stride();
  TableChanges& changes = partition.changes;
  changes.resize(keep_changes ? partition.rows.size() : 0, dim_);
  std::size_t num_kept = 0;
  std::vector<float> scratch(dim_);
  for (std::size_t r = 0; r < partition.rows.size(); ++r) {
    if (r + kAhead < partition.rows.size()) {
      prefetch(partition.rows[r + kAhead].address(), stride);
    }
    // Summed in place, in the memory that keeps it.
    std::span sum = keep_changes ? changes.grad(num_kept, dim_) : std::span(scratch);
    if (!sum_up(partition, r, gradients, sum)) continue;
    const Row row = partition.rows[r];
    if (!table.is_whole(row)) [[unlikely]]
      LongVector::shorten(sum);
    if (keep_changes) {
      changes.ids[num_kept++] = row.header().id();
      if (table.optimizer().changes_gradients()) {
        std::ranges::copy(sum, scratch.begin());
        sum = scratch;
      }
    }
    table.touch(row);  // a cut may have come since the row was found
    table.optimizer().update(row.weights(table.layout()), row.state(table.layout()), sum, lr);
  }
  changes.resize(num_kept, dim_);
}

void BatchLookup::sum(Partition& partition, const Gradients& gradients) const {
  TableChanges& changes = partition.changes;
  changes.resize(partition.is_frozen ? 0 : partition.ids.size(), dim_);
  if (partition.is_frozen) return;
  std::size_t num_kept = 0;
  for (std::size_t r = 0; r < partition.ids.size(); ++r) {
    if (partition.is_there[r] == 0) continue;
    if (!sum_up(partition, r, gradients, changes.grad(num_kept, dim_))) continue;
    changes.ids[num_kept++] = partition.ids[r];
  }
  changes.resize(num_kept, dim_);
}

// Sums the gradient of a row over its uses; false if none has one.
FLEETREC_SIMD bool BatchLookup::sum_up(const Partition& partition, std::size_t row,
                                       const Gradients& gradients, std::span<float> sum) const {
  const std::vector<std::uint32_t>& uses = partition.uses;
  std::ranges::fill(sum, 0.0f);
  bool has_grad = false;
  for (std::size_t i = partition.begin[row]; i < partition.begin[row + 1]; ++i) {
    // Prefetch the uses of the next row: gradients lie anywhere in the batch.
    if (i + kAhead < uses.size()) {
      const float* ahead = grad_of(uses[i + kAhead], gradients);
      if (ahead != nullptr) prefetch(ahead, dim_);
    }
    const std::uint32_t use = uses[i];
    const float* grad = grad_of(use, gradients);
    if (grad == nullptr) continue;
    has_grad = true;
    if (is_weighted_) {
      add_scaled(sum.data(), grad, dim_, scales_[use]);
    } else {
      add(sum.data(), grad, dim_);
    }
  }
  return has_grad;
}

// Where the gradient of a use of a row is, or nullptr.
const float* BatchLookup::grad_of(std::uint32_t use, const Gradients& gradients) const {
  if (!is_plain_) return grads_[use];
  const auto& [values, stride] = *gradients.pooled;  // there are no others
  if (stride == width()) return values.data() + use * dim_;
  const std::size_t sample = use / features_.size();
  return values.data() + sample * stride + (use % features_.size()) * dim_;
}

}  // namespace fleetrec
