// SPDX-License-Identifier: Apache-2.0
// A table as it was at a cut, while the table itself keeps changing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
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

  // Where the next stretch of a bucket begins: first come rows of the table, then copies.
  struct Position {
    std::uint32_t row = 0;
    std::uint32_t copy = 0;
  };

  // Memory for copies that a cut of a large table is made with, prepared without the mutex.
  static constexpr std::size_t kPreparedBytes = std::size_t{1} << 24;

  // Of a table whose rows have versions up to `version` now, and higher ones when they change.
  // `older` are the cuts of the table that are still to be written.
  CutContent(std::span<const Bucket> buckets, const RowLayout& layout, std::uint32_t version,
             std::shared_ptr<CutContent> older = nullptr);

  std::uint32_t version() const { return version_; }
  const std::shared_ptr<CutContent>& older() const { return older_; }

  // Returns the newest content of a table without one of them.
  static std::shared_ptr<CutContent> without(const std::shared_ptr<CutContent>& newest,
                                             const CutContent& removed);

  // Takes the memory that was prepared for copies.
  void use_memory(Arena& prepared) { arena_.take_over(prepared); }

  // Touches memory for the copies of the next step, so that the step does not wait for pages. To be
  // called without the mutex.
  void prepare_memory() {
    if (is_large_) arena_.prefault(kPreparedBytes);
  }

  // Before a row changes or goes. Without memory for the copy the cut is broken; the table is not.
  void keep_row(std::uint32_t bucket, Row row);

  // Before the counter of an id changes or goes; its `show` is 0 if the id has none yet.
  void keep_candidate(std::uint32_t bucket, const Candidate& before);

  // Before a table forgets everything: what it held lives on here.
  void keep_all(std::vector<Bucket> buckets, Arena& arena);

  // The number of rows in a stretch at most.
  std::uint32_t stretch() const { return stretch_; }

  // Copies could not be made.
  bool is_broken() const { return is_broken_; }

  // Another cut is committed: tombstones from before it are gone, so this one makes no delta.
  void supersede() { is_superseded_ = true; }
  bool is_superseded() const { return is_superseded_; }

  // Calls `visit(row)` for rows as they were at the cut, of the stretch of the bucket that begins
  // at `first`. Returns where the next stretch begins; behind the last, nothing. The lock may be
  // given away between stretches: a row then may come twice, with the same content.
  template <typename Visit>
  std::optional<Position> each_row(std::uint32_t bucket, Position first, const Visit& visit) const {
    const Bucket& now = buckets_[bucket];
    std::uint32_t num_left = stretch_;
    Position next = first;
    for (; next.row < now.num_used; ++next.row, --num_left) {
      if (num_left == 0) return next;
      const Row row = now.slab.find(next.row, stride_);
      if (row && is_unchanged(row)) visit(row);
    }
    const Kept& kept = kept_[bucket];
    for (; next.copy < kept.num_rows; ++next.copy, --num_left) {
      if (num_left == 0) return next;
      visit(kept.row(next.copy, stride_));
    }
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
  // Copies of a bucket. Their chunks do not grow, as those of a Slab do: the buckets fill evenly,
  // so that all would need a larger chunk in the same step.
  struct Kept {
    static constexpr std::uint32_t kChunkRows = 32;

    Row row(std::uint32_t number, std::size_t stride) const {
      return Row(chunks[number / kChunkRows] + number % kChunkRows * stride);
    }

    std::vector<float*> chunks;
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
  bool is_large_ = false;  // enough to prepare memory for copies
  std::shared_ptr<CutContent> older_;

  struct Cleared {
    std::vector<Bucket> buckets;
    Arena arena;
  };
  void keep_all(const std::shared_ptr<Cleared>& cleared);
  std::shared_ptr<Cleared> cleared_;  // what the table held when it was cleared
};

}  // namespace fleetrec
