// SPDX-License-Identifier: Apache-2.0
// Rows of one width, addressed by 64-bit ids, in a fixed number of buckets.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fleetrec/optimizer/optimizer.h"
#include "fleetrec/table/admission.h"
#include "fleetrec/table/arena.h"
#include "fleetrec/table/id_hash.h"
#include "fleetrec/table/index.h"
#include "fleetrec/table/initializer.h"
#include "fleetrec/table/long_vector.h"
#include "fleetrec/table/row.h"
#include "fleetrec/table/slab.h"

namespace fleetrec {

struct TableOptions {
  std::string name;
  std::size_t dim = 1;
  std::optional<std::uint64_t> num_rows;  // ids lie in [0, num_rows) and number the rows
  bool folds_ids = false;                 // ids beyond num_rows share the rows of others
  Initializer initializer;
  Admission admission;
  std::optional<LongVector> long_vector;  // none: rows have all weights from the beginning
  bool is_dense = false;                  // a step updates every row, see dense_step.h
  // The buckets that are held here; those of other processes stay empty.
  std::uint32_t first_bucket = 0;
  std::uint32_t last_bucket = kNumBuckets;
};

// What happened to a table since it was made.
struct TableCounts {
  std::uint64_t created = 0;
  std::uint64_t evicted = 0;  // by any rule, or by name
  std::uint64_t evicted_unseen = 0;
  std::uint64_t evicted_score = 0;
  std::uint64_t evicted_capacity = 0;
};

// The counter of one rule of eviction.
using RuleCount = std::uint64_t TableCounts::*;

// One impression of an id in training.
struct Impression {
  std::uint64_t id;
  std::uint32_t now;  // event time, in seconds
  bool is_click;
};

// The last snapshot that was written or read in full: the parent of the next delta.
struct CutMark {
  std::uint32_t version = 0;      // of the table, in rows that it holds at most; 0: there is none
  std::uint64_t fingerprint = 0;  // of its files

  bool operator==(const CutMark&) const = default;
};

// The ids of a table whose hash falls together. One thread at a time works on a bucket.
struct Bucket {
  Slab slab;
  Index index;  // unused where ids number the rows themselves
  Candidates candidates;
  std::vector<std::uint32_t> free;        // numbers of rows that were evicted
  std::vector<std::uint64_t> tombstones;  // ids evicted since the last snapshot, if there is one
  std::uint32_t num_used = 0;             // numbers given out so far
  std::size_t num_rows = 0;
  TableCounts counts;
};

class CutContent;

class Table {
 public:
  Table(TableOptions options, GuardedOptimizer optimizer);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  const TableOptions& options() const { return options_; }
  const RowLayout& layout() const { return layout_; }
  const GuardedOptimizer& optimizer() const { return optimizer_; }

  bool has_range() const { return options_.num_rows.has_value(); }
  bool is_in_range(std::uint64_t id) const { return !has_range() || id < *options_.num_rows; }

  bool holds(std::uint32_t bucket) const {
    return bucket >= options_.first_bucket && bucket < options_.last_bucket;
  }

  // The id under which the row of an id is kept; all other calls take such ids.
  std::uint64_t row_id(std::uint64_t id) const {
    return options_.folds_ids ? fold_id(id, *options_.num_rows) : id;
  }

  // Where the row of an id is, whether or not it exists.
  Place place(std::uint64_t id) const {
    if (!has_range()) return place_of(id);
    return {static_cast<std::uint32_t>(id % kNumBuckets),
            static_cast<std::uint32_t>(id / kNumBuckets)};
  }

  [[gnu::always_inline]] void prefetch_index(std::uint64_t id) const {
    if (has_range()) return;
    const Place place = place_of(id);
    buckets_[place.bucket].index.prefetch(place.tag);
  }

  // Returns what is probably the row of a place, for prefetching; does not read rows.
  Row peek(Place place) const {
    const Bucket& bucket = buckets_[place.bucket];
    const std::uint32_t number = has_range() ? place.tag : bucket.index.peek(place.tag);
    return number == Index::kNone ? Row() : bucket.slab.find(number, stride_);
  }

  // Returns the row of an id, or none.
  Row find(std::uint64_t id, Place place) const {
    const Bucket& bucket = buckets_[place.bucket];
    if (has_range()) {
      const Row row = bucket.slab.find(place.tag, stride_);
      return row && row.header().version != 0 ? row : Row();
    }
    const auto is_it = [&](std::uint32_t number) {
      return bucket.slab.at(number, stride_).header().id() == id;
    };
    const std::uint32_t number = bucket.index.find(place.tag, is_it);
    return number == Index::kNone ? Row() : bucket.slab.at(number, stride_);
  }

  // Whether this is the row of an id, not one that was likely or is gone.
  bool is_row_of(Row row, std::uint64_t id) const {
    return row && row.header().version != 0 && row.header().id() == id;
  }

