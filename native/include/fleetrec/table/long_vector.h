// SPDX-License-Identifier: Apache-2.0
// Rows that have only their first weight until their id has a certain score.
#pragma once

#include <algorithm>
#include <span>

#include "fleetrec/table/row.h"

namespace fleetrec {

// The weights behind the first one are zeros, and get no gradient, until the score of the id
// reaches the threshold. Then they get the values of a new row. No flag is needed: zeros in memory
// are zeros in every lookup, snapshot and inference model.
struct LongVector {
  double threshold;    // above 0
  double show_weight;  // of a show without a click
  double click_weight;

  bool is_reached(float show, float click) const {
    return show_weight * (show - click) + click_weight * click >= threshold;
  }

  // Whether all weights of a row count. Scores decay; a row that is whole stays so.
  bool is_whole(const RowHeader& header, std::span<const float> weights) const {
    return is_reached(header.show, header.click) || !is_short(weights);
  }

  static bool is_short(std::span<const float> weights) {
    return std::ranges::all_of(weights.subspan(1), [](float weight) { return weight == 0.0f; });
  }

  // Leaves a vector its first weight.
  static void shorten(std::span<float> values) { std::ranges::fill(values.subspan(1), 0.0f); }
};

}  // namespace fleetrec
