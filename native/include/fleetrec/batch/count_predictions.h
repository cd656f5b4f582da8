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

// Adds probabilities with their 0/1 labels. What lies beyond 0 or 1 counts in the last bucket on
// its side, what is no number in the first. Throws std::invalid_argument if the sizes do not fit.
void count_predictions(std::span<const float> predictions, std::span<const float> labels,
                       const PredictionCounts& counts);

}  // namespace fleetrec