  // Counts an impression of the row that `find` returned. An id without a row is counted, and gets
  // one when it is admitted. The row is marked as seen and changed.
  Row count_impression(const Impression& impression, Row row) {
    if (!row) row = admit(impression);
    if (!row) return row;
    touch(row);
    RowHeader& header = row.header();
    header.show += 1.0f;
    header.click += impression.is_click ? 1.0f : 0.0f;
    header.last_seen = std::max(header.last_seen, impression.now);
    if (options_.long_vector) [[unlikely]]
      lengthen_if_due(row, impression.is_click);
    return row;
  }

  // Marks a row as changed. To be called before it changes: a cut may still need it as it is.
  void touch(Row row) {
    if (row.header().version != version_) [[unlikely]]
      touch_first(row);
  }

  // Whether all weights of a row get gradients, not only the first.
  bool is_whole(Row row) const {
    return !options_.long_vector ||
           options_.long_vector->is_whole(row.header(), row.weights(layout_));
  }

  // Writes the weights of a new row.
  void fill_new(std::uint64_t id, std::span<float> weights) const;

  // Makes a row with first weights and state; the id must have none.
  Row create(std::uint64_t id, Place place);

  // The same for an id that may have an admission counter, which is dropped.
  Row create_now(std::uint64_t id, Place place);

  // The same without first values: the caller sets all of weights and state.
  Row add(std::uint64_t id, Place place);

  // Forgets all rows and counters, without tombstones; the next snapshot is a base.
  void clear();

  // Removes a row and leaves no trace; false if there is none.
  bool remove(std::uint64_t id, Place place);

  // Removes a row, and leaves a tombstone for the next delta; `rule` also counts it.
  void evict(std::uint64_t id, Place place, RuleCount rule = nullptr);

  // Drops the counters of ids of a bucket without a row that were last seen before `time`.
  void forget_candidates(std::uint32_t bucket, std::uint32_t time);

  std::size_t size() const;
  std::size_t num_candidates() const;
  std::size_t num_bytes() const;
  TableCounts counts() const;
  // Continues from the counters of the table whose rows were loaded into this one.
  void set_counts(const TableCounts& counts);

  // Rises whenever rows are removed: rows found before may be gone or belong to other ids.
  std::uint64_t num_removals() const { return num_removals_; }

  std::span<Bucket> buckets() { return buckets_; }
  std::span<const Bucket> buckets() const { return buckets_; }

  // Rises with every snapshot: rows whose version is above that of a cut have changed since.
  std::uint32_t version() const { return version_; }
  void next_version() { ++version_; }
  void set_version(std::uint32_t version) { version_ = version; }

  // Cuts that may still be committed: like a last snapshot, they need the tombstones. Without
  // either the next snapshot is a base, and tombstones would only take memory.
  void add_cut() { ++num_cuts_; }
  void remove_cut();

  const CutMark& last_cut() const { return last_cut_; }
  void set_last_cut(const CutMark& cut) { last_cut_ = cut; }

  // The cut that still needs the content of the table; nullptr if there is none.
  const std::shared_ptr<CutContent>& cut_content() const { return cut_content_; }
  void set_cut_content(std::shared_ptr<CutContent> content);

  // Steps of a table that is dense, since it was made or cleared, rows that were read included.
  float num_dense_steps() const { return num_dense_steps_; }
  void set_num_dense_steps(float num_steps) { num_dense_steps_ = num_steps; }

  // How often the table was cleared: holders of rows or row numbers check it.
  std::uint64_t num_clears() const { return num_clears_; }

  // Whole calls hold it; within a call threads share out the buckets.
  std::mutex& mutex() { return mutex_; }

  // Calls `visit(row)` for every row of a bucket, in the order of their numbers.
  template <typename Visit>
  void each_row(std::uint32_t bucket, const Visit& visit) const {
    for (std::uint32_t number = 0; number < buckets_[bucket].num_used; ++number) {
      const Row row = buckets_[bucket].slab.find(number, stride_);
      if (row && row.header().version != 0) visit(row);
    }
  }

 private:
  bool needs_tombstones() const { return last_cut_.version != 0 || num_cuts_ != 0; }

  // Counts an id that has no row; makes one if that is enough.
  Row admit(const Impression& impression);

  // Gives a row its long vector if the impression just counted makes its score reach the threshold.
  void lengthen_if_due(Row row, bool is_click);
  void lengthen(Row row);

  // The first time that a row changes since the last cut.
  void touch_first(Row row);

  TableOptions options_;
  GuardedOptimizer optimizer_;
  RowLayout layout_;
  std::size_t stride_;
  Arena arena_;
  std::vector<Bucket> buckets_;
  std::uint32_t version_ = 1;
  std::atomic<std::uint64_t> num_removals_ = 0;  // buckets may be cleared out by several threads
  CutMark last_cut_;
  std::size_t num_cuts_ = 0;
  std::shared_ptr<CutContent> cut_content_;
  std::uint64_t num_clears_ = 0;
  float num_dense_steps_ = 0.0f;
  std::mutex mutex_;
};

}  // namespace fleetrec
