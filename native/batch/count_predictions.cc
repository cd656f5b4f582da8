// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/batch/count_predictions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace fleetrec {
namespace {

constexpr double kMargin = 1e-7;  // a certain and wrong prediction costs much, not infinitely much

std::size_t bucket_of(double prediction, std::size_t num_buckets) {
  const double last = static_cast<double>(num_buckets - 1);
  const double step = prediction * static_cast<double>(num_buckets);
  // Written so that a NaN falls into the first one.
  return step > 0.0 ? static_cast<std::size_t>(std::min(step, last)) : 0;
}

}  // namespace

void count_predictions(std::span<const float> predictions, std::span<const float> labels,
                       const PredictionCounts& counts) {
  const std::size_t num_buckets = counts.positives.size();
  if (predictions.size() != labels.size()) {
    throw std::invalid_argument("expected one label per prediction");
  }
  if (num_buckets == 0 || counts.negatives.size() != num_buckets ||
      counts.sums.size() != PredictionCounts::kNumSums) {
    throw std::invalid_argument("expected two histograms of one size, and five sums");
  }
  std::array<double, PredictionCounts::kNumSums> sums{};
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const double prediction = predictions[i];
    const double label = labels[i];
    const bool is_positive = label > 0.5;
    ++(is_positive ? counts.positives : counts.negatives)[bucket_of(prediction, num_buckets)];
    const double error = prediction - label;
    const double safe = std::clamp(prediction, kMargin, 1.0 - kMargin);
    sums[0] -= std::log(is_positive ? safe : 1.0 - safe);
    sums[1] += prediction;
    sums[2] += label;
    sums[3] += std::abs(error);
    sums[4] += error * error;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) counts.sums[i] += sums[i];
}

}  // namespace fleetrec
