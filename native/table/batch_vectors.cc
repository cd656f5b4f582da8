// SPDX-License-Identifier: Apache-2.0
// The results of a lookup: pooled vectors, and sequences, padded or back to back.
#include <algorithm>
#include <stdexcept>

#include "fleetrec/parallel.h"
#include "fleetrec/simd.h"
#include "fleetrec/table/batch_lookup.h"
#include "fleetrec/table/vector_math.h"

namespace fleetrec {
namespace {

constexpr std::size_t kBlockSamples = 128;

}  // namespace

template <typename Work>
void BatchLookup::each_block_of_samples(const Work& work) const {
  const auto locks = lock_tables();  // another lookup may be about to change these rows
  check_rows_are_there();
  parallel_for((num_samples_ + kBlockSamples - 1) / kBlockSamples, [&](std::size_t block) {
    const std::size_t first = block * kBlockSamples;
    work(first, std::min(first + kBlockSamples, num_samples_));
  });
}

void BatchLookup::pool(std::span<float> vectors) const {
  check_found();
  if (vectors.size() != num_samples_ * width()) {
    throw std::invalid_argument("the vectors must be one row of the lookup's width per sample");
  }
  each_block_of_samples([&](std::size_t first, std::size_t last) {
    for (std::size_t i = 0; i < pooled_.size(); ++i) {
      pool(pooled_[i], first, last, vectors.data() + i * dim_, width());
    }
  });
}

// Pools some samples of one feature, whose vectors lie `stride` floats apart.
FLEETREC_SIMD void BatchLookup::pool(std::size_t feature, std::size_t first, std::size_t last,
                                     float* vectors, std::size_t stride) const {
  const std::uint32_t* starts = this->starts(feature);
  const std::size_t end_of_feature = starts[num_samples_];
  for (std::size_t sample = first; sample < last; ++sample) {
    float* vector = vectors + sample * stride;
    const std::size_t begin = starts[sample];
    const std::size_t end = starts[sample + 1];
    if (end + kAhead < end_of_feature && weights_[end + kAhead] != nullptr) {
      prefetch(weights_[end + kAhead], dim_);
    }
    if (end - begin == 1 && weights_[begin] != nullptr &&
        (!is_weighted_ || scales_[begin] == 1.0f)) {
      copy(vector, weights_[begin], dim_);
      continue;
    }
    std::fill_n(vector, dim_, 0.0f);
    for (std::size_t n = begin; n < end; ++n) {
      if (weights_[n] == nullptr) continue;
      if (is_weighted_) {
        add_scaled(vector, weights_[n], dim_, scales_[n]);
      } else {
        add(vector, weights_[n], dim_);
      }
    }
  }
}

std::vector<std::int64_t> BatchLookup::lengths(std::size_t sequence) const {
  check_found();
  const std::uint32_t* starts = this->starts(feature_of(sequence));
  std::vector<std::int64_t> lengths(num_samples_);
  for (std::size_t i = 0; i < num_samples_; ++i) lengths[i] = starts[i + 1] - starts[i];
  return lengths;
}

void BatchLookup::pad(std::size_t sequence, std::span<float> vectors, std::size_t length) const {
  check_found();
  const std::size_t feature = feature_of(sequence);
  if (length < longest(feature)) throw std::invalid_argument("a list is longer than the padding");
  if (vectors.size() != num_samples_ * length * dim_) {
    throw std::invalid_argument("the vectors must be [samples, length, dim]");
  }
  const std::uint32_t* starts = this->starts(feature);
  each_block_of_samples([&](std::size_t first, std::size_t last) {
    for (std::size_t sample = first; sample < last; ++sample) {
      float* vector = vectors.data() + sample * length * dim_;
      const std::size_t num_ids = starts[sample + 1] - starts[sample];
      copy_vectors(starts[sample], starts[sample + 1], vector);
      std::fill_n(vector + num_ids * dim_, (length - num_ids) * dim_, 0.0f);
    }
  });
}

void BatchLookup::gather(std::size_t sequence, std::span<float> vectors) const {
  check_found();
  const std::size_t feature = feature_of(sequence);
  if (vectors.size() != num_ids(feature) * dim_) {
    throw std::invalid_argument("the vectors must be [ids, dim]");
  }
  const std::uint32_t* starts = this->starts(feature);
  each_block_of_samples([&](std::size_t first, std::size_t last) {
    float* vector = vectors.data() + (starts[first] - starts[0]) * dim_;
    copy_vectors(starts[first], starts[last], vector);
  });
}

// Copies the rows of some positions, zeros where there is none.
void BatchLookup::copy_vectors(std::size_t first, std::size_t last, float* vectors) const {
  for (std::size_t n = first; n < last; ++n, vectors += dim_) {
    if (n + kAhead < last && weights_[n + kAhead] != nullptr) {
      prefetch(weights_[n + kAhead], dim_);
    }
    copy(vectors, weights_[n], dim_);
  }
}

std::size_t BatchLookup::longest(std::size_t feature) const {
  const std::uint32_t* starts = this->starts(feature);
  std::uint32_t longest = 0;
  for (std::size_t i = 0; i < num_samples_; ++i) {
    longest = std::max(longest, starts[i + 1] - starts[i]);
  }
  return longest;
}

std::size_t BatchLookup::feature_of(std::size_t sequence) const {
  if (sequence >= sequences_.size()) throw std::invalid_argument("no such sequence");
  return sequences_[sequence];
}

}  // namespace fleetrec
