// SPDX-License-Identifier: Apache-2.0
// Which rows a table gives up. Each call returns the ids it removed, in unsigned order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Removes rows, and counters of ids without one, that were last seen before `time`.
std::vector<std::uint64_t> evict_unseen(Table& table, std::uint32_t time);

// An id's worth: what it was shown and clicked, fading with every call.
struct ScoreRule {
  double decay;  // of shows and clicks, before rows are judged
  double threshold;
  double show_weight;  // of a show without a click
  double click_weight;
};

// Fades shows and clicks, then removes rows that score below the threshold.
std::vector<std::uint64_t> evict_low_scores(Table& table, const ScoreRule& rule);

// Removes the rows seen longest ago until at most `capacity` are left; of equal ones, smaller ids.
std::vector<std::uint64_t> evict_beyond(Table& table, std::size_t capacity);

}  // namespace fleetrec
