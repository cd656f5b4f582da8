// SPDX-License-Identifier: Apache-2.0
#include "fleetrec/table/evict.h"

#include <algorithm>
#include <mutex>

#include "fleetrec/parallel.h"

namespace fleetrec {
namespace {

using Ids = std::vector<std::uint64_t>;

// Evicts, bucket by bucket, the rows for which `is_unwanted` returns true; it may change rows that
// stay.
template <typename IsUnwanted>
Ids evict_if(Table& table, RuleCount rule, const IsUnwanted& is_unwanted) {
  std::vector<Ids> removed(kNumBuckets);
  parallel_for(kNumBuckets, [&](std::size_t b) {
    const auto bucket = static_cast<std::uint32_t>(b);
    table.each_row(bucket, [&](const Row& row) {
      if (is_unwanted(row)) removed[b].push_back(row.header().id());
    });
    for (const std::uint64_t id : removed[b]) table.evict(id, table.place(id), rule);
  });
  Ids all;
  for (const Ids& ids : removed) all.insert(all.end(), ids.begin(), ids.end());
  std::ranges::sort(all);
  return all;
}

}  // namespace

Ids evict_unseen(Table& table, std::uint32_t time) {
  const std::lock_guard lock(table.mutex());
  for (std::uint32_t b = 0; b < kNumBuckets; ++b) table.forget_candidates(b, time);
  return evict_if(table, &TableCounts::evicted_unseen,
                  [time](const Row& row) { return row.header().last_seen < time; });
}

Ids evict_low_scores(Table& table, const ScoreRule& rule) {
  const std::lock_guard lock(table.mutex());
  const auto decay = static_cast<float>(rule.decay);
  return evict_if(table, &TableCounts::evicted_score, [&](const Row& row) {
    RowHeader& header = row.header();
    if (decay != 1.0f) {
      table.touch(row);
      header.show *= decay;
      header.click *= decay;
    }
    const double score =
        rule.show_weight * (header.show - header.click) + rule.click_weight * header.click;
    return score < rule.threshold;
  });
}

Ids evict_beyond(Table& table, std::size_t capacity) {
  const std::lock_guard lock(table.mutex());
  struct Age {
    std::uint32_t last_seen;
    std::uint64_t id;
    auto operator<=>(const Age&) const = default;
  };
  std::vector<Age> ages;
  ages.reserve(table.size());
  for (std::uint32_t bucket = 0; bucket < kNumBuckets; ++bucket) {
    table.each_row(bucket, [&](const Row& row) {
      ages.push_back({row.header().last_seen, row.header().id()});
    });
  }
  if (ages.size() <= capacity) return {};
  const std::size_t surplus = ages.size() - capacity;
  std::ranges::nth_element(ages, ages.begin() + static_cast<std::ptrdiff_t>(surplus - 1));
  Ids removed;
  for (std::size_t i = 0; i < surplus; ++i) removed.push_back(ages[i].id);
  std::ranges::sort(removed);
  for (const std::uint64_t id : removed) {
    table.evict(id, table.place(id), &TableCounts::evicted_capacity);
  }
  return removed;
}

}  // namespace fleetrec
