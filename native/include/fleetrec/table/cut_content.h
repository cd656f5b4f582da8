// SPDX-License-Identifier: Apache-2.0
// A table as it was at a cut, while the table itself keeps changing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "fleetrec/table/table.h"

namespace fleetrec {

// Copy on write, row by row: a row is copied here before it first changes after the cut. So what
// was there at the cut is what has not changed since, and the copies. The version of a row tells
// the two apart, so that a row that changes again costs one comparison.
// The caller holds the mutex of the table; threads within a call work on different buckets.
class CutContent {
 public:
  using ChangedCandidates = std::unordered_map<std::uint64_t, Candidate>;

  // Of a table whose rows have versions up to `version` now, and higher ones when they change.
  CutContent(std::span<const Bucket> buckets, const RowLayout& layout, std::uint32_t version);

  std::uint32_t version() const { return version_; }

  // Before a row changes or goes. Without memory for the copy the cut is broken; the table is not.
  void keep_row(std::uint32_t bucket, Row row);

  // Before the counter of an id changes or goes; its `show` is 0 if the id has none yet.
  void keep_candidate(std::uint32_t bucket, const Candidate& before);

  // Before a table forgets everything: what it held lives on here.
  void keep_all(std::vector<Bucket> buckets, Arena& arena);

  // Copies could not be made.
  bool is_broken() const { return is_broken_; }

  // Another cut is committed: tombstones from before it are gone, so this one makes no delta.
  void supersede() { is_superseded_ = true; }
  bool is_superseded() const { return is_superseded_; }

  // Calls `visit(row)` for rows as they were at the cut, of a stretch of the bucket that begins
  // with row number `first`. Returns where the next stretch begins; behind the last, nothing. The
  // lock may be given away between stretches: a row then may come twice, with the same content.
  template <typename Visit>
  std::optional<std::uint32_t> each_row(std::uint32_t bucket, std::uint32_t first,
                                        const Visit& visit) const {
    const Bucket& now = buckets_[bucket];
    const std::uint32_t last = std::min(now.num_used, first + stretch_);
    for (std::uint32_t number = first; number < last; ++number) {
      const Row row = now.slab.find(number, stride_);
      if (row && is_unchanged(row)) visit(row);
    }
    if (last < now.num_used) return last;
    const Kept& kept = kept_[bucket];
    for (std::uint32_t i = 0; i < kept.num_rows; ++i) visit(kept.rows.at(i, stride_));
    return std::nullopt;
  }

  // From here on changes of rows of the bucket are of no interest: they have been read.
  void drop_rows(std::uint32_t bucket) { kept_[bucket].rows_are_dropped = true; }

  // The ids that were evicted before the cut.
  std::vector<std::uint64_t> tombstones(std::uint32_t bucket) const;

  // Counters as they are now, and of those that changed since the cut, as they were; drops them.
  void take_candidates(std::uint32_t bucket, std::vector<Candidate>& now,
                       ChangedCandidates& changed);

 private:
  struct Kept {
    Slab rows;
    std::uint32_t num_rows = 0;
    bool rows_are_dropped = false;
    bool candidates_are_dropped = false;
    ChangedCandidates candidates;
    std::size_t num_tombstones = 0;
  };

  bool is_unchanged(Row row) const {
    const std::uint32_t version = row.header().version;
    return version != 0 && version <= version_;
  }

  std::span<const Bucket> buckets_;
  std::size_t stride_;
  std::uint32_t version_;
  std::uint32_t stretch_;  // numbers of rows that are visited in one go
  Arena arena_;            // of the copies
  std::vector<Kept> kept_;
  std::atomic<bool> is_broken_ = false;
  bool is_superseded_ = false;
  std::vector<Bucket> old_buckets_;  // of a table that was cleared
  Arena old_arena_;
};

}  // namespace fleetrec
