// SPDX-License-Identifier: Apache-2.0
// Predicted probabilities of one batch, counted into histograms and sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fleetrec {

// By equal steps of probability: the samples with a positive label, and the others.
struct PredictionCounts {
  static constexpr std::size_t kNumSums = 5;

  std::span<std::int64_t> positives;
  std::span<std::int64_t> negatives;
  std::span<double> sums;  // of log loss, prediction, label, absolute error, squared error
};

// Adds probabilities with their 0/1 labels. Values below 0 or above 1 count in the first or last
// bucket, NaN in the first. Throws std::invalid_argument if the sizes do not match.
void count_predictions(std::span<const float> predictions, std::span<const float> labels,
                       const PredictionCounts& counts);

}  // namespace fleetrec
