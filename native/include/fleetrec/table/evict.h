// SPDX-License-Identifier: Apache-2.0
// Eviction of rows. Each call returns the ids it removed, in unsigned order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Removes rows, and counters of ids without one, that were last seen before `time`.
std::vector<std::uint64_t> evict_unseen(Table& table, std::uint32_t time);

// The score of an id: its shows and clicks, which decay with every call.
struct ScoreRule {
  double decay;  // of shows and clicks, before rows are scored
  double threshold;
  double show_weight;  // of a show without a click
  double click_weight;
};

// Decays shows and clicks, then removes rows that score below the threshold.
std::vector<std::uint64_t> evict_low_scores(Table& table, const ScoreRule& rule);

// Removes the least recently seen rows until `capacity` are left; on a tie, smaller ids first.
std::vector<std::uint64_t> evict_beyond(Table& table, std::size_t capacity);

}  // namespace fleetrec
